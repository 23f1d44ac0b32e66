/**
 * What goes on beside a store: its checkpoints, the snapshots of its index, and
 * the look at what a start with a snapshot did not read.
 *
 * Nothing that is served waits for it, and it keeps no process alive.
 */
import { type Checkpoint, checkpointPath, isNewerThanCheckpoint } from "../log/checkpoint.ts";
import { Checkpointer } from "../log/checkpointer.ts";
import type { LogFile } from "../log/file.ts";
import { newPathOf, removeLeftover } from "../log/replace-file.ts";
import { scrub } from "../log/scrub.ts";
import { type LogEnd, snapshotPath } from "./index-snapshot.ts";
import type { RecoveredLog } from "./recover.ts";
import { repairedPath } from "./repair.ts";
import { Snapshotter } from "./snapshotter.ts";

export interface UpkeepOptions {
  readonly file: LogFile;
  readonly log: RecoveredLog;
  /** What is on disk. */
  readonly checkpoint: Checkpoint | undefined;
  /** The shortest log that gets a snapshot. */
  readonly snapshotBytesMin: number;
  /** Told when the log does not hold what was stored. */
  readonly onDamage: (cause: Error) => void;
}

export class Upkeep {
  readonly #checkpointer: Checkpointer;
  readonly #snapshotter: Snapshotter;
  readonly #stop = new AbortController();
  #abandoning: Promise<void> | undefined;
  /** The folder may be another process's: nothing is written or removed there any more. */
  #isForeign = false;

  /**
   * Begins it. A log that is newer than its checkpoint is read whole by every start: the one
   * that has read it, and found it right, has that checkpoint written anew. What a killed process
   * left unfinished beside a log that holds something goes now: the log was found good, and nobody
   * else writes here.
   */
  static async begin(options: UpkeepOptions): Promise<Upkeep> {
    const { file, log, checkpoint } = options;
    if (log.end.bytes > 0) removeLeftovers(file.path);
    const isRead = log.unread === undefined && log.end.bytes === checkpoint?.bytes;
    const isStale = isRead && (await isNewerThanCheckpoint(file.path).catch(() => false));
    return new Upkeep(options, isStale);
  }

  private constructor(options: UpkeepOptions, isStale: boolean) {
    const { file, log, checkpoint, snapshotBytesMin, onDamage } = options;
    const { index, end, unread } = log;
    const checkpointer = new Checkpointer(file.path, end, checkpoint, isStale);
    this.#checkpointer = checkpointer;
    this.#snapshotter = new Snapshotter({
      file,
      index,
      end,
      coveredBytes: unread?.bytes ?? 0,
      bytesMin: snapshotBytesMin,
      saveCheckpoint: (bytes) => checkpointer.save(bytes),
    });
    if (unread !== undefined) void this.#check(file, unread, onDamage);
  }

  /** How much of the log the newest checkpoint on disk covers. */
  get checkpointBytes(): number | undefined {
    return this.#checkpointer.writtenBytes;
  }

  /** Told what the log is after every batch that became durable. */
  note(end: Checkpoint): void {
    this.#checkpointer.note(end);
    this.#snapshotter.note(end);
  }

  /** Told when the end of the log was put in order. */
  resume(end: LogEnd): void {
    this.#checkpointer.note(end);
    this.#snapshotter.rebase(end);
  }

  /** The lock was lost: what another process writes in the folder stays as it is. */
  leave(): void {
    this.#isForeign = true;
    this.#stop.abort();
  }

  /** The store has failed: there is no snapshot from now on, so the next start reads the whole log. */
  abandon(): Promise<void> {
    this.#stop.abort();
    this.#abandoning ??= this.#isForeign ? this.#snapshotter.stop() : this.#snapshotter.discard();
    return this.#abandoning;
  }

  /** Ends it: nothing is appended any more. */
  async finish(): Promise<void> {
    this.#stop.abort();
    // Also if the log was taken away: the next start has to know that there was one.
    await (this.#isForeign ? this.#checkpointer.stop() : this.#checkpointer.finish());
    await (this.#abandoning ?? this.#snapshotter.finish());
  }

  async #check(
    file: LogFile,
    known: Checkpoint,
    onDamage: UpkeepOptions["onDamage"],
  ): Promise<void> {
    const { signal } = this.#stop;
    let cause = new Error(
      `"${file.path}" was changed or damaged: its first ${known.bytes} bytes are not those that ` +
        "were stored; start again, which reads all of it and tells what to do",
    );
    try {
      if (await scrub(file, known, signal)) return;
    } catch (error) {
      if (signal.aborted) return;
      cause = error as Error;
    }
    await this.abandon(); // before anybody hears of it and starts again
    onDamage(cause);
  }
}

function removeLeftovers(logPath: string): void {
  removeLeftover(repairedPath(logPath));
  removeLeftover(newPathOf(checkpointPath(logPath)));
  removeLeftover(newPathOf(snapshotPath(logPath)));
}
