/**
 * Files that are written anew as a whole: the new one is written under another
 * name and takes the place of the old one when it is complete. What a process
 * that was killed leaves under that other name is removed by the next start, or
 * overwritten.
 */
import { constants, rmSync } from "node:fs";
import fs from "node:fs/promises";
import path from "node:path";
import { ioError, openEntry, syncDirectory } from "./file.ts";

const ANEW = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC;

/**
 * Writes a small file whole: after a power cut at any moment it holds either
 * the old bytes or the new ones.
 *
 * @throws PlantStoreError `io_error`; the old bytes stay then.
 */
export async function replaceFile(filePath: string, bytes: Buffer): Promise<void> {
  const newPath = newPathOf(filePath);
  try {
    await writeSynced(newPath, bytes);
    await fs.rename(newPath, filePath);
    await syncDirectory(path.dirname(filePath));
  } catch (cause) {
    removeLeftover(newPath);
    throw ioError(`Cannot write "${filePath}"`, cause);
  }
}

async function writeSynced(filePath: string, bytes: Buffer): Promise<void> {
  const handle = await openEntry(filePath, ANEW);
  try {
    await handle.writeFile(bytes);
    await handle.sync();
  } finally {
    await handle.close();
  }
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
