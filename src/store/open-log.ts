/**
 * Opens the log of a data directory: for writing, with an index that may be served from, or for
 * reading beside the process that writes it.
 *
 * Invariant. Every line is read before anything is changed, so a log that needs a person is left
 * exactly as it was found. A start refuses whatever may concern an acknowledged plant: a line that
 * cannot be read, one id with two contents (either may be the acknowledged one), a log that is
 * shorter than its checkpoint or differs from it. What a power cut leaves is mended (log/mend).
 */
import { existsSync } from "node:fs";
import fs from "node:fs/promises";
import path from "node:path";
import { PlantStoreError } from "../core/errors.ts";
import { LOCK_NAME, LOG_NAME } from "../core/file-names.ts";
import { type Checkpoint, readCheckpoint } from "../log/checkpoint.ts";
import { type ByteRange, LogFile } from "../log/file.ts";
import { LINE_FEED, type LinePosition } from "../log/format.ts";
import { askDurableBytes } from "../log/lock.ts";
import { earliestBatchStart, hasLostSector, mendLog, rewriteLastBatch } from "../log/mend.ts";
import { endOfLines, LOG_START, lineError, readTail } from "../log/reader.ts";
import { ioError } from "../log/system-error.ts";
import type { IdIndex } from "./id-index.ts";
import { type LineFault, LogScan } from "./log-scan.ts";
import { isRecord } from "./plant-lines.ts";

export function logPathOf(directory: string): string {
  return path.join(path.resolve(directory), LOG_NAME);
}

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
  if (!existsSync(logPath)) assertNothingLost(logPath, checkpoint);
  const file = await LogFile.open(logPath);
  try {
    return { file, checkpoint, ...(await recover(file, checkpoint, onProgress)) };
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
  const knownBytes = checkpoint?.bytes ?? 0;
  if (size < knownBytes) throw shorterError(file.path, size, knownBytes);

  const damaged: ByteRange[] = [];
  const scan = new LogScan(file, {
    checkpoint,
    isLost: await lostLineJudge(file, size, checkpoint),
    onFault: (fault) => {
      if (fault.kind === "mendable") damaged.push({ ...fault.position, bytes: fault.bytes });
      else refuse(file.path, fault);
    },
    onProgress: onProgress && ((bytes) => onProgress(bytes, size)),
  });
  const tail = await scan.run(LOG_START, await endOfLines(file, size));
  if (!scan.matchesCheckpoint) throw mismatchError(file.path, knownBytes);
  await scan.inspectTail(tail);

  // Everything was read: from here on the log is changed.
  await removePersistedIndex(file.path);
  const length = await mendLog(file, { damaged, tail, isRecord });
  await rewriteLastBatch(file, length, knownBytes);
  await scan.run(tail, length); // the last record, if it was completed
  return { index: scan.index, end: scan.end };
}

function refuse(logPath: string, { kind, position, reason }: LineFault): void {
  if (kind === "repeat") return;
  const advice =
    'restore the log from a backup, or have "plant-store repair" write one of what is readable';
  throw lineError(logPath, position, `${reason}; ${advice}`);
}

/**
 * Judges whether a line that cannot be read lost pages in a power cut. Only the last batch can
 * have lost some, and only after the checkpoint.
 *
 * @param size of the log.
 */
export async function lostLineJudge(
  file: LogFile,
  size: number,
  checkpoint: Checkpoint | undefined,
): Promise<(line: Buffer, position: LinePosition) => boolean> {
  const start = Math.max(checkpoint?.bytes ?? 0, await earliestBatchStart(file, size));
  return (line, { offset }) => offset >= start && hasLostSector(line, offset);
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

/**
 * Opens a log for reading, without the lock.
 *
 * @throws PlantStoreError `io_error` if there is none; `corruption` if there is none and a
 * checkpoint is left that knows of one.
 */
export async function openLogForReading(directory: string): Promise<LogFile> {
  const logPath = logPathOf(directory);
  const file = await LogFile.openForReading(logPath);
  if (file !== undefined) return file;
  assertNothingLost(logPath, await readCheckpoint(logPath));
  throw new PlantStoreError(
    "io_error",
    `Cannot read "${logPath}": there is no such file; name the data directory with --data`,
  );
}

/** How much of a log may be read without the lock. */
export interface Readable {
  /** Where the whole lines end. */
  readonly end: number;
  /** The line after them, with a line feed of its own; empty if there is none. */
  readonly lastLine: Buffer;
}

/**
 * While a process holds the directory, the bytes that it knows to be on disk are readable. While
 * none does, every whole line is, and a last record that lacks only its line feed: the next start
 * completes it, so no reader may leave it out.
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

/** @throws PlantStoreError `corruption` if the checkpoint of a log that is gone knows of plants. */
function assertNothingLost(logPath: string, checkpoint: Checkpoint | undefined): void {
  const knownBytes = checkpoint?.bytes ?? 0;
  if (knownBytes === 0) return;
  throw new PlantStoreError(
    "corruption",
    `Cannot open "${logPath}": it is missing, and its checkpoint knows of ${knownBytes} bytes; ` +
      'restore it from a backup, or accept the loss with "plant-store repair"',
  );
}

export function shorterError(logPath: string, size: number, knownBytes: number): PlantStoreError {
  return new PlantStoreError(
    "corruption",
    `Cannot open "${logPath}": it holds ${size} bytes, and its checkpoint knows of ${knownBytes}: ` +
      "it was cut, or copied before its checkpoint; " +
      'restore it from a backup, or accept it as it is with "plant-store repair"',
  );
}

export function mismatchError(logPath: string, knownBytes: number): PlantStoreError {
  return new PlantStoreError(
    "corruption",
    `Cannot open "${logPath}": its first ${knownBytes} bytes are not those its checkpoint knows; ` +
      "if that was an edit made on purpose, or there is no backup to restore, accept it " +
      'with "plant-store repair"',
  );
}
