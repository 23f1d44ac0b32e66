/**
 * Looks up single plants of an open store in its log, and judges what a read that failed means, also that of
 * a list.
 *
 * The lookups of one turn of the event loop are answered together: from memory, which keeps the newest
 * bytes that this process has appended, and the others by reads that are gathered while earlier ones are
 * under way.
 * Invariants. Only durable bytes are used; a line of the file is judged, because others may have written
 * there. A plant is given only in a turn in which the log was found
 * in its place and not cut, because a repeat acknowledges what is in the log, as an append does. A log
 * that is not what was written, or whose place cannot be looked at, fails the store; any other exception
 * fails one read. Knows no index: its caller knows where a plant is.
 */
import { clock } from "../clock.ts";
import { publishWarning } from "../core/channels.ts";
import { PlantStoreError } from "../core/errors.ts";
import { Gate } from "../core/gate.ts";
import { describeSystemError } from "../log/disk.ts";
import type { FilePiece, LogFile } from "../log/file.ts";
import { LINE_FEED, type ReadableFile, readLineAt } from "../log/lines.ts";
import type { LogWriter } from "../log/writer.ts";
import { copyRecord } from "./records.ts";

interface Lookup {
  readonly id: bigint;
  /** Of the record. */
  readonly offset: number;
  readonly resolve: (line: Buffer) => void;
  readonly reject: (cause: unknown) => void;
}

/** A longer line is read alone: thousands of lookups must not hold thousands of long plants. */
const SHORT_LINE_BYTES = 1024;
/** Lookups whose reads are gathered: they hold at most 1 MiB. */
const GATHERED_MAX = 1024;
const WARNING_REST_MS = 1000;

/** Long lines that are held at once, in all stores of the process. */
const longGate = new Gate(2);

export class PlantLookups {
  /** The log, for reads that take turns with all others. */
  readonly source: ReadableFile;
  /** Takes the lines of every batch that became durable. */
  readonly recent = new RecentBytes();
  readonly #file: LogFile;
  readonly #writer: LogWriter;
  /** For all lists of pieces: one for each would keep 15 MiB until the garbage collector frees it (measured). */
  readonly #gathered = Buffer.allocUnsafeSlow(GATHERED_MAX * SHORT_LINE_BYTES);
  /** In this turn of the event loop. */
  #asked: Lookup[] = [];
  /** Of plants that are not in memory. */
  #older: Lookup[] = [];
  #isReading = false;
  #warnedAt = Number.NEGATIVE_INFINITY;

  constructor(file: LogFile, writer: LogWriter) {
    this.#file = file;
    this.#writer = writer;
    this.source = {
      path: file.path,
      read: async (buffer, position) => {
        const got = await file.readForRequest(buffer, position);
        this.#assertInPlace(); // a log that was replaced has other plants
        return got;
      },
    };
  }

