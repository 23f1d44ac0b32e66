/**
 * One log file on disk: opened, appended to durably, changed in place, read.
 *
 * Invariants. An append that is reported durable was synced, and the file ended with it. Appends go
 * to the end of the file as the kernel knows it (`O_APPEND`), so two processes never overwrite each
 * other; an append checks afterwards that the file ends with it. A change in place checks first that
 * the file ends where this process left it; one that ends elsewhere has another writer.
 */
import path from "node:path";
import { publishWarning } from "../core/channels.ts";
import { PlantStoreError } from "../core/errors.ts";
import { Gate } from "../core/gate.ts";
import {
  describeSystemError,
  disk,
  type FileState,
  ioError,
  isRefusal,
  isSameFile,
  type OpenFile,
  orIoError,
  systemCode,
} from "./disk.ts";
import { syncFolderAndName } from "./folder.ts";
import { LINE_FEED } from "./lines.ts";

/**
 * The outcome of an append. `refused`: the system had no room (disk full, quota, size limit), and the
 * file ends where it did before. `unknown`: another process writes the file, or a sync failed, and a
 * second one would prove nothing (Rebello et al., "Can Applications Recover from fsync Failures?",
 * ATC '20). `cause` is for the operator.
 */
export type AppendResult =
  | { readonly outcome: "durable" }
  | { readonly outcome: "refused"; readonly cause: unknown }
  | { readonly outcome: "unknown"; readonly cause: Error };

const CHUNK_BYTES = 1024 * 1024;

export interface ByteRange {
  readonly offset: number;
  readonly bytes: number;
}

/** A part of a buffer, and where in a file its bytes are. */
export interface FilePiece {
  readonly start: number;
  readonly bytes: number;
  readonly position: number;
}

/**
 * Upper bound on reads under way for requests, in all logs of the process. Node's pool has four threads,
 * and a bad disk may hold a read for minutes: two threads are left for appends and for looks at tokens.
 */
const REQUESTED_READS_MAX = 2;
/**
 * A place is for one read, so a long list of pieces holds up no other reader. A server that syncs its token
 * file holds a place until the whole file was synced and read; its syncs follow each other, so they leave the
 * other place to requests.
 */
export const requestedReads = new Gate(REQUESTED_READS_MAX);

export class LogFile {
  readonly path: string;
  readonly #file: OpenFile;
  readonly #identity: FileState;
  /** Under which the file is written; `undefined` if it has none. */
  readonly #lock: Lock | undefined;
  #end: number;

  private constructor(filePath: string, file: OpenFile, lock?: Lock) {
    this.path = filePath;
    this.#file = file;
    this.#lock = lock;
    this.#identity = file.state();
    this.#end = Number(this.#identity.size);
  }

  /**
   * Opens for reading and appending; makes a missing file, and its entry in the folder durable.
   *
   * @param lock held by this process; once it is lost the file counts as displaced.
   * @param isTemporary whether its name may be lost, because it is renamed next.
   * @throws PlantStoreError `io_error`.
   */
  static open(filePath: string, lock?: Lock, isTemporary = false): Promise<LogFile> {
    return orIoError(`Cannot open "${filePath}"`, async () => {
      const file = await disk.openForChanges(filePath);
      try {
        // Also for an old file: the process that made it may have died before this.
        // A failure is not remembered: ext4 and XFS accept no further write after it.
        if (!isTemporary) await syncFolderAndName(path.dirname(filePath));
        warnOfLinks(filePath, file.state());
        return new LogFile(filePath, file, lock);
      } catch (error) {
        await file.close();
        throw error;
      }
    });
  }

  /** Opens for reading; `undefined` if there is no such file. Otherwise like `open`. */
  static async openForReading(filePath: string): Promise<LogFile | undefined> {
    try {
      return new LogFile(filePath, await disk.open(filePath));
    } catch (cause) {
      if (systemCode(cause) === "ENOENT") return undefined;
      throw ioError(`Cannot open "${filePath}"`, cause);
    }
  }

