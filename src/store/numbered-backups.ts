/**
 * `backup --into`: numbered backups in one folder, of which the newest are kept.
 *
 * Invariants. The number decides which backup is newer; a new backup gets the highest number + 1. The date
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
import { LOG_NAME, TOKEN_LOG_NAME } from "../core/file-names.ts";
import { readNumber } from "../core/options.ts";
import { checkpointPath, newCheckpointPath } from "../log/checkpoint.ts";
import { describeSystemError, disk, orIoError } from "../log/disk.ts";
import { ensureDirectory, removeFolderOfFiles, renameDurably, useAndClose } from "../log/folder.ts";
import { type BackupReport, copyDirectory, type Fill, makeFolder } from "./backup.ts";
import { BACKUP_NAME, lockDirectory } from "./start.ts";

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
 * @throws TypeError or RangeError if `keep` is out of its range (`NUMBER_OPTIONS`).
 */
export async function backupInto(
  directory: string,
  folder: string,
  options: BackupIntoOptions = {},
): Promise<NumberedBackupReport> {
  const keep = readNumber(options, "keep");
  return copyDirectory(directory, options.onProgress, (fill) => addBackup(folder, keep, fill));
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
const UNFINISHED = /^plants-(?:\d{6,15}-)?\d{8}T\d{6}Z\.unfinished-[0-9a-f]+$/;

function unfinishedName(backup: string): string {
  return `${backup}.unfinished-${clock.randomBytes(4).toString("hex")}`;
}

/** A backup without a number is older than every numbered one. */
function numberOf(name: string): number {
  return Number(BACKUP_NAME.exec(name)?.[1] ?? 0);
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
