/**
 * The records of a log as plants: which lines are plants and with which ids, and which of them a list has.
 *
 * Nearly every line has the form in which the store writes it and is recognised in place, without
 * an object or a string of its own. Every other line is judged by the general parser (core/plant).
 *
 * Invariants. A line that is recognised in place is a plant by the general parser, too. A list of an open
 * store has the plants in the index, in the order of the log, so a plant that was duplicated by hand comes
 * once; it reads blocks so small that a slow client holds little memory, and a fast one does not block the
 * event loop. Knows neither directories nor locks: its caller decides how far a log is read.
 */
import { isUtf8 } from "node:buffer";
import { PlantStoreError } from "../core/errors.ts";
import { RECORD_BYTES_MAX } from "../core/options.ts";
import { EncodedPlantFinder, encodeNewPlant, type NewPlant, parseNewPlant } from "../core/plant.ts";
import {
  LINE_FEED,
  type LineBlock,
  type LinePlace,
  type LinePosition,
  type LineVisitor,
  lineError,
  type ReadableFile,
  readLinesAt,
  visitLines,
} from "../log/lines.ts";
import type { IdIndex } from "./id-index.ts";

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

/**
 * Yields once: the lines of a block that a list has. Those that are listed as they are, and follow each
 * other, are passed on without a copy. The lines before a damaged one are valid, so they are yielded before
 * the fault is thrown.
 *
 * @param isListed whether a plant in the usual form is listed, by the two words of its id and its offset;
 * `undefined` leaves it to `choose`.
 * @param choose what to list for any other plant, without a line feed; `undefined`: nothing.
 * @throws PlantStoreError `corruption` if a line is no plant.
 */
export function* selectLines(
  block: LineBlock,
  path: string,
  isListed: (idLow: number, idHigh: number, offset: number) => boolean | undefined,
  choose: (plant: NewPlant, line: Buffer, position: LinePosition) => string | Buffer | undefined,
): Generator<Buffer> {
  const { bytes, offset } = block;
  const pieces: Buffer[] = [];
  let runStart = 0;
  let runEnd = 0;
  const endRun = () => {
    if (runEnd > runStart) pieces.push(bytes.subarray(runStart, runEnd));
    runStart = runEnd;
  };
  const take: PlantTaker = (start, end, _line, idLow, idHigh) => {
    const isOne = isListed(idLow, idHigh, offset + start);
    if (isOne === true) {
      if (start !== runEnd) {
        endRun();
        runStart = start;
      }
      runEnd = end + 1;
    }
    return isOne !== undefined;
  };
  try {
    takePlants(block, take, (line, position) => {
      const chosen = choose(decodeRecord(line, path, position), line, position);
      if (chosen === undefined) return;
      endRun();
      pieces.push(Buffer.from(`${chosen}\n`));
    });
  } finally {
    endRun();
    const [first] = pieces;
    yield first !== undefined && pieces.length === 1 ? first : Buffer.concat(pieces);
  }
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
function decodeRecord(line: Buffer, path: string, place: LinePlace): NewPlant {
  const plant = parseLine(line);
  if (plant instanceof PlantStoreError) throw lineError(path, place, plant.message, plant);
  return plant;
}

/**
 * A copy of the line of a plant, in the usual form and without its line feed.
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

/** Half a millisecond of work; most pages need no more. */
const LIST_BLOCK_BYTES = 32 * 1024;

/** Where in a log to read. */
interface ListRange {
  /** A plant's byte offset, or 0. */
  readonly start: number;
  /** The durable length. */
  readonly end: number;
  /** The plant at `start`, which is left out. */
  readonly after: bigint | undefined;
}

/**
 * Yields the plants of a list as JSON lines, block by block. Nearly every line is passed on as it is in
 * the log, and any other one in the usual form. Reads nothing ahead: a list may wait for its client,
 * and the next line may be a long one.
 *
 * @throws PlantStoreError `corruption` if a line is no plant any more, or another one; whatever a read throws.
 */
export async function* listLines(
  file: ReadableFile,
  index: IdIndex,
  { start, end, after }: ListRange,
): AsyncGenerator<Buffer> {
  const isListed = (low: number, high: number, offset: number) => {
    const isKnown = index.getWords(low, high) === offset;
    return isKnown ? after === undefined || offset !== start : undefined;
  };
  const choose = (plant: NewPlant, _: Buffer, { offset }: LinePosition) => {
    const first = index.get(plant.id) ?? Number.POSITIVE_INFINITY;
    if (first > offset) throw lineError(file.path, { offset }, "it had another id");
    return plant.id !== after && first === offset ? encodeNewPlant(plant) : undefined;
  };
  for (let offset = start; offset < end; ) {
    const bytes = await readLinesAt(file, offset, end, LIST_BLOCK_BYTES);
    if (bytes.length === 0) throw lineError(file.path, { offset }, "its line feed is gone");
    const block: LineBlock = { bytes, offset, line: 1 }; // its number in the log is not known
    for (const lines of selectLines(block, file.path, isListed, choose)) yield lines;
    offset += bytes.length;
  }
}

/**
 * Parses lines, each of which is a plant.
 *
 * @param judge makes the error to throw of what was thrown if a line cannot be parsed for lack of memory.
 */
export async function* parseLines(
  lines: AsyncIterable<Buffer>,
  judge = (cause: unknown) => cause,
): AsyncGenerator<NewPlant> {
  const parse = (line: Buffer) => {
    try {
      return parseNewPlant(line);
    } catch (cause) {
      throw judge(cause);
    }
  };
  for await (const bytes of lines) {
    for (let start = 0; start < bytes.length; ) {
      const end = bytes.indexOf(LINE_FEED, start);
      yield parse(bytes.subarray(start, end)); // yield* takes three times as long
      start = end + 1;
    }
  }
}
