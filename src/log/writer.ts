/**
 * Group commit: many appends, one sync.
 *
 * Invariants. A record that is reported durable is on disk whole. Bytes before `end` never change. Records that
 * arrive during a sync go out together in the next one. At most one batch is being written, so what a power cut
 * leaves unfinished is one batch at the end. After a failed sync, or once the file was changed by another
 * program, the writer has failed for good: it never writes and never acknowledges again.
 */
import { clock } from "../clock.ts";
import { type BatchMessage, batches, publishWarning } from "../core/channels.ts";
import { PlantStoreError } from "../core/errors.ts";
import { defaultBudget } from "../memory.ts";
import { type Checkpoint, extendCheckpoint } from "./checkpoint.ts";
import type { LogFile } from "./file.ts";
import { LINE_FEED } from "./lines.ts";

/** A batch takes records until it holds this many bytes, so it is at most one record longer. */
export const BATCH_BYTES_MAX = 1024 * 1024;
const TURN_RECORDS_MAX = 32; // a batch of so many waits for no further turn (measured)
const SLOW_SYNC_MS = 1;
const RETURN_MS_MAX = 5; // clients that need longer would hold up the others
const WARNING_REST_MS = 60_000; // a nearly full disk may refuse every second batch

export class LogWriter {
  #reportFailure!: (error: PlantStoreError) => void;
  /** Resolves, never rejects, when the writer has failed for good. */
  readonly failed = new Promise<PlantStoreError>((resolve) => {
    this.#reportFailure = resolve;
  });
  /** Called with the bytes of each batch that is on disk, and their offset. */
  onDurable: (bytes: Buffer, start: number) => void = () => {};
  /** The log as far as it is known to be on disk. */
  end: Checkpoint;
  /** Bytes of records that were accepted and not yet acknowledged, those being written included. */
  queuedBytes = 0;
  /** Why nothing can be appended any more, once the writer has failed for good. */
  failure: PlantStoreError | undefined;
  readonly #file: LogFile;
  readonly #queueBytesMax: number;
  /** The batches that wait; only the last one takes more records. */
  readonly #queue: Batch[] = [];
  #flushing: Promise<void> | undefined;
  #writing: Promise<void> | undefined;
  /** Shared by all that ask in one turn. */
  #fileCheck: Promise<void> | undefined;
  /** When the last good sync ended, how many records have come since, and when the last of them. */
  #syncedAt = 0;
  #arrivals = 0;
  #lastArrivalAt = 0;
  /** How many records the next batch waits for, and until when. */
  #awaited = 0;
  #waitUntil = 0;
  #endWait: (() => void) | undefined;
  #refusedAt: number | undefined;
  #warnedAt = Number.NEGATIVE_INFINITY;

  /**
   * @param end the log as it is on disk.
   * @param queueBytesMax upper bound on the bytes that wait for the disk.
   */
  constructor(file: LogFile, end: Checkpoint, queueBytesMax = defaultBudget()) {
    this.#file = file;
    this.end = end;
    this.#queueBytesMax = queueBytesMax;
  }

  /** How long ago the disk had no room for the last batch; `undefined` if it was written. */
  get msSinceRefusal(): number | undefined {
    return this.#refusedAt === undefined ? undefined : clock.monotonicMs() - this.#refusedAt;
  }

  /**
   * Appends one record, which holds no line feed.
   *
   * @returns `start`, which resolves once the record is durable, at the byte offset `start + at`; it rejects with
   * a PlantStoreError `write_failed`: repeat the append; `store_failed`: the outcome is unknown.
   * @throws PlantStoreError `overloaded`: nothing was written; `store_failed`.
   */
  append(record: string): { readonly start: Promise<number>; readonly at: number } {
    if (this.failure !== undefined) throw this.failure;
    const bytes = Buffer.byteLength(record) + 1; // with its line feed
    // An empty queue takes any record.
    if (this.queuedBytes > 0 && this.queuedBytes + bytes > this.#queueBytesMax) {
      const why = "too much waits for the disk; it was not stored: send the request again later";
      throw new PlantStoreError("overloaded", `Cannot store it now: ${why}`);
    }
    const last = this.#queue.at(-1);
    const isOpen = last !== undefined && !last.isFull;
    const batch = isOpen ? last : new Batch();
    const at = batch.add(record, bytes);
    if (!isOpen) this.#queue.push(batch); // never an empty one
    this.queuedBytes += bytes;
    this.#arrivals++;
    this.#lastArrivalAt = clock.monotonicMs();
    if (batch.isFull || batch.records >= this.#awaited) this.#endWait?.();
    this.#flushing ??= this.#flush();
    return { start: batch.start, at };
  }

  /** Checks lock and file after the call, and resolves in the turn of that check. @throws `store_failed`. */
  async assertUnchanged(): Promise<void> {
    this.#fileCheck ??= this.#checkFile();
    await this.#fileCheck;
    if (this.failure !== undefined) throw this.failure;
  }

  async #checkFile(): Promise<void> {
    await clock.turn();
    this.#fileCheck = undefined;
    try {
      await (this.#writing ?? this.#file.assertUnchanged()); // a good write ends with this check
    } catch (cause) {
      this.fail(cause);
    }
  }

  /** Waits until every accepted append was acknowledged or rejected. */
  async drain(): Promise<void> {
    await this.#flushing;
  }

  async #flush(): Promise<void> {
    for (let next = this.#queue[0]; next !== undefined; next = this.#queue[0]) {
      await this.#waitForMore(next);
      const batch = this.#queue.shift();
      if (batch === undefined) break; // the writer has failed
      this.#writing = this.#write(batch);
      await this.#writing;
      this.#writing = undefined;
    }
    this.#flushing = undefined; // in this turn: an append that comes now begins the next flush
  }

