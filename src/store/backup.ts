/**
 * `backup`: a copy of a data directory's plants and tokens that can be started from.
 *
 * Invariants. The copy holds every plant that was acknowledged before the
 * backup began, whole lines only, synced, with a checkpoint of its own, and
 * was verified after it was written. It appears under its name all at once, by
 * a rename; what a killed backup leaves behind has another name. The source is
 * only read, also beside a running server.
 */
import { randomBytes } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { PlantStoreError } from "../core/errors.ts";
import { LOG_NAME, TOKEN_LOG_NAME } from "../core/file-names.ts";
import { readCheckpoint, writeCheckpoint } from "../log/checkpoint.ts";
import { ensureDirectory, ioError, LogFile, syncDirectory } from "../log/file.ts";
import { lineError } from "../log/line-error.ts";
import { copyRange } from "../log/quarantine.ts";
import { LOG_START } from "../log/reader.ts";
import { LogScan } from "./log-scan.ts";
import { findReadable, openForReading } from "./readable.ts";
import { mismatchError, shorterError } from "./recover.ts";

export interface BackupReport {
  readonly plants: number;
  /** The length of the copied log. */
  readonly bytes: number;
}

/**
 * Copies the plants and tokens of a data directory into a new folder, and nothing else.
 *
 * @param directory the data directory.
 * @param target the folder to make; it must not exist.
 * @param onProgress told how many bytes of the copy are verified, and of how
 * many, about once a MiB.
 * @throws PlantStoreError `io_error` when the target exists or the system
 * refuses, `locked` when the process that holds the directory does not answer,
 * `corruption` when the log is damaged: a backup of it would be none.
 */
export async function backup(
  directory: string,
  target: string,
  onProgress?: (bytes: number, total: number) => void,
): Promise<BackupReport> {
  if (isThere(target)) {
    throw new PlantStoreError("io_error", `Cannot back up to "${target}": it exists already`);
  }
  const partial = `${path.resolve(target)}.partial-${randomBytes(4).toString("hex")}`;
  await ensureDirectory(partial);
  try {
    const report = await copyPlants(directory, partial, onProgress);
    await copyTokens(directory, partial);
    await syncDirectory(partial);
    fs.renameSync(partial, target);
    await syncDirectory(path.dirname(path.resolve(target)));
    return report;
  } catch (cause) {
    fs.rmSync(partial, { recursive: true, force: true });
    if (cause instanceof PlantStoreError) throw cause;
    throw ioError(`Cannot back up to "${target}"`, cause);
  }
}

function isThere(target: string): boolean {
  try {
    return fs.lstatSync(target, { throwIfNoEntry: false }) !== undefined;
  } catch {
    return false; // making it will say why it cannot be
  }
}

async function copyPlants(
  directory: string,
  targetDirectory: string,
  onProgress: ((bytes: number, total: number) => void) | undefined,
): Promise<BackupReport> {
  const source = await openForReading(directory);
  try {
    const checkpoint = await readCheckpoint(source.path);
    const { end, lastLine } = await findReadable(directory, source);
    const copy = await copyFile(source, path.join(targetDirectory, LOG_NAME), end);
    try {
      if (lastLine.length > 0) await copy.appendOrThrow(lastLine);
      const size = copy.size();
      const knownBytes = checkpoint?.bytes ?? 0;
      if (size < knownBytes) throw shorterError(source.path, size, knownBytes);
      const scan = new LogScan(copy, {
        checkpoint,
        onFault: ({ kind, position, reason }) => {
          if (kind !== "repeat") throw lineError(source.path, position, reason);
        },
        onProgress: onProgress && ((bytes) => onProgress(bytes, size)),
      });
      await scan.run(LOG_START, size);
      if (!scan.matchesCheckpoint) throw mismatchError(source.path, knownBytes);
      await writeCheckpoint(copy.path, scan.end);
      return { plants: scan.index.size, bytes: scan.end.bytes };
    } finally {
      await copy.close();
    }
  } finally {
    await source.close();
  }
}

/** Copies the token log, if there is one, as it is: a last event counts also without its line feed. */
async function copyTokens(directory: string, targetDirectory: string): Promise<void> {
  const source = await LogFile.openForReading(path.join(path.resolve(directory), TOKEN_LOG_NAME));
  if (source === undefined) return;
  try {
    const copy = await copyFile(source, path.join(targetDirectory, TOKEN_LOG_NAME), source.size());
    await copy.close();
  } finally {
    await source.close();
  }
}

/** Copies the first bytes of a file into a new one, and returns it open. */
async function copyFile(source: LogFile, targetPath: string, bytes: number): Promise<LogFile> {
  const copy = await LogFile.open(targetPath);
  try {
    await copyRange(source, { offset: 0, bytes }, copy);
    if (copy.end === bytes) return copy;
    throw new PlantStoreError(
      "io_error",
      `Cannot copy "${source.path}": it had ${bytes} bytes, and now has ${copy.end}`,
    );
  } catch (error) {
    await copy.close();
    throw error;
  }
}
