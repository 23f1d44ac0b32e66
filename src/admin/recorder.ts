/**
 * Counts what the channels publish, and keeps the last of it: the only memory of the admin listener.
 *
 * Bounded: statuses and error numbers come from the table in http/answer, histograms have fixed
 * buckets, the history has fixed seconds, texts are cut, and warnings and names of tokens have a
 * greatest number. Nothing that a client sends becomes a label.
 */
import {
  type BatchMessage,
  type RequestMessage,
  subscribe,
  type WarningMessage,
} from "../core/channels.ts";
import { summarize } from "../core/text.ts";
import { FAILURES } from "../http/answer.ts";

/** The labels of operations in metrics, by their names in the OpenAPI document. */
const OPERATIONS = { createPlant: "create", getPlant: "get", listPlants: "list" } as const;

/** The answers to one operation with one status and error number. */
export interface AnswerCount {
  /** `none` if the request was refused before its operation was known. */
  readonly operation: (typeof OPERATIONS)[keyof typeof OPERATIONS] | "none";
  readonly status: number;
  readonly error: number | undefined;
  count: number;
  /** When the last failure happened, in milliseconds since 1970; 0 if there was none. */
  lastAt: number;
  /** The token of the request that failed last, if it was good; and the reason, for a 4xx. */
  token?: string | undefined;
  reason?: string | undefined;
}

const WARNINGS_MAX = 20;
const TEXT_CHARACTERS_MAX = 300;
/** The token check of an embedder may return any number of names, of any length. */
const TOKENS_MAX = 10_000;
const TOKEN_CHARACTERS_MAX = 64; // as those of our own tokens

const REQUEST_SECONDS = [
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30,
];
const SYNC_SECONDS = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5,
];
const BATCH_RECORDS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16_384];

/** Counts from its construction until `close()`. */
export class Recorder {
  readonly requestSeconds = new Histogram(REQUEST_SECONDS);
  readonly syncSeconds = new Histogram(SYNC_SECONDS);
  readonly batchRecords = new Histogram(BATCH_RECORDS);
  readonly history = new History(Date.now());
  /** By operation and error number or status. */
  readonly answers = new Map<string, AnswerCount>();
  warnings = 0;
  /** The newest first; a warning that repeats the newest one adds to its count. */
  readonly lastWarnings: { message: string; count: number; lastAt: number }[] = [];
  /** The last use of each token since `usesSince`, by name, in milliseconds since 1970. */
  readonly #uses = new Map<string, number>();
  usesSince = Date.now();
  readonly #subscriptions = [
    subscribe("plant-store:request", (message) => this.#countRequest(message)),
    subscribe("plant-store:batch", (message) => this.#countBatch(message)),
    subscribe("plant-store:warning", (message) => this.#keepWarning(message)),
  ];

  constructor() {
    // An alert on a rate needs a 0 to start from.
    for (const operation of Object.values(OPERATIONS)) {
      for (const status of [0, 200]) this.#answerOf(operation, status);
      for (const { status, error } of Object.values(FAILURES)) {
        if (status >= 500) this.#answerOf(operation, status, error);
      }
    }
    for (const { status, error } of Object.values(FAILURES)) {
      if (status === 401) this.#answerOf("none", status, error);
    }
  }

  close(): void {
    for (const end of this.#subscriptions) end();
  }

  #countRequest(message: RequestMessage): void {
    const { error, durationMs, operation } = message;
    // A stream that is cut began with a 200, but alerts must see that it failed.
    const status = message.cut ? 0 : message.status;
    const name = operation === undefined ? "none" : OPERATIONS[operation];
    const answer = this.#answerOf(name, status, error);
    answer.count++;
    const now = Date.now();
    if (message.token) this.#noteUse(message.token, now);
    if (error !== undefined) {
      const token = message.token && summarize(message.token, TOKEN_CHARACTERS_MAX);
      const reason = message.reason && summarize(message.reason, TEXT_CHARACTERS_MAX);
      Object.assign(answer, { lastAt: now, token, reason });
    }
    const second = this.history.secondOf(now);
    const isRead = name === "get" || name === "list"; // a plant that is not there was looked for, too
    if (isRead && status > 0 && status < 500) second.reads++;
    // An aborted request has no answer, and a list takes as long as its client likes.
    if (durationMs !== undefined && status !== 0 && operation !== "listPlants") {
      this.requestSeconds.observe(durationMs / 1000);
      second.requestSeconds.observe(durationMs / 1000);
    }
  }

  #answerOf(operation: AnswerCount["operation"], status: number, error?: number): AnswerCount {
    const key = `${operation} ${error ?? status}`;
    let answer = this.answers.get(key);
    if (answer === undefined) {
      answer = { operation, status, error, count: 0, lastAt: 0 };
      this.answers.set(key, answer);
    }
    return answer;
  }

  #noteUse(token: string, now: number): void {
    if (token.length > TOKEN_CHARACTERS_MAX) return; // a part of it would keep all of it in memory
    if (this.#uses.size === TOKENS_MAX && !this.#uses.has(token)) {
      this.#uses.clear();
      this.usesSince = now;
    }
    this.#uses.set(token, now);
  }

