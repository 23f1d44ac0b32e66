/**
 * `verify` and `repair`: what an operator does about a log that a start refuses.
 *
 * Invariants. `verify` reads a log as a start does, takes no lock and changes nothing. `repair` leaves a sound log
 * alone, and rewrites any other from every line that holds a plant; the first record of an id wins. What it
 * leaves out is in the quarantine file, byte for byte, before the new log takes its name; the checkpoint is replaced
 * last. After a crash in between, a start refuses or is right, and `repair` runs again.
 */
import { PlantStoreError } from "../core/errors.ts";
import { encodeNewPlant, validatePlant } from "../core/plant.ts";
import { EMPTY_LOG, extendCheckpoint, writeCheckpoint } from "../log/checkpoint.ts";
import { withIoError } from "../log/disk.ts";
import { LogFile, replaceFile } from "../log/file.ts";
import { LOCK_NAME, logPathOf, syncFolderAndName } from "../log/folder.ts";
import { LINE_FEED, type LineSource, readBlocks } from "../log/lines.ts";
import { type HeldLock, locks } from "../log/lock.ts";
import { IdIndex } from "./id-index.ts";
import { parseLine } from "./import-export.ts";
import { assertMayBeMissing, openForReading, quarantine } from "./open.ts";
import { eachLine, problemOf, repeatProblem, Scan } from "./scan.ts";

export interface VerifyReport {
  readonly plants: number;
  /** The length of the log without a torn end. */
  readonly bytes: number;
  /** What an unfinished write left at the end: the next start cuts it. */
  readonly tornBytes: number;
}

/**
 * Reads a log as a start does, even while another process writes it.
 *
 * @throws PlantStoreError `corruption` if a start refuses the log; `io_error` if there is none, or it cannot be read;
 * `locked`.
 */
export async function verifyLog(directory: string): Promise<VerifyReport> {
  const log = await openForReading(directory);
  const scan = new Scan(log, new IdIndex());
  await scan.toEnd().finally(() => log.file.close());
  const { bytes } = scan.end;
  return { plants: scan.plants, bytes, tornBytes: log.size - bytes };
}

/** A line that a repair leaves out. */
export interface LeftOutLine {
  /** From 1. */
  readonly line: number;
  readonly offset: number;
  /** What was expected and what came. */
  readonly reason: string;
}

type OnLeftOut = (line: LeftOutLine) => void;

/** Whether the log was written anew, how many plants it has now, and how many lines were moved to quarantine. */
export interface RepairReport {
  readonly isChanged: boolean;
  readonly plants: number;
  readonly leftOut: number;
}

/**
 * Writes a log anew that a start refuses: every plant that can be read, in any form, the first one of each id.
 *
 * @param onLeftOut receives each line that is moved to quarantine.
 * @throws PlantStoreError `locked`; `corruption` after an unfinished restore; `write_failed`; `unsynced`; `io_error`,
 * for example if there never was a log.
 */
export async function repairLog(directory: string, onLeftOut?: OnLeftOut): Promise<RepairReport> {
  const sound = await verifyLog(directory).catch((error) => {
    if (error.code !== "corruption") throw error;
    return undefined;
  });
  const logPath = logPathOf(directory);
  const lock = await locks.acquire(directory, { name: LOCK_NAME, command: "repair" });
  try {
    if (sound !== undefined) {
      // Perhaps of a repair that was killed.
      await withIoError(`Cannot sync "${directory}"`, () => syncFolderAndName(directory));
      return { isChanged: false, plants: sound.plants, leftOut: 0 };
    }
    await assertMayBeMissing(logPath);
    const file = await LogFile.open(logPath, lock); // empty if it is gone
    return await rewrite(file, lock, onLeftOut).finally(() => file.close());
  } finally {
    await lock.close();
  }
}

async function rewrite(file: LogFile, lock: HeldLock, onLeftOut?: OnLeftOut) {
  const index = new IdIndex();
  let end = EMPTY_LOG;
  let leftOut = 0;
  const write = async (target: LogFile) => {
    for await (const { kept, rest, lines } of salvage(file, index)) {
      leftOut += lines.length;
      for (const line of lines) onLeftOut?.(line);
      if (rest.length > 0) await quarantine(file.path, rest);
      await target.append(kept);
      end = extendCheckpoint(end, kept);
    }
  };
  // The new log would lack what another program has appended meanwhile.
  await replaceFile(file.path, write, { assertHeld: () => file.assertUnchanged() });
  await writeCheckpoint(file.path, end, lock);
  return { isChanged: true, plants: index.size, leftOut };
}

/** Reads a log past every bad line: what is kept, whose ids come into the index, and what is left out. */
async function* salvage(file: LogFile, index: IdIndex) {
  let line = 0;
  let isWithin = false; // a line that comes in pieces
  for await (const block of readBlocks(withLineFeed(file), 0, file.end + 1)) {
    const { bytes, offset, isPiece } = block;
    const kept: Buffer[] = [];
    const rest: Buffer[] = [];
    const lines: LeftOutLine[] = [];
    eachLine(bytes, (start, end, plant) => {
      const at = offset + start;
      const found = bytes.subarray(start, end < 0 ? bytes.length : end + 1);
      const isFirst = !isWithin;
      if (isFirst) line++;
      isWithin = end < 0;
      const problem = problemOf(isPiece ? undefined : plant, at, index);
      const isOdd = plant === undefined && !isPiece;
      const record = problem === undefined ? found : isOdd ? recordOf(found, at, index) : problem;
      if (typeof record !== "string") kept.push(record);
      else {
        rest.push(found);
        if (isFirst) lines.push({ line, offset: at, reason: record });
      }
      return !isWithin;
    });
    yield { kept: Buffer.concat(kept), rest: Buffer.concat(rest), lines };
  }
}

/** A log and one more line feed: its last line may lack its own, and a blank line is dropped. */
function withLineFeed(file: LogFile): LineSource {
  const read = async (buffer: Buffer, position: number) => {
    if (position + buffer.length <= file.end) return file.read(buffer, position);
    const bytes = await file.read(buffer.subarray(0, -1), position);
    buffer[bytes] = LINE_FEED;
    return bytes + 1;
  };
  return { path: file.path, read };
}

/** The record of a bad line, which is empty for a blank one; or why the line is left out. Indexes its id. */
function recordOf(line: Buffer, offset: number, index: IdIndex): Buffer | string {
  try {
    const plant = parseLine(line);
    if (plant === undefined) return Buffer.alloc(0);
    const record = Buffer.from(`${encodeNewPlant(validatePlant(plant))}\n`);
    const present = index.add(plant.id, offset);
    return present === undefined ? record : repeatProblem(present);
  } catch (error) {
    if (error instanceof PlantStoreError) return error.message;
    throw error;
  }
}
