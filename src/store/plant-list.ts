/**
 * The plants of an open store in the order of its log.
 *
 * In blocks so small that neither a reader who takes his time holds much, nor
 * one who does not keeps the event loop from others: a block is about half a
 * millisecond's work. Sees what the index knows, so what an editor doubled
 * is given once.
 */
import { PlantStoreError } from "../core/errors.ts";
import type { NewPlant } from "../core/plant.ts";
import type { LogFile } from "../log/file.ts";
import { lineError } from "../log/line-error.ts";
import { readBlocks, visitLines } from "../log/reader.ts";
import type { IdIndex } from "./id-index.ts";
import { decodeRecord } from "./record.ts";

const BLOCK_BYTES = 64 * 1024;

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
 * The plants of one block after the other.
 *
 * @throws PlantStoreError `corruption` where a line is no plant any more, or
 * another one, `io_error`.
 */
export async function* listBlocks(
  file: LogFile,
  index: IdIndex,
  { start, end, after }: ListRange,
): AsyncGenerator<readonly NewPlant[]> {
  // Nobody knows the number of a line in the middle; bytes will do.
  const blocks = readBlocks(file, { offset: start, line: 1 }, end, BLOCK_BYTES);
  for await (const block of blocks) {
    const plants: NewPlant[] = [];
    visitLines(block, (record, { offset }) => {
      const plant = decodeRecord(record, file.path, { offset });
      const first = index.get(plant.id) ?? Number.POSITIVE_INFINITY;
      if (first > offset) throw lineError(file.path, { offset }, "it had another id");
      if (plant.id !== after && first === offset) plants.push(plant);
    });
    yield plants;
  }
}

/** What a list is answered that is to begin behind a plant that is not there. */
export function unknownCursor(after: bigint | undefined): PlantStoreError {
  return new PlantStoreError("unknown_cursor", `after: expected the id of a plant, got ${after}`);
}