  lastUseOf(token: string): number | undefined {
    return this.#uses.get(token);
  }

  /** With the cause, as in the log. */
  #keepWarning({ message, cause }: WarningMessage): void {
    this.warnings++;
    const why = cause instanceof Error ? `: ${cause.message}` : "";
    const text = summarize(message + why, TEXT_CHARACTERS_MAX);
    const lastAt = Date.now();
    const [newest] = this.lastWarnings;
    if (newest?.message === text) Object.assign(newest, { count: newest.count + 1, lastAt });
    else this.lastWarnings.unshift({ message: text, count: 1, lastAt });
    this.lastWarnings.splice(WARNINGS_MAX);
  }

  #countBatch({ records, syncMs }: BatchMessage): void {
    this.syncSeconds.observe(syncMs / 1000);
    this.batchRecords.observe(records);
    const second = this.history.secondOf(Date.now());
    second.creates += records;
    second.syncMsMax = Math.max(second.syncMsMax, syncMs);
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
    for (const bucket of this.buckets) {
      if (value > bucket.le) continue;
      bucket.count++;
      return;
    }
  }

  /**
   * The value that a share of all values does not exceed, estimated like `histogram_quantile` of
   * Prometheus: evenly within a bucket, and at most the last bound. 0 without values.
   */
  quantile(share: number): number {
    let rank = share * this.count;
    let from = 0;
    for (const { le, count } of this.buckets) {
      if (rank <= count) return count === 0 ? 0 : from + ((le - from) * rank) / count;
      rank -= count;
      from = le;
    }
    return from;
  }

  /** Adds the values of a histogram with the same bounds. */
  add(other: Histogram): void {
    this.count += other.count;
    this.sum += other.sum;
    for (const [at, bucket] of this.buckets.entries())
      bucket.count += other.buckets[at]?.count ?? 0;
  }
}

/** The last five minutes, which the status page shows. */
export const HISTORY_SECONDS = 300;
/** Long enough for a steady figure of now. */
const RECENT_SECONDS = 10;

/** What happened in one second. */
class Second {
  creates = 0;
  reads = 0;
  syncMsMax = 0;
  readonly requestSeconds = new Histogram(REQUEST_SECONDS);
}

const NOTHING = new Second();

/** The last seconds, at most five minutes of them, and none before the recorder started. */
export class History {
  /** By seconds since 1970; only seconds in which something happened. */
  readonly #seconds = new Map<number, Second>();
  readonly #startedAt: number;
  #newest = { at: Number.NaN, second: new Second() };

  /** @param startedAt milliseconds since 1970, like every time here. */
  constructor(startedAt: number) {
    this.#startedAt = Math.floor(startedAt / 1000);
  }

  /** The second of this time, to count in. */
  secondOf(time: number): Second {
    const at = Math.floor(time / 1000);
    if (at === this.#newest.at) return this.#newest.second;
    const second = this.#seconds.get(at) ?? new Second();
    this.#seconds.set(at, second);
    this.#newest = { at, second };
    const [oldest = at] = this.#seconds.keys();
    if (this.#seconds.size > HISTORY_SECONDS + 1) this.#seconds.delete(oldest);
    return second;
  }

  /** The oldest second first, without the current one, which would always look slow. */
  read(time: number) {
    const end = Math.floor(time / 1000);
    const start = Math.max(end - HISTORY_SECONDS, this.#startedAt);
    const seconds = Array.from({ length: Math.max(0, end - start) }, (_, index) => {
      return this.#seconds.get(start + index) ?? NOTHING;
    });
    const perSecond = (read: (second: Second) => number) => seconds.map(read).map(round);
    return {
      creates: perSecond(({ creates }) => creates),
      reads: perSecond(({ reads }) => reads),
      requestMsP50: perSecond(({ requestSeconds }) => 1000 * requestSeconds.quantile(0.5)),
      requestMsP99: perSecond(({ requestSeconds }) => 1000 * requestSeconds.quantile(0.99)),
      syncMsMax: perSecond(({ syncMsMax }) => syncMsMax),
      recent: average(seconds.slice(-RECENT_SECONDS)),
    };
  }
}

function average(seconds: readonly Second[]) {
  const all = new Histogram(REQUEST_SECONDS);
  for (const { requestSeconds } of seconds) all.add(requestSeconds);
  const rate = (read: (second: Second) => number) =>
    seconds.reduce((sum, second) => sum + read(second), 0) / Math.max(1, seconds.length);
  const quantileMs = (share: number) =>
    all.count === 0 ? undefined : round(1000 * all.quantile(share));
  return {
    creates: rate(({ creates }) => creates),
    reads: rate(({ reads }) => reads),
    requestMsP50: quantileMs(0.5),
    requestMsP99: quantileMs(0.99),
  };
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