  size(): number {
    return Number(this.#file.state().size);
  }

  /** Where the file ends if only this process has changed it since it was opened. */
  get end(): number {
    return this.#end;
  }

  /** Appends `bytes` and waits until the disk has them; undoes a refused append. Never rejects. */
  async append(bytes: Buffer): Promise<AppendResult> {
    let written = 0;
    try {
      while (written < bytes.length) {
        const count = await this.#file.append(bytes, written);
        if (count === 0) throw new Error("the system wrote nothing, and gave no reason");
        written += count;
        // Also after a short write, whose rest gives its reason: if another process has appended in
        // between, the rest would continue the record of that process.
        this.assertInPlace(this.#end + written);
      }
    } catch (cause) {
      return this.#undo(bytes, written, cause);
    }
    this.#end += written;
    return { outcome: "durable" };
  }

  /**
   * Cuts away what a failed append has written, but nothing of an append that is durable. Unless the
   * system had no room, the failure may be one of the sync: the state of the file is unknown then, and
   * the next start decides by what is on disk.
   */
  async #undo(bytes: Buffer, written: number, cause: unknown): Promise<AppendResult> {
    const isDisplaced = cause instanceof PlantStoreError;
    // All of it is durable, and another process may have acknowledged it.
    if (isDisplaced && written === bytes.length) return { outcome: "unknown", cause };
    let why = `Cannot write or sync "${this.path}": ${describeSystemError(cause)}`;
    try {
      const isCounted = (await this.#cutOwn(bytes, written)) === written;
      if (isCounted && isRefusal(cause)) return { outcome: "refused", cause };
    } catch (error) {
      why += `, nor undo the write: ${describeSystemError(error)}`; // the next start finds it
    }
    if (isDisplaced) return { outcome: "unknown", cause };
    why += "; check the disk and its free space, then start again";
    return { outcome: "unknown", cause: new Error(why, { cause }) };
  }

  /**
   * Cuts away the end of the file if it is the beginning of these bytes: those of another process are
   * never cut.
   *
   * @param least so many were written at least: a write whose sync failed does not report its bytes.
   * @returns how many were written.
   */
  async #cutOwn(bytes: Buffer, least: number): Promise<number> {
    const written = bytes.subarray(0, Math.max(least, this.size() - this.#end));
    const found = Buffer.alloc(written.length);
    await this.read(found, this.#end);
    if (!found.equals(written)) throw this.#fault("does not end with the bytes of this process");
    this.assertInPlace(this.#end + written.length);
    if (written.length > 0) {
      this.#file.truncate(this.#end);
      // Or a power cut may leave a line of its sectors and of those of the next append.
      await this.sync();
    }
    return written.length;
  }

  /** Like `append`. @throws PlantStoreError `io_error` unless the bytes are durable, or may be refused and are. */
  async appendOrThrow(bytes: Buffer, { mayBeRefused = false } = {}): Promise<void> {
    const result = await this.append(bytes);
    if (mayBeRefused && result.outcome === "refused") return;
    if (result.outcome !== "durable") throw ioError(`Cannot write "${this.path}"`, result.cause);
  }

  /** Appends a range of another file, up to its end. @throws PlantStoreError `io_error`. */
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
   * Writes `bytes` over what is at `position`; `sync` makes that durable. Call it only before records are
   * appended.
   *
   * @throws PlantStoreError `locked` if another process has changed the file; `io_error`.
   */
  async overwrite(bytes: Buffer, position: number): Promise<void> {
    this.assertInPlace();
    await orIoError(`Cannot write "${this.path}"`, async () => {
      for (let written = 0; written < bytes.length; ) {
        const count = await this.#file.overwrite(bytes, written, position + written);
        if (count === 0) throw new Error("the system wrote nothing");
        written += count;
      }
    });
  }

  /**
   * Cuts the file to `length`, and waits until the disk has it. Only an unfinished line may be cut:
   * an acknowledged record ends with a line feed, so a file that has one after `length` has another
   * writer. It is looked for in the turn of the cut.
   *
   * @throws PlantStoreError `locked` if another process has changed the file; `io_error`.
   */
  async truncate(length: number): Promise<void> {
    this.assertInPlace();
    await orIoError(`Cannot cut "${this.path}"`, async () => {
      if (this.#hasLineFeed(length)) throw this.#fault("was changed by another program");
      this.#file.truncate(length);
      this.#end = length;
      await this.sync();
    });
  }

  #hasLineFeed(start: number): boolean {
    const chunk = Buffer.allocUnsafe(Math.max(1, Math.min(CHUNK_BYTES, this.#end - start)));
    for (let offset = start; offset < this.#end; ) {
      const got = this.#file.readNow(chunk, offset);
      if (got === 0) return false;
      if (chunk.subarray(0, got).includes(LINE_FEED)) return true;
      offset += got;
    }
    return false;
  }

  /** Makes all of the file durable. @throws the system's error, which is reported once only. */
  sync(): Promise<void> {
    return this.#file.sync();
  }

  /**
   * Fills `buffer` from `position`, and returns how many bytes it read: fewer than the buffer holds
   * only at the end of the file.
   *
   * @throws PlantStoreError `io_error`.
   */
  async read(buffer: Buffer, position: number): Promise<number> {
    let filled = 0;
    while (filled < buffer.length) {
      const wanted = buffer.length - filled;
      const got = await new Promise<number>((resolve, reject) => {
        this.#file.read(buffer, filled, wanted, position + filled, (cause, bytes) =>
          cause === null ? resolve(bytes) : reject(ioError(`Cannot read "${this.path}"`, cause)),
        );
      });
      if (got === 0) break;
      filled += got;
    }
    return filled;
  }

  /** Like `read`, for a request: waits while two other such reads are under way. */
  readForRequest(buffer: Buffer, position: number): Promise<number> {
    return requestedReads.pass(() => this.read(buffer, position));
  }

  /**
   * Reads pieces from all over the file, as many calls of `readForRequest` do, for much less processor
   * time. A piece that cannot be read whole becomes zeros. Close the file only after the promise has
   * settled. Never rejects.
   */
  readPieces(buffer: Buffer, pieces: readonly FilePiece[]): Promise<void> {
    return new Promise((resolve) => {
      let entered = 0;
      let begun = 0;
      let ended = 0;
      // Promises would take twice the processor time (measured).
      const readNext = () => {
        const { start, bytes, position } = pieces[begun++] as FilePiece;
        this.#file.read(buffer, start, bytes, position, (cause, got) => {
          requestedReads.leave();
          if (cause !== null || got < bytes) buffer.fill(0, start, start + bytes);
          if (++ended === pieces.length) resolve();
          else if (entered < pieces.length) enter();
        });
      };
      const enter = () => {
        entered++;
        requestedReads.enter(readNext);
      };
      while (entered < Math.min(REQUESTED_READS_MAX, pieces.length)) enter();
    });
  }

  /**
   * Throws unless the lock of the file is held, its path still leads to it and it has this size: a file
   * that was deleted, replaced or written to by another process, or that another process may write,
   * acknowledges nothing. Call it in the turn that relies on that.
   *
   * @param size by default the one with which this process left the file.
   * @param sizeMax the greatest size that is right, while this process appends.
   * @throws PlantStoreError `locked`.
   */
  assertInPlace(size = this.#end, sizeMax = size): void {
    if (this.#lock?.findLoss() !== undefined) {
      throw this.#fault("is not locked any more, because its lock file was removed or replaced");
    }
    let found: FileState | undefined;
    try {
      found = disk.find(this.path);
    } catch (cause) {
      throw this.#fault(`cannot be found any more: ${describeSystemError(cause)}`);
    }
    if (found === undefined) throw this.#fault("was deleted or renamed");
    if (!isSameFile(found, this.#identity)) throw this.#fault("was replaced");
    if (found.size >= size && found.size <= sizeMax) return;
    const sizes = `expected ${size} bytes, got ${found.size}`;
    throw this.#fault(`was changed by another program (${sizes})`);
  }

  #fault(what: string): PlantStoreError {
    const advice = "find the program that did it, then start again";
    return new PlantStoreError("locked", `"${this.path}" ${what}; ${advice}`);
  }

  close(): Promise<void> {
    return this.#file.close();
  }
}

/** What a file needs to know of a lock. */
interface Lock {
  /** Why the lock is lost; `undefined` while it is held. */
  findLoss(): Error | undefined;
}

/** Such a file may be a part of a snapshot, which the next append would change. */
function warnOfLinks(filePath: string, { nlink }: FileState): void {
  const isLink = disk.findEntry(filePath)?.isSymbolicLink() === true;
  if (nlink <= 1 && !isLink) return;
  const what = isLink ? "is a symbolic link" : `has ${nlink} names (hard links)`;
  publishWarning(
    `"${filePath}" ${what}: what is stored changes the file under its other name, too; ` +
      'make copies with "plant-store backup"',
  );
}
