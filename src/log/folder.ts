/**
 * The folders of the store: made, made durable, and judged as the place of a data directory; the names of
 * the files in a data directory (docs/data-directory.md).
 *
 * Files are 0600 and folders 0700. A folder that this file has made is durable.
 */
import path from "node:path";
import { publishWarning } from "../core/channels.ts";
import { disk, type FileState, ioError, orIoError, systemCode } from "./disk.ts";

/** The log of plants. */
export const LOG_NAME = "plants.jsonl";
/** The lock of the process that writes it (log/lock). */
export const LOCK_NAME = "lock";
/** The log of tokens. */
export const TOKEN_LOG_NAME = "tokens.jsonl";
/** The lock of the process that changes a token. */
export const TOKEN_LOCK_NAME = "tokens-lock";
/** Where `restore` puts its copy until that is verified. */
export const RESTORE_NAME = "restore.partial";

/** Does some work with a resource, and closes it, also if the work rejects. */
export async function useAndClose<T extends { close(): Promise<void> }, R>(
  resource: T,
  work: (resource: T) => Promise<R>,
): Promise<R> {
  try {
    return await work(resource);
  } finally {
    await resource.close();
  }
}

/** Whether the path leads to anything. @throws PlantStoreError `io_error`. */
export function exists(filePath: string): boolean {
  try {
    return disk.find(filePath) !== undefined;
  } catch (cause) {
    throw ioError(`Cannot look for "${filePath}"`, cause);
  }
}

/** Removes an unfinished file if it can: nothing depends on it. */
export function removeLeftover(filePath: string): void {
  try {
    disk.unlink(filePath);
  } catch {}
}

/** Like `removeLeftover`, for a folder of files. */
export function removeLeftoverFolder(directory: string): void {
  try {
    removeFolderOfFiles(directory);
  } catch {}
}

/** Removes a folder, if there is one, and the files in it. @throws the system's error, also if the folder holds a folder. */
export function removeFolderOfFiles(directory: string): void {
  const found = disk.findEntry(directory);
  if (found === undefined) return;
  if (!found.isDirectory()) {
    disk.unlink(directory); // a link: what it leads to stays
    return;
  }
  for (const { name } of disk.list(directory)) disk.unlink(path.join(directory, name));
  disk.removeFolder(directory);
}

/** Makes the folder if it is missing. @throws PlantStoreError `io_error`. */
export function ensureDirectory(directory: string): Promise<FileState> {
  return orIoError(`Cannot use the folder "${directory}"`, async () => {
    const target = path.resolve(directory);
    await makeDirectory(target);
    const found = disk.find(target);
    if (found?.isDirectory() !== true) throw new Error("not a folder");
    return found;
  });
}

/** Like `ensureDirectory`, and warns of what the place of a data directory does not promise. */
export async function prepareDirectory(directory: string): Promise<void> {
  const { mode, uid } = await ensureDirectory(directory);
  const mayClose = [0, Number(uid)].includes(process.geteuid?.() ?? 0);
  // A setgid folder, or one whose group admits this user, is shared on purpose.
  const isShared = (mode & 0o2000n) !== 0n || !mayClose;
  if ((mode & (isShared ? 0o007n : 0o077n)) !== 0n) {
    const advice = mayClose
      ? `close it: chmod ${isShared ? "o=" : "700"} "${directory}"`
      : `its owner (user ${uid}) or root can close it`;
    publishWarning(`"${directory}" is open to other users; ${advice}`);
  }
  const kind = unreliableFileSystem(directory);
  if (kind === undefined) return;
  publishWarning(
    `"${directory}" is on a ${kind} file system, which may let two processes write there, and may ` +
      "lose answered plants in a power cut; use a local file system, such as ext4 or XFS",
  );
}

/** Makes a folder, and those above it, durably; another process may be faster. */
async function makeDirectory(directory: string): Promise<void> {
  if (exists(directory)) return;
  const parent = path.dirname(directory);
  await makeDirectory(parent);
  try {
    disk.makeFolder(directory);
  } catch (error) {
    if (systemCode(error) !== "EEXIST") throw error;
  }
  await disk.syncFolder(parent);
}

/** What the folder above may refuse without a fault; ext4 and XFS sync the entry with the file itself. */
const NOT_OURS = ["EACCES", "EPERM", "EINVAL", "ENOTSUP", "EROFS"];

/**
 * Makes the entries of a folder durable, and its own entry in the folder above if that is on the same
 * device: another program may have made the folder, and never synced it.
 *
 * @throws the system's error.
 */
export async function syncFolderAndName(directory: string): Promise<void> {
  await disk.syncFolder(directory);
  try {
    const parent = path.dirname(disk.realPath(directory));
    if (disk.find(parent)?.dev === disk.find(directory)?.dev) await disk.syncFolder(parent);
  } catch (error) {
    if (!NOT_OURS.includes(systemCode(error) ?? "")) throw error;
  }
}

/** Gives a file or folder its name, durably: a rename alone may be lost. @throws the system's error. */
export async function renameDurably(from: string, to: string): Promise<void> {
  disk.rename(from, to);
  await syncFolderAndName(path.dirname(to));
}

/** File systems by their magic numbers (statfs(2)). */
const UNRELIABLE_FILE_SYSTEMS = new Map<number, string>([
  [0x6969, "NFS"],
  [0xff534d42, "CIFS"],
  [0xfe534d42, "CIFS"],
  [0x01021997, "9p"],
  [0x65735546, "FUSE"],
]);

/** The kind of the folder's file system if neither lock nor sync can be relied on there. */
export function unreliableFileSystem(directory: string): string | undefined {
  try {
    return UNRELIABLE_FILE_SYSTEMS.get(disk.fileSystem(directory).type);
  } catch {
    return undefined; // the next call on the folder reports what is wrong with it
  }
}
