/**
 * `verify` and `repair`: what an operator does about a log that a start refuses, or may refuse.
 *
 * Invariants. Both judge a log by the code that a start uses (store/start). `verify` takes no lock and changes
 * nothing; beside a running server it stops at the bytes that the server knows to be durable. `repair` is the
 * manual recovery path. If every line is readable, it only accepts the log as it is, with a new checkpoint.
 * Otherwise it writes a new log of what is readable, the first record of an id winning, and keeps
 * the old one whole. A crash at any moment leaves a folder that starts, or refuses as before: a log whose
 * sync has failed is first replaced by a copy; then the checkpoint is removed, one rename replaces the log,
 * and last the new checkpoint is written.
 */
import path from "node:path";
import { PlantStoreError } from "../core/errors.ts";
import {
  type Checkpoint,
  EMPTY_LOG,
  extendCheckpoint,
  isUnsynced,
  readCheckpoint,
  removeCheckpoint,
  writeCheckpoint,
} from "../log/checkpoint.ts";
import { disk, orIoError } from "../log/disk.ts";
import { LogFile } from "../log/file.ts";
import { exists, LOCK_NAME, removeLeftover, renameDurably, useAndClose } from "../log/folder.ts";
import { LOG_START, readBlocks, visitLines } from "../log/lines.ts";
import { locks } from "../log/lock.ts";
import { lostLineJudge } from "../log/mend.ts";
import { makeDurable, newLogPath } from "../log/resync.ts";
import { type LineFault, LogScan, lockDirectory, logPathOf, openLogForReading } from "./start.ts";

export interface VerifyReport {
  /** Lines that hold a plant. */
  readonly records: number;
  /** The bytes of whole lines. */
  readonly bytes: number;
  /** Lines that repeat a plant with the same content: not damage, but a duplicate made by hand. */
  readonly duplicates: number;
  /** Lines that cannot be read, or that have the id of another plant: they need a person. */
  readonly damaged: number;
  /** Lines near the end that lost pages in a power cut; the next start mends them (log/mend). */
  readonly mendable: number;
  /** Bytes after the last line feed: never acknowledged; the next start mends them. */
  readonly tornBytes: number;
  /** `shorter`: the log ends before the checkpoint's length; `none`: no readable checkpoint. */
  readonly checksum: "matches" | "differs" | "shorter" | "none";
  /** The length of the log in the checkpoint. */
  readonly checkpointBytes?: number;
}

export interface VerifyOptions {
  /** Receives every damaged or repeated line as it is found. */
  readonly onFault?: (fault: LineFault) => void;
  /** Receives how much of the log was read, about once a MiB. */
  readonly onProgress?: (bytes: number, total: number) => void;
}

/** Whether a log needs no person: faults that a start mends by itself do not count. */
export function isSound({ damaged, checksum }: VerifyReport): boolean {
  return damaged === 0 && (checksum === "matches" || checksum === "none");
}

/**
 * @throws PlantStoreError `io_error` if there is no log or it cannot be read, `corruption` if only
 * its checkpoint is left, `locked` if the process that holds the directory does not answer.
 */
export async function verifyLog(
  directory: string,
  options: VerifyOptions = {},
): Promise<VerifyReport> {
  const { onFault, onProgress } = options;
  return useAndClose(await openLogForReading(directory), async (file) => {
    const checkpoint = await readCheckpoint(file.path);
    const durableBytes = await locks.askDurableBytes(directory, LOCK_NAME);
    const size = durableBytes ?? file.size();
    const counts = { repeat: 0, conflict: 0, unreadable: 0, mendable: 0 };
    const scan = await LogScan.run(file, size, {
      checkpoint,
      isLost: await lostLineJudge(file, size, durableBytes ?? checkpoint?.bytes),
      onFault: (fault) => {
        counts[fault.kind]++;
        onFault?.(fault);
      },
      onProgress,
    });
    return {
      records: scan.end.records,
      bytes: scan.end.bytes,
      duplicates: counts.repeat,
      damaged: counts.unreadable + counts.conflict,
      mendable: counts.mendable,
      tornBytes: size - scan.tail.offset,
      checksum: scan.checksum,
      ...(checkpoint === undefined ? {} : { checkpointBytes: checkpoint.bytes }),
    };
  });
}

