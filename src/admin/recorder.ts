/**
 * What the channels tell, counted: the only memory the admin listener has.
 *
 * Bounded: statuses and error numbers come from our own table, histograms have
 * fixed buckets, the history fixed seconds. What no client sends becomes a label.
 */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { BatchMessage, RequestMessage } from "../core/channels.ts";
import { FAILURES } from "../http/reply.ts";
import { Histogram } from "./histogram.ts";
import { History } from "./history.ts";

/** What requests are for, by the names that OpenAPI has for it and metrics. */
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
  readonly #answers = {
    create: knownAnswers("create"),
    get: knownAnswers("get"),
    list: knownAnswers("list"),
    none: new Map<number, AnswerCount>(),
  };
  #refusedAt: number | undefined;

  readonly #onRequest = (message: unknown) => this.#countRequest(message as RequestMessage);
  readonly #onBatch = (message: unknown) => this.#countBatch(message as BatchMessage);
  readonly #onWarning = () => {
    this.warnings++;
  };
  readonly #onDrop = () => {
    this.droppedConnections++;
  };

  /** Listens until `close`. */
  constructor() {
    subscribe("plant-store:request", this.#onRequest);
    subscribe("plant-store:batch", this.#onBatch);
    subscribe("plant-store:warning", this.#onWarning);
    subscribe("plant-store:drop", this.#onDrop);
  }

  close(): void {
    unsubscribe("plant-store:request", this.#onRequest);
    unsubscribe("plant-store:batch", this.#onBatch);
    unsubscribe("plant-store:warning", this.#onWarning);
    unsubscribe("plant-store:drop", this.#onDrop);
  }

  get answers(): readonly AnswerCount[] {
    return Object.values(this.#answers).flatMap((answers) => [...answers.values()]);
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
    const answers = this.#answers[name];
    let answer = answers.get(error ?? status);
    if (answer === undefined) {
      answer = newAnswer(name, status, error);
      answers.set(error ?? status, answer);
    }
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

  #countBatch({ records, bytes, syncMs }: BatchMessage): void {
    this.#refusedAt = undefined;
    this.syncSeconds.observe(syncMs / 1000);
    this.batchRecords.observe(records);
    this.batchBytes.observe(bytes);
    this.history.note(Date.now(), records, syncMs);
  }
}

/** Those that alerts are made of are there from the start: a rate needs a 0 to begin with. */
function knownAnswers(operation: AnswerCount["operation"]): Map<number, AnswerCount> {
  const answers = new Map([0, 200].map((status) => [status, newAnswer(operation, status)]));
  for (const { status, error } of Object.values(FAILURES)) {
    if (status >= 500) answers.set(error, newAnswer(operation, status, error));
  }
  return answers;
}

function newAnswer(
  operation: AnswerCount["operation"],
  status: number,
  error?: number,
): AnswerCount {
  return { operation, status, error, count: 0, lastAt: 0 };
}
