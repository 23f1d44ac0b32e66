/**
 * The log of plants in a data directory: its files, its lock, how it is read without the lock (also
 * while another process writes it), and what its checkpoint demands of it.
 */
import path from "node:path";
import { PlantStoreError } from "../core/errors.ts";
import { LOCK_NAME, LOG_NAME } from "../core/file-names.ts";
import { type Checkpoint, readCheckpoint } from "../log/checkpoint.ts";
import { disk } from "../log/disk.ts";
import { LogFile } from "../log/file.ts";
import { endOfLines, LINE_FEED, lineError, readTail } from "../log/lines.ts";
import { type HeldLock, locks } from "../log/lock.ts";
import { LogScan } from "./log-scan.ts";
import { isRecord } from "./records.ts";

export function logPathOf(directory: string): string {
  return path.join(path.resolve(directory), LOG_NAME);
}

/** Takes the lock of a directory, like `locks.acquire`. */
export function lockDirectory(
  directory: string,
  command: string,
  durableBytes?: () => number | undefined,
): Promise<HeldLock> {
  return locks.acquire(directory, { name: LOCK_NAME, command, durableBytes });
}

/**
 * A numbered backup, and its number: `plants-000042-20261127T101500Z`. A name without a number was given by
 * the backup unit of an earlier version.
 */
export const BACKUP_NAME = /^plants-(?:(\d{6,15})-)?\d{8}T\d{6}Z$/;

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
  requireKnownBytes(logPath, await readCheckpoint(logPath));
  const backup = findBackup(directory);
  const advice =
    backup === undefined
      ? "expected a data directory or a backup, as --data or as SOURCE"
      : `name one of the numbered backups in this folder, such as "${path.join(directory, backup)}"`;
  throw new PlantStoreError(
    "io_error",
    `Cannot read "${logPath}": there is no such file; ${advice}`,
  );
}

function findBackup(folder: string): string | undefined {
  try {
    return disk.list(folder).find(({ name }) => BACKUP_NAME.test(name))?.name;
  } catch {
    return undefined;
  }
}

/** How much of a log may be read. */
export interface Readable {
  /** How many bytes may be read, with what follows the whole lines. */
  readonly size: number;
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
  const durableBytes = await locks.askDurableBytes(directory, LOCK_NAME);
  const size = durableBytes ?? file.size();
  const end = await endOfLines(file, size);
  const tail = durableBytes === undefined ? await readTail(file, end, size) : undefined;
  const isWhole = tail !== undefined && isRecord(tail);
  return { size, end, lastLine: Buffer.concat(isWhole ? [tail, Buffer.of(LINE_FEED)] : []) };
}

/**
 * Reads and judges a log that is to be copied: every line, and the checksum. It is stricter than a start
 * in one respect: a line that lost pages in a power cut is damage, because only a start may set it aside.
 *
 * @param size how much of the file is the log.
 * @param sourcePath the log that errors name.
 * @throws PlantStoreError `corruption`, which names path, line and byte; `io_error`.
 */
export async function scanSoundLog(
  file: LogFile,
  size: number,
  checkpoint: Checkpoint | undefined,
  onProgress: ((bytes: number, total: number) => void) | undefined,
  sourcePath = file.path,
): Promise<LogScan> {
  const scan = await LogScan.run(file, size, {
    checkpoint,
    onFault: ({ kind, position, reason }) => {
      if (kind !== "repeat") throw lineError(sourcePath, position, reason);
    },
    onProgress,
  });
  requireKnownBytes(sourcePath, checkpoint, scan);
  return scan;
}

/**
 * @param found the length of the log and, once it was scanned, how it compares; absent if there is
 * none.
 * @throws PlantStoreError `corruption` unless the log begins with the bytes that its checkpoint knows.
 */
export function requireKnownBytes(
  logPath: string,
  checkpoint: Checkpoint | undefined,
  found?: Partial<Pick<LogScan, "checksum">> & Pick<LogScan, "size">,
): void {
  const bytes = checkpoint?.bytes ?? 0;
  const known = `its checkpoint knows of ${bytes} bytes`;
  let fault: string;
  if (found === undefined && bytes > 0) fault = `it is missing, and ${known}`;
  else if (found !== undefined && found.size < bytes) {
    fault = `it holds ${found.size} bytes, and ${known}: it was cut, or copied before its checkpoint`;
  } else if (found?.checksum === "differs") {
    fault = `its first ${bytes} bytes are not those its checkpoint knows`;
  } else return;
  throw new PlantStoreError(
    "corruption",
    `Cannot open "${logPath}": ${fault}; restore it from a backup, or accept it as it is with ` +
      '"plant-store repair"',
  );
}
