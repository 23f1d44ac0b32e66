/**
 * When a checkpoint is written: after every 16 MiB, after 10 s of quiet, and
 * at a clean stop; in the background, so that no append ever waits for one.
 *
 * A checkpoint that cannot be written is warned about once and tried again
 * with the next occasion, which is 16 MiB or 10 s of quiet away: the log does not
 * depend on it.
 */
import { publishWarning } from "../core/channels.ts";
import { type Checkpoint, writeCheckpoint } from "./checkpoint.ts";

const EVERY_BYTES = 16 * 1024 * 1024;
const QUIET_MS = 10_000;

export class Checkpointer {
  readonly #logPath: string;
  /** The newest one on disk, if it is good. */
  #written: Checkpoint | undefined;
  /** The length of the log at the last attempt, whatever became of it. */
  #triedBytes: number;
  #latest: Checkpoint;
  #writing: Promise<void> | undefined;
  #quiet: NodeJS.Timeout | undefined;
  #hasWarned = false;
  #hasLeft = false;

  /** @param written the checkpoint that is on disk. */
  constructor(logPath: string, latest: Checkpoint, written: Checkpoint | undefined) {
    this.#logPath = logPath;
    this.#latest = latest;
    this.#written = written;
    this.#triedBytes = written?.bytes ?? 0;
    if (!this.#isUpToDate()) this.note(latest);
  }

  /** The length of the log that the newest one on disk covers. */
  get writtenBytes(): number | undefined {
    return this.#written?.bytes;
  }

  /** Told after every batch that became durable. */
  note(latest: Checkpoint): void {
    this.#latest = latest;
    if (latest.bytes - this.#triedBytes >= EVERY_BYTES) void this.#write();
    this.#waitForQuiet();
  }

  /** The folder may be another process's: no checkpoint is written there any more. */
  leave(): void {
    this.#hasLeft = true;
  }

  /** Stops, leaving things as they are on disk. */
  async stop(): Promise<void> {
    clearTimeout(this.#quiet);
    await this.#writing;
  }

  /** Stops with a checkpoint of everything: nothing is appended any more. */
  async finish(): Promise<void> {
    await this.stop();
    await this.#write();
  }

  #waitForQuiet(): void {
    if (this.#quiet !== undefined) {
      this.#quiet.refresh();
      return;
    }
    this.#quiet = setTimeout(() => void this.#write(), QUIET_MS);
    this.#quiet.unref(); // a clean stop writes one anyway
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
    if (this.#hasLeft || this.#isUpToDate()) return;
    const checkpoint = this.#latest;
    this.#triedBytes = checkpoint.bytes;
    try {
      await writeCheckpoint(this.#logPath, checkpoint);
      this.#written = checkpoint;
      this.#hasWarned = false;
    } catch (error) {
      if (!this.#hasWarned)
        publishWarning("Cannot write the checkpoint now; no plant is at risk", error);
      this.#hasWarned = true;
    }
  }
}
