/**
 * Files that are written anew as a whole: the new one is written under another
 * name and takes the place of the old one when it is complete. What a process
 * that was killed leaves under that other name is removed by the next start, or
 * overwritten.
 */
import { constants, rmSync } from "node:fs";
import fs, { type FileHandle } from "node:fs/promises";
import path from "node:path";
import { ioError, openEntry, syncDirectory } from "./file.ts";

/**
 * Writes a small file whole: after a power cut at any moment it holds either
 * the old bytes or the new ones.
 *
 * @throws PlantStoreError `io_error`; the old bytes stay then.
 */
export async function replaceFile(filePath: string, bytes: Buffer): Promise<void> {
  try {
    const newPath = await writeNew(filePath, async (handle) => {
      await handle.writeFile(bytes);
      await handle.sync();
    });
    await fs.rename(newPath, filePath);
    await syncDirectory(path.dirname(filePath));
  } catch (cause) {
    removeLeftover(newPathOf(filePath));
    throw ioError(`Cannot write "${filePath}"`, cause);
  }
}

/**
 * The same for a large file that may be lost: nothing is synced, so after a
 * power cut it may hold anything. `write` appends to it; when that fails, the
 * old file stays.
 *
 * @throws whatever `write` throws, or the system's error.
 */
export async function replaceCache(
  filePath: string,
  write: (handle: FileHandle) => Promise<void>,
): Promise<void> {
  try {
    const newPath = await writeNew(filePath, write);
    // A rename onto another file would have some file systems write it all out at
    // once (ext4's auto_da_alloc), and the syncs of the log wait behind that.
    await fs.rm(filePath, { force: true });
    await fs.rename(newPath, filePath);
  } catch (cause) {
    removeLeftover(newPathOf(filePath));
    throw cause;
  }
}

const ANEW = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC;

/** Writes the file that is to take the place of another, and returns its path. */
async function writeNew(
  filePath: string,
  write: (handle: FileHandle) => Promise<void>,
): Promise<string> {
  const newPath = newPathOf(filePath);
  const handle = await openEntry(newPath, ANEW);
  try {
    await write(handle);
  } finally {
    await handle.close();
  }
  return newPath;
}

/** Where the new file is written. */
export function newPathOf(filePath: string): string {
  return `${filePath}.new`;
}

/** Removes an unfinished file, if there is one and the system lets it: nothing depends on it. */
export function removeLeftover(filePath: string): void {
  try {
    rmSync(filePath, { force: true });
  } catch {}
}
