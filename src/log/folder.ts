/**
 * The entries of a data directory: opened, made durable, given to the right owner.
 *
 * Files are 0600 and folders 0700, and belong to the owner of the folder above, so that a program run
 * by root does not lock the service out. Root follows no link that the owner of a folder may have put
 * there, and changes owners by descriptor only.
 */
import fs from "node:fs";
import fsPromises, { type FileHandle } from "node:fs/promises";
import path from "node:path";
import { publishWarning } from "../core/channels.ts";
import { orIoError, systemCode } from "./system-error.ts";

const { O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_TRUNC } = fs.constants;

/**
 * Opens a file of a data directory, but no FIFO, whose reader may wait for ever. In a folder that
 * others may write to, root opens only a regular file without another name.
 *
 * @throws the system's error, or an error that names what was found.
 */
export async function openEntry(filePath: string, flags: number = O_RDONLY): Promise<FileHandle> {
  const isGuarded = isRootAmongOthers(path.dirname(filePath));
  const { handle, isNew } = await openMaybeNew(filePath, flags | O_NONBLOCK, isGuarded);
  try {
    const stat = fs.fstatSync(handle.fd);
    if (stat.isFIFO() || (isGuarded && !(stat.isFile() && stat.nlink === 1))) {
      const found = stat.isFile() ? `one with ${stat.nlink} names` : kindOf(stat);
      throw new Error(`expected a regular file${isGuarded ? " with one name" : ""}, got ${found}`);
    }
    if (isNew) takeFolderOwner(handle.fd, path.dirname(filePath));
    return handle;
  } catch (error) {
    await handle.close();
    throw error;
  }
}

async function openMaybeNew(
  filePath: string,
  flags: number,
  isGuarded: boolean,
): Promise<{ readonly handle: FileHandle; readonly isNew: boolean }> {
  if (!isGuarded) {
    const isNew = (flags & O_CREAT) !== 0 && !fs.existsSync(filePath);
    return { handle: await fsPromises.open(filePath, flags, 0o600), isNew };
  }
  if ((flags & O_TRUNC) !== 0) fs.rmSync(filePath, { force: true });
  else {
    try {
      const handle = await fsPromises.open(filePath, (flags & ~O_CREAT) | O_NOFOLLOW);
      return { handle, isNew: false };
    } catch (error) {
      const code = systemCode(error);
      if (code === "ELOOP") throw new Error("expected a regular file, got a symbolic link");
      if (code !== "ENOENT" || (flags & O_CREAT) === 0) throw error;
    }
  }
  return { handle: await fsPromises.open(filePath, flags | O_EXCL, 0o600), isNew: true };
}

function kindOf(stat: fs.Stats): string {
  if (stat.isDirectory()) return "a folder";
  return stat.isFIFO() ? "a FIFO" : "a device";
}

/** Whether this process is root, and other users may write to the folder. */
function isRootAmongOthers(directory: string): boolean {
  if (process.geteuid?.() !== 0) return false;
  const stat = fs.statSync(directory, { throwIfNoEntry: false });
  return stat !== undefined && (stat.uid !== 0 || (stat.mode & 0o022) !== 0);
}

/** Gives an open file to the owner of its folder. Only root can, and only root has to. */
function takeFolderOwner(fd: number, directory: string): void {
  if (process.geteuid?.() !== 0) return;
  const { uid, gid } = fs.statSync(directory);
  const own = fs.fstatSync(fd);
  if (own.uid !== uid || own.gid !== gid) fs.fchownSync(fd, uid, gid);
}

/** Linux: a descriptor of a file without opening it, such as a socket. Node does not export it. */
const O_PATH = 0o10000000;

/**
 * Gives a socket that root has bound in another user's folder to that user, who could not connect to
 * it otherwise.
 *
 * @throws the system's error, unless the socket is gone.
 */
