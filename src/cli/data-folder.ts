/**
 * The folder of a command, and whether this user may work in it. Root writes into no folder of another user: its
 * owner may put a link to any file of the machine there (the class of CVE-2016-1247), and could not read what
 * root writes. Commands that only read are not refused.
 */
import fs from "node:fs";
import path from "node:path";
import { PlantStoreError } from "../core/errors.ts";
import { UsageError } from "./command.ts";

/**
 * Returns the folder, which need not exist: then the nearest one above it counts.
 *
 * @throws UsageError if this is root and the folder belongs to another user.
 */
export function ownFolder(folder: string): string {
  if (process.geteuid?.() !== 0) return folder;
  const existing = nearestExisting(path.resolve(folder));
  const { uid, gid } = fs.statSync(existing);
  if (uid === 0) return folder;
  throw new UsageError(
    `"${existing}" belongs to user ${uid}: run this command as that user and not as root, for example with ` +
      `runuser -u "$(id -nu ${uid})" -- plant-store …, or docker run --user ${uid}:${gid} …`,
  );
}

function nearestExisting(whole: string): string {
  return fs.existsSync(whole) ? whole : nearestExisting(path.dirname(whole));
}

/** Returns the folder. @throws PlantStoreError `io_error` if it is missing: its name may be mistyped. */
export function existingFolder(folder: string): string {
  if (fs.existsSync(folder)) return folder;
  const advice = "there is no such folder; name the data directory with --data";
  throw new PlantStoreError("io_error", `Cannot read "${path.resolve(folder)}": ${advice}`);
}
