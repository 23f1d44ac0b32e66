/**
 * Reading a data directory that another process may be writing.
 *
 * Takes no lock and changes nothing; where it stops is said by store/readable.
 */

import { encodeNewPlant, isSamePlant, type NewPlant } from "../core/plant.ts";
import { holdsUnsafe } from "../core/text.ts";
import type { LogFile } from "../log/file.ts";
import type { LinePosition } from "../log/format.ts";
import {
  type BlockOptions,
  type LineBlock,
  LOG_START,
  lineError,
  positionAfter,
  readBlocks,
  readLineAt,
  visitLines,
} from "../log/reader.ts";
import { IdIndex } from "./id-index.ts";
import { findReadable, openLogForReading } from "./open-log.ts";
import { checkLines, decodeRecord, LineRuns, type PlantTaker } from "./plant-lines.ts";

/** What is made plants of at once: a few milliseconds of the caller's event loop. */
const PLANTS_BLOCKS: BlockOptions = { blockBytes: 256 * 1024 };

/**
 * Every plant in the log, oldest first, in bounded memory. A plant that an editor doubled comes
 * twice.
 *
 * @throws PlantStoreError `io_error` where there is no log, `locked` when the
 * process that holds the directory does not answer within 1 s, `corruption`.
 */
export async function* readPlants(directory: string): AsyncGenerator<NewPlant> {
  for await (const { block, file } of readDurableBlocks(directory, PLANTS_BLOCKS)) {
    const plants: NewPlant[] = [];
    const fault = faultOf(() => {
      visitLines(block, (record, position) => {
        plants.push(decodeRecord(record, file.path, position));
      });
    });
    yield* plants;
    if (fault !== undefined) throw fault;
  }
}

/** A line whose id an earlier line has. */
interface Repeat {
  readonly plant: NewPlant;
  readonly position: LinePosition;
  /** The byte offset of the earlier line. */
  readonly first: number;
}

/**
 * The plants of the log as JSON lines, oldest first, each once, as a list over HTTP has them: up
 * to a MiB of whole lines at a time. It holds about 20 bytes of memory for each plant.
 *
 * Fails like `readPlants`, and with `corruption` when one id has two contents.
 */
export async function* listLogLines(directory: string): AsyncGenerator<Buffer> {
  const index = new IdIndex();
  for await (const { block, file } of readDurableBlocks(directory)) {
    const lines = new LineRuns(block.bytes);
    const repeats: Repeat[] = [];
    // What was written by hand may hold raw what is an escape in the form of a list.
    const isEscaped = !holdsUnsafe(block.bytes.toString());
    const fault = faultOf(() => {
      const take: PlantTaker = (start, end, _line, idLow, idHigh) => {
        if (!isEscaped) return false;
        if (index.addWords(idLow, idHigh, block.offset + start) !== undefined) return false;
        lines.add(start, end + 1);
        return true;
      };
      checkLines(block, take, (record, position) => {
        const plant = decodeRecord(record, file.path, position);
        const first = index.add(plant.id, position.offset);
        if (first === undefined) lines.insert(`${encodeNewPlant(plant)}\n`);
        else repeats.push({ plant, position, first });
      });
    });
    const bytes = lines.join();
    if (bytes.length > 0) yield bytes;
    for (const repeat of repeats) await requireSame(file, repeat);
    if (fault !== undefined) throw fault;
  }
}

/** @throws PlantStoreError `corruption` unless both lines hold the same plant. */
async function requireSame(file: LogFile, { plant, position, first }: Repeat): Promise<void> {
  const line = await readLineAt(file, first, position.offset);
  if (isSamePlant(plant, decodeRecord(line, file.path, { offset: first }))) return;
  const fault = `id ${plant.id} is at byte offset ${first} with another name or tag`;
  throw lineError(file.path, position, fault);
}

/**
 * The lines of the log as they stand there, each one a plant, without blank
 * ones: bytes of JSON lines, ready to be written somewhere. Fails like `readPlants`.
 */
export async function* exportLines(directory: string): AsyncGenerator<Buffer> {
  for await (const { block, file } of readDurableBlocks(directory)) {
    const lines = new LineRuns(block.bytes);
    const fault = faultOf(() => {
      const take: PlantTaker = (start, end) => {
        lines.add(start, end + 1);
        return true;
      };
      checkLines(block, take, (record, position) => {
        decodeRecord(record, file.path, position);
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
): AsyncGenerator<{ readonly block: LineBlock; readonly file: LogFile }> {
  const file = await openLogForReading(directory);
  try {
    const { end, lastLine } = await findReadable(directory, file);
    let before: LineBlock | undefined;
    for await (const block of readBlocks(file, LOG_START, end, options)) {
      yield { block, file };
      before = block;
    }
    if (lastLine.length === 0) return;
    const position = before === undefined ? LOG_START : positionAfter(before);
    yield { block: { bytes: lastLine, ...position }, file };
  } finally {
    await file.close();
  }
}
