/**
 * Group commit: many appends, one sync.
 *
 * Invariants. A resolved `append` means the whole record is on disk; there is
 * no weaker promise. Bytes before `durableBytes` never change. What arrives
 * while a sync is under way goes out together in the next one: no timer, and
 * nothing waits while the disk is idle. A batch the system refused is cut away
 * before anything else is written, so its bytes never stay behind a later one.
 * After a failed sync, or when the file is no longer where it was, the writer
 * has failed for good: it never syncs and never acknowledges again.
 */
import { type BatchMessage, batches, publishWarning } from "../core/channels.ts";
import { PlantStoreError } from "../core/errors.ts";
import { type Checkpoint, extendCheckpoint } from "./checkpoint.ts";
import { type AppendResult, describeSystemError, type LogFile } from "./file.ts";
import { encodeLine, RECORD_BYTES_MAX } from "./format.ts";

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

interface Waiting {
  readonly line: string;
  readonly bytes: number;
  readonly resolve: (offset: number) => void;
  readonly reject: (error: PlantStoreError) => void;
}

/** Records on their way to the disk. */
interface Batch {
  readonly records: readonly Waiting[];
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
  #queue: Waiting[] = [];
  /** Bytes accepted and not yet answered: queued ones and those of the batch under way. */
  #queuedBytes = 0;
  #flushing: Promise<void> | undefined;
  #failure: PlantStoreError | undefined;
  /** The last batch found no room: warned about once, until one finds it again. */
  #isRefused = false;
  #reportFailure: (error: PlantStoreError) => void = () => {};

  constructor(file: LogFile, options: LogWriterOptions) {
    this.#file = file;
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
   * Appends one record and resolves with its byte offset once it is durable.
   *
   * @throws PlantStoreError `body_too_large`, `overloaded` (nothing was written), `write_failed`
   * (cut away again, or its answer was lost: repeat it) or `store_failed`.
   */
  append(record: string): Promise<number> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    const line = encodeLine(record);
    const bytes = Buffer.byteLength(line);
    if (bytes > RECORD_BYTES_MAX) return Promise.reject(tooLong(bytes));
    // A record of any length finds its way through an empty queue.
    if (this.#queuedBytes > 0 && this.#queuedBytes + bytes > this.#queueBytesMax) {
      return Promise.reject(
        new PlantStoreError(
          "overloaded",
          "Cannot store it now: too much waits for the disk; send the request again later",
        ),
      );
    }
    this.#queuedBytes += bytes;
    const durable = new Promise<number>((resolve, reject) => {
      this.#queue.push({ line, bytes, resolve, reject });
    });
    this.#flushing ??= this.#flush();
    return durable;
  }

  /** Waits until everything accepted so far was answered. */
  async drain(): Promise<void> {
    await this.#flushing;
  }

