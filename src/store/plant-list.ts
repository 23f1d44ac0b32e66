/**
 * Lists plants in the order of the log: those of an open store, and those of a data directory that another
 * process may be writing.
 *
 * A list of an open store reads blocks so small that a slow client holds little memory, and a fast
 * client does not block the event loop. It has the plants in the index, so a plant that was duplicated
 * by hand comes once. Reading a directory takes no lock and changes nothing; store/plant-log decides how
 * far it reads.
 */
import { encodeNewPlant, type NewPlant, parseNewPlant } from "../core/plant.ts";
import type { LogFile } from "../log/file.ts";
import {
  LINE_FEED,
  type LineBlock,
  type LinePosition,
  LOG_START,
  lineError,
  positionAfter,
  type ReadableFile,
  readBlocks,
  readLinesAt,
} from "../log/lines.ts";
import type { IdIndex } from "./id-index.ts";
import { selectLines } from "./plant-lines.ts";
import { findReadable, openLogForReading } from "./plant-log.ts";

/** Half a millisecond of work; most pages need no more. */
const BLOCK_BYTES = 32 * 1024;

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
 * the log, and any other one in the canonical form. Reads nothing ahead: a list may wait for its client,
 * and the next line may be a long one.
 *
 * @throws PlantStoreError `corruption` if a line is no plant any more, or another one; whatever a read throws.
 * @internal
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
    const bytes = await readLinesAt(file, offset, end, BLOCK_BYTES);
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
 * @internal
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

/**
 * Every plant in the log, oldest first, in bounded memory. A plant that was duplicated by hand is
 * yielded twice.
 *
 * @throws PlantStoreError `io_error` if there is no log, `locked` if the process that holds the
 * directory does not answer within 1 s, `corruption`.
 */
export function readPlants(directory: string): AsyncGenerator<NewPlant> {
  return parseLines(exportLines(directory));
}

/**
 * The lines of the log as they are in the file, each one a plant, without blank lines: up to a MiB of JSON
 * lines at a time, ready to be written somewhere. Fails like `readPlants`.
 */
export async function* exportLines(directory: string): AsyncGenerator<Buffer> {
  const isListed = () => true;
  const choose = (_: NewPlant, line: Buffer) => line;
  for await (const { block, file } of readDurableBlocks(directory)) {
    for (const lines of selectLines(block, file.path, isListed, choose)) yield lines;
  }
}

async function* readDurableBlocks(
  directory: string,
): AsyncGenerator<{ readonly block: LineBlock; readonly file: LogFile }> {
  const file = await openLogForReading(directory);
  try {
    const { end, lastLine } = await findReadable(directory, file);
    let position = LOG_START;
    for await (const block of readBlocks(file, position, end)) {
      yield { block, file };
      position = positionAfter(block);
    }
    if (lastLine.length > 0) yield { block: { bytes: lastLine, ...position }, file };
  } finally {
    await file.close();
  }
}
