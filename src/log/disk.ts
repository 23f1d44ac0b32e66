/**
 * The port to files and folders, its implementation by `node:fs`, and the system's errors in words.
 *
 * Invariants. Only `append`, `sync` and `syncFolder` promise that something survives a power cut. `append`
 * covers its own bytes and the length of the file, `sync` all bytes of the file, and neither covers a new
 * name: that takes `syncFolder`. Synchronous methods take effect before they return, so a check and the step
 * that relies on it can share a turn of the event loop.
 */
import fs from "node:fs";
import fsPromises, { type FileHandle } from "node:fs/promises";
import os from "node:os";
import { PlantStoreError } from "../core/errors.ts";

/** What the system knows of a file or a folder. */
export type FileState = Pick<fs.BigIntStats, "dev" | "ino" | "size" | "mode" | "isDirectory">;

/** An open file. Every method throws, or rejects with, the system's error. */
export interface OpenFile {
  /** The file that was opened, whatever its name leads to now. */
  state(): FileState;
  /** Reads up to `bytes` bytes into `buffer` at `start`; fewer at the end of the file, or for no reason. */
  read(buffer: Buffer, start: number, bytes: number, position: number): Promise<number>;
  /**
   * Appends the bytes from `start` on to the end of the file, wherever that is. Returns how many were
   * written, perhaps not all; those are durable. After a failure any of them may be in the file.
   */
  append(bytes: Buffer, start: number): Promise<number>;
  /** Cuts the file. Not durable before `sync`. */
  truncate(bytes: number): void;
  /** Makes the whole file durable. The kernel reports a failure once only. */
  sync(): Promise<void>;
  close(): Promise<void>;
}

/** Every method throws, or rejects with, the system's error. */
export interface Disk {
  /** Refuses a symbolic link, as `openForAppending` does. */
  openForReading(filePath: string): Promise<OpenFile>;
  /** Opens a file for reading and appending; makes a missing one (0600). */
  openForAppending(filePath: string): Promise<OpenFile>;
  /** All bytes of a file. Refuses a symbolic link, too. */
  readFile(filePath: string): Promise<Buffer>;
  /** The file or folder to which the path leads; `undefined` if there is none. */
  stat(filePath: string): FileState | undefined;
  list(folder: string): string[];
  /** Renames atomically, over any existing `to`. Not durable before `syncFolder`. */
  rename(from: string, to: string): void;
  /** Removes a file, if there is one. */
  unlink(filePath: string): void;
  /** Makes a folder (0700). */
  makeFolder(folder: string): void;
  removeFolder(folder: string): void;
  /** Makes the names in a folder durable: those that are new, renamed or removed. */
  syncFolder(folder: string): Promise<void>;
}

const { O_APPEND, O_CREAT, O_DSYNC, O_NOFOLLOW, O_RDONLY, O_RDWR, O_SYNC } = fs.constants;
/** With it a write waits for the disk, without a second call (docs/speed.md). macOS has no O_DSYNC. */
const APPEND_FLAGS = O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | (O_DSYNC ?? O_SYNC);

function systemFile(handle: FileHandle): OpenFile {
  return {
    state: () => fs.fstatSync(handle.fd, { bigint: true }),
    read: async (buffer, start, bytes, position) =>
      (await handle.read(buffer, start, bytes, position)).bytesRead,
    append: async (bytes, start) =>
      (await handle.write(bytes, start, bytes.length - start, null)).bytesWritten,
    truncate: (bytes) => fs.ftruncateSync(handle.fd, bytes),
    sync: () => handle.sync(), // `fdatasync` does not commit a rename of the file by another program (ext4)
    close: () => handle.close(),
  };
}

const systemDisk: Disk = {
  async openForReading(filePath) {
    return systemFile(await fsPromises.open(filePath, O_RDONLY | O_NOFOLLOW));
  },
  async openForAppending(filePath) {
    return systemFile(await fsPromises.open(filePath, APPEND_FLAGS, 0o600));
  },
  readFile: (filePath) => fsPromises.readFile(filePath, { flag: O_RDONLY | O_NOFOLLOW }),
  stat: (filePath) => fs.statSync(filePath, { bigint: true, throwIfNoEntry: false }),
  list: (folder) => fs.readdirSync(folder),
  rename: (from, to) => fs.renameSync(from, to),
  unlink: (filePath) => fs.rmSync(filePath, { force: true }),
  makeFolder: (folder) => void fs.mkdirSync(folder, 0o700),
  removeFolder: (folder) => fs.rmdirSync(folder),
  async syncFolder(folder) {
    const handle = await fsPromises.open(folder, O_RDONLY);
    await handle.sync().finally(() => handle.close());
  },
};

/** The disk of this program. */
export let disk: Disk = systemDisk;

/** For a simulation. @internal */
export function setDisk(other: Disk): void {
  disk = other;
}

/** An `io_error`: the action that failed, and why. */
export function ioError(action: string, cause: unknown): PlantStoreError {
  return new PlantStoreError("io_error", `${action}: ${describeSystemError(cause)}`, { cause });
}

/** Turns what the work rejects with into an `io_error`, unless it is a `PlantStoreError`. */
export function withIoError<T>(action: string, work: () => Promise<T>): Promise<T> {
  return work().catch((cause) => {
    throw cause instanceof PlantStoreError ? cause : ioError(action, cause);
  });
}

/** For the `catch` of a read: returns `undefined` if there is no such file, else throws an `io_error`. */
export function allowMissing(filePath: string): (cause: unknown) => undefined {
  return (cause) => {
    if (systemCode(cause) !== "ENOENT") throw ioError(`Cannot read "${filePath}"`, cause);
  };
}

/** The code of a system error, such as `ENOENT`. */
export function systemCode(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException | undefined)?.code;
}

const { EDQUOT, EFBIG, ENOSPC } = os.constants.errno;

/** Whether the system had no room. By number, because libuv has no name for EDQUOT. */
export function isNoRoom(cause: unknown): boolean {
  const { errno = 0 } = (cause ?? {}) as NodeJS.ErrnoException;
  return [-ENOSPC, -EDQUOT, -EFBIG].includes(errno);
}

/** "permission denied (EACCES)" instead of Node's line with call and path. */
export function describeSystemError(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  const { code, errno } = cause as NodeJS.ErrnoException;
  if (errno === -EDQUOT) return "disk quota exceeded (EDQUOT)";
  if (errno === -ENOSPC) return "no space or no inodes left (ENOSPC); see df -h and df -i";
  if (code === "ELOOP") return "expected a regular file, got a symbolic link (ELOOP)";
  if (code === "EISDIR") return "expected a file, got a folder (EISDIR)";
  // Node's own calls say "CODE: words, call"; its sockets "call CODE: words path".
  const words = /^(?:\w+ )?[A-Z0-9]+: (.*?)(?:,| \/|$)/.exec(cause.message)?.[1];
  return code !== undefined && words !== undefined ? `${words} (${code})` : cause.message;
}