export function giveSocketToFolderOwner(socketPath: string): void {
  const directory = path.dirname(socketPath);
  if (process.platform !== "linux" || !isRootAmongOthers(directory)) return;
  let fd: number | undefined;
  try {
    fd = fs.openSync(socketPath, O_PATH | O_NOFOLLOW);
    const { uid, gid } = fs.statSync(directory);
    const found = fs.fstatSync(fd);
    // This path leads to the very file that was checked.
    if (found.isSocket() && found.nlink === 1) fs.chownSync(`/proc/self/fd/${fd}`, uid, gid);
  } catch (error) {
    if (systemCode(error) !== "ENOENT") throw error;
  } finally {
    if (fd !== undefined) fs.closeSync(fd);
  }
}

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

/** Removes an unfinished file if it can: nothing depends on it. */
export function removeLeftover(filePath: string): void {
  try {
    fs.rmSync(filePath, { force: true });
  } catch {}
}

/**
 * Removes a folder of files. No link is followed and no folder in it is entered, also if another user
 * exchanges them meanwhile.
 *
 * @throws the system's error, also if the folder holds a folder.
 */
export function removeFolderOfFiles(directory: string): void {
  const fd = fs.openSync(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  try {
    const opened = process.platform === "linux" ? `/proc/self/fd/${fd}` : directory;
    for (const name of fs.readdirSync(opened)) fs.unlinkSync(path.join(opened, name));
  } finally {
    fs.closeSync(fd);
  }
  fs.rmdirSync(directory);
}

/** Makes the folder if it is missing. @throws PlantStoreError `io_error`. */
export function ensureDirectory(directory: string): Promise<void> {
  return orIoError(`Cannot use the folder "${directory}"`, async () => {
    const target = path.resolve(directory);
    await makeDirectory(target);
    if (!fs.statSync(target).isDirectory()) throw new Error("not a folder");
  });
}

/** Like `ensureDirectory`, and warns of what the place of a data directory does not promise. */
export async function prepareDirectory(directory: string): Promise<void> {
  await ensureDirectory(directory);
  if ((fs.statSync(directory).mode & 0o077) !== 0) {
    publishWarning(`"${directory}" is open to other users; close it: chmod 700 "${directory}"`);
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
  if (fs.existsSync(directory)) return;
  const parent = path.dirname(directory);
  await makeDirectory(parent);
  try {
    fs.mkdirSync(directory, 0o700);
  } catch (error) {
    if (systemCode(error) !== "EEXIST") throw error;
  }
  const handle = await fsPromises.open(directory, O_DIRECTORY | O_NOFOLLOW);
  await useAndClose(handle, async ({ fd }) => takeFolderOwner(fd, parent));
  await syncDirectory(parent);
}

/** Makes a created, renamed or removed entry of the folder durable. @throws the system's error. */
export async function syncDirectory(directory: string): Promise<void> {
  await useAndClose(await fsPromises.open(directory, O_RDONLY), (handle) => handle.sync());
}

/** What the folder above may refuse without a fault; ext4 and XFS sync the entry with the file itself. */
const NOT_OURS = ["EACCES", "EPERM", "EINVAL", "ENOTSUP", "EROFS"];

/**
 * Makes the entries of a folder durable, and its own entry in the folder above if that is on the same
 * device: another program may have made the folder, and never synced it.
 *
 * @throws the system's error.
 */
export async function syncFolder(directory: string): Promise<void> {
  await syncDirectory(directory);
  try {
    const parent = path.dirname(await fsPromises.realpath(directory));
    if (fs.statSync(parent).dev === fs.statSync(directory).dev) await syncDirectory(parent);
  } catch (error) {
    if (!NOT_OURS.includes(systemCode(error) ?? "")) throw error;
  }
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
    return UNRELIABLE_FILE_SYSTEMS.get(fs.statfsSync(directory).type);
  } catch {
    return undefined; // the next call on the folder reports what is wrong with it
  }
}
