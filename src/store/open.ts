/**
 * Opens the log of a data directory: for writing, after recovery, and for reading.
 *
 * Invariants. Every line is read before anything is changed, so a log that needs a person is left as it was
 * found. Recovery changes one thing: it cuts an unfinished batch at the end, which was never acknowledged, and
 * keeps what it cut. Bytes that the checkpoint knows are never cut. What is opened for writing is on disk.
 */
import path from "node:path";
import { publishWarning } from "../core/channels.ts";
import { PlantStoreError } from "../core/errors.ts";
import { type Checkpoint, readCheckpoint } from "../log/checkpoint.ts";
import { disk, ioError, isNoRoom, withIoError } from "../log/disk.ts";
import { LogFile, withUnsynced } from "../log/file.ts";
import { ensureFolder, LOCK_NAME, logPathOf, syncFolderAndName } from "../log/folder.ts";
import { LINE_FEED } from "../log/lines.ts";
import { locks } from "../log/lock.ts";
import { IdIndex, IdLoader } from "./id-index.ts";
import { changedError, type OnProgress, Scan } from "./scan.ts";

/** A log that may be appended to; `end`: as it is on disk. */
export type OpenLog = Awaited<ReturnType<typeof openLog>>;

/**
 * Locks a data directory, and recovers its log; makes both if they are missing.
 *
 * @param durableBytes how much of the log other processes may read.
 * @throws PlantStoreError `locked`; `corruption` if a person has to look at the log; `unsynced` if the disk does
 * not sync it; `io_error`.
 */
export async function openLog(
  directory: string,
  command: string,
  durableBytes: () => number | undefined,
  onProgress?: OnProgress,
) {
  await ensureFolder(directory);
  const logPath = logPathOf(directory);
  const lock = await locks.acquire(directory, { name: LOCK_NAME, command, durableBytes });
  let file: LogFile | undefined;
  try {
    const checkpoint = await readCheckpoint(logPath);
    await assertMayBeMissing(logPath, checkpoint);
    file = await LogFile.open(logPath, lock);
    const log = { file, checkpoint };
    const index = new IdIndex();
    const loader = new IdLoader(index, file.end);
    const scan = new Scan(loader);
    for await (const _ of scan.lines(log, onProgress));
    loader.flush();
    if (index.size < scan.plants) {
      // An id is there twice, which the loader does not see: this pass throws, with its place.
      for await (const _ of new Scan(index).lines(log));
      throw ioError(`Cannot read "${logPath}"`, "it changed while it was read");
    }
    const { end, tail } = scan;
    if (tail !== undefined) await cutTail(file, end.bytes, tail);
    await withUnsynced(`Cannot sync "${logPath}"`, async () => {
      await log.file.sync(); // another program may have copied it here
      await syncFolderAndName(path.dirname(logPath));
    });
    try {
      disk.unlink(`${logPath}.new`);
    } catch {} // of a repair that was killed: the next start tries again
    return { lock, file, index, end };
  } catch (error) {
    await file?.close().catch(() => {}); // the error before says more
    await lock.close();
    throw error;
  }
}

/**
 * @throws PlantStoreError `corruption` if the log is missing but has a checkpoint, or if a restore or a backup into its
 * folder was not finished.
 */
export function assertMayBeMissing(logPath: string, checkpoint?: Checkpoint): Promise<void> {
  return withIoError(`Cannot open "${logPath}"`, async () => {
    if (disk.stat(logPath) !== undefined) return;
    if (disk.stat(`${logPath}.new`) !== undefined) {
      const fault = "it is missing, because a restore or a backup into its folder was not finished";
      const advice = "empty the folder, and run that command again";
      throw new PlantStoreError("corruption", `Cannot open "${logPath}": ${fault}; ${advice}`);
    }
    if (checkpoint !== undefined) throw changedError(logPath, "it is missing", checkpoint);
  });
}

/** Keeps an unfinished end in quarantine, and cuts it. */
async function cutTail(file: LogFile, start: number, tail: Buffer): Promise<void> {
  const kept = tail.at(-1) === LINE_FEED ? tail : Buffer.concat([tail, Buffer.of(LINE_FEED)]);
  /** Returns whether there was room. */
  const tryKeep = async () => {
    const error = await quarantine(file.path, kept).catch((cause: PlantStoreError) => cause);
    if (error && !isNoRoom(error.cause)) throw error;
    return !error;
  };
  let isKept = await tryKeep();
  await file.cut(start);
  isKept ||= await tryKeep(); // the cut may have made room
  const what = `cut ${tail.length} bytes of an unfinished write, which was never acknowledged`;
  const where = isKept ? "kept them in quarantine" : "dropped them, because the disk has no room";
  publishWarning(`"${file.path}": ${what}, at byte offset ${start}, and ${where}`);
}

/**
 * Appends bytes that are taken out of a log to its quarantine file, durably.
 *
 * @throws PlantStoreError `write_failed` if there is no room; `unsynced`; `io_error`.
 */
export async function quarantine(logPath: string, bytes: Buffer): Promise<void> {
  const file = await LogFile.open(`${logPath}.quarantine`);
  const append = async () => {
    await file.append(bytes);
    await disk.syncFolder(path.dirname(logPath));
  };
  await withUnsynced(`Cannot write "${file.path}"`, append).finally(() => file.close());
}

/**
 * The lines of a log in blocks, checked as a start checks them, even while another process writes it.
 *
 * @throws PlantStoreError `io_error` if there is none; `corruption` after the lines before the damage, or if it is
 * gone; `locked` if the process that writes it does not reply, or does not know yet.
 */
export async function* readLog(directory: string, scan = new Scan()): AsyncGenerator<Buffer> {
  const logPath = logPathOf(directory);
  const checkpoint = await readCheckpoint(logPath);
  const file = await LogFile.openForReading(logPath);
  if (file === undefined) {
    await assertMayBeMissing(logPath, checkpoint);
    const why = "no such file; expected a data directory or a backup";
    throw ioError(`Cannot read "${logPath}"`, why);
  }
  try {
    const holder = await locks.findHolder(directory, LOCK_NAME);
    if (holder === undefined) return yield* scan.lines({ file, checkpoint });
    const { command, durableBytes } = holder;
    if (durableBytes !== undefined) return yield* scan.lines({ file, durableBytes, checkpoint });
    const why = `"${command}" has not opened it yet; try again`;
    throw new PlantStoreError("locked", `Cannot read "${logPath}": ${why}`);
  } finally {
    await file.close();
  }
}
