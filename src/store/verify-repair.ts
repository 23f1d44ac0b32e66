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
import { LINE_FEED, linesOf, readBlocks } from "../log/lines.ts";
import { type HeldLock, locks } from "../log/lock.ts";
import { IdIndex } from "./id-index.ts";
import { parseLine } from "./import-export.ts";
import { assertMayBeMissing, quarantine, readLog } from "./open.ts";
import { matchPlant, Scan } from "./scan.ts";

const NEW_LINE = Buffer.of(LINE_FEED);

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
  const scan = new Scan(new IdIndex());
  for await (const _ of readLog(directory, scan));
  return { plants: scan.plants, bytes: scan.end.bytes, tornBytes: scan.tail?.length ?? 0 };
}

/** Whether the log was written anew, how many plants it has now, and how many lines were moved to quarantine. */
export interface RepairReport {
  readonly isChanged: boolean;
  readonly plants: number;
  readonly leftOut: number;
}

/**
 * Writes a log anew that a start refuses: every plant that can be read, in any form, the first one of each id.
 *
 * @throws PlantStoreError `locked`; `corruption` after an unfinished restore; `write_failed`; `unsynced`; `io_error`,
 * for example if there never was a log.
 */
export async function repairLog(directory: string): Promise<RepairReport> {
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
    return await rewrite(file, lock).finally(() => file.close());
  } finally {
    await lock.close();
  }
}

async function rewrite(file: LogFile, lock: HeldLock): Promise<RepairReport> {
  const index = new IdIndex();
  let end = EMPTY_LOG;
  let leftOut = 0;
  await file.append(NEW_LINE); // the last line may lack its own; blank lines are dropped
  const write = async (target: LogFile) => {
    for await (const { bytes, isPiece } of readBlocks(file, 0, file.end)) {
      const kept: string[] = [];
      const rest = isPiece ? [bytes] : [];
      for (const line of isPiece ? [] : linesOf(bytes)) {
        const record = recordOf(line, index);
        if (record !== undefined) kept.push(record);
        else rest.push(line, NEW_LINE);
      }
      leftOut += isPiece ? Number(bytes.at(-1) === LINE_FEED) : rest.length / 2;
      if (rest.length > 0) await quarantine(file.path, Buffer.concat(rest));
      const records = Buffer.from(kept.join(""));
      await target.append(records);
      end = extendCheckpoint(end, records);
    }
  };
  // The new log would lack what another program has appended meanwhile.
  await replaceFile(file.path, write, { assertHeld: () => file.assertUnchanged() });
  await writeCheckpoint(file.path, end, lock);
  return { isChanged: true, plants: index.size, leftOut };
}

/** The record of a line in any form, empty for a blank one; `undefined` if it holds no plant, or its id was there. */
function recordOf(line: Buffer, index: IdIndex): string | undefined {
  try {
    const plant = matchPlant(line) ?? parseLine(line);
    if (plant === undefined) return "";
    const record = "name" in plant ? encodeNewPlant(validatePlant(plant)) : line;
    return index.add(plant.id, 0) === undefined ? `${record}\n` : undefined;
  } catch (error) {
    if (error instanceof PlantStoreError) return undefined;
    throw error;
  }
}
