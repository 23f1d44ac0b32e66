/**
 * Reading a data directory that another process may be writing.
 *
 * Takes no lock and changes nothing; where it stops is said by store/readable.
 */
import type { NewPlant } from "../core/plant.ts";
import {
  type BlockOptions,
  type LineBlock,
  LOG_START,
  positionAfter,
  readBlocks,
  visitLines,
} from "../log/reader.ts";
import { checkLines, type PlantTaker } from "./line-check.ts";
import { LineRuns } from "./line-runs.ts";
import { findReadable, openForReading } from "./readable.ts";
import { decodeRecord } from "./record.ts";

/** What is made plants of at once: a few milliseconds of the caller's event loop. */
const PLANTS_BLOCKS: BlockOptions = { blockBytes: 256 * 1024 };

/**
 * Every plant in the log, oldest first, in bounded memory.
 *
 * @throws PlantStoreError `io_error` where there is no log, `locked` when the
 * process that holds the directory does not answer within 1 s, `corruption`.
 */
export async function* readPlants(directory: string): AsyncGenerator<NewPlant> {
  for await (const { block, logPath } of readDurableBlocks(directory, PLANTS_BLOCKS)) {
    const plants: NewPlant[] = [];
    const fault = faultOf(() => {
      visitLines(block, (record, position) => {
        plants.push(decodeRecord(record, logPath, position));
      });
    });
    yield* plants;
    if (fault !== undefined) throw fault;
  }
}

/**
 * The lines of the log as they stand there, each one a plant, without blank
 * ones: bytes of JSON lines, ready to be written somewhere. Fails like `readPlants`.
 */
export async function* exportLines(directory: string): AsyncGenerator<Buffer> {
  for await (const { block, logPath } of readDurableBlocks(directory)) {
    const lines = new LineRuns(block.bytes);
    const fault = faultOf(() => {
      const take: PlantTaker = (start, end) => {
        lines.add(start, end + 1);
        return true;
      };
      checkLines(block, take, (record, position) => {
        decodeRecord(record, logPath, position);
        const start = position.offset - block.offset;
        lines.add(start, start + record.length + 1);
      });
    });
    const bytes = lines.join();
    if (bytes.length > 0) yield bytes;
    if (fault !== undefined) throw fault;
  }
}

/** What stands before a damaged line is good, so it is given out before the fault is told. */
function faultOf(visit: () => void): unknown {
  try {
    visit();
    return undefined;
  } catch (fault) {
    return fault;
  }
}

async function* readDurableBlocks(
  directory: string,
  options?: BlockOptions,
): AsyncGenerator<{ readonly block: LineBlock; readonly logPath: string }> {
  const file = await openForReading(directory);
  try {
    const { end, lastLine } = await findReadable(directory, file);
    let before: LineBlock | undefined;
    for await (const block of readBlocks(file, LOG_START, end, options)) {
      yield { block, logPath: file.path };
      before = block;
    }
    if (lastLine.length === 0) return;
    const position = before === undefined ? LOG_START : positionAfter(before);
    yield { block: { bytes: lastLine, ...position }, logPath: file.path };
  } finally {
    await file.close();
  }
}
