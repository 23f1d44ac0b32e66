/**
 * Opens the log of a data directory for writing, with an index that may be served from.
 *
 * Invariant. Every line is read before anything is changed, so a log that needs a person is left
 * exactly as it was found. A log is refused if an acknowledged plant may be affected: a line cannot
 * be read, one id has two contents (either may be the acknowledged one), or the log is shorter than
 * its checkpoint or differs from it. What a power cut leaves is mended (log/mend). What is opened is on
 * disk, also what another program wrote (log/resync).
 */
import {
  type Checkpoint,
  isUnsynced,
  newCheckpointPath,
  readCheckpoint,
  syncCheckpoint,
} from "../log/checkpoint.ts";
import { type ByteRange, LogFile } from "../log/file.ts";
import { exists, prepareDirectory, removeLeftover } from "../log/folder.ts";
import { lineError } from "../log/lines.ts";
import type { HeldLock } from "../log/lock.ts";
import { lostLineJudge, mendLog } from "../log/mend.ts";
import { makeDurable, newLogPath, syncFound } from "../log/resync.ts";
import type { IdIndex } from "./id-index.ts";
import { LogScan } from "./log-scan.ts";
import { lockDirectory, logPathOf, requireKnownBytes } from "./plant-log.ts";
import { isRecord } from "./records.ts";

/** A log that may be appended to. */
export interface OpenedLog {
  readonly lock: HeldLock;
  readonly file: LogFile;
  readonly index: IdIndex;
  /** The log as it is now: whole lines, all of them on disk. */
  readonly end: Checkpoint;
  /** The checkpoint that was found beside the log, if it is on disk. */
  readonly checkpoint: Checkpoint | undefined;
}

type OnProgress = (bytes: number, total: number) => void;

interface OpenOptions {
  /** The command that the error of another process names as the holder. */
  readonly command: string;
  readonly onProgress: OnProgress | undefined;
  /** How much of the log other processes may read. */
  readonly durableBytes: () => number | undefined;
}

/**
 * Locks a directory and opens its log for writing; makes both if they are missing.
 *
 * @throws PlantStoreError `locked` if another process has the directory, or changes the log in spite
 * of the lock; `corruption`; `unsynced` if the disk does not take what was read; `io_error`.
 */
export async function openLog(directory: string, options: OpenOptions): Promise<OpenedLog> {
  await prepareDirectory(directory);
  const lock = await lockDirectory(directory, options.command, options.durableBytes);
  try {
    return { lock, ...(await openLocked(logPathOf(directory), lock, options.onProgress)) };
  } catch (error) {
    await lock.close();
    throw error;
  }
}

async function openLocked(
  logPath: string,
  lock: HeldLock,
  onProgress: OnProgress | undefined,
): Promise<Omit<OpenedLog, "lock">> {
  const checkpoint = await readCheckpoint(logPath);
  if (!exists(logPath)) requireKnownBytes(logPath, checkpoint);
  let file = await LogFile.open(logPath, lock);
  try {
    const scan = await recover(file, checkpoint, onProgress);
    const { index, end } = scan;
    if (await makeDurable(file, end, (earliest) => scan.startOfRewrite(earliest))) {
      const old = file;
      file = await LogFile.open(logPath, lock);
      await old.close();
      file.assertEndsAt(end.bytes); // another program may have found the copy first
    }
    if (end.bytes > 0) {
      // The log is good and nobody else writes here: killed processes left these.
      removeLeftover(newLogPath(logPath));
      removeLeftover(newCheckpointPath(logPath));
    }
    // Also one that cannot be read: after a power cut it could be an older one, of another log.
    const isSynced = await syncCheckpoint(logPath);
    return { file, index, end, checkpoint: isSynced ? checkpoint : undefined };
  } catch (error) {
    await file.close();
    throw error;
  }
}

/** Reads a log, mends its end, and begins to sync it. */
async function recover(
  file: LogFile,
  checkpoint: Checkpoint | undefined,
  onProgress: OnProgress | undefined,
): Promise<LogScan> {
  const size = file.end;
  requireKnownBytes(file.path, checkpoint, { size }); // before a scan that may take long
  const syncing = syncFound(file); // while it is read
  syncing.catch(() => {}); // it is awaited after the scan
  const lost: ByteRange[] = [];
  const scan = await LogScan.run(file, size, {
    checkpoint,
    isLost: await lostLineJudge(file, size, checkpoint?.bytes),
    onFault: ({ kind, position, bytes, reason }) => {
      if (kind === "mendable") lost.push({ ...position, bytes });
      else if (kind !== "repeat") throw lineError(file.path, position, `${reason}; ${ADVICE}`);
    },
    onProgress,
  }).finally(() => syncing); // a sync that failed is remembered also if the scan fails
  requireKnownBytes(file.path, checkpoint, scan);
  if (isUnsynced(file.path) && (lost.length > 0 || scan.tail.offset < size)) {
    // No power cut: the page cache may have dropped what the disk never got.
    const fault = "a sync of the log has failed, and it is damaged here";
    throw lineError(file.path, lost[0] ?? scan.tail, `${fault}; ${ADVICE}`);
  }

  // Everything was read: from here on the log is changed.
  const length = await mendLog(file, { lost, tail: scan.tail, isRecord });
  await scan.scanTo(length); // the last record, if it was completed
  return scan;
}

const ADVICE =
  'restore the log from a backup, or have "plant-store repair" write one of what is readable';
