/**
 * Makes a log durable that this process has read, and has not written.
 *
 * What was read may be in the page cache only: another program copied or appended it and never synced
 * it, or its sync failed. After a failed sync the kernel takes the bytes for clean, so another sync
 * succeeds without writing them (Rebello et al., "Can Applications Recover from fsync Failures?",
 * ATC '20). Even if they are written again in place, ext4 may keep their blocks as not written, and
 * read zeros later; so they are written to a new file. Invariants. After `makeDurable` the disk has
 * every byte that was read. A failed sync is remembered across starts (`isUnsynced`), because the kernel
 * reports it once, until a process that has read every byte has written it to a new file.
 */
import path from "node:path";
import { crc32 } from "node:zlib";
import { publishWarning } from "../core/channels.ts";
import { PlantStoreError } from "../core/errors.ts";
import { type Checkpoint, EMPTY_LOG, isUnsynced, markSynced, markUnsynced } from "./checkpoint.ts";
import { describeSystemError, disk, ioError, orIoError, systemCode } from "./disk.ts";
import { LogFile } from "./file.ts";
import { removeLeftover, renameDurably, syncFolderAndName, useAndClose } from "./folder.ts";
import { earliestBatchStart } from "./mend.ts";

const CHUNK_BYTES = 1024 * 1024;

/** Where a new log is written before it takes the name of the old one; a killed process may leave it. */
export function newLogPath(logPath: string): string {
  return `${logPath}.repaired`;
}

/**
 * Syncs a log as it was found, and remembers if that fails. It takes as long as the disk needs.
 *
 * @throws PlantStoreError `unsynced` if the sync failed, and that cannot be remembered.
 */
export async function syncFound(file: LogFile): Promise<void> {
  try {
    await file.sync();
  } catch (cause) {
    await remember(file.path, cause);
  }
}

/**
 * Syncs a log that this process only reads, and its folder; both may be missing. The file comes before
 * its name: XFS may commit a rename alone.
 *
 * @param advice what replaces the log by a copy.
 * @throws PlantStoreError `unsynced` if a sync of it has failed, now or since it was replaced; `io_error`.
 */
export function syncLog(logPath: string, advice: string): Promise<void> {
  const ignoreMissing = (error: unknown) => {
    if (systemCode(error) !== "ENOENT") throw error;
  };
  return orIoError(`Cannot sync "${logPath}"`, async () => {
    const file = await LogFile.openForReading(logPath);
    if (file !== undefined) {
      await useAndClose(file, async () => {
        await syncFound(file);
        const size = file.size();
        if (await isOnDisk(file, 0, size)) return;
        try {
          file.assertInPlace(size);
        } catch {
          return; // another process has changed or replaced it meanwhile
        }
        await remember(logPath, OTHER_BYTES);
      });
    }
    await syncFolderAndName(path.dirname(logPath)).catch(ignoreMissing);
    if (!isUnsynced(logPath)) return;
    const fault = "a sync of it has failed, so it may not be on disk";
    throw new PlantStoreError("unsynced", `Cannot sync "${logPath}": ${fault}; ${advice}`);
  });
}

/**
 * Makes all bytes of a log durable. The last batch is written again, because a process that ended may
 * have failed to sync it. If a sync has failed, the log is replaced by a copy (`rewriteLog`).
 *
 * @param end the log as it was read.
 * @param startFrom returns where to start, given the earliest offset at which the last batch may start. All
 * that follows is read again, and must be what was read before.
 * @returns whether the log was replaced; `file` is the old one then.
 * @throws PlantStoreError `unsynced` if the disk does not take the bytes; `locked` if another process has
 * changed the file since it was opened; `io_error`.
 */
export async function makeDurable(
  file: LogFile,
  end: Checkpoint,
  startFrom = (_earliest: number) => EMPTY_LOG,
): Promise<boolean> {
  if (!isUnsynced(file.path)) {
    const earliest = await earliestBatchStart(file, end.bytes);
    const start = startFrom(earliest);
    const batch = Math.max(start.bytes, earliest);
    const [before = 0] = (await sumsOf(file, start.bytes, batch, start.crc32)).slice(-1);
    const sums = await sumsOf(file, batch, end.bytes, before);
    if (sums.at(-1) !== end.crc32) throw otherBytes(file);
    await rewrite(file, batch, end.bytes, sums);
    await syncFound(file);
    if (!(await isOnDisk(file, batch, end.bytes))) {
      file.assertInPlace();
      await remember(file.path, OTHER_BYTES);
    }
  }
  if (!isUnsynced(file.path)) return false;
  await rewriteLog(file, end);
  return true;
}

