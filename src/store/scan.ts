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
  /** How much may be read: what the process that writes it knows to be durable, else all. */
  readonly size: number;
  /** Whether such a process lives: then no line below `size` is torn. */
  readonly isHeld: boolean;
  /** The checkpoint, read before the log, which only grows. */
  readonly checkpoint: Checkpoint;
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
  readonly #log: ReadableLog;
  readonly #index: Pick<IdIndex, "addWords"> | undefined;

  /** @param index takes the ids, and finds repeated ones; without it repeats go unnoticed. */
  constructor(log: ReadableLog, index?: Pick<IdIndex, "addWords">) {
    this.#log = log;
    this.#index = index;
  }

  /** Reads the log, and yields its lines in blocks. @throws PlantStoreError `corruption`; `io_error`. */
  async *lines(onProgress?: OnProgress): AsyncGenerator<Buffer> {
    const { file, size, isHeld, checkpoint } = this.#log;
    yield* this.#goodLines(Math.min(checkpoint.bytes, size), onProgress);
    const found = this.end.bytes;
    const isAsKnown = found === checkpoint.bytes && this.end.crc32 === checkpoint.crc32;
    if (this.#problem === undefined && !isAsKnown) {
      const isShorter = size < checkpoint.bytes;
      const what = isShorter ? `it has ${size} bytes` : "its bytes are not those that were stored";
      throw changedError(file.path, what, checkpoint);
    }
    yield* this.#goodLines(size, onProgress);
    const start = this.end.bytes;
    if (start === size) return;
    const mayBeTorn = !isHeld && isAsKnown && size - start <= IN_FLIGHT_BYTES_MAX;
    const rest = mayBeTorn ? await readExactly(file, start, size - start) : undefined;
    if (rest !== undefined && isTorn(rest)) {
      this.tail = rest;
      return;
    }
    const place = { line: this.plants + 1, offset: start };
    throw lineError(file.path, place, `${this.#problem ?? "it has no line feed"}; ${ADVICE}`);
  }

  /** The same, for callers that do not need the lines. */
  async toEnd(onProgress?: OnProgress): Promise<void> {
    for await (const _ of this.lines(onProgress));
  }

  async *#goodLines(end: number, onProgress: OnProgress | undefined): AsyncGenerator<Buffer> {
    if (this.#problem !== undefined) return;
    for await (const { bytes, offset } of readBlocks(this.#log.file, this.end.bytes, end)) {
      let length = 0;
      eachLine(bytes, (start, lineEnd, plant) => {
        this.#problem = problemOf(plant, offset + start, this.#index);
        if (this.#problem !== undefined) return false;
        this.plants++;
        length = lineEnd + 1;
        return true;
      });
      const lines = bytes.subarray(0, length);
      this.end = extendCheckpoint(this.end, lines);
      if (length > 0) yield lines;
      if (this.#problem !== undefined) return;
      onProgress?.(this.end.bytes, this.#log.size);
    }
  }
}

/** Why a line is not good; `undefined` for a good one, whose id comes into the index. @internal */
export function problemOf(
  plant: PlantMatcher | undefined,
  offset: number,
  index: Pick<IdIndex, "addWords"> | undefined,
): string | undefined {
  if (plant === undefined) return "expected a plant as the store writes it";
  const present = index?.addWords(plant.idLow, plant.idHigh, offset);
  return present === undefined || present === offset ? undefined : repeatProblem(present);
}

const ADVICE = 'restore a backup, or let "plant-store repair" save what can be read';

export function repeatProblem(offset: number): string {
  return `its id is already at byte offset ${offset}`;
}

/** A `corruption`: the log is not the one that its checkpoint knows. */
export function changedError(logPath: string, fault: string, known: Checkpoint): PlantStoreError {
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
