/**
 * Makes a log durable that this process has read, and has not written.
 *
 * What was read may be in the page cache only: another program copied or appended it and never synced
 * it, or its sync failed. After a failed sync the kernel takes the bytes for clean, so another sync
 * succeeds without writing them (Rebello et al., "Can Applications Recover from fsync Failures?",
 * ATC '20). Invariants. After `makeDurable` the disk has every byte that was read. A failed sync is
 * remembered across starts (`isUnsynced`), because the kernel reports it once, until every byte was
 * written again by a process that had read it.
 */
import path from "node:path";
import { crc32 } from "node:zlib";
import { PlantStoreError } from "../core/errors.ts";
import { type Checkpoint, isUnsynced, markSynced, markUnsynced } from "./checkpoint.ts";
import type { LogFile } from "./file.ts";
import { earliestBatchStart } from "./mend.ts";
import { describeSystemError, systemCode } from "./system-error.ts";

const CHUNK_BYTES = 1024 * 1024;

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
 * ended may have failed to sync it. If a sync has failed, every byte is written again.
 *
 * @param end the log as it was read.
 * @param knownBytes the length in the checkpoint.
 * @throws PlantStoreError `unsynced` if the disk does not take the bytes; `locked` if another process has
 * changed the file since it was opened.
 */
export async function makeDurable(file: LogFile, end: Checkpoint, knownBytes = 0): Promise<void> {
  if (!isUnsynced(file.path)) {
    try {
      await rewriteLastBatch(file, end.bytes, knownBytes);
      await file.sync();
      return;
    } catch (cause) {
      if (!isOfDisk(cause)) throw cause;
      await remember(file, cause);
    }
  }
  await rewriteAll(file, end);
}

/** Writes every byte of a log again, unchanged. @param end, @throws as for `makeDurable`. */
export async function rewriteAll(file: LogFile, end: Checkpoint): Promise<void> {
  try {
    await file.forgetFailedSyncs();
    const sum = await rewrite(file, 0, end.bytes);
    if (sum !== end.crc32) throw new Error("other bytes were read than before");
    await markSynced(file.path);
  } catch (cause) {
    throw isOfDisk(cause) ? unsyncedError(file, cause) : cause;
  }
}

/** Writes again what may be the last batch and comes after `knownBytes`. Fails like `rewrite`. */
export async function rewriteLastBatch(file: LogFile, end: number, knownBytes = 0): Promise<void> {
  await rewrite(file, Math.max(knownBytes, await earliestBatchStart(file, end)), end);
}

/**
 * Writes bytes again, unchanged, and waits until the disk has them.
 *
 * @returns their CRC-32.
 * @throws PlantStoreError `locked` if another process has changed the file since it was opened;
 * `io_error`.
 */
export async function rewrite(file: LogFile, start: number, end: number): Promise<number> {
  let sum = 0;
  for (let offset = start; offset < end; offset += CHUNK_BYTES) {
    const chunk = Buffer.alloc(Math.min(CHUNK_BYTES, end - offset));
    await file.read(chunk, offset);
    await file.overwrite(chunk, offset);
    sum = crc32(chunk, sum);
  }
  return sum;
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
    `Cannot make "${filePath}" durable: ${describeSystemError(cause)}; its disk fails: copy ` +
      `"${path.dirname(filePath)}" to another disk (cp -a) before this machine restarts, and serve the copy`,
    { cause },
  );
}
