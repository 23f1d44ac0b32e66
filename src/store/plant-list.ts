/**
 * The plants of an open store in the order of its log.
 *
 * It reads blocks so small that a slow client holds little memory, and a fast one does not keep the
 * event loop from others. It gives what the index knows, so a plant that an editor doubled comes
 * once.
 */
import { PlantStoreError } from "../core/errors.ts";
import { encodeNewPlant, type NewPlant } from "../core/plant.ts";
import { holdsUnsafe } from "../core/text.ts";
import type { LogFile } from "../log/file.ts";
import {
  type LineBlock,
  type LineVisitor,
  lineError,
  readLinesAt,
  visitLines,
} from "../log/reader.ts";
import type { IdIndex } from "./id-index.ts";
import { checkLines, decodeRecord, LineRuns, type PlantTaker } from "./plant-lines.ts";

/** Half a millisecond of work as lines, two as plants; most pages need no more. */
const BLOCK_BYTES = 32 * 1024;

/** Where in a log to read. */
export interface ListRange {
  /** A plant's byte offset, or 0. */
  readonly start: number;
  /** The durable length. */
  readonly end: number;
  /** The plant at `start`, which is left out. */
  readonly after: bigint | undefined;
}

/**
 * Gives what each block of a log holds for a list.
 *
 * @throws PlantStoreError `corruption` if a line is no plant any more, or another one; `io_error`.
 */
export type ListBlocks<T> = (file: LogFile, index: IdIndex, range: ListRange) => AsyncGenerator<T>;

export const listPlants: ListBlocks<readonly NewPlant[]> = async function* (file, index, range) {
  for await (const block of readRange(file, range)) {
    const plants: NewPlant[] = [];
    visitLines(
      block,
      visitListed(file, index, range, (plant) => plants.push(plant)),
    );
    yield plants;
  }
};

/**
 * The same as JSON lines. This is a fifth of the work, because nearly every line is passed on as it
 * is in the log.
 */
export const listLines: ListBlocks<Buffer> = async function* (file, index, range) {
  for await (const block of readRange(file, range)) {
    const lines = new LineRuns(block.bytes);
    // A line that was written by hand may hold raw what the form of a list escapes.
    const isEscaped = !holdsUnsafe(block.bytes.toString());
    const take: PlantTaker = (start, end, _line, idLow, idHigh) => {
      const offset = block.offset + start;
      if (!isEscaped || offset === range.start) return false; // the first one may be left out
      if (index.getWords(idLow, idHigh) !== offset) return false;
      lines.add(start, end + 1);
      return true;
    };
    const encode = (plant: NewPlant) => lines.insert(`${encodeNewPlant(plant)}\n`);
    checkLines(block, take, visitListed(file, index, range, encode));
    yield lines.join();
  }
};

/**
 * Reads nothing ahead: a list may wait for its client, and the next line may be a long one. The
 * number of a line in the middle of a log is not known; faults name the byte offset alone.
 */
async function* readRange(file: LogFile, { start, end }: ListRange): AsyncGenerator<LineBlock> {
  for (let offset = start; offset < end; ) {
    const bytes = await readLinesAt(file, offset, end, BLOCK_BYTES);
    if (bytes.length === 0) throw lineError(file.path, { offset }, "its line feed is gone");
    yield { bytes, offset, line: 1 };
    offset += bytes.length;
  }
}

/** Judges a line by the full rule, and gives its plant if the plant belongs to the list. */
function visitListed(
  { path }: LogFile,
  index: IdIndex,
  { after }: ListRange,
  give: (plant: NewPlant) => void,
): LineVisitor {
  return (record, { offset }) => {
    const plant = decodeRecord(record, path, { offset });
    const first = index.get(plant.id) ?? Number.POSITIVE_INFINITY;
    if (first > offset) throw lineError(path, { offset }, "it had another id");
    if (plant.id !== after && first === offset) give(plant);
  };
}

/** The error of a list that is to begin after a plant that is not there. */
export function unknownCursor(after: bigint | undefined): PlantStoreError {
  return new PlantStoreError("unknown_cursor", `after: expected the id of a plant, got ${after}`);
}