/** What a repair is about to do. */
export interface RepairPlan {
  /**
   * `nothing`: the log and its checkpoint agree. `accept`: every line is readable, so the log keeps
   * its bytes. `start_empty`: the log is gone.
   */
  readonly action: "nothing" | "accept" | "start_empty" | "rewrite";
  /** How many plants are kept. */
  readonly plants: number;
  /** Lines, and an unfinished end, that a rewrite leaves out. */
  readonly leftOut: number;
  readonly checkpoint: Checkpoint | undefined;
}

export interface RepairOptions {
  /** Called before anything is changed; if it resolves with false, nothing is. */
  readonly confirm: (plan: RepairPlan) => Promise<boolean>;
  /** Receives every line that would be left out, as it is found. */
  readonly onLeftOut?: (fault: LineFault) => void;
  /** Receives how much of the log was read, about once a MiB. */
  readonly onProgress?: (bytes: number, total: number) => void;
}

export interface RepairOutcome extends RepairPlan {
  readonly isDone: boolean;
  /** The name under which the old log was kept, after a rewrite. */
  readonly keptAs?: string;
}

/**
 * @throws PlantStoreError `locked`, also if another program changes the log in the meantime;
 * `unsynced` if the disk does not take what was read; `io_error` if there is nothing to repair or the system refuses.
 */
export async function repairLog(directory: string, options: RepairOptions): Promise<RepairOutcome> {
  return useAndClose(await lockDirectory(directory, "repair"), () =>
    repairLocked(directory, options),
  );
}

async function repairLocked(directory: string, options: RepairOptions): Promise<RepairOutcome> {
  const logPath = logPathOf(directory);
  const checkpoint = await readCheckpoint(logPath);
  // The checkpoint shows that the log held something: an empty one can take its place.
  const isGone = checkpoint !== undefined && !exists(logPath);
  if (isGone) return acceptLoss(logPath, checkpoint, options);
  const file = await openLogForReading(directory);
  const outcome = await useAndClose(file, () => repair(file, checkpoint, options));
  if (outcome === undefined) return repairLocked(directory, { confirm: async () => true });
  if (outcome.isDone) removeLeftover(newLogPath(logPath)); // of a repair that was killed
  return outcome;
}

async function acceptLoss(
  logPath: string,
  checkpoint: Checkpoint,
  { confirm }: RepairOptions,
): Promise<RepairOutcome> {
  const plan: RepairPlan = { action: "start_empty", plants: 0, leftOut: 0, checkpoint };
  if (!(await confirm(plan))) return { ...plan, isDone: false };
  if (exists(logPath)) {
    throw new PlantStoreError(
      "locked",
      `Cannot accept the loss of "${logPath}": it is there again; start "repair" once more to read it`,
    );
  }
  await removeCheckpoint(logPath);
  return { ...plan, isDone: true };
}

