/**
 * The checkpoint of a log: its length, the number of its records and the CRC-32 of its bytes when all
 * of them were on disk; and when one is written.
 *
 * Invariant: a checkpoint is written for synced bytes only, so a log that is shorter, or differs before
 * that length, has lost or changed something that was acknowledged. The file is replaced atomically and
 * checks itself. A missing or torn checkpoint is no fault, and no append waits for one.
 *
 * The file has another name while the log is unsynced: a sync of it has failed, so the kernel may report
 * bytes as synced that the disk does not have (log/resync).
 */
import path from "node:path";
import { crc32 } from "node:zlib";
import { clock } from "../clock.ts";
import { publishWarning } from "../core/channels.ts";
import type { Timer } from "../core/services.ts";
import { disk, ioError, orIoError, systemCode } from "./disk.ts";
import { LogFile } from "./file.ts";
import { exists, removeLeftover, useAndClose } from "./folder.ts";

export interface Checkpoint {
  /** The length of the log; a line starts there. */
  readonly bytes: number;
  readonly records: number;
  /** Of those bytes, unsigned. */
  readonly crc32: number;
}

/** The checkpoint of an empty log. @internal */
export const EMPTY_LOG: Checkpoint = { bytes: 0, records: 0, crc32: 0 };

/** The checkpoint of a log that has grown by whole lines. @internal */
export function extendCheckpoint(before: Checkpoint, bytes: Buffer, records: number): Checkpoint {
  return {
    bytes: before.bytes + bytes.length,
    records: before.records + records,
    crc32: crc32(bytes, before.crc32),
  };
}

/**
 * The checkpoint beside a log, or `undefined` if there is none that is whole.
 *
 * @throws PlantStoreError `io_error`.
 * @internal
 */
export async function readCheckpoint(logPath: string): Promise<Checkpoint | undefined> {
  for (const filePath of [checkpointPath(logPath), unsyncedPath(logPath)]) {
    const file = await LogFile.openForReading(filePath);
    if (file === undefined) continue;
    return useAndClose(file, async () => {
      const bytes = Buffer.alloc(LINE_BYTES_MAX);
      const got = await file.read(bytes, 0);
      return decodeCheckpoint(bytes.toString("utf8", 0, got));
    });
  }
  return undefined;
}

/** Whether the disk has the checkpoint now, which another program may have copied. @internal */
export async function syncCheckpoint(logPath: string): Promise<boolean> {
  try {
    await useAndClose(await disk.open(checkpointPath(logPath)), (file) => file.sync());
    return true;
  } catch {
    return false;
  }
}

/**
 * Replaces the checkpoint beside a log: after a power cut it is either the old one or the new one.
 *
 * @throws PlantStoreError `io_error`; the old checkpoint stays then.
 * @internal
 */
export async function writeCheckpoint(logPath: string, checkpoint: Checkpoint): Promise<void> {
  const newPath = newCheckpointPath(logPath);
  try {
    disk.unlink(newPath); // of a process that was killed
    await useAndClose(await LogFile.open(newPath, undefined, true), (file) =>
      file.appendOrThrow(Buffer.from(encodeCheckpoint(checkpoint))),
    );
    disk.rename(newPath, checkpointPath(logPath));
    disk.unlink(unsyncedPath(logPath)); // it covers synced bytes only
    await disk.syncFolder(path.dirname(logPath));
  } catch (cause) {
    removeLeftover(newPath);
    throw ioError(`Cannot write "${checkpointPath(logPath)}"`, cause);
  }
}

/**
 * Removes the checkpoint durably, before the log is changed in a way that contradicts it.
 *
 * @throws PlantStoreError `io_error`.
 * @internal
 */
export function removeCheckpoint(logPath: string): Promise<void> {
  return orIoError(`Cannot remove "${checkpointPath(logPath)}"`, async () => {
    disk.unlink(checkpointPath(logPath));
    if (isUnsynced(logPath)) {
      // The log is still unsynced.
      await useAndClose(await disk.openForChanges(unsyncedPath(logPath)), (file) => {
        file.truncate(0);
        return file.sync();
      });
    }
    await disk.syncFolder(path.dirname(logPath));
  });
}

/** Whether a sync of the log has failed, and not all of its bytes were written again since. @internal */
export function isUnsynced(logPath: string): boolean {
  return exists(unsyncedPath(logPath));
}

/**
 * Remembers that a sync of the log has failed, for as long as the page cache lives: the name needs no
 * sync, because after a power cut a start reads what the disk has. A rename needs no room on the disk.
 *
 * @throws the system's error.
 * @internal
 */
export async function markUnsynced(logPath: string): Promise<void> {
  try {
    disk.rename(checkpointPath(logPath), unsyncedPath(logPath));
  } catch (cause) {
    if (systemCode(cause) !== "ENOENT") throw cause;
    await (await disk.openForChanges(unsyncedPath(logPath))).close();
  }
}

