/**
 * One log file on disk: opened, appended to durably, changed in place, read.
 *
 * Invariants. What `append` reports as durable was synced before the report, and
 * the file then ended where this append ended. Appends go to the end of the file
 * as the kernel knows it (`O_APPEND`), so two processes never overwrite each
 * other. Every change first checks that the file still ends where this process
 * left it; a file that ends elsewhere has another writer and is left alone.
 * Which bytes are records is not known here. Files are 0600 and belong to the
 * owner of their folder, so that a program run by root does not lock the service
 * out. Root follows no link that the owner of a folder may have put there, and
 * changes owners through descriptors only.
 */
import fs from "node:fs";
import fsPromises, { type FileHandle } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { publishWarning } from "../core/channels.ts";
import { PlantStoreError } from "../core/errors.ts";
import { LINE_FEED } from "./format.ts";

/**
 * How an append ended. `refused`: the system had no room (disk full, quota, size
 * limit), and the file ends where it did before. `unknown`: the state of the file
 * cannot be known any more: a sync failed, and a second one would prove nothing
 * (Rebello et al., "Can Applications Recover from fsync Failures?", ATC '20), or
 * another process writes the file. `cause` is then an error for the operator.
 */
export type AppendResult =
  | { readonly outcome: "durable" }
  | { readonly outcome: "refused"; readonly cause: unknown }
  | { readonly outcome: "unknown"; readonly cause: Error };

/**
 * Where the platform has it, the write itself waits for the disk: one hop to the
 * thread pool instead of two, which makes 9 % more creates (64 connections).
 */
const O_DSYNC: number | undefined = fs.constants.O_DSYNC;
const { O_APPEND, O_CREAT, O_EXCL, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY } = fs.constants;
const SYNCED = O_DSYNC ?? 0;
const CHUNK_BYTES = 1024 * 1024;

/** Some bytes of a file. */
export interface ByteRange {
  readonly offset: number;
  readonly bytes: number;
}

export class LogFile {
  readonly path: string;
  /** For reads, and for changes in place. */
  readonly #handle: FileHandle;
  /** For appends; `undefined` in a file that was opened for reading. */
  readonly #appender: FileHandle | undefined;
  readonly #identity: Identity;
  readonly #folder: FolderLink | undefined;
  #end: number;

  private constructor(filePath: string, handle: FileHandle, appender?: FileHandle) {
    this.path = filePath;
    this.#handle = handle;
    this.#appender = appender;
    this.#identity = identityOf(handle);
    this.#folder = folderLinkOf(filePath);
    this.#end = this.size();
  }

  /**
   * Opens for reading and appending; a missing file is created and its folder synced.
   *
   * @throws PlantStoreError `io_error`.
   */
  static async open(filePath: string): Promise<LogFile> {
    try {
      return await LogFile.#openOrCreate(filePath, O_CREAT);
    } catch (cause) {
      throw ioError(`Cannot open "${filePath}"`, cause);
    }
  }

