/**
 * When a snapshot of the index is written: at a clean stop, and in the
 * background as the log grows; never so that a create waits for it.
 *
 * In the background it is written anew when the log has grown by a third, so
 * each byte of the log costs about one of snapshots in all: 13 bytes in 16 to 22
 * for a line of 60, four times over. A log that is short is read again sooner
 * than this is worth. A snapshot that cannot be written is warned about once and
 * tried again with the next occasion: nothing depends on it. One that creates
 * overtook is tried again sooner, up to four times as often, and with twice as
 * much of the time.
 */
import fs from "node:fs/promises";
import path from "node:path";
import { publishWarning } from "../core/channels.ts";
import type { Checkpoint } from "../log/checkpoint.ts";
import type { LogFile } from "../log/file.ts";
import { Pace } from "../log/pace.ts";
import type { IndexCopy } from "./index-copy.ts";
import {
  type LogEnd,
  OvertakenError,
  removeSnapshot,
  snapshotBytes,
  writeSnapshot,
} from "./index-snapshot.ts";
import type { StoreIndex } from "./store-index.ts";

/** How much the log grows at least between two in the background, in shortest logs. */
const GROWTH_MIN = 4;
/** And as a share of what it is then: a third of what it was. */
const GROWTH_SHARE = 1 / 4;
/** What an attempt counts as that creates overtook: (1 + 1/12) * (1 - GROWTH_SHARE). */
const OVERTAKEN_SHARE = 13 / 16;
/**
 * Of the time: what one in the background takes from creates. Writes about 70 MB a second, and 4
 * beside creates of 1,024 connections, which came near to overtaking it.
 */
const SHARE = 0.1;

export interface SnapshotterOptions {
  readonly file: LogFile;
  /** Holds the ids of the log up to `end`. */
  readonly index: StoreIndex;
  readonly end: LogEnd;
  /** The length of the log that the snapshot on disk covers; 0 where there is none. */
  readonly coveredBytes: number;
  /** The shortest log that gets one. */
  readonly bytesMin: number;
  /** Sees to it that a checkpoint of this length or more is on disk. */
  readonly saveCheckpoint: (bytes: number) => Promise<void>;
}

export class Snapshotter {
  readonly #options: SnapshotterOptions;
  /** Where the log ended, and how many ids it held, when only records were to come. */
  #base: LogEnd & { readonly ids: number };
  #latest: Checkpoint;
  #coveredBytes: number;
  /** The length at the last attempt, whatever became of it. */
  #triedBytes: number;
  #writing: Promise<void> | undefined;
  #share = SHARE;
  readonly #stop = new AbortController();
  #hasWarned = false;
  /** The index is whole: before, none is written. */
  #isWhole = false;

  constructor(options: SnapshotterOptions) {
    this.#options = options;
    this.#base = { ...options.end, ids: options.index.size };
    this.#latest = options.end;
    this.#coveredBytes = options.coveredBytes;
    this.#triedBytes = options.coveredBytes;
    options.index.whole.then(
      (isSound) => this.#begin(isSound),
      () => {}, // the store has failed, or is closed
    );
  }

  /** @param isSound whether the snapshot on disk is what it says. */
  #begin(isSound: boolean): void {
    this.#isWhole = true;
    if (!isSound) {
      this.#coveredBytes = 0;
      this.#triedBytes = 0;
    }
    // Ids that an editor doubled behind the snapshot were counted twice so far.
    this.rebase({ ...this.#latest, line: this.#lineBehind(this.#latest) });
    this.note(this.#latest);
  }

  /** Told after every batch that became durable. */
  note(latest: Checkpoint): void {
    this.#latest = latest;
    if (!this.#isWhole || this.#writing !== undefined || this.#stop.signal.aborted) return;
    if (!this.#isDue()) return;
    this.#writing = this.#write(this.#share, this.#stop.signal).finally(() => {
      this.#writing = undefined;
    });
  }

  /** Told when the end of the log was put in order, so that it is another one. */
  rebase(end: LogEnd): void {
    this.#base = { ...end, ids: this.#options.index.size };
    this.#latest = end;
  }

  /** Stops, with a snapshot where it is worth it: nothing is appended any more. */
  async finish(): Promise<void> {
    await this.#abort();
    if (!this.#isWhole) return;
    const { bytesMin } = this.#options;
    // What came since the last one is read in no time, and writing takes longer.
    if (this.#latest.bytes - this.#coveredBytes < bytesMin) return;
    await this.#write(1, new AbortController().signal);
  }

  /** Stops, and leaves none: the log is not what it was. Never rejects. */
  async discard(): Promise<void> {
    await this.#abort();
    await removeSnapshot(this.#options.file.path).catch((error: unknown) => {
      publishWarning("Remove it by hand, so that the next start reads the whole log", error);
    });
  }

  /** Stops, and leaves the folder as it is. */
  stop(): Promise<void> {
    return this.#abort();
  }

  async #abort(): Promise<void> {
    this.#stop.abort();
    await this.#writing;
  }

  #lineBehind({ records }: Checkpoint): number {
    return this.#base.line + records - this.#base.records;
  }

  #isDue(): boolean {
    const { bytes } = this.#latest;
    const growthMin = Math.max(this.#options.bytesMin * GROWTH_MIN, bytes * GROWTH_SHARE);
    return bytes - this.#triedBytes >= growthMin;
  }

  /** Never rejects. */
  async #write(share: number, signal: AbortSignal): Promise<void> {
    try {
      // Not in the turn in which a batch is answered.
      await new Promise(setImmediate);
      await this.#writeLatest(share, signal);
    } catch (error) {
      if (signal.aborted) return;
      if (!this.#hasWarned) {
        publishWarning(
          "No snapshot of the index, so a start takes longer; no plant is at risk",
          error,
        );
      }
      this.#hasWarned = true;
    }
  }

  async #writeLatest(share: number, signal: AbortSignal): Promise<void> {
    const { file, index, saveCheckpoint } = this.#options;
    const { bytes, records, crc32 } = this.#latest;
    this.#triedBytes = bytes;
    const size = this.#base.ids + records - this.#base.records;
    if (index.size !== size) return; // the end of the log is being put in order
    const end = { bytes, records, crc32, line: this.#lineBehind(this.#latest) };
    const pace = new Pace(share, signal);
    const copy = index.beginCopy(bytes);
    try {
      await requireRoom(path.dirname(file.path), copy);
      await writeSnapshot(file, {
        copy,
        end,
        size,
        rest: () => pace.rest(),
        saveCheckpoint: () => saveCheckpoint(bytes),
      });
      this.#coveredBytes = bytes;
      this.#share = SHARE;
      this.#hasWarned = false;
    } catch (error) {
      if (!(error instanceof OvertakenError)) throw error;
      // No fault: due again sooner, a long log once it is a twelfth longer. Not by the clock: in
      // between the index has to empty a table that copies let grow too full (store/id-index).
      this.#share = Math.min(2 * this.#share, 1);
      this.#triedBytes = bytes * OVERTAKEN_SHARE;
    } finally {
      copy.end();
    }
  }
}

/** The last room of a disk is the log's. */
async function requireRoom(directory: string, copy: IndexCopy): Promise<void> {
  const { bavail, bsize } = await fs.statfs(directory);
  const bytes = snapshotBytes(copy);
  if (bavail * bsize >= 2 * bytes) return;
  throw new Error(`expected ${2 * bytes} bytes of room on the disk, got ${bavail * bsize}`);
}
