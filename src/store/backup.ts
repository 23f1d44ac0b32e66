/**
 * `backup` and `restore`: one copy of a data directory into an empty folder, in both directions; and `backup --into`,
 * copies in one folder, of which the newest are kept.
 *
 * Invariants. A copy holds every plant that was acknowledged before it began, in whole lines that were checked while
 * they were copied, with a checkpoint of its own. The log gets its name last, so a folder without it is no backup, and
 * a start refuses what a killed copy leaves. The target is locked; the source is only read, even beside a running
 * server. An old backup is removed only after the new one is durable, its log first.
 */
import path from "node:path";
import { clock } from "../clock.ts";
import { publishWarning } from "../core/channels.ts";
import { assertNumbers, NUMBER_OPTIONS } from "../core/options.ts";
import { checkpointPath, writeCheckpoint } from "../log/checkpoint.ts";
import { allowMissing, describeSystemError, disk, withIoError } from "../log/disk.ts";
import { type LogFile, replaceFile } from "../log/file.ts";
import {
  ensureFolder,
  LOCK_NAME,
  LOG_NAME,
  logPathOf,
  syncFolderAndName,
  TOKENS_NAME,
} from "../log/folder.ts";
import { type HeldLock, locks } from "../log/lock.ts";
import { IdIndex } from "./id-index.ts";
import { readLog } from "./open.ts";
import { Scan } from "./scan.ts";

/** How many plants were copied, and the length of their log. */
export interface BackupReport {
  readonly plants: number;
  readonly bytes: number;
}

/**
 * Copies the plants and tokens of a data directory into a folder that is empty or missing.
 *
 * @throws PlantStoreError `io_error`; `locked`; `corruption` if the log is damaged: its copy would be no backup.
 */
export function backup(directory: string, target: string): Promise<BackupReport> {
  return copyDirectory(directory, target, "backup");
}

/** Copies a backup into a data directory that is empty or missing. @throws PlantStoreError like `backup`. */
export function restore(source: string, directory: string): Promise<BackupReport> {
  return copyDirectory(source, directory, "restore");
}

/** What a copy consists of, the log first. */
const COPIED = [LOG_NAME, checkpointPath(LOG_NAME), TOKENS_NAME];

function copyDirectory(
  source: string,
  target: string,
  command: "backup" | "restore",
): Promise<BackupReport> {
  const folder = path.resolve(target);
  return withIoError(`Cannot copy "${source}" to "${target}"`, async () => {
    const isNew = disk.stat(folder) === undefined;
    await ensureFolder(folder);
    assertEmpty(folder);
    const lock = await locks.acquire(folder, { name: LOCK_NAME, command }).catch((error) => {
      if (command === "restore" || error.code !== "io_error") throw error;
      return undefined; // a backup may be where no socket can be, such as on CIFS
    });
    try {
      assertEmpty(folder); // again, now that it is locked
      return await writeCopy(source, folder, lock).catch((error) => {
        remove(folder, COPIED, lock);
        throw error;
      });
    } finally {
      const entries = disk.list(folder).filter((name) => /^lock\.\d+$/.test(name));
      if (command === "backup") remove(folder, entries, lock); // sockets, which some tools cannot copy
      await lock?.close();
      if (isNew && disk.list(folder).length === 0) disk.removeFolder(folder);
    }
  });
}

/** Files that a folder may have and still count as empty: a clone brings `.gitignore`. */
const NO_CONTENTS = /^((tokens-)?lock\..*|lost\+found|\.gitignore|plants\.jsonl\.new)$/;

function assertEmpty(folder: string): void {
  const found = disk.list(folder).find((name) => !NO_CONTENTS.test(name));
  if (found !== undefined) throw new Error(`expected an empty folder, found "${found}"`);
}

/** Removes files of ours. What stays has no log, so nobody takes it for a copy. */
function remove(folder: string, names: readonly string[], lock: HeldLock | undefined): void {
  try {
    if (lock === undefined) return; // they may be another's
    lock.assertHeld();
    for (const name of names) disk.unlink(path.join(folder, name));
  } catch {}
}

async function writeCopy(
  source: string,
  folder: string,
  lock: HeldLock | undefined,
): Promise<BackupReport> {
  const write = async (copy: LogFile) => {
    await disk.syncFolder(folder); // after a power cut, too, a start finds that the copy is not finished
    const scan = new Scan(new IdIndex());
    for await (const lines of readLog(source, scan)) await copy.append(lines);
    const tokensPath = path.join(source, TOKENS_NAME);
    const tokens = await disk.readFile(tokensPath).catch(allowMissing(tokensPath));
    if (tokens !== undefined) {
      await replaceFile(path.join(folder, TOKENS_NAME), (file) => file.append(tokens), lock);
    }
    await writeCheckpoint(logPathOf(folder), scan.end, lock); // a start refuses it without its log
    return { plants: scan.plants, bytes: scan.end.bytes };
  };
  const report = await replaceFile(logPathOf(folder), write, lock);
  await syncFolderAndName(folder);
  return report;
}

/** Also the names of the new backup in its folder, and of those that were removed. */
export interface BackupIntoReport extends BackupReport {
  readonly name: string;
  readonly removed: readonly string[];
}

const BACKUP_NAME = /^plants-\d{8}T\d{6}Z$/;

/**
 * Adds a backup to a folder, named after the time, such as `plants-20261127T101500Z`, and removes the oldest ones.
 *
 * @param keep how many backups stay, with the new one. Default: 14.
 * @throws RangeError for a wrong `keep`. PlantStoreError like `backup`.
 */
export async function backupInto(
  directory: string,
  folder: string,
  keep: number = NUMBER_OPTIONS.keep.default,
): Promise<BackupIntoReport> {
  assertNumbers({ keep });
  const name = `plants-${new Date(clock.wallMs()).toISOString().replace(/[-:]|\.\d+/g, "")}`;
  const report = await backup(directory, path.join(folder, name));
  const isBackup = (entry: string) =>
    BACKUP_NAME.test(entry) && disk.stat(path.join(folder, entry, LOG_NAME)) !== undefined;
  const older = await withIoError(`Cannot remove old backups from "${folder}"`, async () =>
    disk.list(folder).filter((entry) => entry !== name && isBackup(entry)),
  );
  const tooMany = older.sort().slice(0, Math.max(0, older.length + 1 - keep));
  const removed = tooMany.filter((entry) => tryRemove(path.join(folder, entry)));
  return { ...report, name, removed };
}

/** Returns false, with a warning, for a folder that holds more than a backup: it may have been served. */
function tryRemove(backupFolder: string): boolean {
  try {
    const other = disk.list(backupFolder).find((name) => !COPIED.includes(name));
    if (other !== undefined) throw new Error(`it also holds "${other}"; remove it by hand`);
    for (const name of COPIED) disk.unlink(path.join(backupFolder, name));
    disk.removeFolder(backupFolder);
    return true;
  } catch (cause) {
    publishWarning(`Cannot remove the old backup "${backupFolder}": ${describeSystemError(cause)}`);
    return false;
  }
}
