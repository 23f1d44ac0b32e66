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
import fs from "node:fs";
import path from "node:path";
import { crc32 } from "node:zlib";
import { PlantStoreError } from "../core/errors.ts";
import { type Checkpoint, isUnsynced, markSynced, markUnsynced } from "./checkpoint.ts";
import { LogFile } from "./file.ts";
import { removeLeftover, syncDirectory, useAndClose } from "./folder.ts";
import { earliestBatchStart } from "./mend.ts";
import { describeSystemError, systemCode } from "./system-error.ts";

const CHUNK_BYTES = 1024 * 1024;

/** Where a new log is written before it takes the name of the old one; a killed process may leave it. */
export function newLogPath(logPath: string): string {
  return `${logPath}.repaired`;
}

/**
 * Syncs a log as it was found. It takes as long as the disk needs, so begin it before the log is read.
 *
 * @throws PlantStoreError `unsynced` if the sync failed, and that cannot be remembered.
 */
export async function syncFound(file: LogFile): Promise<void> {
  try {
    await file.sync();
  } catch (cause) {
    await remember(file, cause);
  }
}

/**
 * Makes all bytes of a log durable, after `syncFound`. The last batch is written again: a process that
 * ended may have failed to sync it. If a sync has failed, the log is replaced by a copy (`rewriteLog`).
 *
 * @param end the log as it was read.
 * @param knownBytes the length in the checkpoint.
 * @returns whether the log was replaced; `file` is the old one then.
 * @throws PlantStoreError `unsynced` if the disk does not take the bytes; `locked` if another process has
 * changed the file since it was opened.
 */
export async function makeDurable(
  file: LogFile,
  end: Checkpoint,
  knownBytes = 0,
): Promise<boolean> {
  if (!isUnsynced(file.path)) {
    try {
      await rewriteLastBatch(file, end.bytes, knownBytes);
      await file.sync();
      return false;
    } catch (cause) {
      if (!isOfDisk(cause)) throw cause;
      await remember(file, cause);
    }
  }
  await rewriteLog(file, end);
  return true;
}

/**
 * Replaces a log by a copy of its bytes, which are read again, and must be those that `end` knows.
 *
 * @throws PlantStoreError as for `makeDurable`.
 */
export async function rewriteLog(file: LogFile, end: Checkpoint): Promise<void> {
  const newPath = newLogPath(file.path);
  try {
    file.assertUnchanged();
    fs.rmSync(newPath, { force: true }); // of a process that was killed
    const sum = await useAndClose(await LogFile.open(newPath), (copy) => copyLog(file, copy, end));
    if (sum !== end.crc32) throw new Error("other bytes were read than before");
    file.assertUnchanged(); // or the copy would lack what another process has appended
    fs.renameSync(newPath, file.path);
    await syncDirectory(path.dirname(file.path));
    await markSynced(file.path);
  } catch (cause) {
    removeLeftover(newPath);
    throw isOfDisk(cause) ? unsyncedError(file, cause) : cause;
  }
}

/** Copies all of a log; returns the CRC-32 of the bytes that `end` knows. */
async function copyLog(file: LogFile, copy: LogFile, end: Checkpoint): Promise<number> {
  let sum = 0;
  for (let offset = 0; offset < end.bytes; offset += CHUNK_BYTES) {
    const chunk = Buffer.alloc(Math.min(CHUNK_BYTES, end.bytes - offset));
    await file.read(chunk, offset);
    await copy.appendOrThrow(chunk);
    sum = crc32(chunk, sum);
  }
  await copy.appendRange(file, { offset: end.bytes, bytes: file.end - end.bytes });
  return sum;
}

/** Writes again what may be the last batch and comes after `knownBytes`. Fails like `rewrite`. */
export async function rewriteLastBatch(file: LogFile, end: number, knownBytes = 0): Promise<void> {
  await rewrite(file, Math.max(knownBytes, await earliestBatchStart(file, end)), end);
}

/**
 * Writes bytes again in place, unchanged, and waits until the disk has them.
 *
 * @throws PlantStoreError `locked` if another process has changed the file since it was opened;
 * `io_error`.
 */
export async function rewrite(file: LogFile, start: number, end: number): Promise<void> {
  for (let offset = start; offset < end; offset += CHUNK_BYTES) {
    const chunk = Buffer.alloc(Math.min(CHUNK_BYTES, end - offset));
    await file.read(chunk, offset);
    await file.overwrite(chunk, offset);
  }
}

async function remember(file: LogFile, failure: unknown): Promise<void> {
  try {
    await markUnsynced(file.path);
  } catch {
    throw unsyncedError(file, failure);
  }
}

/** Whether the disk has failed, not another process (`locked`) or a limit of this one (EFBIG). */
function isOfDisk(failure: unknown): boolean {
  if (!(failure instanceof PlantStoreError)) return true;
  return failure.code !== "locked" && systemCode(failure.cause) !== "EFBIG";
}

function unsyncedError({ path: filePath }: LogFile, failure: unknown): PlantStoreError {
  const cause = failure instanceof PlantStoreError ? failure.cause : failure;
  return new PlantStoreError(
    "unsynced",
    `Cannot make "${filePath}" durable: a sync of it has failed, and its copy, too: ` +
      `${describeSystemError(cause)}; make room on its disk for a second log, or, if the disk fails, copy ` +
      `"${path.dirname(filePath)}" to another one (cp -a) before this machine restarts, and serve that copy`,
    { cause },
  );
}
