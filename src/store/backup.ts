/**
 * `backup`: a copy of a data directory's plants and tokens that can be started from.
 *
 * Invariants. The copy holds every plant that was acknowledged before the backup began, whole lines
 * only, synced, with a checkpoint of its own, and was verified after it was written. It appears
 * under its name all at once, by a rename; what a killed backup leaves has another name. The source
 * is only read, also beside a running server.
 */
import { randomBytes } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { PlantStoreError } from "../core/errors.ts";
import { LOG_NAME, TOKEN_LOG_NAME } from "../core/file-names.ts";
import { type Checkpoint, readCheckpoint, writeCheckpoint } from "../log/checkpoint.ts";
import { LogFile } from "../log/file.ts";
import { ensureDirectory, syncDirectory, useAndClose } from "../log/folder.ts";
import { lineError } from "../log/reader.ts";
import { ioError } from "../log/system-error.ts";
import { LogScan } from "./log-scan.ts";
import { findReadable, openLogForReading, type Readable, requireKnownBytes } from "./plant-log.ts";

export interface BackupReport {
  readonly plants: number;
  /** The length of the copied log. */
  readonly bytes: number;
}

/**
 * Copies the plants and tokens of a data directory into a new folder, and nothing else.
 *
 * @param target the folder to make; it must not exist.
 * @param onProgress receives how many bytes of the copy are verified, about once a MiB.
 * @param onOpen called after all that is copied was opened, and before anything is made; returns the
 * path of the target from then on. So a program may read as one user and write as another.
 * @throws PlantStoreError `io_error` if the target exists or the system refuses, `locked` if the
 * process that holds the directory does not answer, `corruption` if the log is damaged, because its
 * copy would be no backup.
 */
export async function backup(
  directory: string,
  target: string,
  onProgress?: (bytes: number, total: number) => void,
  onOpen: () => string = () => target,
): Promise<BackupReport> {
  const plants = await openLogForReading(directory);
  let tokens: LogFile | undefined;
  try {
    const checkpoint = await readCheckpoint(plants.path);
    const readable = await findReadable(directory, plants);
    const tokensPath = path.join(path.resolve(directory), TOKEN_LOG_NAME);
    tokens = await LogFile.openForReading(tokensPath);
    return await makeFolder(onOpen(), async (folder) => {
      // The token log as it is: a last event counts also without its line feed.
      if (tokens !== undefined) {
        await (await copyFile(tokens, path.join(folder, TOKEN_LOG_NAME), tokens.size())).close();
      }
      return copyPlants(plants, readable, checkpoint, path.join(folder, LOG_NAME), onProgress);
    });
  } finally {
    await tokens?.close();
    await plants.close();
  }
}

/** Makes a folder with all that `fill` puts into it, or nothing. */
async function makeFolder<T>(target: string, fill: (folder: string) => Promise<T>): Promise<T> {
  if (fs.existsSync(target)) {
    throw new PlantStoreError("io_error", `Cannot back up to "${target}": it exists already`);
  }
  const partial = `${path.resolve(target)}.partial-${randomBytes(4).toString("hex")}`;
  await ensureDirectory(partial);
  try {
    const result = await fill(partial);
    await syncDirectory(partial);
    fs.renameSync(partial, target);
    await syncDirectory(path.dirname(path.resolve(target)));
    return result;
  } catch (cause) {
    fs.rmSync(partial, { recursive: true, force: true });
    if (cause instanceof PlantStoreError) throw cause;
    throw ioError(`Cannot back up to "${target}"`, cause);
  }
}

async function copyPlants(
  plants: LogFile,
  { end, lastLine }: Readable,
  checkpoint: Checkpoint | undefined,
  targetPath: string,
  onProgress: ((bytes: number, total: number) => void) | undefined,
): Promise<BackupReport> {
  return useAndClose(await copyFile(plants, targetPath, end), async (copy) => {
    if (lastLine.length > 0) await copy.appendOrThrow(lastLine);
    const scan = await LogScan.run(copy, copy.end, {
      checkpoint,
      onFault: ({ kind, position, reason }) => {
        if (kind !== "repeat") throw lineError(plants.path, position, reason);
      },
      onProgress,
    });
    requireKnownBytes(plants.path, checkpoint, scan);
    await writeCheckpoint(targetPath, scan.end);
    return { plants: scan.index.size, bytes: scan.end.bytes };
  });
}

/** Copies the first bytes of a file into a new one, and returns it open. */
async function copyFile(source: LogFile, targetPath: string, bytes: number): Promise<LogFile> {
  const copy = await LogFile.open(targetPath);
  try {
    await copy.appendRange(source, { offset: 0, bytes });
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