/**
 * Replaces a log by a copy of its bytes, which are read again, and must be those that `end` knows.
 *
 * @throws PlantStoreError as for `makeDurable`.
 */
export async function rewriteLog(file: LogFile, end: Checkpoint): Promise<void> {
  file.assertInPlace();
  const target = disk.realPath(file.path); // a link stays
  const newPath = newLogPath(target);
  try {
    disk.unlink(newPath); // of a process that was killed
    const sum = await useAndClose(await LogFile.open(newPath), (copy) => copyLog(file, copy, end));
    if (sum !== end.crc32) throw new Error("other bytes were read than before");
    file.assertInPlace(); // or the copy would lack what another process has appended
    await renameDurably(newPath, target);
    markSynced(file.path);
  } catch (cause) {
    removeLeftover(newPath);
    const reason = rootOf(cause);
    const isLocked = cause instanceof PlantStoreError && cause.code === "locked";
    // EFBIG is a limit of this process.
    if (isLocked || systemCode(reason) === "EFBIG") throw cause;
    throw unsyncedError(file.path, reason);
  }
}

/** What the system reported first. */
function rootOf(failure: unknown): unknown {
  let root = failure;
  while (root instanceof Error && root.cause !== undefined) root = root.cause;
  return root;
}

/** Copies all of a log; returns the CRC-32 of the bytes that `end` knows. */
async function copyLog(file: LogFile, copy: LogFile, end: Checkpoint): Promise<number> {
  let sum = 0;
  for await (const { bytes } of readChunks(file, 0, end.bytes)) {
    await copy.appendOrThrow(bytes);
    sum = crc32(bytes, sum);
  }
  await copy.appendRange(file, { offset: end.bytes, bytes: file.end - end.bytes });
  return sum;
}

/** The CRC-32 of the log up to the end of each chunk. @param sum that of the bytes before `start`. */
async function sumsOf(file: LogFile, start: number, end: number, sum: number): Promise<number[]> {
  const sums = [sum];
  for await (const { bytes } of readChunks(file, start, end)) {
    sums.push(crc32(bytes, sums.at(-1)));
  }
  return sums;
}

/** Writes the chunks with these sums again in place. Fails like `LogFile.overwrite`, and if other bytes are read. */
async function rewrite(file: LogFile, start: number, end: number, sums: number[]): Promise<void> {
  let sum = sums.shift();
  for await (const { bytes, offset } of readChunks(file, start, end)) {
    sum = crc32(bytes, sum);
    if (sum !== sums.shift()) throw otherBytes(file);
    await file.overwrite(bytes, offset);
  }
}

function otherBytes(file: LogFile): PlantStoreError {
  file.assertInPlace();
  return ioError(`Cannot read "${file.path}"`, "other bytes were read than before; start again");
}

async function* readChunks(
  file: LogFile,
  start: number,
  end: number,
): AsyncGenerator<{ readonly bytes: Buffer; readonly offset: number }> {
  for (let offset = start; offset < end; offset += CHUNK_BYTES) {
    const bytes = Buffer.alloc(Math.min(CHUNK_BYTES, end - offset));
    await file.read(bytes, offset);
    yield { bytes, offset };
  }
}

const OTHER_BYTES = "the disk has other bytes than were read";

/** Whether the disk has these bytes, not the page cache alone; also true if the system cannot tell. */
async function isOnDisk(file: LogFile, start: number, end: number): Promise<boolean> {
  for await (const { bytes, offset } of readChunks(file, start, end)) {
    if (!(await disk.holds(file.path, bytes, offset))) return false;
  }
  return true;
}

async function remember(logPath: string, failure: unknown): Promise<void> {
  const why = describeSystemError(failure);
  publishWarning(`A sync of "${logPath}" has failed: ${why}; only a copy of it will be on disk`);
  try {
    await markUnsynced(logPath);
  } catch {
    throw unsyncedError(logPath, failure);
  }
}

function unsyncedError(logPath: string, cause: unknown): PlantStoreError {
  return new PlantStoreError(
    "unsynced",
    `Cannot make "${logPath}" durable: a sync of it has failed, and it cannot be replaced by a copy: ` +
      `${describeSystemError(cause)}; make room on its disk for a second log, or, if the disk fails, copy ` +
      'the folder to another one by "plant-store backup" before this machine restarts, and serve that copy',
    { cause },
  );
}
