/**
 * Group commit: many appends, one sync.
 *
 * Invariants. A record that is reported durable is on disk whole. Bytes before `durableBytes` never
 * change. Records that arrive during a sync go out together in the next one; while the disk is idle a
 * record waits only for others that arrive at once. A batch that the system refused leaves nothing in
 * the log (log/file). After a failed sync, or once the file was moved or changed, the writer has
 * failed for good: it never writes and never acknowledges again.
 */
import { clock } from "../clock.ts";
import { type BatchMessage, batches, publishWarning } from "../core/channels.ts";
import { PlantStoreError } from "../core/errors.ts";
import { defaultBudget } from "../memory.ts";
import { type Checkpoint, extendCheckpoint } from "./checkpoint.ts";
import { describeSystemError } from "./disk.ts";
import type { AppendResult, LogFile } from "./file.ts";
import { LINE_FEED } from "./lines.ts";

export interface LogWriterOptions {
  /** A batch takes records until it holds this many bytes, so it is at most one record longer. */
  readonly batchBytesMax: number;
  /** Upper bound on the bytes that wait for the disk. Default: 4 to 64 MiB, by the memory there is. */
  readonly queueBytesMax?: number | undefined;
  /** The log as it is on disk. */
  readonly end: Checkpoint;
  /** Called with the log's new end and the lines of every batch that became durable. */
  readonly onDurable?: (end: Checkpoint, lines: Buffer) => void;
}

/** A batch of this many records waits for no more (measured: docs/speed.md). */
const WORTHWHILE_RECORDS = 32;
/** How long a smaller batch waits at most while each turn of the event loop brings more records. */
const GATHER_MS_MAX = 1;

interface Write {
  readonly batch: Batch;
  /** When the write began; `undefined` if `plant-store:batch` has no subscriber. */
  readonly startedAt: number | undefined;
  readonly written: Promise<AppendResult>;
}

export class LogWriter {
  /** Resolves, never rejects, when the writer has failed for good. */
  readonly failed: Promise<PlantStoreError>;

  readonly #file: LogFile;
  readonly #options: LogWriterOptions;
  readonly #queueBytesMax: number;
  #end: Checkpoint;
  /** The batches that wait; only the last one takes more records. */
  #queue: Batch[] = [];
  #queuedBytes = 0;
  #flushing: Promise<void> | undefined;
  #failure: PlantStoreError | undefined;
  #reportFailure: (error: PlantStoreError) => void = () => {};
  /** Why and when the last batch was refused; `undefined` if it was written. */
  #refusal: { readonly why: string; readonly at: number } | undefined;
  /** Whether the last warning reported a refusal. */
  #isKnownRefused = false;
  /** When each of the two warnings came last. */
  readonly #warnedAt = { refused: Number.NEGATIVE_INFINITY, written: Number.NEGATIVE_INFINITY };

  constructor(file: LogFile, options: LogWriterOptions) {
    this.#file = file;
    this.#options = options;
    this.#queueBytesMax = options.queueBytesMax ?? defaultBudget();
    this.#end = options.end;
    this.failed = new Promise((resolve) => {
      this.#reportFailure = resolve;
    });
  }

  /** The length of the log that is known to be on disk. */
  get durableBytes(): number {
    return this.#end.bytes;
  }

  /** Bytes of records that were accepted and not yet answered, those being written included. */
  get queuedBytes(): number {
    return this.#queuedBytes;
  }

  /** Why nothing can be appended any more, once the writer has failed for good. */
  get failure(): PlantStoreError | undefined {
    return this.#failure;
  }

