/**
 * `verify` and `repair`: what an operator does about a log that a start refuses.
 *
 * Invariants. `verify` takes no lock and changes nothing. `repair` leaves a sound log alone, and writes any other one
 * anew, from every line that holds a plant; the first record of an id wins. What it leaves out is in the quarantine
 * file, byte for byte, before the new log takes its name; the checkpoint is replaced last. After a crash in between, a
 * start refuses or is right, and `repair` runs again.
 */
import path from "node:path";
import { PlantStoreError } from "../core/errors.ts";
import { encodeNewPlant, validatePlant } from "../core/plant.ts";
import { EMPTY_LOG, extendCheckpoint, writeCheckpoint } from "../log/checkpoint.ts";
import { withIoError } from "../log/disk.ts";
import { LogFile, replaceFile } from "../log/file.ts";
import { LOCK_NAME, logPathOf, syncFolderAndName } from "../log/folder.ts";
import { LINE_FEED, type LineSource, readBlocks } from "../log/lines.ts";
import { type HeldLock, locks } from "../log/lock.ts";
import { IdIndex } from "./id-index.ts";
import { parseLine } from "./import-export.ts";
import { assertMayBeMissing, keep, openForReading } from "./open.ts";
import { eachLine, faultOf, repeatFault, Scan, TOO_LONG } from "./scan.ts";

/** A line that is not as the store writes it. */
export interface BadLine {
  /** From 1. */
  readonly line: number;
  readonly offset: number;
  /** What was expected and what came. */
  readonly reason: string;
  /** Whether a repair leaves it out; else it holds a plant in another form, or nothing. */
  readonly isLeftOut: boolean;
}

export interface VerifyReport {
  /** Of a damaged log: how many plants a repair keeps. */
  readonly plants: number;
  /** Lines that are no plant as the store writes it, or have an id that is there before. */
  readonly damaged: number;
  /** The length of the log without a torn end. */
  readonly bytes: number;
  /** What an unfinished write left at the end: the next start cuts it. */
  readonly tornBytes: number;
  /** Whether the log begins with the bytes that its checkpoint knows. */
  readonly isAsKnown: boolean;
}

export interface CheckOptions {
  /** Receives each damaged line; of a repair, each line that it leaves out. */
  readonly onBadLine?: (bad: BadLine) => void;
}

/** Whether a server can start with this log. */
export function isSound({ damaged, isAsKnown }: VerifyReport): boolean {
  return damaged === 0 && isAsKnown;
}

/**
 * Reads a log as a start does; if a start refuses it, once more, as a repair does.
 *
 * @throws PlantStoreError `io_error` if there is no log or it cannot be read; `corruption` if the log is gone, or its
 * checkpoint is damaged; `locked`.
 */
export async function verifyLog(
  directory: string,
  { onBadLine }: CheckOptions = {},
): Promise<VerifyReport> {
  const log = await openForReading(directory);
  const { file, size } = log;
  const scan = new Scan(log, new IdIndex());
  try {
    const error = await scan.toEnd().catch((cause) => cause);
    if (error === undefined) {
      const { plants, end, isAsKnown } = scan;
      return { plants, damaged: 0, bytes: end.bytes, tornBytes: size - end.bytes, isAsKnown };
    }
    if (error.code !== "corruption") throw error;
    const index = new IdIndex();
    let damaged = 0;
    for await (const { bads } of salvage(file, size, index)) {
      damaged += bads.length;
      for (const bad of bads) onBadLine?.(bad);
    }
    return { plants: index.size, damaged, bytes: size, tornBytes: 0, isAsKnown: scan.isAsKnown };
  } finally {
    await file.close();
  }
}

export interface RepairReport {
  /** Whether the log was written anew. */
  readonly isChanged: boolean;
  /** How many plants the log has now. */
  readonly plants: number;
  /** How many lines were moved to quarantine. */
  readonly leftOut: number;
}

/**
 * Writes a log anew that a start refuses: every plant that can be read, in any form, the first one of each id.
 *
 * @throws PlantStoreError `locked`; `corruption` after an unfinished restore; `write_failed`; `unsynced`; `io_error`,
 * also if there never was a log.
 */
