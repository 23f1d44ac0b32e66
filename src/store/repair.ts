/**
 * `repair`: the explicit way on where a start refuses.
 *
 * Invariants. Where every line is readable it only accepts the log as it is,
 * with a new checkpoint. Else it writes a new log of what is readable, the
 * first record of an id winning, and keeps the old one whole. A crash at any
 * moment leaves a folder that starts, or refuses as before: the checkpoint goes
 * first, the log is replaced by one rename, and the new checkpoint comes last.
 */
import fs from "node:fs";
import path from "node:path";
import { PlantStoreError } from "../core/errors.ts";
import { LOCK_NAME } from "../core/file-names.ts";
import {
  type Checkpoint,
  EMPTY_LOG,
  extendCheckpoint,
  readCheckpoint,
  removeCheckpoint,
  writeCheckpoint,
} from "../log/checkpoint.ts";
import { LogFile } from "../log/file.ts";
import { removeLeftover, syncDirectory } from "../log/folder.ts";
import type { LinePosition } from "../log/format.ts";
import { DirectoryLock } from "../log/lock.ts";
import { rewriteLastBatch } from "../log/mend.ts";
import { endOfLines, type LineBlock, LOG_START, readBlocks, visitLines } from "../log/reader.ts";
import { ioError } from "../log/system-error.ts";
import { type LineFault, LogScan } from "./log-scan.ts";
import { logPathOf, openLogForReading, removePersistedIndex } from "./open-log.ts";

export type { Checkpoint };

/** What a repair is about to do. */
export interface RepairPlan {
  /**
   * `nothing`: the log and its checkpoint agree. `accept`: every line is
   * readable, so the log stays as it is. `start_empty`: the log is gone.
   */
  readonly action: "nothing" | "accept" | "start_empty" | "rewrite";
  /** Plants that stay. */
  readonly plants: number;
  /** Lines, and an unfinished end, that a rewrite leaves out. */
  readonly leftOut: number;
  readonly checkpoint: Checkpoint | undefined;
}

export interface RepairOptions {
  /** Asked before anything is changed; the repair ends where it says no. */
  readonly confirm: (plan: RepairPlan) => Promise<boolean>;
  /** Told of every line that would be left out, as it is found. */
  readonly onLeftOut?: (fault: LineFault) => void;
  /** Told how much of the log was read, about once a MiB. */
  readonly onProgress?: (bytes: number, total: number) => void;
}

export interface RepairOutcome extends RepairPlan {
  readonly isDone: boolean;
  /** The name under which the old log was kept, after a rewrite. */
  readonly keptAs?: string;
}

/**
 * @throws PlantStoreError `locked`, also when another program changes the log in
 * the meantime; `io_error` when there is nothing to repair or the system refuses.
 */
export async function repairLog(directory: string, options: RepairOptions): Promise<RepairOutcome> {
  const logPath = logPathOf(directory);
  const lock = await DirectoryLock.acquire(directory, { name: LOCK_NAME, command: "repair" });
  try {
    const checkpoint = await readCheckpoint(logPath);
    // A log that is gone was known to hold something: an empty one can take its place.
    const isGone = checkpoint !== undefined && !fs.existsSync(logPath);
    if (isGone) return await acceptLoss(logPath, checkpoint, options);
    const file = await openLogForReading(directory);
    try {
      const outcome = await repair(file, checkpoint, options);
      if (outcome.isDone) removeLeftover(repairedPath(logPath));
      return outcome;
    } finally {
      await file.close();
    }
  } finally {
    await lock.close();
  }
}

async function acceptLoss(
  logPath: string,
  checkpoint: Checkpoint,
  { confirm }: RepairOptions,
): Promise<RepairOutcome> {
  const plan: RepairPlan = { action: "start_empty", plants: 0, leftOut: 0, checkpoint };
  if (!(await confirm(plan))) return { ...plan, isDone: false };
  if (fs.existsSync(logPath)) {
    throw new PlantStoreError(
      "locked",
      `Cannot accept the loss of "${logPath}": it is there again; start "repair" once more to read it`,
    );
  }
  await forget(logPath);
  return { ...plan, isDone: true };
}

async function repair(
  file: LogFile,
  checkpoint: Checkpoint | undefined,
  options: RepairOptions,
): Promise<RepairOutcome> {
  const { scan, plants, leftOut, conflicts, tail } = await inspect(file, checkpoint, options);
  const plan: RepairPlan = {
    action: leftOut.size > 0 ? "rewrite" : scan.matchesCheckpoint ? "nothing" : "accept",
    plants,
    leftOut: leftOut.size,
    checkpoint,
  };
  if (plan.action === "nothing") return { ...plan, isDone: true };
  if (!(await options.confirm(plan))) return { ...plan, isDone: false };
  file.assertUnchanged(); // the plan is one for the log as it was read
  if (plan.action === "accept") {
    await forget(file.path);
    await file.sync();
    await syncAgain(file.path, scan.end.bytes);
    await writeCheckpoint(file.path, scan.end);
    return { ...plan, isDone: true };
  }
  const target = await writeWithout(file, leftOut, tail);
  const keptAs = await replaceLog(target.path, file);
  await writeCheckpoint(file.path, { ...target.end, records: scan.end.records - conflicts });
  return { ...plan, isDone: true, keptAs };
}

