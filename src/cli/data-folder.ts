/**
 * Enters a data directory as root. If another user owns it, root becomes that user first: the owner
 * may replace any file in it by a link to any file of the machine, and root would write to that file
 * and hand it to the owner (the class of CVE-2016-1247).
 *
 * Invariant: after `enterFolder` the process may do no more than the owner may. The folder is reached
 * through its descriptor if its owner may have no path to it, as systemd's DynamicUser, or if another
 * user can make root's path lead elsewhere.
 */
import fs from "node:fs";
import { userInfo } from "node:os";
import path from "node:path";
import { PlantStoreError } from "../core/errors.ts";
import { UsageError } from "./command.ts";
import { report, showPathAs } from "./output.ts";

/** Has functions for users and groups, which Windows does not. */
const posix = process as Required<NodeJS.Process>;

/** Whether this process is root, and `enterFolder` would make it another user. */
export function willChangeUser(folder: string): boolean {
  const opened = openAsRoot(folder);
  if (opened !== undefined) fs.closeSync(opened.fd);
  return opened !== undefined && opened.uid !== 0;
}

/**
 * Makes root the user who owns the folder, for good. Other users, and root in a folder of its own,
 * stay who they are. If the folder is missing, the owner of the nearest folder above it counts, and
 * will own it.
 *
 * @returns the path by which to reach the folder from now on.
 * @throws UsageError if root cannot become the owner; nothing was touched then.
 * @throws PlantStoreError `io_error` if the folder cannot be opened.
 */
export function enterFolder(folder: string): string {
  const opened = openAsRoot(folder);
  if (opened === undefined) return folder;
  if (opened.uid !== 0) {
    become(opened, (uid, gid) => {
      posix.setgid(gid);
      posix.setuid(uid);
    });
  }
  return pathOf(opened);
}

/**
 * Like `enterFolder`, until `end` makes the process root again. Call `end` while no work is in
 * progress; files that were opened stay open.
 */
export function visitFolder(folder: string): { readonly folder: string; end(): void } {
  const opened = openAsRoot(folder);
  if (opened === undefined) return { folder, end: () => {} };
  if (opened.uid === 0) return { folder: pathOf(opened), end: () => {} };
  const groups = posix.getgroups();
  become(opened, (uid, gid) => {
    posix.setegid(gid);
    posix.seteuid(uid);
  });
  const end = () => {
    posix.seteuid(0);
    posix.setegid(0);
    posix.setgroups(groups);
  };
  return { folder: pathOf(opened), end };
}

/** A folder that root has opened, and its owner. */
interface Opened {
  /** The folder that the operator named, or the nearest folder above it that exists. */
  readonly folder: string;
  /** The missing path below it, or an empty string. */
  readonly missing: string;
  readonly fd: number;
  readonly uid: number;
  readonly gid: number;
}

/** Reads the owner from the descriptor, because the path may lead elsewhere at any moment. */
function openAsRoot(folder: string): Opened | undefined {
  if (posix.geteuid() !== 0) return undefined;
  try {
    const fd = fs.openSync(folder, fs.constants.O_RDONLY | fs.constants.O_DIRECTORY);
    const { uid, gid } = fs.fstatSync(fd);
    return { folder, missing: "", fd, uid, gid };
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    if (code !== "ENOENT") {
      const why = code === "ENOTDIR" ? "it is not a folder" : message;
      throw new PlantStoreError("io_error", `Cannot open "${folder}": ${why}`, { cause });
    }
  }
  const { dir, base } = path.parse(path.resolve(folder));
  const above = openAsRoot(dir);
  return above && { ...above, missing: path.join(above.missing, base) };
}

function become(opened: Opened, change: (uid: number, gid: number) => void): void {
  const { folder, uid } = opened;
  try {
    posix.setgroups([]);
    const gid = groupOf(opened);
    change(uid, gid);
    const message = `running as the owner of "${folder}" (user ${uid}, group ${gid}), not as root`;
    report({ level: "info", event: "identity", message });
  } catch (error) {
    const { code = "", message } = error as NodeJS.ErrnoException;
    const why = message.includes(code) ? message : `${message} (${code})`;
    throw new UsageError(
      `Cannot become the owner of "${folder}" (user ${uid}): ${why}; run the command as that user`,
    );
  }
}

/** Usually the number of a group without members. */
const NO_GROUP = 65534;

/** The owner's own group. The group of the folder may be one that the owner is not in. */
function groupOf({ uid, gid }: Opened): number {
  posix.seteuid(uid);
  try {
    return userInfo().gid;
  } catch {
    return gid === uid ? gid : NO_GROUP; // a user without a name, as systemd's DynamicUser makes
  } finally {
    posix.seteuid(0);
  }
}

function pathOf({ folder, missing, fd, uid }: Opened): string {
  if (uid === 0 && !canBeMoved(folder)) {
    fs.closeSync(fd);
    return path.join(folder, missing);
  }
  const through = `/proc/self/fd/${fd}`; // `fd` stays open until the process ends
  showPathAs(through, folder);
  return path.join(through, missing);
}

/**
 * Whether another user can replace this folder of root's. Also true if the path has a symbolic link,
 * because links are not examined.
 */
function canBeMoved(folder: string): boolean {
  const whole = path.resolve(folder);
  if (fs.realpathSync(whole) !== whole) return true;
  for (let part = path.dirname(whole); ; part = path.dirname(part)) {
    const { uid, mode } = fs.lstatSync(part);
    // Another user owns this folder, or may write to it and rename what is in it, as it is not sticky.
    if (uid !== 0 || ((mode & 0o022) !== 0 && (mode & 0o1000) === 0)) return true;
    if (part === path.dirname(part)) return false;
  }
}
