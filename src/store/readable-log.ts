/**
 * The log of a data directory without the lock: for readers, also while another process writes it.
 *
 * What a log must have to be opened at all, given its checkpoint, is decided here, too.
 */
import path from "node:path";
import { PlantStoreError } from "../core/errors.ts";
import { LOCK_NAME, LOG_NAME } from "../core/file-names.ts";
import { type Checkpoint, readCheckpoint } from "../log/checkpoint.ts";
import { LogFile } from "../log/file.ts";
import { LINE_FEED } from "../log/format.ts";
import { askDurableBytes } from "../log/lock.ts";
import { endOfLines, readTail } from "../log/reader.ts";
import { isRecord } from "./plant-lines.ts";

export function logPathOf(directory: string): string {
  return path.join(path.resolve(directory), LOG_NAME);
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
  refuseMissing(logPath, await readCheckpoint(logPath));
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

/** @throws PlantStoreError `corruption` if the checkpoint knows of a log, which is missing. */
export function refuseMissing(logPath: string, checkpoint: Checkpoint | undefined): void {
  const knownBytes = checkpoint?.bytes ?? 0;
  if (knownBytes === 0) return;
  throw new PlantStoreError(
    "corruption",
    `Cannot open "${logPath}": it is missing, and its checkpoint knows of ${knownBytes} bytes; ` +
      'restore it from a backup, or accept the loss with "plant-store repair"',
  );
}

/** @throws PlantStoreError `corruption` if a log of this size is shorter than its checkpoint. */
export function refuseShorter(
  logPath: string,
  size: number,
  checkpoint: Checkpoint | undefined,
): void {
  const knownBytes = checkpoint?.bytes ?? 0;
  if (size >= knownBytes) return;
  throw new PlantStoreError(
    "corruption",
    `Cannot open "${logPath}": it holds ${size} bytes, and its checkpoint knows of ${knownBytes}: ` +
      "it was cut, or copied before its checkpoint; " +
      'restore it from a backup, or accept it as it is with "plant-store repair"',
  );
}

/** The `corruption` of a log whose bytes differ from its checkpoint. */
export function mismatchError(logPath: string, checkpoint: Checkpoint | undefined) {
  return new PlantStoreError(
    "corruption",
    `Cannot open "${logPath}": its first ${checkpoint?.bytes} bytes are not those its checkpoint ` +
      "knows; if that was an edit made on purpose, or there is no backup to restore, accept it " +
      'with "plant-store repair"',
  );
}