  /** Waits while each turn brings more, at most 1 ms: clients whose creates were acknowledged send again. */
  async #waitForMore(batch: Batch): Promise<void> {
    const deadline = clock.monotonicMs() + 1;
    let [known, records] = [-1, 0]; // in the first turn no socket was read yet
    while (records > known && !batch.isFull && batch.records < TURN_RECORDS_MAX) {
      if (clock.monotonicMs() >= deadline) break;
      await clock.turn();
      [known, records] = [records, batch.records];
    }
    const ms = this.#waitUntil - clock.monotonicMs();
    if (batch.isFull || batch.records >= this.#awaited || ms <= 0) return;
    await new Promise<void>((resolve) => {
      this.#endWait = resolve;
      clock.setTimeout(resolve, ms);
    });
  }

  /** After a slow sync the next batch waits for all clients: at most twice the time in which they send again. */
  #planWait(records: number, syncMs: number): void {
    const clients = records + (this.#queue[0]?.records ?? 0);
    const returnMs = (clients / this.#arrivals) * (this.#lastArrivalAt - this.#syncedAt);
    // As long as those that are back needed. If longer than a sync, two batches in turn are faster.
    const isShort = this.#arrivals > 0 && returnMs < Math.min(syncMs, RETURN_MS_MAX);
    this.#awaited = isShort && syncMs >= SLOW_SYNC_MS ? clients : 0;
    [this.#syncedAt, this.#arrivals] = [clock.monotonicMs(), 0];
    this.#waitUntil = this.#syncedAt + 2 * returnMs + 1;
  }

  async #write(batch: Batch): Promise<void> {
    const { room, size, records } = batch;
    const bytes = room.subarray(0, size);
    const startedAt = clock.monotonicMs();
    let error: PlantStoreError | undefined;
    try {
      await this.#file.append(bytes);
    } catch (cause) {
      const isRefusal = cause instanceof PlantStoreError && cause.code === "write_failed";
      error = isRefusal ? this.#refuse(cause) : this.fail(cause);
    }
    this.queuedBytes -= bytes.length; // before any response: its client may append at once
    error = this.failure ?? error; // a check or a read may have failed the store meanwhile
    if (error !== undefined) return batch.fail(error);
    this.#refusedAt = undefined;
    const syncMs = clock.monotonicMs() - startedAt;
    this.#planWait(records, syncMs);
    const start = this.end.bytes;
    this.end = extendCheckpoint(this.end, bytes);
    batch.acknowledge(start);
    this.onDurable(bytes, start);
    const message = { log: this.#file.path, records, bytes: bytes.length, syncMs };
    batches.publish(message satisfies BatchMessage);
  }

  #refuse(cause: PlantStoreError): PlantStoreError {
    this.#refusedAt = clock.monotonicMs();
    if (this.#refusedAt - this.#warnedAt >= WARNING_REST_MS) {
      this.#warnedAt = this.#refusedAt;
      publishWarning(`${cause.message}; new plants are refused until there is room`);
    }
    const why = "the disk has no room; it was not stored: send the request again later";
    return new PlantStoreError("write_failed", `Cannot store it now: ${why}`, { cause });
  }

  /** Fails for good: rejects every queued append. Returns the first failure. */
  fail(cause: unknown): PlantStoreError {
    this.failure ??= new PlantStoreError(
      "store_failed",
      "Cannot use the store: it has stopped after a failure of its disk or data directory; " +
        "a create may or may not be stored: send the same request again",
      { cause },
    );
    const isUnsynced = (cause as PlantStoreError | undefined)?.code === "unsynced";
    if (isUnsynced) this.failure.cause = cause; // it decides the exit status
    for (const waiting of this.#queue.splice(0)) {
      this.queuedBytes -= waiting.size;
      waiting.fail(this.failure);
    }
    this.#endWait?.();
    this.#reportFailure(this.failure);
    return this.failure;
  }
}

const ROOM_BYTES = 16 * 1024; // at first; most batches need no more

/** The records of one write. They are encoded when they are added, so waiting creates hold no text. */
class Batch {
  /** Both settle `start`. */
  acknowledge!: (start: number) => void;
  fail!: (error: PlantStoreError) => void;
  /** The byte offset of the batch in the log, once it is on disk. */
  readonly start = new Promise<number>((resolve, reject) => {
    this.acknowledge = resolve;
    this.fail = reject;
  });
  records = 0;
  size = 0;
  isFull = false;
  room = Buffer.allocUnsafeSlow(ROOM_BYTES);

  /** Adds a record and its line feed, `bytes` in all; returns its offset in the batch. */
  add(record: string, bytes: number): number {
    const at = this.size;
    if (at + bytes > this.room.length) {
      const room = Buffer.allocUnsafeSlow(Math.max(at + bytes, 2 * this.room.length));
      this.room.copy(room, 0, 0, at);
      this.room = room;
    }
    this.room.write(record, at);
    this.size = at + bytes;
    this.isFull = this.size >= BATCH_BYTES_MAX;
    this.room[this.size - 1] = LINE_FEED;
    this.records++;
    return at;
  }
}
