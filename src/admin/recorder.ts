/**
 * Counts what the channels publish, and keeps five minutes of it: the only memory of the admin listener.
 *
 * Bounded: statuses and error numbers come from one table, histograms have fixed buckets, the history has
 * fixed seconds, warnings are truncated, and tokens are those of the operator. Nothing else that a client sends
 * is kept. All times are of the monotonic clock, so they stay right when the wall clock is set.
 */
import { clock } from "../clock.ts";
import { type RequestMessage, subscribe } from "../core/channels.ts";
import { ERRORS, statusOf } from "../core/errors.ts";
import { summarize } from "../core/text.ts";

/** The labels of operations in metrics, by their names in the OpenAPI document. */
const OPERATIONS = { createPlant: "create", getPlant: "get", listPlants: "list" } as const;

/** Requests with one outcome. The status is 0 if they broke off, the operation `none` if it was not known yet. */
interface Outcome {
  readonly operation: (typeof OPERATIONS)[keyof typeof OPERATIONS] | "none";
  readonly status: number;
  readonly error: number | undefined;
  count: number;
  lastAt: number;
}

const WARNINGS_MAX = 20;
const SECONDS = [
  0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30,
];
const RECORDS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16_384];

/** Counts from its construction until `close()`. */
export class Recorder {
  readonly requestSeconds = new Histogram(SECONDS);
  readonly syncSeconds = new Histogram(SECONDS);
  readonly batchRecords = new Histogram(RECORDS);
  readonly outcomes = new Map<string, Outcome>();
  warningCount = 0;
  /** The newest first; a warning that repeats the newest one adds to its count. */
  readonly warnings: { message: string; count: number; lastAt: number }[] = [];
  /** The last use of each token, by its name. */
  readonly lastUses = new Map<string, number>();
  /** Each at its second modulo their number. */
  readonly #slots: Slot[] = [];
  readonly #firstSecond = currentSecond();
  readonly #subscriptions = [
    subscribe("plant-store:request", (message) => this.#countRequest(message)),
    subscribe("plant-store:batch", ({ records, syncMs }) => {
      this.syncSeconds.observe(syncMs / 1000);
      this.batchRecords.observe(records);
      const slot = this.#slotOf(currentSecond());
      slot.creates += records;
      slot.syncMsMax = Math.max(slot.syncMsMax, syncMs);
    }),
    subscribe("plant-store:warning", ({ message, cause }) => {
      this.warningCount++;
      const why = cause instanceof Error ? `: ${cause.message}` : "";
      const text = summarize(message + why, 300);
      const same = this.warnings[0]?.message === text ? this.warnings.shift() : undefined;
      const count = 1 + (same?.count ?? 0);
      this.warnings.unshift({ message: text, count, lastAt: clock.monotonicMs() });
      this.warnings.splice(WARNINGS_MAX);
    }),
  ];

  constructor() {
    // An alert on a rate needs a 0 to start from.
    for (const operation of Object.values(OPERATIONS)) {
      for (const status of [0, 200]) this.#outcomeOf(operation, status);
      for (const error of Object.values(ERRORS)) {
        const status = statusOf(error);
        if (status >= 500) this.#outcomeOf(operation, status, error);
        if (status === 401) this.#outcomeOf("none", status, error);
      }
    }
  }

  close(): void {
    for (const end of this.#subscriptions) end();
  }

  /** The last five minutes, or those since the start: the oldest second first, without the current one. */
  history(): Slot[] {
    const end = currentSecond();
    const start = Math.max(this.#firstSecond, end - HISTORY_SECONDS);
    return Array.from({ length: end - start }, (_, index) => this.#slotOf(start + index));
  }

  #slotOf(second: number): Slot {
    const place = second % (HISTORY_SECONDS + 1);
    const known = this.#slots[place];
    if (known?.second === second) return known;
    const slot = makeSlot(second);
    this.#slots[place] = slot;
    return slot;
  }

  #countRequest({ cut, error, durationMs, token, ...message }: RequestMessage): void {
    const operation = message.operation === undefined ? "none" : OPERATIONS[message.operation];
    // A stream that is cut began with a 200, but alerts must see that it failed.
    const status = cut ? 0 : message.status;
    const outcome = this.#outcomeOf(operation, status, error);
    outcome.count++;
    outcome.lastAt = clock.monotonicMs();
    if (token !== undefined) this.lastUses.set(token, outcome.lastAt);
    const slot = this.#slotOf(currentSecond());
    const isRead = operation === "get" || operation === "list";
    if (status >= 500) slot.failures++;
    else if (isRead && status > 0) slot.reads++; // a plant that is not there was looked up, too
    // An aborted request has no response, and a list takes as long as its client likes.
    if (durationMs === undefined || status === 0 || operation === "list") return;
    this.requestSeconds.observe(durationMs / 1000);
    slot.requestSeconds.observe(durationMs / 1000);
  }

  #outcomeOf(operation: Outcome["operation"], status: number, error?: number): Outcome {
    const key = `${operation} ${error ?? status}`;
    const known = this.outcomes.get(key);
    if (known !== undefined) return known;
    const outcome = { operation, status, error, count: 0, lastAt: 0 };
    this.outcomes.set(key, outcome);
    return outcome;
  }
}

/** Counts values by size: a bucket holds those above the previous bound, up to its own bound. */
export class Histogram {
  readonly buckets: readonly { readonly le: number; count: number }[];
  count = 0;
  sum = 0;

  /** @param bounds ascending, in the unit of the values. */
  constructor(bounds: readonly number[]) {
    this.buckets = bounds.map((le) => ({ le, count: 0 }));
  }

  observe(value: number): void {
    this.count++;
    this.sum += value;
    const bucket = this.buckets.find(({ le }) => value <= le);
    if (bucket !== undefined) bucket.count++;
  }
}

/**
 * The value that a share of all values of these histograms does not exceed: estimated like `histogram_quantile`
 * of Prometheus, evenly within a bucket, and at most the last bound. 0 without values.
 */
export function quantileOf(histograms: readonly Histogram[], share: number): number {
  let rank = share * histograms.reduce((sum, { count }) => sum + count, 0);
  let from = 0;
  for (const [at, { le }] of (histograms[0]?.buckets ?? []).entries()) {
    const count = histograms.reduce((sum, { buckets }) => sum + (buckets[at]?.count ?? 0), 0);
    if (rank <= count) return count === 0 ? 0 : from + ((le - from) * rank) / count;
    rank -= count;
    from = le;
  }
  return from;
}

export const HISTORY_SECONDS = 300;

/** What happened in one second; `failures` are responses with a 5xx. */
export type Slot = ReturnType<typeof makeSlot>;

function makeSlot(second: number) {
  const counts = { creates: 0, reads: 0, failures: 0, syncMsMax: 0 };
  return { second, ...counts, requestSeconds: new Histogram(SECONDS) };
}

function currentSecond(): number {
  return Math.floor(clock.monotonicMs() / 1000);
}