/** Returns `undefined` if the log was replaced by a copy of all its bytes, which has to be repaired instead. */
async function repair(
  file: LogFile,
  checkpoint: Checkpoint | undefined,
  { confirm, onLeftOut, onProgress }: RepairOptions,
): Promise<RepairOutcome | undefined> {
  /** Byte offsets of the lines that are left out. */
  const leftOut = new Set<number>();
  const scan = await LogScan.run(file, file.end, {
    checkpoint,
    onFault: (fault) => {
      if (fault.kind === "repeat") return;
      leftOut.add(fault.position.offset);
      onLeftOut?.(fault);
    },
    onProgress,
  });
  const isAsKnown = ["matches", "none"].includes(scan.checksum) && !isUnsynced(file.path);
  const whole = isAsKnown ? "nothing" : "accept";
  const plan: RepairPlan = {
    action: leftOut.size > 0 ? "rewrite" : whole,
    plants: scan.index.size + (scan.isTailNew ? 1 : 0),
    leftOut: leftOut.size,
    checkpoint,
  };
  if (plan.action !== "nothing" && !(await confirm(plan))) return { ...plan, isDone: false };
  file.assertInPlace(); // the plan is for the log as it was read
  // Another program may have written what is reported, accepted or kept.
  const isReplaced = await useAndClose(await LogFile.open(file.path), (log) =>
    makeDurable(log, scan.end, (earliest) => scan.startOfRewrite(earliest)),
  );
  if (plan.action === "rewrite") {
    if (isReplaced) return undefined;
    const keptAs = await rewriteWithout(file, leftOut, scan.tail.offset);
    return { ...plan, isDone: true, keptAs };
  }
  if (plan.action === "accept") {
    await removeCheckpoint(file.path);
    await writeCheckpoint(file.path, scan.end);
  }
  return { ...plan, isDone: true };
}

/** Replaces a log by one without some of its lines; returns the name under which the old one is kept. */
async function rewriteWithout(
  file: LogFile,
  leftOut: ReadonlySet<number>,
  tail: number,
): Promise<string> {
  try {
    const end = await writeWithout(file, leftOut, tail);
    const keptAs = await replaceLog(file);
    await writeCheckpoint(file.path, end);
    return keptAs;
  } catch (error) {
    removeLeftover(newLogPath(file.path));
    throw error;
  }
}

/**
 * Writes the new log: the old one without some of its lines. What follows the last line feed, at
 * `tail`, is copied as it is, unless it is left out too: the next start mends it by its own rule.
 *
 * @returns the checkpoint of the new log.
 */
async function writeWithout(
  file: LogFile,
  leftOut: ReadonlySet<number>,
  tail: number,
): Promise<Checkpoint> {
  const newPath = newLogPath(file.path);
  await orIoError(`Cannot replace "${newPath}"`, async () => disk.unlink(newPath)); // of a repair that was killed
  return useAndClose(await LogFile.open(newPath), async (target) => {
    let end = EMPTY_LOG;
    for await (const block of readBlocks(file, LOG_START, tail)) {
      const kept: Buffer[] = [];
      visitLines(block, (line, { offset }) => {
        const start = offset - block.offset;
        const end = start + line.length + 1;
        if (!leftOut.has(offset)) kept.push(block.bytes.subarray(start, end));
      });
      const bytes = Buffer.concat(kept);
      if (bytes.length > 0) await target.appendOrThrow(bytes);
      end = extendCheckpoint(end, bytes, kept.length);
    }
    if (!leftOut.has(tail)) {
      await target.appendRange(file, { offset: tail, bytes: file.end - tail });
    }
    return end;
  });
}

/** Replaces the old log with the new one; returns the name under which the old one is kept. */
function replaceLog(file: LogFile): Promise<string> {
  const logPath = file.path;
  return orIoError(`Cannot replace "${logPath}"`, async () => {
    file.assertInPlace();
    const keptAs = keepOld(logPath);
    await removeCheckpoint(logPath);
    file.assertInPlace(); // or the new log would lack what another process has appended
    await renameDurably(newLogPath(logPath), logPath);
    return keptAs;
  });
}

/** Gives the old log a second name, which it keeps when the first one is taken from it. */
function keepOld(logPath: string): string {
  const old = disk.find(logPath);
  for (let number = 1; ; number++) {
    const keptPath = `${logPath}.before-repair-${number}`;
    const kept = disk.find(keptPath);
    // A repair that was killed after this step has kept it already.
    if (kept === undefined) disk.link(logPath, keptPath);
    if (kept === undefined || kept.ino === old?.ino) return path.basename(keptPath);
  }
}
