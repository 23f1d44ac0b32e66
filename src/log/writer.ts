/**
 * Group commit: many appends, one sync.
 *
 * Invariants. Who is told "durable" has the whole record on disk; there is no
 * weaker promise. Bytes before `durableBytes` never change. What arrives
 * while a sync is under way goes out together in the next one: no timer, and
 * while the disk is idle nothing waits but for what comes at once. A batch the system refused
 * leaves nothing in the log before anything else is written (log/file).
 * After a failed sync, or when the file is no longer where it was, the writer
 * has failed for good: it never syncs and never acknowledges again.
 */
import { type BatchMessage, batches } from "../core/channels.ts";
import { PlantStoreError } from "../core/errors.ts";
import { Batch } from "./batch.ts";
import { type Checkpoint, extendCheckpoint } from "./checkpoint.ts";
import { type AppendResult, describeSystemError, type LogFile } from "./file.ts";
import { lineBytes, RECORD_BYTES_MAX } from "./format.ts";
import { WriteWarnings } from "./write-warnings.ts";

export interface LogWriterOptions {
  /** A batch takes records until it holds this many bytes, so it is at most one record longer. */
  readonly batchBytesMax: number;
  /** More bytes than this never wait for the disk. */
  readonly queueBytesMax: number;
  /** What the log is: all of it is on disk. */
  readonly end: Checkpoint;
  /** Told what the log is after every batch that became durable. */
  readonly onDurable?: (end: Checkpoint) => void;
}

/** So many records are worth a sync of their own: 48 to 192 do alike (test/bench/results). */
const WORTHWHILE_RECORDS = 32;
/** After so long a batch waits no further turn of the event loop for more records. */
const GATHER_MS_MAX = 1;

/** A batch that is being written. */
interface Write {
  readonly batch: Batch;
  readonly bytes: Buffer;
  /** When the write began, where somebody wants to know. */
  readonly startedAt: number | undefined;
  readonly written: Promise<AppendResult>;
}

export class LogWriter {
  /** Settles, never rejects, when the writer has failed for good. */
  readonly failed: Promise<PlantStoreError>;

  readonly #file: LogFile;
  readonly #batchBytesMax: number;
  readonly #queueBytesMax: number;
  readonly #onDurable: ((end: Checkpoint) => void) | undefined;
  #end: Checkpoint;
  /** Only the last one takes more. */
  #queue: Batch[] = [];
  /** Bytes accepted and not yet answered: queued ones and those of the batch under way. */
  #queuedBytes = 0;
  #flushing: Promise<void> | undefined;
  #failure: PlantStoreError | undefined;
  readonly #warnings: WriteWarnings;
  #reportFailure: (error: PlantStoreError) => void = () => {};

  constructor(file: LogFile, options: LogWriterOptions) {
    this.#file = file;
    this.#warnings = new WriteWarnings(file.path);
    this.#batchBytesMax = options.batchBytesMax;
    this.#queueBytesMax = options.queueBytesMax;
    this.#end = options.end;
    this.#onDurable = options.onDurable;
    this.failed = new Promise((resolve) => {
      this.#reportFailure = resolve;
    });
  }

  /** The length of the log that is known to be on disk. */
  get durableBytes(): number {
    return this.#end.bytes;
  }

  /** Bytes that were accepted and are not yet answered. */
  get queuedBytes(): number {
    return this.#queuedBytes;
  }

  /** Takes over what somebody else appended and synced, before the first own append. */
  resume(end: Checkpoint): void {
    this.#end = end;
  }

  /** Why the writer takes no more, once it has failed. */
  get failure(): PlantStoreError | undefined {
    return this.#failure;
  }

