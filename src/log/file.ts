/**
 * One file of a data directory: opened, appended to durably, cut, read; and the one way to replace a file.
 *
 * Invariants. An append that has returned is on disk, and the file ended with it. The kernel appends (`O_APPEND`),
 * so two processes never overwrite each other, and the one that finds foreign bytes reports none of its own.
 */
import path from "node:path";
import { PlantStoreError } from "../core/errors.ts";
import {
  allowMissing,
  describeSystemError,
  disk,
  type FileState,
  ioError,
  isNoRoom,
  type OpenFile,
  withIoError,
} from "./disk.ts";
import type { Lock } from "./lock.ts";

export class LogFile {
  readonly path: string;
  /** Where the file should end: its length when it was opened, and what was appended or cut since. */
  end: number;
  readonly #file: OpenFile;
  readonly #identity: FileState;
  readonly #lock: Lock | undefined;

  private constructor(filePath: string, file: OpenFile, lock?: Lock) {
    this.path = filePath;
    this.#file = file;
    this.#identity = file.state();
    this.#lock = lock;
    this.end = Number(this.#identity.size);
  }

  /** Opens for reading and appending; makes a missing file, whose name is not durable yet. @throws `io_error`. */
  static open(filePath: string, lock?: Lock): Promise<LogFile> {
    const open = async () => new LogFile(filePath, await disk.openForAppending(filePath), lock);
    return withIoError(`Cannot open "${filePath}"`, open);
  }

  /** Opens for reading; `undefined` if there is no such file. @throws `io_error`. */
  static openForReading(filePath: string): Promise<LogFile | undefined> {
    const open = async () => new LogFile(filePath, await disk.openForReading(filePath));
    return open().catch(allowMissing(filePath));
  }

  /**
   * Appends all bytes durably.
   *
   * @throws PlantStoreError `write_failed`: there was no room, and the file ends where it did before. Any other
   * error: what is in the file is not known, so nothing may be appended any more. A second sync would prove
   * nothing (Rebello et al., "Can Applications Recover from fsync Failures?", ATC '20). `unsynced`: what was
   * written could not be cut either.
   */
  async append(bytes: Buffer): Promise<void> {
    const end = this.end + bytes.length;
    let written = 0;
    try {
      while (written < bytes.length) {
        const count = await this.#file.append(bytes, written);
        if (count === 0) throw new Error("the system wrote nothing; check the disk");
        written += count;
      }
    } catch (cause) {
      await this.#undo(written, end, cause);
    }
    this.assertUnchanged(end);
    this.end = end;
  }

  /** Cuts what a failed append has written. */
  async #undo(written: number, end: number, cause: unknown): Promise<never> {
    const why = `Cannot write "${this.path}": ${describeSystemError(cause)}`;
    let isRefusal = false;
    try {
      const found = Number(this.#file.state().size) - this.end;
      isRefusal = isNoRoom(cause) && found === written; // if it grew by more, a sync has failed
      this.assertUnchanged(this.end, end); // a longer file holds bytes of another program: do not cut it
      if (found > 0) await this.#cut(this.end);
      if (isRefusal) this.assertUnchanged(); // nor was it changed while the cut was synced
    } catch (error) {
      if (isRefusal && error instanceof PlantStoreError) throw error;
      throw unsyncedError(`${why}; nor can it be undone: ${describeSystemError(error)}`, error);
    }
    throw new PlantStoreError(isRefusal ? "write_failed" : "store_failed", why, { cause });
  }

  /** Cuts an unfinished end, durably. @throws `locked` if another process has changed the file; `unsynced`. */
  async cut(length: number): Promise<void> {
    await withIoError(`Cannot cut "${this.path}"`, async () => this.assertUnchanged());
    await withUnsynced(`Cannot cut "${this.path}"`, () => this.#cut(length));
  }

  /** The cut is synced: else a power cut could join old sectors with those of the next append. */
  async #cut(length: number): Promise<void> {
    this.#file.truncate(length);
    this.end = length;
    await this.#file.sync();
  }

  /** Makes the whole file durable, with what other programs wrote. @throws the system's error. */
  sync(): Promise<void> {
    return this.#file.sync();
  }

  /** Fills `buffer` from `position`; returns how many bytes it read: fewer only at the end. @throws `io_error`. */
  async read(buffer: Buffer, position: number): Promise<number> {
    let filled = 0;
    try {
      while (filled < buffer.length) {
        const rest = buffer.length - filled;
        const count = await this.#file.read(buffer, filled, rest, position + filled);
        if (count === 0) break;
        filled += count;
      }
    } catch (cause) {
      throw ioError(`Cannot read "${this.path}"`, cause);
    }
    return filled;
  }

  /**
   * It holds until the caller awaits something.
   *
   * @throws PlantStoreError `locked` unless the lock is held, and the path leads to this file with a length
   * from `size` to `sizeMax`; the system's error if it cannot be found out.
   */
  assertUnchanged(size = this.end, sizeMax = size): void {
    this.#lock?.assertHeld();
    const found = disk.stat(this.path);
    let fault: string;
    if (found === undefined) fault = "was deleted or renamed";
    else if (found.ino !== this.#identity.ino || found.dev !== this.#identity.dev) {
      fault = "was replaced";
    } else if (found.size < size || found.size > sizeMax) {
      fault = `was changed by another program (expected ${size} bytes, got ${found.size})`;
    } else return;
    const advice = "find the program that did it, then start again";
    throw new PlantStoreError("locked", `"${this.path}" ${fault}; ${advice}`);
  }

  close(): Promise<void> {
    return this.#file.close();
  }
}

/**
 * An `unsynced`: memory may hold what the disk lacks. The kernel reports a failed sync once only, so a restart
 * of the process would serve what is in memory.
 */
function unsyncedError(what: string, cause: unknown): PlantStoreError {
  const advice = "check the disk, and restart the machine before you start again";
  return new PlantStoreError("unsynced", `${what}; ${advice}`, { cause });
}

/** Turns what the work rejects with into an `unsynced`, unless it is an error that says more than `store_failed`. */
export function withUnsynced(action: string, work: () => Promise<void>): Promise<void> {
  return work().catch((cause) => {
    if (cause instanceof PlantStoreError && cause.code !== "store_failed") throw cause;
    throw unsyncedError(`${action}: ${describeSystemError(cause)}`, cause);
  });
}

/**
 * Writes a file anew. After a crash at any moment its name leads to the old file, or to the whole new one.
 *
 * @param write appends the contents, to a file with another name.
 * @param lock asserted immediately before the rename.
 * @throws PlantStoreError `io_error`; `locked`; `unsynced` if the new name may be lost; what `write` throws.
 */
export async function replaceFile<T>(
  filePath: string,
  write: (file: LogFile) => Promise<T>,
  lock?: Lock,
): Promise<T> {
  const newPath = `${filePath}.new`;
  try {
    disk.unlink(newPath); // of a process that was killed
    const file = await LogFile.open(newPath);
    const result = await write(file).finally(() => file.close());
    lock?.assertHeld();
    disk.rename(newPath, filePath);
    await withUnsynced(`Cannot sync "${filePath}"`, () => disk.syncFolder(path.dirname(filePath)));
    return result;
  } catch (cause) {
    try {
      disk.unlink(newPath);
    } catch {} // the next replacement tries again
    const isExact = cause instanceof PlantStoreError && cause.code !== "store_failed"; // the old file stays
    throw isExact ? cause : ioError(`Cannot write "${filePath}"`, cause);
  }
}
