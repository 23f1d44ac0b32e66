/**
 * Reads single plants of an open store.
 *
 * The lookups of one turn of the event loop are answered together: from memory, which keeps the newest
 * bytes of the log, and the others by reads that are gathered while earlier ones are under way.
 * Invariants. Only durable bytes are used. A plant is given only in a turn in which the log was found
 * in its place and not cut, because a repeat acknowledges what is in the log, as an append does.
 */
import { Gate } from "../core/gate.ts";
import { type NewPlant, parseNewPlant } from "../core/plant.ts";
import type { FilePiece, LogFile } from "../log/file.ts";
import { LINE_FEED } from "../log/format.ts";
import { type ReadableFile, readLineAt } from "../log/reader.ts";
import { describeSystemError } from "../log/system-error.ts";
import type { LogWriter } from "../log/writer.ts";

interface Lookup {
  readonly id: bigint;
  /** Of its record. */
  readonly offset: number;
  readonly resolve: (plant: NewPlant) => void;
  readonly reject: (cause: unknown) => void;
}

/** A longer line is read alone: thousands of lookups must not hold thousands of long plants. */
const SHORT_LINE_BYTES = 1024;
/** Lookups whose reads are gathered: they hold at most 1 MiB. */
const GATHERED_MAX = 1024;

/** Long lines that are held at once, in all stores of the process. */
const longGate = new Gate(8);

export class PlantReader {
  /** The log, for reads that take turns with all others. */
  readonly source: ReadableFile;
  readonly #file: LogFile;
  readonly #writer: LogWriter;
  readonly #recent = new RecentBytes();
  /** For all lists of pieces: one for each would keep 15 MiB until the garbage collector frees it (measured). */
  readonly #gathered = Buffer.allocUnsafeSlow(GATHERED_MAX * SHORT_LINE_BYTES);
  /** In this turn of the event loop. */
  #asked: Lookup[] = [];
  /** Of plants that are not in memory. */
  #older: Lookup[] = [];
  #isReading = false;

  constructor(file: LogFile, writer: LogWriter) {
    this.#file = file;
    this.#writer = writer;
    this.source = {
      path: file.path,
      read: (buffer, position) => file.readForRequest(buffer, position),
    };
  }

  /** Takes note of bytes that became durable: whole lines, which end where the log ends now. */
  noteDurable(end: number, lines: Buffer): void {
    this.#recent.add(end - lines.length, lines);
  }

  /**
   * The plant with an id at its byte offset. Close the file only after the result has settled.
   *
   * @throws Error if it is not there any more: the file was changed.
   */
  read(id: bigint, offset: number): Promise<NewPlant> {
    return new Promise((resolve, reject) => {
      if (this.#asked.length === 0) setImmediate(() => this.#answerTurn());
      this.#asked.push({ id, offset, resolve, reject });
    });
  }

  #answerTurn(): void {
    const lookups = this.#asked;
    this.#asked = [];
    void settle(lookups, () => {
      this.#assertInPlace();
      for (const lookup of lookups) {
        const line = this.#recent.lineAt(lookup.offset);
        if (line === undefined) this.#older.push(lookup);
        else this.#give(lookup, line);
      }
    });
    if (!this.#isReading) void this.#readOlder();
  }

  async #readOlder(): Promise<void> {
    this.#isReading = true;
    while (this.#older.length > 0) {
      const lookups = this.#older.splice(0, GATHERED_MAX);
      await settle(lookups, () => this.#gather(lookups));
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
      if (line === undefined) void settle([lookup], () => this.#readAlone(lookup));
      else this.#give(lookup, line);
    }
  }

  #readAlone(lookup: Lookup): Promise<void> {
    return longGate.pass(async () => {
      const line = await readLineAt(this.source, lookup.offset, this.#writer.durableBytes);
      this.#assertInPlace();
      this.#give(lookup, line);
    });
  }

  #assertInPlace(): void {
    const { failure, durableBytes } = this.#writer;
    if (failure !== undefined) throw failure;
    const displacement = this.#file.displacement(durableBytes, Number.POSITIVE_INFINITY);
    if (displacement !== undefined) throw new Error(`"${this.#file.path}" ${displacement}`);
  }

  #give({ id, offset, resolve }: Lookup, line: Buffer): void {
    try {
      const plant = parseNewPlant(line);
      if (plant.id !== id) throw new Error(`the record has the id ${plant.id}, not ${id}`);
      resolve(plant);
    } catch (cause) {
      const why = describeSystemError(cause);
      const fault = `no longer holds the plant stored at byte offset ${offset}: ${why}`;
      throw new Error(`"${this.#file.path}" ${fault}`, { cause });
    }
  }
}

/** Rejects the lookups with what their work throws. */
async function settle(lookups: readonly Lookup[], work: () => unknown): Promise<void> {
  try {
    await work();
  } catch (cause) {
    for (const { reject } of lookups) reject(cause);
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
  const end = bytes.indexOf(LINE_FEED, start);
  const isShort = end >= 0 && end - start < Math.min(bytesMax, SHORT_LINE_BYTES);
  return isShort ? bytes.subarray(start, end) : undefined;
}

const CHUNK_BYTES = 4 * 1024 * 1024;

/** The newest bytes of a log: a chunk that is being filled, and the one before. */
class RecentBytes {
  #newer = newChunk();
  #older = newChunk();

  /** @param offset in the log of these bytes, which follow the last ones. */
  add(offset: number, bytes: Buffer): void {
    let chunk = this.#newer;
    if (chunk.end !== offset || chunk.end - chunk.start + bytes.length > CHUNK_BYTES) {
      [this.#newer, this.#older] = [this.#older, chunk];
      chunk = this.#newer;
      chunk.start = chunk.end = offset;
      if (bytes.length > CHUNK_BYTES) return;
    }
    bytes.copy(chunk.bytes, offset - chunk.start);
    chunk.end += bytes.length;
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