  /**
   * Appends one record, and resolves with its byte offset once it is durable.
   *
   * @throws PlantStoreError `body_too_large` or `overloaded`: nothing was written. `write_failed`:
   * cut away again, or the answer was lost: repeat it. `store_failed`.
   */
  async append(record: string): Promise<number> {
    if (this.#failure !== undefined) throw this.#failure;
    const bytes = lineBytes(record);
    if (bytes > RECORD_BYTES_MAX) throw tooLong(bytes);
    // A record of any length finds its way through an empty queue.
    if (this.#queuedBytes > 0 && this.#queuedBytes + bytes > this.#queueBytesMax) {
      throw new PlantStoreError(
        "overloaded",
        "Cannot store it now: too much waits for the disk; " +
          "nothing was stored: send the request again later",
      );
    }
    const last = this.#queue.at(-1);
    const isOpen = last !== undefined && !last.isFull;
    const batch = isOpen ? last : new Batch(this.#batchBytesMax);
    const at = batch.add(record, bytes);
    if (!isOpen) this.#queue.push(batch); // only with a record in it
    this.#queuedBytes += bytes;
    this.#flushing ??= this.#flush();
    return (await batch.start) + at;
  }

  /** Waits until everything accepted so far was answered. */
  async drain(): Promise<void> {
    await this.#flushing;
    if (this.#failure === undefined) this.#warnings.flush();
  }

  async #flush(): Promise<void> {
    do {
      await this.#gather();
      let write = this.#isDisplaced() ? undefined : this.#startWrite();
      while (write !== undefined) write = await this.#finishWrite(write);
    } while (this.#queue.length > 0); // whoever was answered may have come back at once
    this.#flushing = undefined;
  }

  /**
   * Waits until every request of this turn of the event loop is in the first batch; and, while that
   * is a small one, as long as each turn brings more: whoever was answered comes back. On one core
   * a quarter more creates at 16 connections, a tenth at 64 (test/bench/results). It begins with
   * none, for what is there does not end the wait: the turn that ends first has not asked the
   * sockets yet.
   */
  async #gather(): Promise<void> {
    const deadline = performance.now() + GATHER_MS_MAX;
    let records = 0;
    let known: number;
    do {
      known = records;
      await new Promise(setImmediate);
      records = this.#queue[0]?.records ?? 0;
    } while (records > known && !this.#isNextWorthwhile() && performance.now() < deadline);
  }

  /** Whether a sync is well spent on the first batch, or it takes no more. */
  #isNextWorthwhile(): boolean {
    const next = this.#queue[0];
    return next !== undefined && (next.records >= WORTHWHILE_RECORDS || next.isFull);
  }

  /**
   * Starts to write the next batch. Call it only in the turn of a displacement check. Returns
   * `undefined` if the queue is empty, as it is after a failure.
   */
  #startWrite(): Write | undefined {
    const batch = this.#queue.shift();
    if (batch === undefined) return undefined;
    const { bytes } = batch;
    const startedAt = batches.hasSubscribers ? performance.now() : undefined;
    return { batch, bytes, startedAt, written: this.#file.append(bytes) };
  }

  /** Waits for a batch and answers it; returns the next one where it is under way already. */
  async #finishWrite({ batch, bytes, startedAt, written }: Write): Promise<Write | undefined> {
    const result = await written;
    const syncMs = startedAt === undefined ? undefined : performance.now() - startedAt;
    this.#queuedBytes -= bytes.length; // before anybody is answered, who may come back at once
    if (this.#failure !== undefined) batch.fail(this.#failure);
    else if (result.outcome === "refused") this.#refuse(batch, result.cause);
    else if (result.outcome === "unknown") this.#fail(batch, result.cause);
    else {
      const offset = this.durableBytes;
      this.#end = extendCheckpoint(this.#end, bytes, batch.records);
      // The disk works while this batch is answered: 6 to 9 % more creates at 256 connections where
      // a sync takes 1 to 10 ms more, and none that show where it does not (test/bench/results).
      const next = this.#isNextWorthwhile() ? this.#startWrite() : undefined;
      this.#acknowledge(batch, offset);
      if (syncMs !== undefined) this.#publish(batch.records, bytes.length, syncMs);
      return next;
    }
    return undefined;
  }

  /** Whether the log is no longer the one that this writer left; then it has failed for good. */
  #isDisplaced(): boolean {
    try {
      this.#file.assertUnchanged();
      return false;
    } catch (cause) {
      this.#fail(undefined, cause);
      return true;
    }
  }

  /** In one turn of the event loop: over several it took 1 to 9 % of creates (test/bench/results). */
  #acknowledge(batch: Batch, start: number): void {
    batch.acknowledge(start);
    this.#warnings.written();
    this.#onDurable?.(this.#end);
  }

  #publish(records: number, bytes: number, syncMs: number): void {
    batches.publish({ log: this.#file.path, records, bytes, syncMs } satisfies BatchMessage);
  }

  /** The system refused the batch, and nothing of it is in the log. */
  #refuse(batch: Batch, cause: unknown): void {
    this.#warnings.refused(cause);
    const error = new PlantStoreError(
      "write_failed",
      `Cannot store it now: ${describeSystemError(cause)}; ` +
        "the outcome is unknown: send the identical request again",
      { cause },
    );
    batch.fail(error);
  }

  /**
   * Stops for good, because the log on disk is not what was written: returns
   * what everybody is told from now on.
   */
  fail(cause: unknown): PlantStoreError {
    return this.#fail(undefined, cause);
  }

  /** Final: this process acknowledges nothing any more, and the first reason stands. */
  #fail(batch: Batch | undefined, cause: unknown): PlantStoreError {
    const error = this.#failure ?? storeFailed(cause);
    this.#failure = error;
    batch?.fail(error);
    for (const waiting of this.#queue.splice(0)) {
      this.#queuedBytes -= waiting.bytes.length;
      waiting.fail(error);
    }
    this.#reportFailure(error);
    return error;
  }
}

function storeFailed(cause: unknown): PlantStoreError {
  return new PlantStoreError(
    "store_failed",
    // Reads are told so too.
    "Cannot use the store: it has stopped after a failure of its disk or data directory; " +
      "the outcome of a create is unknown: send the identical request again",
    { cause },
  );
}

function tooLong(bytes: number): PlantStoreError {
  return new PlantStoreError(
    "body_too_large",
    `The plant: expected at most ${RECORD_BYTES_MAX} bytes as a line of the log, got ${bytes}`,
  );
}