  /**
   * Looks whether the log is in its place with all durable bytes, and fails for good if not. Call it in the
   * turn that relies on that.
   *
   * @param bytesMax how long it may be: while a batch is being written, longer than is durable.
   * @returns the failure; `undefined` if all is well.
   */
  findFailure(bytesMax = Number.POSITIVE_INFINITY): PlantStoreError | undefined {
    if (this.#failure !== undefined) return this.#failure;
    try {
      this.#file.assertInPlace(this.#end.bytes, bytesMax);
      return undefined;
    } catch (cause) {
      return this.fail(cause);
    }
  }

  /** How long ago the disk refused the last batch; `undefined` if it took that. */
  get refusedMsAgo(): number | undefined {
    return this.#refusal === undefined ? undefined : clock.steadyMs() - this.#refusal.at;
  }

  /**
   * Appends one record, and resolves with its byte offset once it is durable.
   *
   * @throws PlantStoreError `overloaded`: nothing was written. `write_failed`: repeat the append.
   * `store_failed`: the outcome is unknown, and nothing can be appended any more. RangeError for a record
   * with a line feed, a mistake of the calling program, or if there is no memory for it.
   */
  async append(record: string): Promise<number> {
    if (this.#failure !== undefined) throw this.#failure;
    if (record.includes("\n")) throw new RangeError("A record must not hold a line feed");
    const bytes = Buffer.byteLength(record) + 1; // with its line feed
    // An empty queue takes any record.
    if (this.#queuedBytes > 0 && this.#queuedBytes + bytes > this.#queueBytesMax) {
      throw new PlantStoreError(
        "overloaded",
        "Cannot store it now: too much waits for the disk; " +
          "nothing was stored: send the request again later",
      );
    }
    const last = this.#queue.at(-1);
    const isOpen = last !== undefined && !last.isFull;
    const batch = isOpen ? last : new Batch(this.#options.batchBytesMax);
    const at = batch.add(record, bytes);
    if (!isOpen) this.#queue.push(batch); // never an empty one
    this.#queuedBytes += bytes;
    this.#flushing ??= this.#flush();
    return (await batch.start) + at;
  }

  /** Waits until every accepted append was answered. */
  async drain(): Promise<void> {
    await this.#flushing;
    if (this.#failure === undefined) this.#warn(0);
  }

  async #flush(): Promise<void> {
    do {
      await this.#gather();
      const failure = this.findFailure(this.#end.bytes);
      let write = failure === undefined ? this.#startWrite() : undefined;
      while (write !== undefined) write = await this.#finishWrite(write);
    } while (this.#queue.length > 0); // a client that was answered may append at once
    this.#flushing = undefined;
  }

  /**
   * Waits while the first batch is small and each turn of the event loop brings more records:
   * clients that were answered send again (measured: docs/speed.md). `records` starts at 0, because
   * the turn that ends first has not polled the sockets yet.
   */
  async #gather(): Promise<void> {
    const deadline = clock.steadyMs() + GATHER_MS_MAX;
    let known: number;
    let records = 0;
    do {
      known = records;
      await new Promise<void>((resolve) => clock.setImmediate(resolve));
      records = this.#queue[0]?.records ?? 0;
    } while (records > known && !this.#isNextWorthwhile() && clock.steadyMs() < deadline);
  }

  #isNextWorthwhile(): boolean {
    const next = this.#queue[0];
    return next !== undefined && (next.records >= WORTHWHILE_RECORDS || next.isFull);
  }

  /** Writes the next batch, if any. Call it in a turn that checked the file, as appends do last. */
  #startWrite(): Write | undefined {
    const batch = this.#queue.shift();
    if (batch === undefined) return undefined;
    const startedAt = batches.hasSubscribers ? clock.steadyMs() : undefined;
    return { batch, startedAt, written: this.#file.append(batch.bytes) };
  }

  /** Waits for a batch and answers it; returns the next one if it is being written already. */
  async #finishWrite({ batch, startedAt, written }: Write): Promise<Write | undefined> {
    const result = await written;
    const syncMs = startedAt === undefined ? undefined : clock.steadyMs() - startedAt;
    this.#queuedBytes -= batch.bytes.length; // first: a client that is answered may append at once
    if (this.#failure !== undefined) batch.fail(this.#failure);
    else if (result.outcome === "refused") this.#refuse(batch, result.cause);
    else if (result.outcome === "unknown") batch.fail(this.fail(result.cause));
    else {
      const start = this.durableBytes;
      this.#end = extendCheckpoint(this.#end, batch.bytes, batch.records);
      // The disk works while this batch is answered (measured: docs/speed.md).
      const next = this.#isNextWorthwhile() ? this.#startWrite() : undefined;
      this.#acknowledge(batch, start, syncMs);
      return next;
    }
    return undefined;
  }

  /** In one turn of the event loop: several are slower (measured: docs/speed.md). */
  #acknowledge(batch: Batch, start: number, syncMs: number | undefined): void {
    batch.acknowledge(start);
    this.#refusal = undefined;
    this.#warn();
    this.#options.onDurable?.(this.#end, batch.bytes);
    if (syncMs === undefined) return;
    const { records, bytes } = batch;
    const message: BatchMessage = { log: this.#file.path, records, bytes: bytes.length, syncMs };
    batches.publish(message);
  }

  #refuse(batch: Batch, cause: unknown): void {
    const why = describeSystemError(cause);
    this.#refusal = { why, at: clock.steadyMs() };
    this.#warn();
    const error = new PlantStoreError(
      "write_failed",
      `Cannot store it now: ${why}; the outcome is unknown: send the identical request again`,
      { cause },
    );
    batch.fail(error);
  }

  /**
   * Warns when the log cannot be written, and when it can be again. A nearly full disk may refuse every
   * second batch, so each of the two warnings comes at most once a second; one that was held back
   * comes with a later batch or the end, unless the state has changed back.
   */
  #warn(restMs = 1000): void {
    const isRefused = this.#refusal !== undefined;
    if (isRefused === this.#isKnownRefused) return; // nearly always
    const kind = isRefused ? "refused" : "written";
    const now = clock.steadyMs();
    if (now - this.#warnedAt[kind] < restMs) return;
    this.#isKnownRefused = isRefused;
    this.#warnedAt[kind] = now;
    publishWarning(
      isRefused
        ? `"${this.#file.path}" cannot be written, so new plants are refused until it can: ${this.#refusal?.why}`
        : `"${this.#file.path}" can be written again`,
    );
  }

  /**
   * Fails for good, because the log on disk is not what was written. Rejects every queued append with
   * the error that is returned: that of the first failure.
   */
  fail(cause: unknown): PlantStoreError {
    this.#failure ??= new PlantStoreError(
      "store_failed",
      "Cannot use the store: it has stopped after a failure of its disk or data directory; " +
        "the outcome of a create is unknown: send the identical request again",
      { cause },
    );
    for (const waiting of this.#queue.splice(0)) {
      this.#queuedBytes -= waiting.bytes.length;
      waiting.fail(this.#failure);
    }
    this.#reportFailure(this.#failure);
    return this.#failure;
  }
}

/** The initial room of a batch; most batches need no more. */
const ROOM_BYTES = 16 * 1024;

/**
 * The records of one write, with one outcome for all. They are encoded when they are added, so that
 * thousands of waiting creates hold no text for the garbage collector to copy.
 *
 * @internal
 */
export class Batch {
  /** The byte offset of the batch in the log: resolves once all of it is on disk, or rejects. */
  readonly start: Promise<number>;
  /** Both settle `start`. */
  acknowledge: (start: number) => void = () => {};
  fail: (error: PlantStoreError) => void = () => {};
  /** How many have been added. */
  records = 0;
  isFull = false;
  readonly #bytesMax: number;
  #buffer: Buffer;
  #size = 0;

  /** @param bytesMax the batch is full once it holds this many bytes. */
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
    this.#buffer = Buffer.allocUnsafeSlow(Math.min(ROOM_BYTES, bytesMax));
    this.start = new Promise((resolve, reject) => {
      this.acknowledge = resolve;
      this.fail = reject;
    });
  }

  /** All lines, as they go to the disk. */
  get bytes(): Buffer {
    return this.#buffer.subarray(0, this.#size);
  }

  /**
   * @param bytes the length of the line: of the record in UTF-8 and its line feed.
   * @returns the offset of the record in the batch.
   * @throws RangeError if there is no memory for the record; nothing was added.
   */
  add(record: string, bytes: number): number {
    const at = this.#size;
    const end = at + bytes;
    if (end > this.#buffer.length) this.#grow(end);
    const written = this.#buffer.write(record, at);
    // The rest of a new buffer holds old memory.
    if (written !== bytes - 1) throw new RangeError(`wrote ${written} of ${bytes - 1} bytes`);
    this.#buffer[end - 1] = LINE_FEED;
    this.#size = end;
    this.isFull = end >= this.#bytesMax;
    this.records++;
    return at;
  }

  /** Doubles the room, but not beyond a full batch and its last record. */
  #grow(bytesMin: number): void {
    const room = Math.max(bytesMin, Math.min(2 * this.#buffer.length, this.#bytesMax));
    const buffer = Buffer.allocUnsafeSlow(room);
    this.bytes.copy(buffer);
    this.#buffer = buffer;
  }
}
