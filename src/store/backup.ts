/**
 * `backup` and `restore`: a copy of a data directory's plants and tokens that can be started from; and
 * `backup --into`, numbered backups in one folder, of which the newest are kept.
 *
 * Invariants. The copy holds every plant that was acknowledged before it began, whole lines only,
 * synced, with a checkpoint of its own, and was verified after it was written. The folder of a backup
 * appears under its name all at once, by a rename. In a folder that is restored the log appears last,
 * by a rename, and a checkpoint without its log is refused by every start. What a killed copy leaves
 * has another name. The source is only read, also beside a running server.
 *
 * The number decides which backup is newer; a new backup gets the highest number + 1. The date
 * in the name is for people, because a clock may be wrong. Older backups are removed only after the new one
 * was verified and is durable; the new backup is never removed. A folder is removed only if it has the name of
 * a backup, or of an unfinished one, and holds nothing but files that `backup` makes. A backup that was served
 * holds its lock, too, and maybe plants that no other copy has. One process at a time works in the folder
 * (log/lock), so two processes never take the same number. Only that process makes unfinished backups with
 * these names, so each of them that is found is that of a killed process.
 */
import path from "node:path";
import { clock } from "../clock.ts";
import { publishWarning } from "../core/channels.ts";
import { PlantStoreError } from "../core/errors.ts";
import { readNumber } from "../core/options.ts";
import {
  type Checkpoint,
  checkpointPath,
  newCheckpointPath,
  readCheckpoint,
  writeCheckpoint,
} from "../log/checkpoint.ts";
import { describeSystemError, disk, orIoError } from "../log/disk.ts";
import { LogFile } from "../log/file.ts";
import {
  ensureDirectory,
  exists,
  LOG_NAME,
  RESTORE_NAME,
  removeFolderOfFiles,
  removeLeftover,
  removeLeftoverFolder,
  renameDurably,
  syncFolderAndName,
  TOKEN_LOG_NAME,
  useAndClose,
} from "../log/folder.ts";
import {
  BACKUP_NAME,
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

export interface BackupIntoOptions {
  /** The most backups that are in the folder afterwards, with the new one. */
  readonly keep?: number | undefined;
  /** As for `backup`. */
  readonly onProgress?: ((bytes: number, total: number) => void) | undefined;
}

export interface NumberedBackupReport extends BackupReport {
  /** The name of the new backup in the folder. */
  readonly name: string;
  /** The names of the older backups that were removed, oldest first. */
  readonly removed: readonly string[];
}

/**
 * Adds a backup to a folder, which is made if it is missing, and removes the oldest backups there. If one
 * cannot be removed, it publishes a warning; the next call tries again.
 *
 * @throws PlantStoreError like `backup`; `locked` also if another process makes a backup in the folder.
 * @throws RangeError if the folder is a data directory or a backup itself; TypeError or RangeError if `keep`
 * is out of its range (`NUMBER_OPTIONS`).
 */
export async function backupInto(
  directory: string,
  folder: string,
  options: BackupIntoOptions = {},
): Promise<NumberedBackupReport> {
  const keep = readNumber(options, "keep");
  if (exists(path.join(folder, LOG_NAME))) {
    const got = `"${folder}", which is a data directory or a backup itself`;
    throw new RangeError(`expected a folder for backups, got ${got}`);
  }
  return copyDirectory(directory, options.onProgress, (fill) => addBackup(folder, keep, fill));
}

type Progress = (bytes: number, total: number) => void;

/** Puts the copy into a folder. */
type Fill = (folder: string) => Promise<BackupReport>;

/** Opens what is to be copied, and has its copy placed. */
async function copyDirectory<Report extends BackupReport>(
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
 */
async function makeFolder(
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

async function addBackup(folder: string, keep: number, fill: Fill): Promise<NumberedBackupReport> {
  const failure = `Cannot back up into "${folder}"`;
  await ensureDirectory(folder);
  return useAndClose(await lockDirectory(folder, "backup"), () =>
    orIoError(failure, async () => {
      await removeFolders(folder, listFolders(folder, UNFINISHED));
      const older = listFolders(folder, BACKUP_NAME).sort(byAge);
      const tooMany = older.slice(0, Math.max(0, older.length + 1 - keep));
      const name = nextName(folder);
      const target = path.join(folder, name);
      const report = await makeFolder(target, fill, unfinishedName(target));
      return { ...report, name, removed: await removeFolders(folder, tooMany) };
    }),
  );
}

/** Not `.partial-`, as a `backup` without `--into` has it, which takes no lock on the folder. */
const UNFINISHED = /^plants-\d{6,15}-\d{8}T\d{6}Z\.unfinished-[0-9a-f]+$/;

function unfinishedName(backup: string): string {
  return `${backup}.unfinished-${clock.randomBytes(4).toString("hex")}`;
}

function numberOf(name: string): number {
  return Number(BACKUP_NAME.exec(name)?.[1]);
}

function byAge(one: string, other: string): number {
  return numberOf(one) - numberOf(other) || (one < other ? -1 : 1);
}

function listFolders(folder: string, names: RegExp): string[] {
  return disk
    .list(folder)
    .filter(({ name, kind }) => kind === "folder" && names.test(name))
    .map(({ name }) => name);
}

/** Links and files count, too: a link to a backup that was moved elsewhere keeps its number taken. */
function nextName(folder: string): string {
  const names = disk.list(folder).filter(({ name }) => BACKUP_NAME.test(name));
  const highest = Math.max(0, ...names.map(({ name }) => numberOf(name)));
  // Of a year beyond 9999, which a clock may show, the last four digits.
  const date = new Date(clock.wallMs())
    .toISOString()
    .slice(-24)
    .replace(/[-:]|\.\d+/g, "");
  return `plants-${String(highest + 1).padStart(6, "0")}-${date}`;
}

/**
 * Removes folders, and returns the names of the removed ones. A backup is first renamed to an unfinished
 * one, durably, so that a kill or a power cut never leaves a part of a backup under its name.
 */
async function removeFolders(folder: string, names: readonly string[]): Promise<string[]> {
  const removed: string[] = [];
  for (const name of names) {
    let found = path.join(folder, name);
    try {
      requireOwnFiles(found);
      if (BACKUP_NAME.test(name)) {
        const unfinished = unfinishedName(found);
        await renameDurably(found, unfinished);
        found = unfinished;
        requireOwnFiles(found); // a server may have started before the rename
      }
      removeFolderOfFiles(found);
      removed.push(name);
    } catch (cause) {
      const why = describeSystemError(cause);
      publishWarning(`Cannot remove "${found}": ${why}; the next backup tries again`);
    }
  }
  return removed;
}

const CHECKPOINTS = [checkpointPath(LOG_NAME), newCheckpointPath(LOG_NAME)];
/** What a backup holds, also an unfinished one. */
const OWN_FILES = [LOG_NAME, TOKEN_LOG_NAME, ...CHECKPOINTS];

/** @throws Error that names what else the folder holds, and what to do. */
function requireOwnFiles(found: string): void {
  const other = disk
    .list(found)
    .find(({ name, kind }) => kind !== "file" || !OWN_FILES.includes(name))?.name;
  if (other === undefined) return;
  const meaning = /^(tokens-)?lock\./.test(other)
    ? "so it was used as a data directory, and may hold plants that no other copy has"
    : "which is no file of a backup";
  throw new Error(`it holds "${other}", ${meaning}; remove it by hand`);
}