  /** Creates a file; `undefined` when there is one already. Otherwise like `open`. */
  static async create(filePath: string): Promise<LogFile | undefined> {
    try {
      return await LogFile.#openOrCreate(filePath, O_CREAT | O_EXCL);
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code === "EEXIST") return undefined;
      throw ioError(`Cannot create "${filePath}"`, cause);
    }
  }

  /** Opens for reading; `undefined` when there is no such file. Otherwise like `open`. */
  static async openForReading(filePath: string): Promise<LogFile | undefined> {
    try {
      return new LogFile(filePath, await openEntry(filePath));
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code === "ENOENT") return undefined;
      throw ioError(`Cannot open "${filePath}"`, cause);
    }
  }

  static async #openOrCreate(filePath: string, flags: number): Promise<LogFile> {
    const handle = await openEntry(filePath, O_RDWR | SYNCED | flags);
    let appender: FileHandle | undefined;
    try {
      // Always: the process that made the file may have died before this.
      await syncDirectory(path.dirname(filePath));
      appender = await openEntry(filePath, O_WRONLY | O_APPEND | SYNCED);
      if (!isSame(identityOf(handle), identityOf(appender))) {
        throw new Error("another file took its name in the meantime");
      }
      warnOfLinks(filePath, handle);
      return new LogFile(filePath, handle, appender);
    } catch (error) {
      await appender?.close();
      await handle.close();
      throw error;
    }
  }

  /** The length of the file at this moment. */
  size(): number {
    return fs.fstatSync(this.#handle.fd).size;
  }

  /** Where the file ends as far as this process knows: where it surveyed the file, or left it. */
  get end(): number {
    return this.#end;
  }

  /**
   * Records the current length. Later changes throw `locked` unless the file still has
   * the length that this process expects.
   *
   * @returns the length in bytes.
   */
  survey(): number {
    this.#end = this.size();
    return this.#end;
  }

  /**
   * Appends all of `bytes` and waits until the disk has them. A refused append is
   * undone first. Never rejects.
   */
  async append(bytes: Buffer): Promise<AppendResult> {
    const progress = { written: 0 };
    try {
      await this.#writeAll(bytes, progress);
    } catch (cause) {
      // A write that syncs cannot tell a failed write from a failed sync, except for these.
      const isRefused = O_DSYNC === undefined || isRefusal(cause);
      return isRefused
        ? this.#undo(bytes, progress.written, cause)
        : this.#abandon(bytes, progress.written, cause);
    }
    if (O_DSYNC === undefined) {
      try {
        await this.#appender?.datasync();
      } catch (cause) {
        return this.#abandon(bytes, bytes.length, cause);
      }
    }
    const end = this.#end + bytes.length;
    const displacement = this.displacement(end);
    if (displacement !== undefined) return { outcome: "unknown", cause: this.#fault(displacement) };
    this.#end = end;
    return { outcome: "durable" };
  }

  /** Like `append`, but throws unless the bytes are durable. @throws PlantStoreError `io_error`. */
  async appendOrThrow(bytes: Buffer): Promise<void> {
    const result = await this.append(bytes);
    if (result.outcome !== "durable") throw ioError(`Cannot write "${this.path}"`, result.cause);
  }

  /** Appends a range of another file, as far as that reaches. @throws PlantStoreError `io_error`. */
  async appendRange(source: LogFile, { offset, bytes }: ByteRange): Promise<void> {
    for (let copied = 0; copied < bytes; ) {
      const chunk = Buffer.alloc(Math.min(CHUNK_BYTES, bytes - copied));
      const got = await source.read(chunk, offset + copied);
      if (got === 0) break;
      await this.appendOrThrow(chunk.subarray(0, got));
      copied += got;
    }
  }

  /**
   * Asks again for the rest of a short write: the system then says why it was
   * short. Another process may have appended in between, and the rest would
   * continue its record.
   */
  async #writeAll(bytes: Buffer, progress: { written: number }): Promise<void> {
    const appender = this.#appender;
    if (appender === undefined) throw new Error("it was opened for reading");
    while (progress.written < bytes.length) {
      if (progress.written > 0) this.#assertEndsAt(this.#end + progress.written);
      const rest = bytes.length - progress.written;
      const { bytesWritten } = await appender.write(bytes, progress.written, rest, null);
      if (bytesWritten === 0) throw new Error("the system wrote nothing, and gave no reason");
      progress.written += bytesWritten;
    }
  }

  /** Cuts a refused append away; an append that cannot be undone is one of unknown state. */
  async #undo(bytes: Buffer, written: number, cause: unknown): Promise<AppendResult> {
    try {
      await this.#cutOwn(bytes, written);
      return { outcome: "refused", cause };
    } catch (cutCause) {
      const reason = describeSystemError(cause);
      // A write that syncs may fail with all of its bytes in the file: nobody can count them.
      const why =
        written === 0
          ? `${reason}, either before it was written or in its sync; make room, then start again`
          : `${reason}, then the cut: ${describeSystemError(cutCause)}`;
      const fault = new Error(`Cannot write "${this.path}": ${why}`, { cause });
      return { outcome: "unknown", cause: fault };
    }
  }

  /**
   * After a failed sync. What a write that syncs has left cannot be counted and
   * stays: the next start decides by what is on disk.
   */
  async #abandon(bytes: Buffer, written: number, cause: unknown): Promise<AppendResult> {
    await this.#cutOwn(bytes, written).catch(() => {});
    if (cause instanceof PlantStoreError) return { outcome: "unknown", cause }; // another writer
    const why = `Cannot sync "${this.path}": ${describeSystemError(cause)}`;
    const fault = new Error(`${why}; check the disk, then start again`, { cause });
    return { outcome: "unknown", cause: fault };
  }

  /**
   * Cuts away the first `written` bytes of an append, but only if the file holds
   * exactly these after its end: bytes of another process are never cut.
   */
  async #cutOwn(bytes: Buffer, written: number): Promise<void> {
    const found = Buffer.alloc(written);
    await this.read(found, this.#end);
    if (!found.equals(bytes.subarray(0, written))) throw this.#fault(OTHER_BYTES);
    this.#assertEndsAt(this.#end + written);
    if (written > 0) fs.ftruncateSync(this.#handle.fd, this.#end);
  }

  /**
   * Writes `bytes` over what is at `position`, and waits until the disk has them.
   * Call it only before plants are appended.
   *
   * @throws PlantStoreError `locked` when another process has changed the file; `io_error`.
   */
  async overwrite(bytes: Buffer, position: number): Promise<void> {
    this.assertUnchanged();
    try {
      for (let written = 0; written < bytes.length; ) {
        const rest = bytes.length - written;
        const result = await this.#handle.write(bytes, written, rest, position + written);
        if (result.bytesWritten === 0) throw new Error("the system wrote nothing");
        written += result.bytesWritten;
      }
      if (O_DSYNC === undefined) await this.#handle.datasync();
    } catch (cause) {
      throw ioError(`Cannot write "${this.path}"`, cause);
    }
  }

  /**
   * Cuts an unfinished line away, from `length` on, and waits until the disk knows.
   * It looks at the bytes once more in the turn of the cut: an acknowledged record ends
   * with a line feed, so a file that has one there has another writer.
   *
   * @throws PlantStoreError `locked` when another process has changed the file; `io_error`.
   */
  async truncate(length: number): Promise<void> {
    this.assertUnchanged();
    if (this.#hasLineFeed(length)) throw this.#fault("was changed by another program");
    try {
      fs.ftruncateSync(this.#handle.fd, length);
      this.#end = length;
      await this.sync();
    } catch (cause) {
      throw ioError(`Cannot cut "${this.path}"`, cause);
    }
  }

  #hasLineFeed(start: number): boolean {
    const chunk = Buffer.allocUnsafe(Math.max(1, Math.min(CHUNK_BYTES, this.#end - start)));
    try {
      for (let offset = start; offset < this.#end; ) {
        const got = fs.readSync(this.#handle.fd, chunk, 0, chunk.length, offset);
        if (got === 0) return false;
        if (chunk.subarray(0, got).includes(LINE_FEED)) return true;
        offset += got;
      }
      return false;
    } catch (cause) {
      throw ioError(`Cannot read "${this.path}"`, cause);
    }
  }

  /** Waits until the disk has what was written and cut so far. */
  sync(): Promise<void> {
    return this.#handle.datasync();
  }

  /**
   * Fills `buffer` from `position`; fewer bytes than it holds only at the end of the file.
   *
   * @throws PlantStoreError `io_error`.
   */
  async read(buffer: Buffer, position: number): Promise<number> {
    try {
      let filled = 0;
      while (filled < buffer.length) {
        const wanted = buffer.length - filled;
        const { bytesRead } = await this.#handle.read(buffer, filled, wanted, position + filled);
        if (bytesRead === 0) break;
        filled += bytesRead;
      }
      return filled;
    } catch (cause) {
      throw ioError(`Cannot read "${this.path}"`, cause);
    }
  }

  /**
   * What is wrong with the path, or `undefined` while it still names this very
   * file, at this size where one is given: no client may get a 200 for a file that was
   * deleted, replaced or written to by another process. Costs about 4 µs.
   */
  displacement(expectedSize?: number): string | undefined {
    let found: fs.BigIntStats | undefined;
    try {
      if (
        this.#folder !== undefined &&
        fs.readlinkSync(this.#folder.link) !== this.#folder.target
      ) {
        return "was moved with its folder";
      }
      found = fs.statSync(this.path, { bigint: true, throwIfNoEntry: false });
    } catch (cause) {
      return `cannot be found any more: ${describeSystemError(cause)}`;
    }
    if (found === undefined) return "was deleted or renamed";
    if (!isSame(found, this.#identity)) return "was replaced";
    if (expectedSize !== undefined && found.size !== BigInt(expectedSize)) {
      return `was changed by another program (expected ${expectedSize} bytes, got ${found.size})`;
    }
    return undefined;
  }

  /**
   * @throws PlantStoreError `locked` unless the file is the one that was surveyed
   * and ends where this process left it.
   */
  assertUnchanged(): void {
    this.#assertEndsAt(this.#end);
  }

  #assertEndsAt(length: number): void {
    const displacement = this.displacement(length);
    if (displacement !== undefined) throw this.#fault(displacement);
  }

  #fault(displacement: string): PlantStoreError {
    return new PlantStoreError(
      "locked",
      `"${this.path}" ${displacement}; find the program that did it, then start again`,
    );
  }

  /** Waits for reads and writes under way, then closes. */
  async close(): Promise<void> {
    await Promise.all([this.#handle.close(), this.#appender?.close()]);
  }
}

const OTHER_BYTES = "was changed by another program (expected bytes of this process at its end)";

/** Identifies a file: a copy of it has another inode. */
interface Identity {
  readonly dev: bigint;
  readonly ino: bigint;
}

function identityOf(handle: FileHandle): Identity {
  return fs.fstatSync(handle.fd, { bigint: true });
}

function isSame(one: Identity, other: Identity): boolean {
  return one.dev === other.dev && one.ino === other.ino;
}

/** A folder that is reached through a descriptor of this process, and the path that it had. */
interface FolderLink {
  readonly link: string;
  readonly target: string;
}

/** A descriptor leads to its folder wherever that is moved, so the path has to be looked at. */
function folderLinkOf(filePath: string): FolderLink | undefined {
  const link = /^\/proc\/self\/fd\/\d+(?=\/)/.exec(filePath)?.[0];
  return link === undefined ? undefined : { link, target: fs.readlinkSync(link) };
}

/** Windows has neither; it has no root either. */
const { O_DIRECTORY = 0, O_NOFOLLOW = 0, O_NONBLOCK = 0 } = fs.constants;

/**
 * Opens a file of a data directory; a new one is 0600 and its folder's owner's. A FIFO is
 * refused: a reader of one may wait for ever. Root in a folder that others may write, who may put
 * anything in the place of a file, opens only a regular file that has no other name.
 *
 * @throws the system's error, or an error that says what was found.
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
  else if ((flags & O_EXCL) === 0) {
    try {
      return {
        handle: await fsPromises.open(filePath, (flags & ~O_CREAT) | O_NOFOLLOW),
        isNew: false,
      };
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === "ELOOP") throw new Error("expected a regular file, got a symbolic link");
      const isMissing = code === "ENOENT";
      if (!isMissing || (flags & O_CREAT) === 0) throw error;
    }
  }
  return {
    handle: await fsPromises.open(filePath, flags | O_EXCL, 0o600),
    isNew: (flags & O_CREAT) !== 0,
  };
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

/** What is written to such a file changes another name of it, too, such as one in a snapshot. */
function warnOfLinks(filePath: string, handle: FileHandle): void {
  const { nlink } = fs.fstatSync(handle.fd);
  const isLink = fs.lstatSync(filePath).isSymbolicLink();
  if (nlink <= 1 && !isLink) return;
  const what = isLink ? "is a symbolic link" : `has ${nlink} names (hard links)`;
  publishWarning(
    `"${filePath}" ${what}: what is stored changes the file under its other name, too; ` +
      'make copies with "plant-store backup"',
  );
}

/**
 * Makes the folder if it is missing (0700, its parent's owner), and says when
 * others may enter an existing one.
 *
 * @throws PlantStoreError `io_error`.
 */
export async function ensureDirectory(directory: string): Promise<{ isOpenToOthers: boolean }> {
  try {
    const target = path.resolve(directory);
    for (const missing of missingDirectories(target)) await makeDirectory(missing);
    const stat = fs.statSync(target);
    if (!stat.isDirectory()) throw new Error("not a folder");
    return { isOpenToOthers: process.platform !== "win32" && (stat.mode & 0o077) !== 0 };
  } catch (cause) {
    throw ioError(`Cannot use "${directory}" as a data directory`, cause);
  }
}

/**
 * What has to be made for a folder to be there, the outermost first. One by one,
 * because Node's recursive `mkdir` says ENOENT of a file system that is read-only.
 */
function missingDirectories(target: string): string[] {
  const parent = path.dirname(target);
  if (fs.existsSync(target) || parent === target) return [];
  return [...missingDirectories(parent), target];
}

/** Makes a folder durably, unless somebody else was faster. */
async function makeDirectory(directory: string): Promise<void> {
  try {
    fs.mkdirSync(directory, 0o700);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
  if (process.geteuid?.() === 0) {
    const fd = fs.openSync(directory, O_DIRECTORY | O_NOFOLLOW);
    try {
      takeFolderOwner(fd, path.dirname(directory));
    } finally {
      fs.closeSync(fd);
    }
  }
  await syncDirectory(path.dirname(directory));
}

/** Kinds of file systems by their magic numbers (statfs(2)), of which not all is promised. */
const UNPROMISED_FILE_SYSTEMS = new Map<number, string>([
  [0x6969, "NFS"],
  [0xff534d42, "CIFS"],
  [0xfe534d42, "CIFS"],
  [0x01021997, "9p"],
  [0x65735546, "FUSE"],
]);

/**
 * The kind of file system that a folder is on, where neither the lock nor the
 * durability of a sync is promised; `undefined` on any other.
 */
export function unpromisedFileSystem(directory: string): string | undefined {
  try {
    return UNPROMISED_FILE_SYSTEMS.get(fs.statfsSync(directory).type);
  } catch {
    return undefined; // what is wrong with the folder, the next call on it says
  }
}

/** What some FUSE and network file systems answer to the fsync of any folder. */
const CANNOT_SYNC_FOLDERS: readonly string[] = ["EINVAL", "ENOTSUP", "ENOSYS"];

/**
 * Makes a created, renamed or removed entry of the folder durable.
 *
 * @throws the system's error; one that names the file system if that cannot sync a folder.
 */
export async function syncDirectory(directory: string): Promise<void> {
  if (process.platform === "win32") return; // a folder cannot be opened there
  const handle = await fsPromises.open(directory, fs.constants.O_RDONLY);
  try {
    await handle.sync();
  } catch (cause) {
    if (!CANNOT_SYNC_FOLDERS.includes((cause as NodeJS.ErrnoException).code ?? "")) throw cause;
    throw new Error(
      `the file system of "${directory}" cannot make the entries of a folder durable ` +
        `(fsync: ${describeSystemError(cause)}); use a folder on a local one, such as ext4 or XFS`,
      { cause },
    );
  } finally {
    await handle.close();
  }
}

/** Removes an unfinished file, if there is one and the system lets it: nothing depends on it. */
export function removeLeftover(filePath: string): void {
  try {
    fs.rmSync(filePath, { force: true });
  } catch {}
}

/** An `io_error` that says what could not be done and, in words, why. */
export function ioError(action: string, cause: unknown): PlantStoreError {
  return new PlantStoreError("io_error", `${action}: ${describeSystemError(cause)}`, { cause });
}

/** "no space left on device (ENOSPC)" rather than Node's line with call and path. */
export function describeSystemError(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  const { code, errno } = cause as NodeJS.ErrnoException;
  if (errno === -EDQUOT) return "disk quota exceeded (EDQUOT)";
  // Node's own calls say "CODE: words, call"; its sockets "call CODE: words path".
  const words = /^(?:\w+ )?[A-Z0-9]+: ([^,/]*?)(?:,| \/|$)/.exec(cause.message)?.[1];
  return code !== undefined && words !== undefined ? `${words} (${code})` : cause.message;
}

const { EDQUOT, EFBIG, ENOSPC } = os.constants.errno;

/** Whether the system said no for want of room. By number: libuv has no name for EDQUOT. */
export function isRefusal(cause: unknown): boolean {
  const errno = (cause as NodeJS.ErrnoException | undefined)?.errno;
  return errno === -ENOSPC || errno === -EDQUOT || errno === -EFBIG;
}

/** Gives an open file to the owner of its folder. Only root can give away, and only root's need it. */
export function takeFolderOwner(fd: number, directory: string): void {
  if (process.geteuid?.() !== 0) return;
  const { uid, gid } = fs.statSync(directory);
  const own = fs.fstatSync(fd);
  if (own.uid !== uid || own.gid !== gid) fs.fchownSync(fd, uid, gid);
}

/** Linux: a descriptor of a file that is not opened, such as a socket. Node has no name for it. */
const O_PATH = 0o10000000;

/**
 * Gives a socket that root has bound in the folder of somebody else to that user, who may not
 * connect to it otherwise.
 *
 * @throws the system's error; not if the socket is gone.
 */
export function giveSocketToFolderOwner(socketPath: string): void {
  const directory = path.dirname(socketPath);
  if (process.platform !== "linux" || !isRootAmongOthers(directory)) return;
  let fd: number | undefined;
  try {
    fd = fs.openSync(socketPath, O_PATH | O_NOFOLLOW);
    const { uid, gid } = fs.statSync(directory);
    const found = fs.fstatSync(fd);
    // No other path: this one leads to the very file that was looked at.
    if (found.isSocket() && found.nlink === 1) fs.chownSync(`/proc/self/fd/${fd}`, uid, gid);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  } finally {
    if (fd !== undefined) fs.closeSync(fd);
  }
}
