/**
 * From a log file on disk to an index that may be served from.
 *
 * Reads every line before it touches anything, so that a log which needs a
 * person is left exactly as it was found. One id may stand twice with the same
 * content (an editor's doing); with two contents it refuses, because either
 * may be the one that was acknowledged.
 */
import { randomBytes } from "node:crypto";
import { isSamePlant, type NewPlant } from "../core/plant.ts";
import type { LogFile } from "../log/file.ts";
import {
  type LineBlock,
  type LinePosition,
  LOG_START,
  positionAfter,
  readBlocks,
  visitLines,
} from "../log/reader.ts";
import { rewriteLastBatch, settleTail } from "../log/recovery.ts";
import { IdIndex } from "./id-index.ts";
import { corruptionError, decodeRecord, isRecord, readPlantAt } from "./record.ts";

export interface RecoveredLog {
  readonly index: IdIndex;
  /** The length of the log: whole lines, all of them on disk. */
  readonly durableBytes: number;
}

/** @throws PlantStoreError `corruption` or `io_error`. */
export async function recover(file: LogFile): Promise<RecoveredLog> {
  const index = new IdIndex(randomBytes(4).readUInt32LE());
  const tail = await indexLines(file, index, LOG_START, file.size());
  const durableBytes = await settleTail(file, tail, isRecord);
  await indexLines(file, index, tail, durableBytes); // the tail, when it was a whole record
  await rewriteLastBatch(file, durableBytes);
  return { index, durableBytes };
}

/** Adds the whole lines between two places to the index; returns where they end. */
async function indexLines(
  file: LogFile,
  index: IdIndex,
  start: LinePosition,
  end: number,
): Promise<LinePosition> {
  let reached = start;
  for await (const block of readBlocks(file, start, end)) {
    const repeats = indexBlock(file, index, block);
    for (const { plant, position } of repeats) await checkRepeat(file, index, plant, position, end);
    reached = positionAfter(block);
  }
  return reached;
}

interface Repeat {
  readonly plant: NewPlant;
  readonly position: LinePosition;
}

/** Adds the new ids of a block; returns the lines whose id was there already. */
function indexBlock(file: LogFile, index: IdIndex, block: LineBlock): Repeat[] {
  const repeats: Repeat[] = [];
  visitLines(block, (record, position) => {
    const plant = decodeRecord(record, file.path, position);
    if (index.get(plant.id) === undefined) index.add(plant.id, position.offset);
    else repeats.push({ plant, position });
  });
  return repeats;
}

async function checkRepeat(
  file: LogFile,
  index: IdIndex,
  plant: NewPlant,
  position: LinePosition,
  end: number,
): Promise<void> {
  const first = index.get(plant.id) ?? 0;
  if (isSamePlant(await readPlantAt(file, first, end), plant)) return;
  throw corruptionError(
    file.path,
    position,
    `id ${plant.id} stands at byte offset ${first} with another name or tag`,
  );
}
