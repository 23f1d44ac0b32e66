/** The data directory: the names of its files, and how it is made. */
import path from "node:path";
import { publishWarning } from "../core/channels.ts";
import { disk, systemCode, withIoError } from "./disk.ts";

export const LOG_NAME = "plants.jsonl";
export const TOKENS_NAME = "tokens.jsonl";
export const LOCK_NAME = "lock";

export function logPathOf(directory: string): string {
  return path.join(path.resolve(directory), LOG_NAME);
}

/** Makes a missing folder (0700), and those above it, durably. @throws PlantStoreError `io_error`. */
export function ensureFolder(directory: string): Promise<void> {
  const folder = path.resolve(directory);
  return withIoError(`Cannot use the folder "${directory}"`, async () => {
    await makeFolder(folder);
    const state = disk.stat(folder);
    if (state?.isDirectory() !== true) throw new Error("expected a folder, found a file");
    if ((state.mode & 0o007n) !== 0n) {
      publishWarning(`"${directory}" is open to other users; close it: chmod o= "${directory}"`);
    }
  });
}

async function makeFolder(folder: string): Promise<void> {
  if (disk.stat(folder) !== undefined) return;
  const parent = path.dirname(folder);
  await makeFolder(parent);
  try {
    disk.makeFolder(folder);
  } catch (error) {
    if (systemCode(error) !== "EEXIST") throw error; // another process was faster
  }
  await syncFolderAndName(parent); // a killed process may have made the parent
}

/** What a folder above may refuse to a user who does not own it. */
const NOT_OURS = ["EACCES", "EPERM", "EROFS", "EINVAL", "ENOTSUP"];

/** Makes the names in a folder durable, and the folder's own name. @throws the system's error. */
export async function syncFolderAndName(folder: string): Promise<void> {
  await disk.syncFolder(folder);
  try {
    await disk.syncFolder(`${folder}/..`); // the real parent, even behind a symbolic link
  } catch (cause) {
    if (!NOT_OURS.includes(systemCode(cause) ?? "")) throw cause;
  }
}
