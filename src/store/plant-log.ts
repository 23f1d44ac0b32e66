/**
 * The log of plants in a data directory: its files, its lock, how it is read without the lock (also
 * while another process writes it), and what its checkpoint demands of it.
 */
import fs from "node:fs/promises";
import path from "node:path";
import { PlantStoreError } from "../core/errors.ts";
import { LOCK_NAME, LOG_NAME } from "../core/file-names.ts";
import { type Checkpoint, readCheckpoint } from "../log/checkpoint.ts";
import { LogFile } from "../log/file.ts";
import { LINE_FEED } from "../log/format.ts";
import { askDurableBytes, DirectoryLock } from "../log/lock.ts";
import { endOfLines, readTail } from "../log/reader.ts";
import { ioError } from "../log/system-error.ts";
import { isRecord } from "./plant-lines.ts";

export function logPathOf(directory: string): string {
  return path.join(path.resolve(directory), LOG_NAME);
}

/** Where a repair writes the new log; a repair that was killed leaves it there. */
export function repairedPath(logPath: string): string {
  return `${logPath}.repaired`;
}

/**
 * Takes the lock of a directory.
 *
 * @param command named as the holder in the error of another process.
 * @param durableBytes how much of the log other processes may read.
 * @throws PlantStoreError `locked` if another process holds it; `io_error`.
 */
export function lockDirectory(
  directory: string,
  command: string,
  durableBytes?: () => number | undefined,
): Promise<DirectoryLock> {
  const answer = durableBytes && { durableBytes };
  return DirectoryLock.acquire(directory, { name: LOCK_NAME, command, ...answer });
}

/**
 * Opens a log for reading.
 *
 * @throws PlantStoreError `io_error` if there is none; `corruption` if there is none and a
 * checkpoint is left that knows of one.
 */
export async function openLogForReading(directory: string): Promise<LogFile> {
  const logPath = logPathOf(directory);
  const file = await LogFile.openForReading(logPath);
  if (file !== undefined) return file;
  assertReaches(logPath, await readCheckpoint(logPath));
  throw new PlantStoreError(
    "io_error",
    `Cannot read "${logPath}": there is no such file; name the data directory with --data`,
  );
}

/** How much of a log may be read. */
export interface Readable {
  /** Where the whole lines end. */
  readonly end: number;
  /** The line after them, with a line feed of its own; empty if there is none. */
  readonly lastLine: Buffer;
}

/**
 * While a process holds the directory, the bytes that it knows to be on disk are readable. While
 * none does, every whole line is, and so is a last record that lacks only its line feed: the next
 * start completes it.
 *
 * @throws PlantStoreError `locked` if the holder does not answer; `io_error`.
 */
export async function findReadable(directory: string, file: LogFile): Promise<Readable> {
  const durableBytes = await askDurableBytes(directory, LOCK_NAME);
  const size = durableBytes ?? file.size();
  const end = await endOfLines(file, size);
  const tail = durableBytes === undefined ? await readTail(file, end, size) : undefined;
  const isWhole = tail !== undefined && isRecord(tail);
  return { end, lastLine: Buffer.concat(isWhole ? [tail, Buffer.of(LINE_FEED)] : []) };
}

/**
 * @param size the length of the log; absent if there is none.
 * @throws PlantStoreError `corruption` if the log is shorter than its checkpoint.
 */
export function assertReaches(
  logPath: string,
  checkpoint: Checkpoint | undefined,
  size?: number,
): void {
  const bytes = checkpoint?.bytes ?? 0;
  if ((size ?? 0) >= bytes) return;
  const found =
    size === undefined
      ? `it is missing, and its checkpoint knows of ${bytes} bytes`
      : `it holds ${size} bytes, and its checkpoint knows of ${bytes}: ` +
        "it was cut, or copied before its checkpoint";
  throw refusal(logPath, `${found}; restore it from a backup, or accept the loss`);
}

/** @throws PlantStoreError `corruption` unless a scan found the bytes that the checkpoint knows. */
export function assertMatches(
  logPath: string,
  checkpoint: Checkpoint | undefined,
  { matchesCheckpoint }: { readonly matchesCheckpoint: boolean },
): void {
  if (matchesCheckpoint) return;
  const found = `its first ${checkpoint?.bytes} bytes are not those its checkpoint knows`;
  const advice = "if that was an edit made on purpose, or there is no backup to restore, accept it";
  throw refusal(logPath, `${found}; ${advice}`);
}

function refusal(logPath: string, fault: string): PlantStoreError {
  return new PlantStoreError(
    "corruption",
    `Cannot open "${logPath}": ${fault} with "plant-store repair"`,
  );
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