  async #flush(): Promise<void> {
    // Every request of one turn of the event loop goes into its first batch.
    await new Promise(setImmediate);
    // Whoever was answered may have come back at once.
    while (this.#queue.length > 0 && this.#failure === undefined) {
      let batch = this.#isDisplaced([], this.durableBytes) ? undefined : this.#startBatch();
      while (batch !== undefined) batch = await this.#finishBatch(batch);
    }
    this.#flushing = undefined;
  }

  /**
   * Has the next batch written, in a turn that has seen the file in its place: else the write
   * would fill what somebody cut away, and the size would look right.
   */
  #startBatch(): Batch | undefined {
    if (this.#queue.length === 0 || this.#failure !== undefined) return undefined;
    const records = this.#takeBatch();
    // One string, one buffer: 4 % of a create less than a buffer for every line.
    const bytes = Buffer.from(records.map(({ line }) => line).join(""));
    const startedAt = batches.hasSubscribers ? performance.now() : undefined;
    return { records, bytes, startedAt, written: this.#file.append(bytes, this.durableBytes) };
  }

  /** Waits for a batch and answers it; returns the next one, which is under way already. */
  async #finishBatch(batch: Batch): Promise<Batch | undefined> {
    const { records, bytes, startedAt } = batch;
    const result = await batch.written;
    const syncMs = startedAt === undefined ? undefined : performance.now() - startedAt;
    this.#queuedBytes -= bytes.length; // before anybody is answered, who may come back at once
    if (result.outcome === "refused") await this.#cutBack(records, result.cause);
    else if (result.outcome === "unknown") await this.#failSync(records, result);
    else if (this.#failure !== undefined) this.#fail(records, this.#failure.cause);
    // Nobody may be told "stored" about a file that went away meanwhile.
    else if (!this.#isDisplaced(records, this.durableBytes + bytes.length)) {
      const offset = this.durableBytes;
      this.#end = extendCheckpoint(this.#end, bytes, records.length);
      // The disk works while this batch is answered: up to a tenth more creates (256 connections).
      const next = this.#startBatch();
      this.#acknowledge(records, offset);
      if (syncMs !== undefined) this.#publish(records.length, bytes.length, syncMs);
      return next;
    }
    return undefined;
  }

  #takeBatch(): Waiting[] {
    let taken = 0;
    let count = 0;
    for (const { bytes } of this.#queue) {
      if (taken >= this.#batchBytesMax) break;
      taken += bytes;
      count++;
    }
    return this.#queue.splice(0, count);
  }

  #isDisplaced(batch: readonly Waiting[], expectedSize: number): boolean {
    const displacement = this.#file.displacement(expectedSize);
    if (displacement === undefined) return false;
    this.#fail(batch, new Error(`"${this.#file.path}" ${displacement}`));
    return true;
  }

  /** In one turn of the event loop: over several it took 1 to 9 % of creates (test/bench/results). */
  #acknowledge(records: readonly Waiting[], start: number): void {
    let offset = start;
    for (const { bytes, resolve } of records) {
      resolve(offset);
      offset += bytes;
    }
    if (this.#isRefused) publishWarning(`"${this.#file.path}" can be written again`);
    this.#isRefused = false;
    this.#onDurable?.(this.#end);
  }

  #publish(records: number, bytes: number, syncMs: number): void {
    batches.publish({ log: this.#file.path, records, bytes, syncMs } satisfies BatchMessage);
  }

  /** The system refused the batch: nothing of it may stay behind what comes next. */
  async #cutBack(batch: readonly Waiting[], cause: unknown): Promise<void> {
    try {
      await this.#file.truncate(this.durableBytes);
    } catch (cutCause) {
      const why = `${describeSystemError(cause)}, then the cut: ${describeSystemError(cutCause)}`;
      this.#fail(batch, new Error(`Cannot write "${this.#file.path}": ${why}`, { cause }));
      return;
    }
    if (!this.#isRefused) {
      publishWarning(
        `"${this.#file.path}" cannot be written, so what is new is refused until it can: ` +
          describeSystemError(cause),
      );
    }
    this.#isRefused = true;
    const error = new PlantStoreError(
      "write_failed",
      `Cannot store it now: ${describeSystemError(cause)}; ` +
        "the outcome is unknown: send the identical request again",
      { cause },
    );
    for (const { reject } of batch) reject(error);
  }

  async #failSync(batch: readonly Waiting[], { cause }: { cause: unknown }): Promise<void> {
    // As best it can: the next start decides by what is on disk.
    await this.#file.truncate(this.durableBytes).catch(() => {});
    const why = `Cannot sync "${this.#file.path}": ${describeSystemError(cause)}`;
    this.#fail(batch, new Error(`${why}; check the disk, then start again`, { cause }));
  }

  /**
   * Stops for good, because the log on disk is not what was written: returns
   * what everybody is told from now on.
   */
  fail(cause: unknown): PlantStoreError {
    return this.#failure ?? this.#fail([], cause);
  }

  /** Final: this process acknowledges nothing any more. */
  #fail(batch: readonly Waiting[], cause: unknown): PlantStoreError {
    const error = new PlantStoreError(
      "store_failed",
      // Reads are told so too.
      "Cannot use the store: it has stopped after a disk failure; " +
        "the outcome of a create is unknown: send the identical request again",
      { cause },
    );
    this.#failure = error;
    for (const { reject } of [...batch, ...this.#queue.splice(0)]) reject(error);
    this.#reportFailure(error);
    return error;
  }
}

function tooLong(bytes: number): PlantStoreError {
  return new PlantStoreError(
    "body_too_large",
    `The plant: expected at most ${RECORD_BYTES_MAX} bytes as a line of the log, got ${bytes}`,
  );
}
