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
import { BLOCK_BYTES, LINE_FEED, lineError, readBlocks, readExactly } from "../log/lines.ts";
import { BATCH_BYTES_MAX } from "../log/writer.ts";
import type { IdIndex } from "./id-index.ts";

/** Receives how many bytes were read, and of how many, about once a MiB; an error it throws ends the work. */
export type OnProgress = (bytes: number, total: number) => void;

export interface ReadableLog {
  readonly file: LogFile;
  /** How much of it the process that writes it reports durable: whole lines. Absent if no process writes it. */
  readonly durableBytes?: number;
  /** As it was before the log was opened, which only grows. Without it nothing is known. */
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
  readonly #index: Pick<IdIndex, "addWords"> | undefined;

  /** @param index takes the ids, and finds repeated ones; without it repeats go unnoticed. */
  constructor(index?: Pick<IdIndex, "addWords">) {
    this.#index = index;
  }

  /** Yields the lines in blocks; with an index each replaces the one before. @throws `corruption`; `io_error`. */
  async *lines(log: ReadableLog, onProgress?: OnProgress): AsyncGenerator<Buffer> {
    const { file, durableBytes, checkpoint = EMPTY_LOG } = log;
    const isShared = this.#index !== undefined;
    const size = durableBytes ?? file.end;
    const changed = `its ${size} bytes are not those that were stored`;
    let isAsKnown = checkpoint.bytes === 0 && checkpoint.crc32 === 0;
    let problem: string | undefined; // of the first line that is not good
    for await (const { bytes, offset } of readBlocks(file, 0, size, BLOCK_BYTES, isShared)) {
      const length = readPlants(bytes, ({ idLow, idHigh }, start) => {
        const at = offset + start;
        const present = this.#index?.addWords(idLow, idHigh, at) ?? at; // an IdLoader finds no repeats: openLog counts
        if (present === at) this.plants++;
        else problem = `its id is already at byte offset ${present}`;
        return present === at;
      });
      const lines = bytes.subarray(0, length);
      const knownHere = checkpoint.bytes - offset;
      if (knownHere > 0 && knownHere <= length) {
        const { crc32 } = extendCheckpoint(this.end, lines.subarray(0, knownHere));
        isAsKnown = crc32 === checkpoint.crc32;
        if (!isAsKnown) throw changedError(file.path, changed, checkpoint);
      }
      this.end = extendCheckpoint(this.end, lines);
      if (length > 0) yield lines;
      if (length < bytes.length) {
        problem ??= "expected a plant as the store writes it";
        break;
      }
      onProgress?.(this.end.bytes, size);
    }
    if (!isAsKnown && problem === undefined) throw changedError(file.path, changed, checkpoint);
    const offset = this.end.bytes;
    if (offset === size) return;
    const isHeld = durableBytes !== undefined;
    const mayBeTorn = !isHeld && isAsKnown && size - offset <= IN_FLIGHT_BYTES_MAX;
    const rest = mayBeTorn
      ? await readExactly(file, offset, Buffer.allocUnsafe(size - offset))
      : undefined;
    if (rest === undefined || !isTorn(rest)) {
      const fault = `${problem ?? "it has no line feed"}; ${ADVICE}`;
      throw lineError(file.path, { line: this.plants + 1, offset }, fault);
    }
    this.tail = rest;
  }
}

const ADVICE = 'restore a backup, or let "plant-store repair" save what can be read';

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
 * Calls a function with each line at the start of a block that is a plant in the form of the store, and with the
 * offset of the line, until it returns false.
 *
 * @returns the length of those lines, without the one for which it returned false.
 */
export function readPlants(
  block: Buffer,
  visit: (plant: PlantMatcher, start: number) => boolean = () => true,
): number {
  const plant = new PlantMatcher(block);
  const isText = isUtf8(block); // no character of several bytes contains a line feed
  for (let start = 0; ; ) {
    const end = plant.match(start);
    if (end < 0 || block[end] !== LINE_FEED) return start;
    if (!isText && !isUtf8(block.subarray(start, end))) return start;
    if (!visit(plant, start)) return start;
    start = end + 1;
  }
}

/** The plant that a line is in the form of the store; `undefined` for any other line. */
export function matchPlant(line: Buffer): PlantMatcher | undefined {
  const plant = new PlantMatcher(line);
  return plant.match(0) === line.length && isUtf8(line) ? plant : undefined;
}