  /**
   * A copy of the line of a plant with an id at its byte offset, in the usual form and without its
   * line feed. Close the file only after the result has settled.
   *
   * @throws PlantStoreError as `judge` returns it.
   */
  read(id: bigint, offset: number): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      if (this.#asked.length === 0) clock.setImmediate(() => this.#answerTurn());
      this.#asked.push({ id, offset, resolve, reject });
    });
  }

  #answerTurn(): void {
    const lookups = this.#asked;
    this.#asked = [];
    try {
      this.#assertInPlace();
      for (const lookup of lookups) {
        const line = this.recent.lineAt(lookup.offset);
        if (line === undefined) this.#older.push(lookup);
        else lookup.resolve(Buffer.from(line));
      }
    } catch (cause) {
      this.#reject(lookups, cause);
    }
    if (this.#older.length > 0 && !this.#isReading) void this.#readOlder();
  }

  async #readOlder(): Promise<void> {
    this.#isReading = true;
    while (this.#older.length > 0) {
      const lookups = this.#older.splice(0, GATHERED_MAX);
      await this.#gather(lookups).catch((cause) => this.#reject(lookups, cause));
    }
    this.#isReading = false;
  }

  async #gather(lookups: Lookup[]): Promise<void> {
    lookups.sort((a, b) => a.offset - b.offset);
    const end = this.#writer.durableBytes;
    const { pieces, starts } = layOut(lookups, end);
    await this.#file.readPieces(this.#gathered, pieces);
    // Nothing is awaited from here on: the next list is read into the same buffer.
    this.#assertInPlace();
    for (const [at, lookup] of lookups.entries()) {
      // A line that could not be read is read again, alone: only its own fault counts.
      const line = shortLine(this.#gathered, starts[at] as number, end - lookup.offset);
      if (line !== undefined) this.#give(lookup, line);
      else this.#readAlone(lookup).catch((cause) => this.#reject([lookup], cause));
    }
  }

  #readAlone(lookup: Lookup): Promise<void> {
    return longGate.pass(async () => {
      const line = await readLineAt(this.source, lookup.offset, this.#writer.durableBytes);
      this.#give(lookup, line);
    });
  }

  /** Judges a line of the file, and gives a copy of it. */
  #give({ id, offset, resolve }: Lookup, line: Buffer): void {
    resolve(copyRecord(line, id, this.#file.path, { offset }));
  }

  #reject(lookups: readonly Lookup[], cause: unknown): void {
    const failure = this.judge(cause);
    for (const { reject } of lookups) reject(failure);
  }

  /**
   * Judges what a read threw. The store fails for good if the log is not what was written: it is not in
   * its place, it is shorter, or the bytes are not the record. Anything else, such as EIO of one sector
   * or a lack of memory, may be over at the next read; it is reported at most once a second.
   *
   * @returns `store_failed` or `read_failed`.
   */
  judge(cause: unknown): PlantStoreError {
    const failure = this.#writer.findFailure();
    if (failure !== undefined) return failure;
    if (cause instanceof PlantStoreError && cause.code === "corruption") {
      return this.#writer.fail(cause);
    }
    const now = clock.steadyMs();
    if (now - this.#warnedAt >= WARNING_REST_MS) {
      this.#warnedAt = now;
      const why = describeSystemError(cause instanceof PlantStoreError ? cause.cause : cause);
      publishWarning(
        `A read of "${this.#file.path}" failed, so its requests are answered 503: ${why}; ` +
          "check the disk and the memory",
      );
    }
    return new PlantStoreError(
      "read_failed",
      "Cannot read the plant or the page now; the reason is in the server's log: send the request again later",
      { cause },
    );
  }

  /** Fails the store, and throws, if the log is not in its place or was cut. */
  #assertInPlace(): void {
    const failure = this.#writer.findFailure();
    if (failure !== undefined) throw failure;
  }
}

/** Where in one buffer to read the lines of lookups, in the order of the log. Close ones share a piece. */
function layOut(lookups: readonly Lookup[], end: number) {
  const pieces: FilePiece[] = [];
  const starts: number[] = [];
  let piece = { start: 0, bytes: 0, position: Number.NEGATIVE_INFINITY };
  for (const { offset } of lookups) {
    if (offset > piece.position + piece.bytes) {
      piece = { start: piece.start + piece.bytes, bytes: 0, position: offset };
      pieces.push(piece);
    }
    starts.push(piece.start + offset - piece.position);
    piece.bytes = Math.min(offset + SHORT_LINE_BYTES, end) - piece.position;
  }
  return { pieces, starts };
}

/** The line at the start of some bytes, without its line feed; `undefined` if it is long. */
function shortLine(bytes: Buffer, start: number, bytesMax: number): Buffer | undefined {
  const line = bytes.subarray(start, start + Math.min(bytesMax, SHORT_LINE_BYTES));
  const end = line.indexOf(LINE_FEED);
  return end < 0 ? undefined : line.subarray(0, end);
}

const CHUNK_BYTES = 4 * 1024 * 1024;

/** The newest bytes of a log: a chunk that is being filled, and the one before. */
class RecentBytes {
  #newer = newChunk();
  #older = newChunk();

  /**
   * @param lines whole ones in the usual form, which follow the last ones.
   * @param end where the log ends with them.
   */
  add(lines: Buffer, end: number): void {
    const offset = end - lines.length;
    let chunk = this.#newer;
    if (chunk.end !== offset || end - chunk.start > CHUNK_BYTES) {
      [this.#newer, this.#older] = [this.#older, chunk];
      chunk = this.#newer;
      chunk.start = chunk.end = offset;
      if (lines.length > CHUNK_BYTES) return;
    }
    lines.copy(chunk.bytes, offset - chunk.start);
    chunk.end = end;
  }

  /** The line at an offset, without its line feed, valid until bytes are added; `undefined` if it is not here, or long. */
  lineAt(offset: number): Buffer | undefined {
    for (const { bytes, start, end } of [this.#newer, this.#older]) {
      if (offset >= start && offset < end) return shortLine(bytes, offset - start, end - offset);
    }
    return undefined;
  }
}

/** Memory that is not written to yet takes no room. */
function newChunk(): { readonly bytes: Buffer; start: number; end: number } {
  return { bytes: Buffer.allocUnsafeSlow(CHUNK_BYTES), start: 0, end: 0 };
}