export async function repairLog(
  directory: string,
  { onBadLine }: CheckOptions = {},
): Promise<RepairReport> {
  const report = await verifyLog(directory).catch((error) => {
    if (error.code !== "corruption") throw error;
    return undefined;
  });
  const logPath = logPathOf(directory);
  const lock = await locks.acquire(directory, { name: LOCK_NAME, command: "repair" });
  try {
    if (report !== undefined && isSound(report)) {
      const sync = () => syncFolderAndName(path.dirname(logPath)); // for a repair that was killed
      await withIoError(`Cannot sync "${directory}"`, sync);
      return { isChanged: false, plants: report.plants, leftOut: 0 };
    }
    await assertMayBeMissing(logPath);
    const file = await LogFile.open(logPath, lock); // empty if it is gone
    return await rewrite(file, lock, onBadLine).finally(() => file.close());
  } finally {
    await lock.close();
  }
}

async function rewrite(
  file: LogFile,
  lock: HeldLock,
  onBadLine: CheckOptions["onBadLine"],
): Promise<RepairReport> {
  const index = new IdIndex();
  let end = EMPTY_LOG;
  let leftOut = 0;
  const write = async (target: LogFile) => {
    for await (const { kept, rest, bads } of salvage(file, file.end, index)) {
      for (const bad of bads.filter(({ isLeftOut }) => isLeftOut)) {
        leftOut++;
        onBadLine?.(bad);
      }
      if (rest.length > 0) await keep(file.path, rest);
      await target.append(kept);
      end = extendCheckpoint(end, kept);
    }
  };
  // The new log would lack what another program has appended meanwhile.
  await replaceFile(file.path, write, { assertHeld: () => file.assertUnchanged() });
  await writeCheckpoint(file.path, end, lock);
  return { isChanged: true, plants: index.size, leftOut };
}

/** What a repair makes of a block of a log. */
interface Salvage {
  /** Lines as the store writes them. */
  readonly kept: Buffer;
  /** What is left out. */
  readonly rest: Buffer;
  readonly bads: readonly BadLine[];
}

/** Reads a log past every bad line. The ids of what is kept come into the index. */
async function* salvage(file: LineSource, size: number, index: IdIndex): AsyncGenerator<Salvage> {
  let line = 0;
  let isWithin = false; // a line that comes in pieces
  for await (const block of readBlocks(withLineFeed(file, size), 0, size + 1)) {
    const { bytes, offset, isPiece } = block;
    const kept: Buffer[] = [];
    const rest: Buffer[] = [];
    const bads: BadLine[] = [];
    let from = 0; // the first of the good lines that are not in `kept` yet
    eachLine(bytes, (start, end, plant) => {
      const at = offset + start;
      const next = end < 0 ? bytes.length : end + 1;
      if (!isWithin) line++;
      const fault = isPiece ? TOO_LONG : faultOf(plant, at, index);
      if (fault === undefined) return true;
      const isOdd = plant === undefined && !isPiece;
      const record = isOdd ? recordOf(bytes.subarray(start, end), at, index) : fault;
      const isLeftOut = typeof record === "string";
      const bad = { line, offset: at, reason: isLeftOut ? record : fault, isLeftOut };
      if (!isWithin && at < size) bads.push(bad);
      kept.push(bytes.subarray(from, start));
      if (isLeftOut) rest.push(bytes.subarray(start, next));
      else kept.push(record);
      from = next;
      isWithin = end < 0;
      return end >= 0;
    });
    kept.push(bytes.subarray(from));
    yield { kept: Buffer.concat(kept), rest: Buffer.concat(rest), bads };
  }
}

/** The bytes up to `size`, and one more line feed: the last line may lack its own, and a blank line is dropped. */
function withLineFeed(file: LineSource, size: number): LineSource {
  const read = async (buffer: Buffer, position: number) => {
    if (position + buffer.length <= size) return file.read(buffer, position);
    const bytes = await file.read(buffer.subarray(0, -1), position);
    buffer[bytes] = LINE_FEED;
    return bytes + 1;
  };
  return { path: file.path, read };
}

/** The record of a bad line, which is empty for a blank one; or why the line is left out. Indexes its id. */
function recordOf(line: Buffer, offset: number, index: IdIndex): Buffer | string {
  try {
    const plant = parseLine(line);
    if (plant === undefined) return Buffer.alloc(0);
    const record = Buffer.from(`${encodeNewPlant(validatePlant(plant))}\n`);
    const present = index.add(plant.id, offset);
    return present === undefined ? record : repeatFault(present);
  } catch (error) {
    if (error instanceof PlantStoreError) return error.message;
    throw error;
  }
}
