/**
 * Lists the plants of an open store in the order of the log.
 *
 * A list reads blocks so small that a slow client holds little memory, and a fast client does not
 * block the event loop. It yields the plants in the index, so a plant that was duplicated by hand
 * comes once.
 */
import { type NewPlant, parseNewPlant } from "../core/plant.ts";
import { LINE_FEED } from "../log/format.ts";
import { type LineBlock, lineError, type ReadableFile, readLinesAt } from "../log/reader.ts";
import type { IdIndex } from "./id-index.ts";
import { appendListed, LineRuns } from "./plant-lines.ts";

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
 * the log. Reads nothing ahead: a list may wait for its client, and the next line may be a long one.
 *
 * @throws PlantStoreError `corruption` if a line is no plant any more, or another one; whatever a read throws.
 */
export async function* listLines(
  file: ReadableFile,
  index: IdIndex,
  { start, end, after }: ListRange,
): AsyncGenerator<Buffer> {
  for (let offset = start; offset < end; ) {
    const bytes = await readLinesAt(file, offset, end, BLOCK_BYTES);
    if (bytes.length === 0) throw lineError(file.path, { offset }, "its line feed is gone");
    const block: LineBlock = { bytes, offset, line: 1 }; // its number in the log is not known
    const lines = new LineRuns(block);
    appendListed(
      lines,
      block,
      file.path,
      (low, high, offset) => {
        const isKnown = index.getWords(low, high) === offset;
        return isKnown ? after === undefined || offset !== start : undefined;
      },
      ({ id }, { offset }) => {
        const first = index.get(id) ?? Number.POSITIVE_INFINITY;
        if (first > offset) throw lineError(file.path, { offset }, "it had another id");
        return id !== after && first === offset;
      },
    );
    yield lines.join();
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
