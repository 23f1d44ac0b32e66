/**
 * The port to files and folders: the few operations that the store needs of a disk, each named for what it
 * promises; their implementation by `node:fs`; and the errors of the system in words for the operator. Knows
 * no logs.
 *
 * Invariants. Only `append`, `sync` and `syncFolder` promise that something survives a power cut; all else
 * is seen by every process at once, and may be lost. `append` covers its own bytes and the length of the
 * file, `sync` all bytes of the file, and neither its name: that takes `syncFolder`. What returns no promise
 * happens in the turn of the call, so a check and the step that relies on it share a turn.
 *
 * The program uses one disk at a time. A test hands in a simulated one, which can lose power.
 */
import fs from "node:fs";
import fsPromises, { type FileHandle } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { PlantStoreError } from "../core/errors.ts";

/** What the system knows of a file or a folder. */
export type FileState = Pick<
  fs.BigIntStats,
  | "dev"
  | "ino"
  | "size"
  | "nlink"
  | "mode"
  | "uid"
  | "mtimeNs"
  | "ctimeNs"
  | "ctimeMs"
  | "isFile"
  | "isDirectory"
  | "isSymbolicLink"
>;

/** What a name in a folder leads to; a link is not followed. */
export interface FolderEntry {
  readonly name: string;
  readonly kind: "file" | "folder" | "other";
}

/** Receives the outcome of a read: the bytes that were read, or why there are none. */
export type ReadDone = (cause: Error | null, bytes: number) => void;

/**
 * An open file. Every method throws, or rejects with, the system's error; those that change a file do so, too,
 * if it was opened to be read.
 */
export interface OpenFile {
  /** The file that was opened, whatever its name leads to now. */
  state(): FileState;
  /** Reads bytes from a position into `buffer` at `start`: fewer at the end of the file, or for no reason. */
  read(buffer: Buffer, start: number, bytes: number, position: number, done: ReadDone): void;
  /** Fills `buffer` as far as the file goes, in this turn; returns how many bytes were read. */
  readNow(buffer: Buffer, position: number): number;
  /** Makes everything in the file durable, and its length. A failure is reported once only. */
  sync(): Promise<void>;
  /**
   * Appends the bytes from `start` on to the end of the file, wherever that is; returns how many were
   * written, perhaps not all. They are durable then. After a failure any of them may be in the file.
   */
  append(bytes: Buffer, start: number): Promise<number>;
  /** Writes the bytes from `start` on over what is at `position`; returns how many. Not durable. */
  overwrite(bytes: Buffer, start: number, position: number): Promise<number>;
  /** Cuts the file. Not durable. */
  truncate(bytes: number): void;
  /** Promises nothing. */
  close(): Promise<void>;
}

/** A text that an operator names. */
export interface NamedText {
  readonly text: AsyncIterable<Buffer>;
  /** Its length; `undefined` for a pipe or a device. */
  readonly bytes: number | undefined;
}

/** Every method throws, or rejects with, the system's error. */
export interface Disk {
  /** Opens a file to read it. Refuses a FIFO, whose reader may wait for ever. */
  open(filePath: string): Promise<OpenFile>;
  /** Opens a file for changes, and makes it if it is missing (0600). A new name is not durable. */
  openForChanges(filePath: string): Promise<OpenFile>;
  /** Opens a file that a person has named, of any kind. `undefined`: it is a folder. */
  openText(filePath: string, chunkBytes: number): Promise<NamedText | undefined>;
  /** The file to which the path leads. */
  find(filePath: string): FileState | undefined;
  /** Like `find`, but does not follow a link at the end of the path. */
  findEntry(filePath: string): FileState | undefined;
  /** Like `find`, without holding up the process if the disk hangs. */
  findLater(filePath: string): Promise<FileState | undefined>;
  /** The path without links. */
  realPath(filePath: string): string;
  /** The names in a folder, in any order. */
  list(folder: string): FolderEntry[];
  /** Replaces what has the name already. Seen at once by everybody, and whole; durable after `syncFolder`. */
  rename(from: string, to: string): void;
  /** Gives a file a second name, which must be free. */
  link(from: string, to: string): void;
  /** Removes the name of a file, if there is one. */
  unlink(filePath: string): void;
  /** Makes a folder (0700). */
  makeFolder(folder: string): void;
  /** Removes an empty folder. */
  removeFolder(folder: string): void;
  /** Makes the names in a folder durable: those that are new, renamed or removed. */
  syncFolder(folder: string): Promise<void>;
  /**
   * Whether the disk itself has these bytes of a file, not the page cache alone. Also true if the system
   * cannot tell.
   */
  holds(filePath: string, bytes: Buffer, position: number): Promise<boolean>;
  /** The folder's file system: its magic number, free blocks, inodes and free inodes (statfs(2)). */
  fileSystem(folder: string): Pick<fs.StatsFs, "type" | "bavail" | "files" | "ffree">;
}

