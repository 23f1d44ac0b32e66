/**
 * Opens the log of a data directory for writing, with an index that may be served from.
 *
 * Invariant. Every line is read before anything is changed, so a log that needs a person is left
 * exactly as it was found. Refused is whatever may concern an acknowledged plant: a line that cannot
 * be read, one id with two contents (either may be the acknowledged one), a log that is shorter than
 * its checkpoint or differs from it. What a power cut leaves is mended (log/mend).
 */
import { existsSync } from "node:fs";
import fs from "node:fs/promises";
import { type Checkpoint, newCheckpointPath, readCheckpoint } from "../log/checkpoint.ts";
import { type ByteRange, LogFile } from "../log/file.ts";
import { removeLeftover } from "../log/folder.ts";
import { lostLineJudge, mendLog, rewriteLastBatch } from "../log/mend.ts";
import { endOfLines, LOG_START, lineError } from "../log/reader.ts";
import { ioError } from "../log/system-error.ts";
import type { IdIndex } from "./id-index.ts";
import { type LineFault, LogScan } from "./log-scan.ts";
import { isRecord } from "./plant-lines.ts";
import { logPathOf, mismatchError, refuseMissing, refuseShorter } from "./readable-log.ts";

/** A log that may be appended to. */
export interface OpenedLog {
  readonly file: LogFile;
  readonly index: IdIndex;
  /** The log as it is now: whole lines, all of them on disk. */
  readonly end: Checkpoint;
  /** The checkpoint that was found beside the log. */
  readonly checkpoint: Checkpoint | undefined;
}

/**
 * Opens a log for writing; creates it if there never was one. The caller holds the lock.
 *
 * @throws PlantStoreError `corruption`; `locked` if another process changes the log in the
 * meantime, in spite of the lock; `io_error`.
 */
export async function openLog(
  directory: string,
  onProgress?: (bytes: number, total: number) => void,
): Promise<OpenedLog> {
  const logPath = logPathOf(directory);
  const checkpoint = await readCheckpoint(logPath);
  if (!existsSync(logPath)) refuseMissing(logPath, checkpoint);
  const file = await LogFile.open(logPath);
  try {
    const { index, end } = await recover(file, checkpoint, onProgress);
    if (end.bytes > 0) removeLeftovers(logPath);
    return { file, index, end, checkpoint };
  } catch (error) {
    await file.close();
    throw error;
  }
}

async function recover(
  file: LogFile,
  checkpoint: Checkpoint | undefined,
  onProgress: ((bytes: number, total: number) => void) | undefined,
): Promise<Pick<OpenedLog, "index" | "end">> {
  const size = file.survey();
  refuseShorter(file.path, size, checkpoint);
  const damaged: ByteRange[] = [];
  const scan = new LogScan(file, {
    checkpoint,
    isLost: await lostLineJudge(file, size, checkpoint?.bytes),
    onFault: (fault) => {
      if (fault.kind === "mendable") damaged.push({ ...fault.position, bytes: fault.bytes });
      else refuse(file.path, fault);
    },
    onProgress,
  });
  const tail = await scan.run(LOG_START, await endOfLines(file, size));
  if (!scan.matchesCheckpoint) throw mismatchError(file.path, checkpoint);
  await scan.inspectTail(tail);

  // Everything was read: from here on the log is changed.
  await removePersistedIndex(file.path);
  const length = await mendLog(file, { damaged, tail, isRecord });
  await rewriteLastBatch(file, length, checkpoint?.bytes);
  await scan.run(tail, length); // the last record, if it was completed
  return { index: scan.index, end: scan.end };
}

/**
 * Removes what a killed process left unfinished beside a log that holds something: the log was
 * found good, and no other process writes here.
 */
function removeLeftovers(logPath: string): void {
  removeLeftover(repairedPath(logPath));
  removeLeftover(newCheckpointPath(logPath));
}

function refuse(logPath: string, { kind, position, reason }: LineFault): void {
  if (kind === "repeat") return;
  const advice =
    'restore the log from a backup, or have "plant-store repair" write one of what is readable';
  throw lineError(logPath, position, `${reason}; ${advice}`);
}

/**
 * Removes the index that earlier versions kept beside the log. Call it before the log is changed:
 * such a version must not trust an index that is out of date.
 *
 * @throws PlantStoreError `io_error`.
 */
export async function removePersistedIndex(logPath: string): Promise<void> {
  const indexPath = `${logPath}.index`;
  try {
    for (const each of [`${indexPath}.new`, indexPath]) await fs.rm(each, { force: true });
  } catch (cause) {
    throw ioError(`Cannot remove "${indexPath}"`, cause);
  }
}

/** Where a repair writes the new log; a repair that was killed leaves it there. */
export function repairedPath(logPath: string): string {
  return `${logPath}.repaired`;
}
