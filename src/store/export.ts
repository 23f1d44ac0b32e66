/**
 * The plants of a data directory that another process may be writing: `export`, `list`, and reading
 * in a program.
 *
 * Takes no lock and changes nothing; store/plant-log decides how far it reads. The lines before a
 * damaged one are valid, so they are yielded before the fault is thrown: hence each `yield` in a
 * `finally`.
 */
import { isSamePlant, type NewPlant } from "../core/plant.ts";
import type { LogFile } from "../log/file.ts";
import type { LinePosition } from "../log/format.ts";
import {
  type LineBlock,
  LOG_START,
  lineError,
  positionAfter,
  readBlocks,
  readLineAt,
} from "../log/reader.ts";
import { IdIndex } from "./id-index.ts";
import {
  appendListed,
  decodeRecord,
  LineRuns,
  type PlantTaker,
  takePlants,
} from "./plant-lines.ts";
import { parseLines } from "./plant-list.ts";
import { findReadable, openLogForReading } from "./plant-log.ts";

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
 * The plants of the log as JSON lines, oldest first, each once, as a list over HTTP has them: up
 * to a MiB of whole lines at a time. It holds about 20 bytes of memory for each plant.
 *
 * Fails like `readPlants`, and with `corruption` if one id has two contents.
 */
export async function* listLogLines(directory: string): AsyncGenerator<Buffer> {
  const index = new IdIndex();
  for await (const { block, file } of readDurableBlocks(directory)) {
    const lines = new LineRuns(block);
    const checks: (() => Promise<void>)[] = [];
    const isFirst = (idLow: number, idHigh: number, offset: number) =>
      index.addWords(idLow, idHigh, offset) === undefined || undefined;
    try {
      appendListed(lines, block, file.path, isFirst, (plant, position) => {
        const first = index.add(plant.id, position.offset);
        if (first !== undefined) checks.push(() => checkRepeat(file, plant, position, first));
        return first === undefined;
      });
    } finally {
      yield lines.join();
      for (const check of checks) await check();
    }
  }
}

/** @throws PlantStoreError `corruption` unless the line at the offset `first` holds the same plant. */
async function checkRepeat(
  file: LogFile,
  plant: NewPlant,
  position: LinePosition,
  first: number,
): Promise<void> {
  const line = await readLineAt(file, first, position.offset);
  if (isSamePlant(plant, decodeRecord(line, file.path, { offset: first }))) return;
  const fault = `id ${plant.id} is at byte offset ${first} with another name or tag`;
  throw lineError(file.path, position, fault);
}

/**
 * The lines of the log as they are in the file, each one a plant, without blank lines: bytes of JSON
 * lines, ready to be written somewhere. Fails like `readPlants`.
 */
export async function* exportLines(directory: string): AsyncGenerator<Buffer> {
  for await (const { block, file } of readDurableBlocks(directory)) {
    const lines = new LineRuns(block);
    try {
      const take: PlantTaker = (start, end) => {
        lines.add(start, end + 1);
        return true;
      };
      takePlants(block, take, (line, position) => {
        decodeRecord(line, file.path, position);
        lines.addLine(line, position);
      });
    } finally {
      yield lines.join();
    }
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
