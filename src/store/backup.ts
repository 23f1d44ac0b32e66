/**
 * `backup` and `restore`: a copy of a data directory's plants and tokens that can be started from.
 *
 * Invariants. The copy holds every plant that was acknowledged before it began, whole lines only,
 * synced, with a checkpoint of its own, and was verified after it was written. The folder of a backup
 * appears under its name all at once, by a rename. In a folder that is restored the log appears last,
 * by a rename, and a checkpoint without its log is refused by every start. What a killed copy leaves
 * has another name. The source is only read, also beside a running server.
 */
import path from "node:path";
import { clock } from "../clock.ts";
import { PlantStoreError } from "../core/errors.ts";
import { LOG_NAME, RESTORE_NAME, TOKEN_LOG_NAME } from "../core/file-names.ts";
import {
  type Checkpoint,
  checkpointPath,
  readCheckpoint,
  writeCheckpoint,
} from "../log/checkpoint.ts";
import { disk, orIoError } from "../log/disk.ts";
import { LogFile } from "../log/file.ts";
import {
  ensureDirectory,
  exists,
  removeFolderOfFiles,
  removeLeftover,
  removeLeftoverFolder,
  syncFolderAndName,
  useAndClose,
} from "../log/folder.ts";
import {
  findReadable,
  lockDirectory,
  openLogForReading,
  type Readable,
  scanSoundLog,
} from "./start.ts";

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
 * @throws PlantStoreError `io_error` if the target exists or the system refuses, `locked` if the
 * process that holds the directory does not answer, `corruption` if the log is damaged, because its
 * copy would be no backup.
 */
export function backup(
  directory: string,
  target: string,
  onProgress?: (bytes: number, total: number) => void,
): Promise<BackupReport> {
  return copyDirectory(directory, onProgress, (fill) => makeFolder(target, fill));
}

/**
 * Copies the plants and tokens of a backup, or of any data directory, into a data directory that is
 * empty or missing. Files of locks and `lost+found` do not count.
 *
 * @param onProgress as for `backup`.
 * @param onOpen called after all that is copied was opened, and before anything is made, so that a program
 * may read as one user and write as another.
 * @throws PlantStoreError as `backup`; `io_error` if the directory holds something, `locked` if a
 * process uses it.
 */
export function restore(
  source: string,
  directory: string,
  onProgress?: (bytes: number, total: number) => void,
  onOpen?: () => void,
): Promise<BackupReport> {
  return copyDirectory(source, onProgress, (fill) => {
    onOpen?.();
    return fillFolder(directory, fill);
  });
}

type Progress = (bytes: number, total: number) => void;

/** Puts the copy into a folder. @internal */
export type Fill = (folder: string) => Promise<BackupReport>;

/** Opens what is to be copied, and has its copy placed. @internal */
export async function copyDirectory<Report extends BackupReport>(
  directory: string,
  onProgress: Progress | undefined,
  place: (fill: Fill) => Promise<Report>,
): Promise<Report> {
  const plants = await openLogForReading(directory);
  let tokens: LogFile | undefined;
  try {
    const checkpoint = await readCheckpoint(plants.path);
    const readable = await findReadable(directory, plants);
    const tokensPath = path.join(path.resolve(directory), TOKEN_LOG_NAME);
    tokens = await LogFile.openForReading(tokensPath);
    return await place(async (folder) => {
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

/**
 * Makes a folder with all that `fill` puts into it, or nothing.
 *
 * @param partial its name until it is whole.
 * @internal
 */
export async function makeFolder(
  target: string,
  fill: Fill,
  partial = `${path.resolve(target)}.partial-${clock.randomBytes(4).toString("hex")}`,
): Promise<BackupReport> {
  return orIoError(`Cannot back up to "${target}"`, async () => {
    if (disk.findEntry(target) !== undefined) throw new Error("it exists already");
    return fillAside(partial, fill, async () => {
      try {
        disk.rename(partial, target);
        await syncFolderAndName(path.dirname(path.resolve(target)));
      } catch (error) {
        takeBack(target, partial);
        throw error;
      }
    });
  });
}

/** Has a folder lose its name before its files: a power cut amid their removal would leave a part of it. */
function takeBack(target: string, partial: string): void {
  try {
    disk.rename(target, partial);
  } catch {} // it is not there, or the disk takes nothing any more
}

/** What may be in a folder that counts as empty. */
const NO_CONTENTS = /^((tokens-)?lock\..*|lost\+found|restore\.partial)$/;

/** Puts all that `fill` makes into an empty folder, or nothing. */
async function fillFolder(directory: string, fill: Fill): Promise<BackupReport> {
  const partial = path.join(directory, RESTORE_NAME);
  const requireEmpty = () => {
    const found = disk.list(directory).find(({ name }) => !NO_CONTENTS.test(name))?.name;
    if (found === undefined) return;
    throw new Error(`expected an empty folder, found "${found}"; move what is in it elsewhere`);
  };
  await ensureDirectory(directory);
  return useAndClose(await lockDirectory(directory, "restore"), () =>
    orIoError(`Cannot restore into "${directory}"`, async () => {
      requireEmpty();
      removeFolderOfFiles(partial); // of a restore that was killed
      return fillAside(partial, fill, async () => {
        requireEmpty(); // a token may have been created meanwhile
        await placeCopies(partial, directory);
        removeLeftoverFolder(partial);
      });
    }),
  );
}

/** Moves what was restored to its place, the log last; or leaves nothing there. */
async function placeCopies(partial: string, directory: string): Promise<void> {
  const placed: string[] = [];
  try {
    for (const name of [checkpointPath(LOG_NAME), TOKEN_LOG_NAME, LOG_NAME]) {
      const copy = path.join(partial, name);
      if (!exists(copy)) continue;
      const place = path.join(directory, name);
      if (exists(place)) throw new Error(`another process has made "${name}" meanwhile`);
      placed.push(place); // a rename may fail that was done
      disk.rename(copy, place);
      await syncFolderAndName(directory);
    }
  } catch (error) {
    for (const each of placed.reverse()) removeLeftover(each);
    await disk.syncFolder(directory).catch(() => {}); // or a power cut brings some of them back
    throw error;
  }
}

/** Has a folder filled, and then placed; removes it if that fails. */
async function fillAside(
  partial: string,
  fill: Fill,
  place: () => Promise<void>,
): Promise<BackupReport> {
  try {
    await ensureDirectory(partial);
    const report = await fill(partial);
    await disk.syncFolder(partial);
    await place();
    return report;
  } catch (error) {
    removeLeftoverFolder(partial);
    throw error;
  }
}

async function copyPlants(
  plants: LogFile,
  { end, lastLine }: Readable,
  checkpoint: Checkpoint | undefined,
  targetPath: string,
  onProgress: Progress | undefined,
): Promise<BackupReport> {
  return useAndClose(await copyFile(plants, targetPath, end), async (copy) => {
    if (lastLine.length > 0) await copy.appendOrThrow(lastLine);
    const scan = await scanSoundLog(copy, copy.end, checkpoint, onProgress, plants.path);
    if (scan.end.bytes !== copy.end) throw new Error(`"${plants.path}" was changed meanwhile`);
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
