/**
 * The lines of a block as plants: which lines are plants and with which ids, and the ranges of
 * lines that are passed on as they are.
 *
 * Nearly every line has the form in which the store writes it and is recognised in place, without
 * an object or a string of its own. Every other line goes to a visitor, which judges it by the
 * general parser (core/plant). A line that is recognised here is a plant by that parser too.
 */
import { isUtf8 } from "node:buffer";
import { PlantStoreError } from "../core/errors.ts";
import { EncodedPlantFinder } from "../core/plain-plant.ts";
import { type NewPlant, parseNewPlant } from "../core/plant.ts";
import { LINE_FEED } from "../log/format.ts";
import {
  type LineBlock,
  type LinePlace,
  type LineVisitor,
  lineError,
  visitLines,
} from "../log/reader.ts";

/**
 * Receives a line that is a plant: the offsets in the block of its start and of its line feed, its
 * line number, and the two signed words of its id. If it returns false, the visitor gets the line.
 */
export type PlantTaker = (
  start: number,
  end: number,
  line: number,
  idLow: number,
  idHigh: number,
) => boolean;

/** Passes each line of a block, in order, to `take` or to `visit`. */
export function checkLines(block: LineBlock, take: PlantTaker, visit: LineVisitor): void {
  const { bytes } = block;
  const finder = new EncodedPlantFinder(bytes);
  const takeLine = (start: number, line: number) => {
    const end = finder.find(start);
    if (end < 0 || bytes[end] !== LINE_FEED) return -1;
    return take(start, end, line, finder.idLow, finder.idHigh) ? end : -1;
  };
  // One check covers all lines, because no multi-byte character contains a line feed. If it fails,
  // the visitor finds the line with the invalid bytes.
  visitLines(block, visit, isUtf8(bytes) ? takeLine : undefined);
}

/** Selected lines of a block. Lines that follow each other are joined without a copy. */
export class LineRuns {
  readonly #bytes: Buffer;
  readonly #pieces: Buffer[] = [];
  #start = 0;
  #end = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  /** Appends the bytes between two offsets of the block. */
  add(start: number, end: number): void {
    if (start !== this.#end) {
      this.#finish();
      this.#start = start;
    }
    this.#end = end;
  }

  /** Appends a line that is not in the block in this form. */
  insert(line: string): void {
    this.#finish();
    this.#pieces.push(Buffer.from(line));
  }

  /** Returns all lines that were appended. */
  join(): Buffer {
    this.#finish();
    const [first] = this.#pieces;
    return first !== undefined && this.#pieces.length === 1 ? first : Buffer.concat(this.#pieces);
  }

  #finish(): void {
    if (this.#end > this.#start) this.#pieces.push(this.#bytes.subarray(this.#start, this.#end));
    this.#start = this.#end;
  }
}

/** @throws PlantStoreError `corruption` if the line is no plant; it names path and place. */
export function decodeRecord(line: Buffer, path: string, place: LinePlace): NewPlant {
  try {
    return parseNewPlant(line);
  } catch (cause) {
    if (!(cause instanceof PlantStoreError)) throw cause;
    throw lineError(path, place, cause.message, cause);
  }
}

/** Whether these bytes are a whole record. */
export function isRecord(bytes: Buffer): boolean {
  try {
    parseNewPlant(bytes);
    return true;
  } catch {
    return false;
  }
}