const { O_APPEND, O_CREAT, O_DIRECT, O_DSYNC, O_NONBLOCK, O_RDONLY, O_RDWR, O_SYNC, O_WRONLY } =
  fs.constants;
/** A write waits for the disk: one call instead of two (measured: docs/speed.md). macOS has no O_DSYNC. */
const SYNCED = O_DSYNC ?? O_SYNC;

class SystemFile implements OpenFile {
  /** For reads, and for changes in place. */
  readonly #handle: FileHandle;
  /** For appends; absent in a file that was opened to be read. */
  readonly #appender: FileHandle | undefined;

  constructor(handle: FileHandle, appender?: FileHandle) {
    this.#handle = handle;
    this.#appender = appender;
  }

  state(): FileState {
    return fs.fstatSync(this.#handle.fd, { bigint: true });
  }

  read(buffer: Buffer, start: number, bytes: number, position: number, done: ReadDone): void {
    fs.read(this.#handle.fd, buffer, start, bytes, position, done);
  }

  readNow(buffer: Buffer, position: number): number {
    return fs.readSync(this.#handle.fd, buffer, 0, buffer.length, position);
  }

  async append(bytes: Buffer, start: number): Promise<number> {
    if (this.#appender === undefined) throw new Error("it was opened to be read");
    return (await this.#appender.write(bytes, start, bytes.length - start, null)).bytesWritten;
  }

  async overwrite(bytes: Buffer, start: number, position: number): Promise<number> {
    return (await this.#handle.write(bytes, start, bytes.length - start, position)).bytesWritten;
  }

  truncate(bytes: number): void {
    fs.ftruncateSync(this.#handle.fd, bytes);
  }

  /** Not `fdatasync`, which does not commit a rename of the file by another program (ext4). */
  sync(): Promise<void> {
    return this.#handle.sync();
  }

  async close(): Promise<void> {
    await Promise.all([this.#handle.close(), this.#appender?.close()]);
  }
}

/** Opens a file, and waits for no writer of a FIFO. */
async function openFile(filePath: string, flags: number): Promise<FileHandle> {
  const handle = await fsPromises.open(filePath, flags | O_NONBLOCK, 0o600);
  try {
    const state = fs.fstatSync(handle.fd);
    if (!state.isDirectory() && !state.isFIFO()) return handle;
    throw new Error(`expected a regular file, got ${state.isFIFO() ? "a FIFO" : "a folder"}`);
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** Whether two states are of one file. */
export function isSameFile(one: FileState, other: FileState): boolean {
  return one.dev === other.dev && one.ino === other.ino;
}

/** O_DIRECT demands such offsets, and memory at such addresses, as WebAssembly has. */
const ALIGNMENT = 4096;
const WASM_PAGE_BYTES = 65_536;
/** The types of Node do not describe it. */
declare const WebAssembly: {
  readonly Memory: new (size: { readonly initial: number }) => { readonly buffer: ArrayBuffer };
};

/** Below a file there is nothing. */
function throwUnlessMissing(cause: unknown): undefined {
  if (systemCode(cause) !== "ENOTDIR") throw cause;
}

class SystemDisk implements Disk {
  async open(filePath: string): Promise<OpenFile> {
    return new SystemFile(await openFile(filePath, O_RDONLY));
  }

  async openForChanges(filePath: string): Promise<OpenFile> {
    const handle = await openFile(filePath, O_RDWR | O_CREAT);
    let appender: FileHandle | undefined;
    try {
      appender = await openFile(filePath, O_WRONLY | O_APPEND | SYNCED);
      const file = new SystemFile(handle, appender);
      if (isSameFile(file.state(), new SystemFile(appender).state())) return file;
      throw new Error("another file took its name in the meantime");
    } catch (error) {
      await Promise.allSettled([appender?.close(), handle.close()]);
      throw error;
    }
  }

  async openText(filePath: string, chunkBytes: number): Promise<NamedText | undefined> {
    const handle = await fsPromises.open(filePath);
    const state = await handle.stat();
    if (state.isDirectory()) {
      await handle.close();
      return undefined;
    }
    return {
      text: handle.createReadStream({ highWaterMark: chunkBytes }),
      bytes: state.isFile() ? state.size : undefined,
    };
  }

  find(filePath: string): FileState | undefined {
    try {
      return fs.statSync(filePath, { bigint: true, throwIfNoEntry: false });
    } catch (cause) {
      return throwUnlessMissing(cause);
    }
  }

  findEntry(filePath: string): FileState | undefined {
    try {
      return fs.lstatSync(filePath, { bigint: true, throwIfNoEntry: false });
    } catch (cause) {
      return throwUnlessMissing(cause);
    }
  }

  async findLater(filePath: string): Promise<FileState | undefined> {
    try {
      return await fsPromises.stat(filePath, { bigint: true });
    } catch (cause) {
      if (systemCode(cause) === "ENOENT") return undefined;
      throw cause;
    }
  }

  realPath(filePath: string): string {
    return fs.realpathSync(filePath);
  }

  list(folder: string): FolderEntry[] {
    return fs.readdirSync(folder, { withFileTypes: true }).map((entry) => ({
      name: entry.name,
      kind: entry.isFile() ? "file" : entry.isDirectory() ? "folder" : "other",
    }));
  }

  rename(from: string, to: string): void {
    fs.renameSync(from, to);
  }

  link(from: string, to: string): void {
    fs.linkSync(from, to);
  }

  unlink(filePath: string): void {
    fs.rmSync(filePath, { force: true });
  }

  makeFolder(folder: string): void {
    fs.mkdirSync(folder, 0o700);
  }

  removeFolder(folder: string): void {
    fs.rmdirSync(folder);
  }

  async syncFolder(folder: string): Promise<void> {
    const handle = await fsPromises.open(folder, O_RDONLY);
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
  }

  async holds(filePath: string, bytes: Buffer, position: number): Promise<boolean> {
    if (bytes.length === 0 || O_DIRECT === undefined) return true;
    try {
      const ahead = position % ALIGNMENT;
      const pages = Math.ceil((ahead + bytes.length) / WASM_PAGE_BYTES);
      const memory = Buffer.from(new WebAssembly.Memory({ initial: pages }).buffer);
      const handle = await fsPromises.open(filePath, O_RDONLY | O_DIRECT);
      try {
        const { bytesRead } = await handle.read(memory, 0, memory.length, position - ahead);
        return bytes.equals(memory.subarray(ahead, Math.min(bytesRead, ahead + bytes.length)));
      } finally {
        await handle.close();
      }
    } catch (cause) {
      // Else a file system without O_DIRECT, or no address space for WebAssembly.
      return systemCode(cause) !== "EIO";
    }
  }

  fileSystem(folder: string): fs.StatsFs {
    return fs.statfsSync(folder);
  }
}

/** The disk of this program. */
export let disk: Disk = new SystemDisk();

/** For a simulation. @internal */
export function replaceDisk(other: Disk): void {
  disk = other;
}

/** An `io_error`: the action that failed, and in words why. */
export function ioError(action: string, cause: unknown): PlantStoreError {
  return new PlantStoreError("io_error", `${action}: ${describeSystemError(cause)}`, { cause });
}

/** Turns what the work rejects with into an `io_error`, unless it is a `PlantStoreError`. */
export async function orIoError<T>(action: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    throw cause instanceof PlantStoreError ? cause : ioError(action, cause);
  }
}

/** The code of the system error (`ENOENT`), if it is one. */
export function systemCode(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException | undefined)?.code;
}

/** "no space left on device (ENOSPC)" rather than Node's line with call and path. */
export function describeSystemError(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  const { code, errno } = cause as NodeJS.ErrnoException;
  if (errno === -EDQUOT) return "disk quota exceeded (EDQUOT)";
  if (errno === -ENOSPC && lacksInodes(cause)) {
    return "no free inode left on device (ENOSPC): it has room for bytes, but for no further file; remove files";
  }
  // Node's own calls say "CODE: words, call"; its sockets "call CODE: words path".
  const words = /^(?:\w+ )?[A-Z0-9]+: ([^,/]*?)(?:,| \/|$)/.exec(cause.message)?.[1];
  return code !== undefined && words !== undefined ? `${words} (${code})` : cause.message;
}

/** Whether a new file failed for lack of an inode, and not of bytes. Btrfs, which counts no inodes, reports that it has none. */
function lacksInodes(cause: Error): boolean {
  const { address, path: file = address } = cause as { path?: string; address?: string };
  if (file === undefined) return false; // a write, which needs no inode
  try {
    const { bavail, files, ffree } = disk.fileSystem(path.dirname(file));
    return bavail > 0 && files > 0 && ffree === 0;
  } catch {
    return false;
  }
}

const { EDQUOT, EFBIG, ENOSPC } = os.constants.errno;

/** Whether the system had no room. By number: libuv has no name for EDQUOT. */
export function isRefusal(cause: unknown): boolean {
  const errno = (cause as NodeJS.ErrnoException | undefined)?.errno;
  return errno === -ENOSPC || errno === -EDQUOT || errno === -EFBIG;
}
