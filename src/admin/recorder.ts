/**
 * What the channels report, counted: the only memory the admin listener has.
 *
 * Bounded: statuses and error numbers come from our own table, histograms have fixed buckets, the
 * history fixed seconds. Nothing that a client sends becomes a label.
 */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { BatchMessage, RequestMessage } from "../core/channels.ts";
import { FAILURES } from "../http/reply.ts";

/** What requests are for, by the names that OpenAPI and metrics have for it. */
const OPERATIONS = { createPlant: "create", getPlant: "get", listPlants: "list" } as const;

/** The answers to one operation with one status and error number. */
export interface AnswerCount {
  /** `none` for what was refused before it was known. */
  readonly operation: (typeof OPERATIONS)[keyof typeof OPERATIONS] | "none";
  readonly status: number;
  readonly error: number | undefined;
  count: number;
  /** Of the last failure, in milliseconds since 1970; 0 without one. */
  lastAt: number;
}

/** From a replay in memory to the longest a request may take. */
const REQUEST_SECONDS = [
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30,
];
/** From a disk with a battery to one that is dying. */
const SYNC_SECONDS = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5,
];
const BATCH_RECORDS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16_384];
const BATCH_BYTES = [64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576];

export class Recorder {
  /** By method; what no operation of ours has is `other`. */
  readonly requestSeconds: ReadonlyMap<string, Histogram> = new Map(
    ["POST", "GET", "HEAD", "OPTIONS", "other"].map((method) => [
      method,
      new Histogram(REQUEST_SECONDS),
    ]),
  );
  readonly syncSeconds = new Histogram(SYNC_SECONDS);
  readonly batchRecords = new Histogram(BATCH_RECORDS);
  readonly batchBytes = new Histogram(BATCH_BYTES);
  readonly history = new History();
  bodyBytes = 0;
  warnings = 0;
  droppedConnections = 0;
  readonly #answers = new Map<string, AnswerCount>();
  #refusedAt: number | undefined;
  readonly #listeners = {
    "plant-store:request": (message: unknown) => this.#countRequest(message as RequestMessage),
    "plant-store:batch": (message: unknown) => this.#countBatch(message as BatchMessage),
    "plant-store:warning": () => void this.warnings++,
    "plant-store:drop": () => void this.droppedConnections++,
  };

  /** Counts until `close`. */
  constructor() {
    // What alerts are made of is there from the start: a rate needs a 0 to begin with.
    for (const operation of Object.values(OPERATIONS)) {
      for (const status of [0, 200]) this.#answerOf(operation, status, undefined);
      for (const { status, error } of Object.values(FAILURES)) {
        if (status >= 500) this.#answerOf(operation, status, error);
      }
    }
    for (const [name, listener] of Object.entries(this.#listeners)) subscribe(name, listener);
  }

  close(): void {
    for (const [name, listener] of Object.entries(this.#listeners)) unsubscribe(name, listener);
  }

  get answers(): readonly AnswerCount[] {
    return [...this.#answers.values()];
  }

  /**
   * How long ago the disk refused a write, if it has taken none since. It may have room again:
   * only another write shows it.
   */
  get refusedMsAgo(): number | undefined {
    return this.#refusedAt === undefined ? undefined : performance.now() - this.#refusedAt;
  }

  #countRequest(message: RequestMessage): void {
    const { method = "other", error, durationMs, bodyBytes, sentBytes, operation } = message;
    // A stream began with a 200, and an alert should hear that it did not end.
    const status = message.cut ? 0 : message.status;
    const name = operation === undefined ? "none" : OPERATIONS[operation];
    const answer = this.#answerOf(name, status, error);
    answer.count++;
    if (error !== undefined) answer.lastAt = Date.now();
    // What broke off has no answer, and a stream takes as long as its client likes.
    if (durationMs !== undefined && status !== 0 && sentBytes === undefined) {
      const seconds = this.requestSeconds.get(method) ?? this.requestSeconds.get("other");
      seconds?.observe(durationMs / 1000);
    }
    this.bodyBytes += bodyBytes;
    if (error === FAILURES.write_failed.error) this.#refusedAt = performance.now();
  }

  #answerOf(
    operation: AnswerCount["operation"],
    status: number,
    error: number | undefined,
  ): AnswerCount {
    const key = `${operation} ${error ?? status}`;
    let answer = this.#answers.get(key);
    if (answer === undefined) {
      answer = { operation, status, error, count: 0, lastAt: 0 };
      this.#answers.set(key, answer);
    }
    return answer;
  }

  #countBatch({ records, bytes, syncMs }: BatchMessage): void {
    this.#refusedAt = undefined;
    this.syncSeconds.observe(syncMs / 1000);
    this.batchRecords.observe(records);
    this.batchBytes.observe(bytes);
    this.history.note(Date.now(), records, syncMs);
  }
}

/** Counts of values by size, as Prometheus wants them: each bucket holds what is not above its bound. */
export class Histogram {
  /** Ascending, in the unit of the values. */
  readonly bounds: readonly number[];
  /** Counts of the values that fall between two bounds; the last one is beyond them all. */
  readonly #counts: number[];
  sum = 0;

  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
    this.#counts = new Array(bounds.length + 1).fill(0);
  }

  observe(value: number): void {
    let at = 0;
    while (at < this.bounds.length && value > (this.bounds[at] as number)) at++;
    this.#counts[at] = (this.#counts[at] as number) + 1;
    this.sum += value;
  }

  /** For each bound, and last for none, how many values there were up to it. */
  cumulative(): number[] {
    let total = 0;
    return this.#counts.map((count) => {
      total += count;
      return total;
    });
  }
}

/** Five minutes: what a person who has been called looks at. */
export const HISTORY_SECONDS = 300;

/** The oldest second first; one before the start has no creates, one without a sync no latency. */
export interface HistoryDocument {
  readonly creates: readonly (number | null)[];
  readonly syncMsMax: readonly (number | null)[];
}

/** What happened in each of the last seconds: plants created, and how long the syncs took. */
export class History {
  /** By seconds since 1970; only those in which something happened. */
  readonly #seconds = new Map<number, { creates: number; syncMsMax: number }>();
  readonly #startedAt = Math.floor(Date.now() / 1000);

  /** @param time milliseconds since 1970. */
  note(time: number, creates: number, syncMs: number): void {
    const at = Math.floor(time / 1000);
    const second = this.#seconds.get(at) ?? { creates: 0, syncMsMax: 0 };
    second.creates += creates;
    second.syncMsMax = Math.max(second.syncMsMax, syncMs);
    this.#seconds.set(at, second);
    const [oldest = at] = this.#seconds.keys();
    if (this.#seconds.size > HISTORY_SECONDS + 1) this.#seconds.delete(oldest);
  }

  /** The seconds that are over at a time; the one that is under way would always look slow. */
  read(time: number): HistoryDocument {
    const now = Math.floor(time / 1000);
    const seconds = Array.from({ length: HISTORY_SECONDS }, (_, index) => {
      const at = now - HISTORY_SECONDS + index;
      const nothing = { creates: at < this.#startedAt ? null : 0, syncMsMax: null };
      return this.#seconds.get(at) ?? nothing;
    });
    const round = (ms: number | null) => ms && Math.round(ms * 100) / 100;
    return {
      creates: seconds.map(({ creates }) => creates),
      syncMsMax: seconds.map(({ syncMsMax }) => round(syncMsMax)),
    };
  }
}