/** As a start does: after a sync that failed, the next one proves nothing. */
async function syncAgain(logPath: string, end: number): Promise<void> {
  const file = await LogFile.open(logPath);
  try {
    await rewriteLastBatch(file, end);
  } finally {
    await file.close();
  }
}

interface Inspection {
  readonly scan: LogScan;
  /** Plants that stay. */
  readonly plants: number;
  /** Byte offsets of the lines that cannot stay. */
  readonly leftOut: ReadonlySet<number>;
  /** How many of them are whole lines and plants all the same. */
  readonly conflicts: number;
  /** Where the whole lines end. */
  readonly tail: LinePosition;
}

async function inspect(
  file: LogFile,
  checkpoint: Checkpoint | undefined,
  { onLeftOut, onProgress }: RepairOptions,
): Promise<Inspection> {
  const leftOut = new Set<number>();
  let conflicts = 0;
  const size = file.survey();
  const scan = new LogScan(file, {
    checkpoint,
    onFault: (fault) => {
      if (fault.kind === "repeat") return;
      if (fault.kind === "conflict") conflicts++;
      leftOut.add(fault.position.offset);
      onLeftOut?.(fault);
    },
    onProgress: onProgress && ((bytes) => onProgress(bytes, size)),
  });
  const tail = await scan.run(LOG_START, await endOfLines(file, size));
  const whole = { scan, leftOut, conflicts, tail };
  const isTailNew = await scan.inspectTail(tail);
  return { ...whole, plants: scan.index.size + (isTailNew ? 1 : 0) };
}

/**
 * Writes the log again without some lines. What stands behind the last line
 * feed is copied as it is, unless it is left out too: the next start settles it
 * by the rule it has for that.
 */
async function writeWithout(
  file: LogFile,
  leftOut: ReadonlySet<number>,
  tail: LinePosition,
): Promise<{ readonly path: string; readonly end: Checkpoint }> {
  const newPath = repairedPath(file.path);
  fs.rmSync(newPath, { force: true }); // of a repair that was killed
  const target = await LogFile.open(newPath);
  try {
    let end = EMPTY_LOG;
    for await (const block of readBlocks(file, LOG_START, tail.offset)) {
      const bytes = linesWithout(block, leftOut);
      if (bytes.length > 0) await target.appendOrThrow(bytes);
      end = extendCheckpoint(end, bytes, 0);
    }
    if (!leftOut.has(tail.offset)) {
      const rest = { offset: tail.offset, bytes: file.end - tail.offset };
      await target.appendRange(file, rest);
    }
    return { path: newPath, end };
  } catch (error) {
    fs.rmSync(newPath, { force: true });
    throw error;
  } finally {
    await target.close();
  }
}

/** Where a repair writes the new log; a repair that was killed leaves it there. @internal */
export function repairedPath(logPath: string): string {
  return `${logPath}.repaired`;
}

function linesWithout(block: LineBlock, leftOut: ReadonlySet<number>): Buffer {
  const lines: Buffer[] = [];
  visitLines(block, (record, { offset }) => {
    if (leftOut.has(offset)) return;
    const start = offset - block.offset;
    lines.push(block.bytes.subarray(start, start + record.length + 1));
  });
  return Buffer.concat(lines);
}

/** Removes what is known of the log, durably. */
async function forget(logPath: string): Promise<void> {
  await removePersistedIndex(logPath);
  await removeCheckpoint(logPath);
}

/** Gives the old log a second name, which stays when the first one is taken from it. */
function keepOld(logPath: string): string {
  const { ino } = fs.statSync(logPath, { bigint: true });
  for (let number = 1; ; number++) {
    const keptPath = `${logPath}.before-repair-${number}`;
    const kept = fs.statSync(keptPath, { bigint: true, throwIfNoEntry: false });
    // A repair that was killed behind this step has kept it already.
    if (kept === undefined) fs.linkSync(logPath, keptPath);
    if (kept === undefined || kept.ino === ino) return path.basename(keptPath);
  }
}

/** Puts the new log in the place of the old one, and returns the name the old one is kept under. */
async function replaceLog(newPath: string, file: LogFile): Promise<string> {
  const logPath = file.path;
  try {
    file.assertUnchanged();
    const keptAs = keepOld(logPath);
    await forget(logPath);
    file.assertUnchanged(); // else the new log would lack what another process has appended
    fs.renameSync(newPath, logPath);
    await syncDirectory(path.dirname(logPath));
    return keptAs;
  } catch (cause) {
    fs.rmSync(newPath, { force: true });
    if (cause instanceof PlantStoreError) throw cause;
    throw ioError(`Cannot replace "${logPath}"`, cause);
  }
}
