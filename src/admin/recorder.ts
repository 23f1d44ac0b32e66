/**
 * Counts what the channels publish, and keeps five minutes of it: the only memory of the admin listener.
 *
 * Bounded: statuses and error numbers come from one table, histograms have fixed buckets, the history has
 * fixed seconds, warnings are truncated, and tokens are those of the operator. All times are of the monotonic
 * clock, so they stay right when the wall clock is set. A request costs one look-up, one clock and no object.
 */
import { clock } from "../clock.ts";
import { type RequestMessage, subscribe } from "../core/channels.ts";
import { ERRORS, statusOf } from "../core/errors.ts";
import { escapeControls, shorten } from "../core/text.ts";

/** Operations, and their labels in metrics in the same order. The first is not known yet. */
const OPERATIONS = [undefined, "createPlant", "getPlant", "listPlants"] as const;
const LABELS = ["none", "create", "get", "list"];

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
  /** Requests by operation and by error or status, which is 0 if they broke off. */
  readonly outcomes = new Map<number, ReturnType<typeof makeOutcome>>();
  warningCount = 0;
  /** The newest first; a warning that repeats the newest one adds to its count. */
  readonly warnings: { message: string; count: number; lastAt: number }[] = [];
  /** The last use of each token, by its name. */
  readonly lastUses = new Map<string, number>();
  /** A slot for each second, at the second modulo their number. */
  readonly #slots: Slot[] = [];
  readonly #startedAt = clock.monotonicMs();
  readonly #subscriptions = [
    subscribe("plant-store:request", (message) => this.#countRequest(message)),
    subscribe("plant-store:batch", ({ records, syncMs }) => {
      this.syncSeconds.observe(syncMs / 1000);
      this.batchRecords.observe(records);
      const slot = this.#slotOf(clock.monotonicMs());
      slot.creates += records;
      slot.syncMsMax = Math.max(slot.syncMsMax, syncMs);
    }),
    subscribe("plant-store:warning", ({ message, cause }) => {
      this.warningCount++;
      const why = cause instanceof Error ? `: ${cause.message}` : "";
      const text = escapeControls(shorten(message + why, 300));
      const same = this.warnings[0]?.message === text ? this.warnings.shift() : undefined;
      const count = 1 + (same?.count ?? 0);
      this.warnings.unshift({ message: text, count, lastAt: clock.monotonicMs() });
      this.warnings.splice(WARNINGS_MAX);
    }),
  ];

  constructor() {
    // An alert on a rate needs a 0 to start from.
    const errors = Object.values(ERRORS);
    const failures = errors.filter((error) => statusOf(error) >= 500);
    const refusals = errors.filter((error) => statusOf(error) === 401);
    for (const operation of OPERATIONS) {
      for (const code of operation ? [0, 200, ...failures] : refusals)
        this.#outcomeOf(operation, code);
    }
  }

  close(): void {
    for (const end of this.#subscriptions) end();
  }

  /** The last five minutes, or those since the start: the oldest second first, without the current one. */
  history(): Slot[] {
    const end = Math.floor(clock.monotonicMs() / 1000);
    const start = Math.max(Math.floor(this.#startedAt / 1000), end - HISTORY_SECONDS);
    return Array.from({ length: end - start }, (_, at) => this.#slotOf(1000 * (start + at)));
  }

  #slotOf(atMs: number): Slot {
    const second = Math.floor(atMs / 1000);
    const place = second % (HISTORY_SECONDS + 1);
    const known = this.#slots[place];
    const slot = known?.second === second ? known : makeSlot(second);
    this.#slots[place] = slot;
    return slot;
  }

  #countRequest(message: RequestMessage): void {
    const { operation, error, durationMs, token } = message;
    // A stream that is cut began with a 200, but alerts must see that it failed.
    const status = message.cut ? 0 : message.status;
    const outcome = this.#outcomeOf(operation, error ?? status);
    outcome.count++;
    outcome.lastAt = clock.monotonicMs();
    if (token !== undefined) this.lastUses.set(token, outcome.lastAt);
    const slot = this.#slotOf(outcome.lastAt);
    const isRead = operation !== undefined && operation !== "createPlant";
    if (status >= 500) slot.failures++;
    else if (isRead && status > 0) slot.reads++; // a plant that is not there was looked up, too
    // An aborted request has no response, and a list takes as long as its client likes.
    if (durationMs === undefined || status === 0 || operation === "listPlants") return;
    this.requestSeconds.observe(durationMs / 1000);
    slot.requestSeconds.observe(durationMs / 1000);
  }

  #outcomeOf(operation: RequestMessage["operation"], code: number) {
    const place = OPERATIONS.indexOf(operation);
    const key = OPERATIONS.length * code + place;
    const outcome = this.outcomes.get(key) ?? makeOutcome(LABELS[place], code);
    if (outcome.count === 0) this.outcomes.set(key, outcome);
    return outcome;
  }
}

function makeOutcome(operation: string | undefined, code: number) {
  const error = code < 1000 ? undefined : code;
  return { operation, status: error ? statusOf(error) : code, error, count: 0, lastAt: 0 };
}

/** Counts values by ascending bounds. */
export class Histogram {
  readonly bounds: readonly number[];
  /** How many values are at most each bound, and above the one before; the last count is of those above all. */
  readonly counts: Float64Array;
  count = 0;
  sum = 0;

  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
    this.counts = new Float64Array(bounds.length + 1);
  }

  observe(value: number): void {
    let at = 0;
    while (value > (this.bounds[at] ?? Number.POSITIVE_INFINITY)) at++;
    this.counts[at] = (this.counts[at] ?? 0) + 1;
    this.count++;
    this.sum += value;
  }
}

/**
 * The time in seconds that a share of the requests of these slots does not exceed: estimated like
 * `histogram_quantile` of Prometheus, evenly within a bucket, and at most the last bound. 0 without requests.
 */
export function quantileOf(slots: readonly Slot[], share: number): number {
  let rank = share * slots.reduce((sum, { requestSeconds }) => sum + requestSeconds.count, 0);
  let from = 0;
  for (const [at, bound] of SECONDS.entries()) {
    const count = slots.reduce((sum, slot) => sum + (slot.requestSeconds.counts[at] ?? 0), 0);
    if (rank <= count) return count === 0 ? 0 : from + ((bound - from) * rank) / count;
    rank -= count;
    from = bound;
  }
  return from;
}

export const HISTORY_SECONDS = 300; // whole minutes

/** What happened in one second; `failures` are responses with a 5xx. */
export type Slot = ReturnType<typeof makeSlot>;

function makeSlot(second: number) {
  const counts = { creates: 0, reads: 0, failures: 0, syncMsMax: 0 };
  return { second, ...counts, requestSeconds: new Histogram(SECONDS) };
}