/** Undoes `markUnsynced`; a checkpoint that was written since is the newer one, and an empty file is none. @throws the system's error. @internal */
export function markSynced(logPath: string): void {
  if (!isUnsynced(logPath)) return;
  const isEmpty = disk.find(unsyncedPath(logPath))?.size === 0n;
  if (isEmpty || exists(checkpointPath(logPath))) disk.unlink(unsyncedPath(logPath));
  else disk.rename(unsyncedPath(logPath), checkpointPath(logPath));
}

/** @internal */
export function checkpointPath(logPath: string): string {
  return `${logPath}.checkpoint`;
}

/** The name of the checkpoint while the log is unsynced; an empty file if it had none. @internal */
export function unsyncedPath(logPath: string): string {
  return `${checkpointPath(logPath)}.unsynced`;
}

/** A checkpoint is written here, then renamed; a killed process may leave the file. @internal */
export function newCheckpointPath(logPath: string): string {
  return `${checkpointPath(logPath)}.new`;
}

/** One line of JSON; the member `check` is the CRC-32 of the text before it. @internal */
export function encodeCheckpoint({ bytes, records, crc32: sum }: Checkpoint): string {
  const text = `{"bytes":${bytes},"records":${records},"crc32":"${hex(sum)}"`;
  return `${text},"check":"${hex(crc32(text))}"}\n`;
}

/** A longer file is none. */
const LINE_BYTES_MAX = 256;

const LINE =
  /^(\{"bytes":([0-9]{1,15}),"records":([0-9]{1,15}),"crc32":"([0-9a-f]{8})"),"check":"([0-9a-f]{8})"\}\n$/;

function decodeCheckpoint(line: string): Checkpoint | undefined {
  const [, text = "", bytes, records, sum = "", check] = LINE.exec(line) ?? [];
  if (check === undefined || check !== hex(crc32(text))) return undefined;
  return { bytes: Number(bytes), records: Number(records), crc32: Number.parseInt(sum, 16) };
}

function hex(sum: number): string {
  return sum.toString(16).padStart(8, "0");
}

const EVERY_BYTES = 16 * 1024 * 1024;
const QUIET_MS = 10_000;

/**
 * Writes checkpoints in the background: after every 16 MiB, after 10 s of quiet, and when it is
 * closed. Warns of the first failure, and tries again on the next of these occasions.
 * @internal
 */
export class Checkpointer {
  readonly #logPath: string;
  /** The checkpoint on disk. */
  #written: Checkpoint | undefined;
  /** The length of the log at the last attempt, successful or not. */
  #triedBytes: number;
  #latest: Checkpoint;
  #writing: Promise<void> | undefined;
  #quiet: Timer | undefined;
  readonly #mayWrite: () => boolean;
  #hasWarned = false;

  /**
   * @param written the checkpoint that is on disk.
   * @param mayWrite is asked before each checkpoint: after its lock is lost, another process may own the
   * folder.
   */
  constructor(
    logPath: string,
    latest: Checkpoint,
    written: Checkpoint | undefined,
    mayWrite: () => boolean,
  ) {
    this.#logPath = logPath;
    this.#mayWrite = mayWrite;
    this.#latest = latest;
    this.#written = written;
    this.#triedBytes = written?.bytes ?? 0;
    if (!this.#isUpToDate()) this.note(latest);
  }

  /** The length of the log in the checkpoint on disk. */
  get writtenBytes(): number | undefined {
    return this.#written?.bytes;
  }

  /** Call it after every batch that became durable. */
  note(latest: Checkpoint): void {
    this.#latest = latest;
    if (latest.bytes - this.#triedBytes >= EVERY_BYTES) void this.#write();
    if (this.#quiet === undefined) {
      this.#quiet = clock.setTimeout(() => void this.#write(), QUIET_MS);
      this.#quiet.unref(); // `close` writes one anyway
    } else this.#quiet.refresh();
  }

  async idle(): Promise<void> {
    await this.#writing;
  }

  /** Writes a checkpoint of the whole log. Call it after the last append. */
  async close(): Promise<void> {
    clock.clearTimeout(this.#quiet);
    await this.idle();
    await this.#write();
  }

  #isUpToDate(): boolean {
    const { bytes, crc32 } = this.#latest;
    return bytes === this.#written?.bytes && crc32 === this.#written.crc32;
  }

  /** One at a time; never rejects. */
  #write(): Promise<void> {
    this.#writing ??= this.#writeLatest().finally(() => {
      this.#writing = undefined;
    });
    return this.#writing;
  }

  async #writeLatest(): Promise<void> {
    if (this.#isUpToDate() || !this.#mayWrite()) return;
    const checkpoint = this.#latest;
    this.#triedBytes = checkpoint.bytes;
    try {
      await writeCheckpoint(this.#logPath, checkpoint);
      this.#written = checkpoint;
      this.#hasWarned = false;
    } catch (error) {
      const message = "Cannot write the checkpoint (it will be retried); no plant is at risk";
      if (!this.#hasWarned) publishWarning(message, error);
      this.#hasWarned = true;
    }
  }
}
