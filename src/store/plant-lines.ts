/**
 * The lines of a block as plants: which lines are plants and with which ids, and the lines that are
 * passed on as they are.
 *
 * Nearly every line has the form in which the store writes it and is recognised in place, without
 * an object or a string of its own. Every other line goes to a visitor, which judges it by the
 * general parser (core/plant). A line that is recognised here is a plant by that parser, too.
 */
import { isUtf8 } from "node:buffer";
import { EncodedPlantFinder } from "../core/encoded-plant.ts";
import { PlantStoreError } from "../core/errors.ts";
import { encodeNewPlant, type NewPlant, parseNewPlant } from "../core/plant.ts";
import { RECORD_BYTES_MAX } from "../core/record-size.ts";
import { LINE_FEED, type LinePosition } from "../log/format.ts";
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

/** Passes each line of a block, in order, to `take` if it is recognised, else to `visit`. */
export function takePlants(block: LineBlock, take: PlantTaker, visit: LineVisitor): void {
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
  readonly #block: LineBlock;
  readonly #pieces: Buffer[] = [];
  #start = 0;
  #end = 0;

  constructor(block: LineBlock) {
    this.#block = block;
  }

  /** Appends the bytes between two offsets of the block. */
  add(start: number, end: number): void {
    if (start !== this.#end) {
      this.#finish();
      this.#start = start;
    }
    this.#end = end;
  }

  /** Appends a line of the block, given without its line feed. */
  addLine(line: Buffer, { offset }: LinePosition): void {
    const start = offset - this.#block.offset;
    this.add(start, start + line.length + 1);
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
    const { bytes } = this.#block;
    if (this.#end > this.#start) this.#pieces.push(bytes.subarray(this.#start, this.#end));
    this.#start = this.#end;
  }
}

/**
 * Appends those lines of a block to `lines` that belong to a list: as they are, or in the canonical form
 * if they have another one.
 *
 * @param isListed whether a plant belongs to the list, by the two words of its id and its offset;
 * `undefined` leaves it to `judge`.
 * @param judge decides about every plant that `isListed` leaves to it, or that has another form.
 * @throws PlantStoreError `corruption` if a line is no plant; the lines before it are appended.
 */
export function appendListed(
  lines: LineRuns,
  block: LineBlock,
  path: string,
  isListed: (idLow: number, idHigh: number, offset: number) => boolean | undefined,
  judge: (plant: NewPlant, position: LinePosition) => boolean,
): void {
  const take: PlantTaker = (start, end, _line, idLow, idHigh) => {
    const isOne = isListed(idLow, idHigh, block.offset + start);
    if (isOne === true) lines.add(start, end + 1);
    return isOne !== undefined;
  };
  takePlants(block, take, (line, position) => {
    const plant = decodeRecord(line, path, position);
    if (judge(plant, position)) lines.insert(`${encodeNewPlant(plant)}\n`);
  });
}

/** The plant of a line, or the error that says what is wrong with it. */
export function parseLine(line: Buffer): NewPlant | PlantStoreError {
  if (line.length >= RECORD_BYTES_MAX) {
    // A hole that a disk left: as text it may not fit into memory.
    const message = `expected fewer than ${RECORD_BYTES_MAX} bytes, got ${line.length}`;
    return new PlantStoreError("invalid_plant", message);
  }
  try {
    return parseNewPlant(line);
  } catch (error) {
    if (error instanceof PlantStoreError) return error;
    throw error;
  }
}

/** @throws PlantStoreError `corruption`, which names path and place, if the line is no plant. */
export function decodeRecord(line: Buffer, path: string, place: LinePlace): NewPlant {
  const plant = parseLine(line);
  if (plant instanceof PlantStoreError) throw lineError(path, place, plant.message, plant);
  return plant;
}

/**
 * A copy of the line of a plant, in the canonical form and without its line feed.
 *
 * @throws PlantStoreError `corruption`, which names path and place, if the line is no plant, or another one.
 */
export function copyRecord(line: Buffer, id: bigint, path: string, place: LinePlace): Buffer {
  const finder = new EncodedPlantFinder(line);
  const isKnown = isUtf8(line) && finder.find(0) === line.length && finder.hasId(id);
  if (isKnown) return Buffer.from(line);
  const plant = decodeRecord(line, path, place);
  if (plant.id !== id) throw lineError(path, place, `expected id ${id}, got ${plant.id}`);
  return Buffer.from(encodeNewPlant(plant));
}

/** Whether these bytes are a whole record. */
export function isRecord(bytes: Buffer): boolean {
  return !(parseLine(bytes) instanceof PlantStoreError);
}
