/**
 * How much of a log a reader without the lock may see.
 *
 * While a process holds the directory, that is what it knows to be on disk.
 * While none does, it is every whole line, and a last record that lacks only
 * its line feed: the next start completes it, so no reader may leave it out.
 */
import path from "node:path";
import { PlantStoreError } from "../core/errors.ts";
import { LOCK_NAME, LOG_NAME } from "../core/file-names.ts";
import { readCheckpoint } from "../log/checkpoint.ts";
import { LogFile } from "../log/file.ts";
import { LINE_FEED } from "../log/format.ts";
import { askDurableBytes } from "../log/lock.ts";
import { endOfLines, readTail } from "../log/reader.ts";
import { isRecord } from "./record.ts";
import { missingError } from "./recover.ts";

export interface Readable {
  /** Where the whole lines end. */
  readonly end: number;
  /** The line behind them, with a line feed of its own; empty where there is none. */
  readonly lastLine: Buffer;
}

/** @throws PlantStoreError `locked` when the holder does not answer; `io_error`. */
export async function findReadable(directory: string, file: LogFile): Promise<Readable> {
  const durableBytes = await askDurableBytes(directory, LOCK_NAME);
  const size = durableBytes ?? file.size();
  const end = await endOfLines(file, size);
  const tail = durableBytes === undefined ? await readTail(file, end, size) : undefined;
  const isWhole = tail !== undefined && isRecord(tail);
  return { end, lastLine: Buffer.concat(isWhole ? [tail, Buffer.of(LINE_FEED)] : []) };
}

/**
 * The log of a data directory, opened for reading.
 *
 * @throws PlantStoreError `io_error` where there is none, `corruption` where a
 * checkpoint is left that knows of one.
 */
export async function openForReading(directory: string): Promise<LogFile> {
  const logPath = path.join(path.resolve(directory), LOG_NAME);
  const file = await LogFile.openForReading(logPath);
  if (file !== undefined) return file;
  const knownBytes = (await readCheckpoint(logPath))?.bytes ?? 0;
  if (knownBytes > 0) throw missingError(logPath, knownBytes);
  throw new PlantStoreError(
    "io_error",
    `Cannot read "${logPath}": there is no such file; name the data directory with --data`,
  );
}
