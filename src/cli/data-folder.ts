/**
 * The user who works in a data directory. If root runs a command in the directory of another user, the
 * process becomes that user for good: the owner may replace any file there by a link to any file of the
 * machine, and root would write to that file (the class of CVE-2016-1247).
 *
 * Invariant: root follows nothing that another user owns. A data directory of root's in which others may write,
 * such as a tmpfs or an emptyDir, is a warning: what they put there later is found by the next command.
 */
import fs from "node:fs";
import { userInfo } from "node:os";
import path from "node:path";
import { publishWarning } from "../core/channels.ts";
import { UsageError } from "./command.ts";
import { report } from "./output.ts";

/** Has functions for users and groups, which Windows does not; the types of Node lack one. */
const posix = process as Required<NodeJS.Process> & {
  initgroups(user: string, group: number): void;
};

function isRoot(): boolean {
  return process.geteuid?.() === 0;
}

/**
 * Makes root the user who owns the folder, for good. Other users, and root in a folder of its own, stay who
 * they are. If the folder is missing, the owner of the nearest folder above it counts, and will own it.
 *
 * @throws UsageError if root cannot become the owner, if the owner cannot reach the folder, or if something of
 * another user is in a folder of root's, or on the path to it.
 */
export function becomeOwner(folder: string): void {
  if (!isRoot()) return;
  const existing = nearestExisting(folder);
  const { uid, gid } = fs.statSync(existing);
  if (uid === 0) {
    refuse(folder, findPartOf(folder, isForeign));
    const open = findOpenPart(folder);
    if (open !== undefined)
      publishWarning(`Other users can change "${open}"; chmod go-w closes it to them`);
    return;
  }
  const owner = `the owner of "${existing}" (user ${uid})`;
  const foreign = findPart(existing, (stat) => stat.uid !== 0 && stat.uid !== uid);
  if (foreign !== undefined) {
    throw new UsageError(
      `Cannot become ${owner}: "${foreign}" belongs to another user, who can have the path lead elsewhere`,
    );
  }
  try {
    switchTo(uid, gid);
  } catch (error) {
    const { code = "", message } = error as NodeJS.ErrnoException;
    const why = message.includes(code) ? message : `${message} (${code})`;
    throw new UsageError(`Cannot become ${owner}: ${why}; run the command as that user`);
  }
  try {
    fs.accessSync(existing, fs.constants.X_OK);
  } catch (error) {
    const why = (error as Error).message;
    throw new UsageError(
      `Cannot use "${folder}" as ${owner}: ${why}; open the folders above it to that user`,
    );
  }
  report({ level: "info", event: "identity", message: `running as ${owner}, not as root` });
}

/** Whether this is root, and no other user can change the folder: then root may open what is in it. */
export function isRootsAlone(folder: string): boolean {
  return isRoot() && findOpenPart(folder) === undefined;
}

/** @throws UsageError if this is root, and another user can change or replace the folder. */
export function requireRootsAlone(folder: string): void {
  if (isRoot()) refuse(folder, findOpenPart(folder));
}

function refuse(folder: string, part: string | undefined): void {
  if (part === undefined) return;
  throw new UsageError(
    `Cannot use "${folder}" as root: another user can change "${part}"; close that (chown root, chmod go-w), or ` +
      "give the data directory to the user who runs the server",
  );
}

/** The part of the path, of what its links lead to, or of its contents that another user than root can change. */
function findOpenPart(folder: string): string | undefined {
  return findPartOf(folder, (stat, part) => {
    // In a sticky folder a user can change only entries of their own. The mode of a link has no meaning.
    const isSticky = (stat.mode & 0o1000) !== 0 && part !== path.resolve(folder);
    const isOpen = !stat.isSymbolicLink() && !isSticky && (stat.mode & 0o022) !== 0;
    return isForeign(stat) || isOpen;
  });
}

function isForeign({ uid }: fs.Stats): boolean {
  return uid !== 0;
}

/** The first part of the path of which the judge says so, or else what belongs to another user in the folder. */
function findPartOf(folder: string, judge: Judge): string | undefined {
  const existing = nearestExisting(folder);
  const isThere = existing === path.resolve(folder);
  const open = findPart(existing, judge);
  if (open !== undefined || !isThere || !fs.statSync(existing).isDirectory()) return open;
  // A link that another user has put there stays after the folder was closed.
  const contents = fs.readdirSync(existing).map((name) => path.join(existing, name));
  return contents.find((entry) => fs.lstatSync(entry, { throwIfNoEntry: false })?.uid);
}

type Judge = (stat: fs.Stats, part: string) => boolean;

/** The first part of a path, or of what a link in it leads to, of which the judge says so. */
function findPart(whole: string, judge: Judge): string | undefined {
  const above = path.dirname(whole);
  const found = above === whole ? undefined : findPart(above, judge);
  if (found !== undefined) return found;
  const stat = fs.lstatSync(whole);
  if (judge(stat, whole)) return whole;
  if (!stat.isSymbolicLink()) return undefined;
  return findPart(path.resolve(fs.realpathSync(above), fs.readlinkSync(whole)), judge);
}

function nearestExisting(folder: string): string {
  const whole = path.resolve(folder);
  return fs.existsSync(whole) ? whole : nearestExisting(path.dirname(whole));
}

/** Usually the number of a group without members. */
const NO_GROUP = 65534;

/** Takes the user's own groups. The group of a folder may be one that its owner is not in. */
function switchTo(uid: number, folderGid: number): void {
  const user = findUser(uid);
  if (user === undefined) posix.setgroups([]);
  else posix.initgroups(user.username, user.gid);
  posix.setgid(user?.gid ?? (folderGid === uid ? uid : NO_GROUP));
  posix.setuid(uid);
}

/** `undefined` for a user without a name, as a container may have. */
function findUser(uid: number) {
  posix.seteuid(uid); // `userInfo` describes the effective user
  try {
    return userInfo();
  } catch {
    return undefined;
  } finally {
    posix.seteuid(0);
  }
}
