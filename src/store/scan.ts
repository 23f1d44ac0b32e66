/**
 * Reads a log as far as it can be trusted: for a start, and for every command that checks, copies or prints a log.
 *
 * Invariants. A line is good if it has the form in which the store writes a plant, and its id is not in the log
 * before. A log is sound if it begins with the bytes that its checkpoint knows, and nothing follows its good lines but
 * what an unfinished write has left. Everything else is for `repair`, or comes in by `import`.
 */
import { isUtf8 } from "node:buffer";
import { PlantStoreError } from "../core/errors.ts";
import { RECORD_BYTES_MAX } from "../core/options.ts";
import { PlantMatcher } from "../core/plant-matcher.ts";
import { type Checkpoint, EMPTY_LOG, extendCheckpoint } from "../log/checkpoint.ts";
import type { LogFile } from "../log/file.ts";
import { LINE_FEED, lineError, readBlocks, readExactly } from "../log/lines.ts";
import { BATCH_BYTES_MAX } from "../log/writer.ts";
import type { IdIndex } from "./id-index.ts";

/** Receives how many bytes were read, and of how many, about once a MiB; an error it throws ends the work. */
export type OnProgress = (bytes: number, total: number) => void;

export interface ReadableLog {
  readonly file: LogFile;
  /** What the process that writes it knows to be durable: no line of that is torn. Missing: there is no such process. */
  readonly durableBytes?: number;
  /** As it was before the log was opened, which only grows. Missing: nothing is known. */
  readonly checkpoint?: Checkpoint | undefined;
}

/** What one batch can hold. */
const IN_FLIGHT_BYTES_MAX = BATCH_BYTES_MAX + RECORD_BYTES_MAX;

/** One pass over a log. @internal */
export class Scan {
  /** How many good lines were read. */
  plants = 0;
  /** Their length and checksum. */
  end: Checkpoint = EMPTY_LOG;
  /** What an unfinished write has left after them, once all are read. */
  tail: Buffer | undefined;
  /** Why the next line is not good, once that is known. */
  #problem: string | undefined;
  readonly #index: Pick<IdIndex, "addWords"> | undefined;

  /** @param index takes the ids, and finds repeated ones; without it repeats go unnoticed. */
  constructor(index?: Pick<IdIndex, "addWords">) {
    this.#index = index;
  }

  /** Reads the log, and yields its lines in blocks. @throws PlantStoreError `corruption`; `io_error`. */
  async *lines(log: ReadableLog, onProgress?: OnProgress): AsyncGenerator<Buffer> {
    const { file, durableBytes, checkpoint = EMPTY_LOG } = log;
    const size = durableBytes ?? file.end;
    for await (const { bytes, offset } of readBlocks(file, 0, size)) {
      const lines = bytes.subarray(0, this.#readGood(bytes, offset));
      const known = checkpoint.bytes - offset;
      if (known >= 0 && known <= lines.length) {
        const { crc32 } = extendCheckpoint(this.end, lines.subarray(0, known));
        if (crc32 !== checkpoint.crc32) throw changedError(file.path, size, checkpoint);
      }
      this.end = extendCheckpoint(this.end, lines);
      if (lines.length > 0) yield lines;
      if (this.#problem !== undefined) break;
      onProgress?.(this.end.bytes, size);
    }
    const offset = this.end.bytes;
    const isShort = offset < checkpoint.bytes;
    if (isShort && this.#problem === undefined) throw changedError(file.path, size, checkpoint);
    if (offset === size) return;
    const mayBeTorn =
      durableBytes === undefined && !isShort && size - offset <= IN_FLIGHT_BYTES_MAX;
    const rest = mayBeTorn ? await readExactly(file, offset, size - offset) : undefined;
    if (rest === undefined || !isTorn(rest)) {
      const fault = `${this.#problem ?? "it has no line feed"}; ${ADVICE}`;
      throw lineError(file.path, { line: this.plants + 1, offset }, fault);
    }
    this.tail = rest;
  }

  /** The length of the good lines that a block begins with; their ids come into the index. */
  #readGood(block: Buffer, offset: number): number {
    let length = 0;
    eachLine(block, (start, end, plant) => {
      const at = offset + start;
      const present = plant && this.#index?.addWords(plant.idLow, plant.idHigh, at);
      if (plant === undefined) this.#problem = "expected a plant as the store writes it";
      else if (present !== undefined && present !== at) {
        this.#problem = `its id is already at byte offset ${present}`;
      } else {
        this.plants++;
        length = end + 1;
      }
      return this.#problem === undefined;
    });
    return length;
  }
}

const ADVICE = 'restore a backup, or let "plant-store repair" save what can be read';

/** A `corruption`: the log is not the one that its checkpoint knows. `size`: its length; missing: there is none. */
export function changedError(
  logPath: string,
  size: number | undefined,
  known: Checkpoint,
): PlantStoreError {
  const isShorter = size !== undefined && size < known.bytes;
  const changed = isShorter ? `it has ${size} bytes` : "its bytes are not those that were stored";
  const fault = size === undefined ? "it is missing" : changed;
  const why = `${fault}; its checkpoint knows ${known.bytes} bytes`;
  return new PlantStoreError("corruption", `Cannot open "${logPath}": ${why}; ${ADVICE}`);
}

/** Whether these bytes may be an unfinished append: the first line has no end, or a power cut left zeros in it. */
function isTorn(rest: Buffer): boolean {
  const firstLine = rest.indexOf(LINE_FEED);
  // JSON holds no NUL, so lost pages show in the line in which they begin.
  return firstLine < 0 || rest.subarray(0, firstLine).includes(0);
}

/**
 * Calls a function with each line of a block, until it returns false.
 *
 * @param visit gets the offset of the line, that of its line feed (-1 if there is none), and what has matched it:
 * `undefined` unless it is a plant in the form of the store.
 * @internal
 */
export function eachLine(
  block: Buffer,
  visit: (start: number, end: number, plant: PlantMatcher | undefined) => boolean,
): void {
  const plant = new PlantMatcher(block);
  const isText = isUtf8(block); // no character of several bytes contains a line feed
  for (let start = 0; start < block.length; ) {
    let end = plant.match(start);
    const isPlant = end >= 0 && block[end] === LINE_FEED;
    if (!isPlant) end = block.indexOf(LINE_FEED, start);
    const isGood = isPlant && (isText || isUtf8(block.subarray(start, end)));
    if (!visit(start, end, isGood ? plant : undefined)) return;
    start = end + 1;
  }
}

/** Whether a line is the plant with this id in the form of the store. */
export function isPlantLine(line: Buffer, id: bigint): boolean {
  const plant = new PlantMatcher(line);
  return plant.match(0) === line.length && plant.id === id && isUtf8(line);
}
