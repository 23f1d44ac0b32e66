/**
 * From a log file on disk to an index that may be served from.
 *
 * Reads every line before it touches anything, so that a log which needs a
 * person is left exactly as it was found. Refuses whatever may concern an
 * acknowledged plant: a line that cannot be read, one id with two contents
 * (either may be the one that was acknowledged), a log that is shorter than
 * its checkpoint or differs from it. What a power cut leaves is mended
 * (see log/mend).
 */

import { existsSync } from "node:fs";
import fs from "node:fs/promises";
import { publishWarning } from "../core/channels.ts";
import { PlantStoreError } from "../core/errors.ts";
import type { Checkpoint } from "../log/checkpoint.ts";
import { type ByteRange, LogFile } from "../log/file.ts";
import type { LinePosition } from "../log/format.ts";
import {
  type Damage,
  earliestBatchStart,
  hasLostSector,
  mendLog,
  rewriteLastBatch,
} from "../log/mend.ts";
import {
  endOfLines,
  LOG_START,
  lineError,
  positionAfter,
  readBlocks,
  visitLines,
} from "../log/reader.ts";
import { ioError, isRefusal } from "../log/system-error.ts";
import type { IdIndex } from "./id-index.ts";
import type { LineFault } from "./line-fault.ts";
import { LogScan } from "./log-scan.ts";
import { isRecord } from "./record.ts";

export interface RecoveredLog {
  readonly index: IdIndex;
  /** Where the log ends that may be vouched for: whole lines, all of them on disk. */
  readonly end: Checkpoint;
  /**
   * Present while something behind `end` has to be put aside and there is no
   * room for that. Tries again, adds to the index, and returns the new end;
   * nothing may be appended before.
   *
   * @throws PlantStoreError `io_error`.
   */
  readonly settle?: (() => Promise<Checkpoint>) | undefined;
}

interface RecoverOptions {
  readonly checkpoint: Checkpoint | undefined;
  readonly onProgress?: ((bytes: number, total: number) => void) | undefined;
}

/**
 * @throws PlantStoreError `corruption`; `locked` when another process changes the
 * log in the meantime, in spite of the lock; `io_error`.
 */
export async function recover(file: LogFile, options: RecoverOptions): Promise<RecoveredLog> {
  const found = await read(file, options);
  await removePersistedIndex(file.path);
  return putInOrder(file, found);
}

/**
 * Removes the index that earlier versions kept beside the log, before the log is changed: such a
 * version must not trust an index that is out of date. A log needs none to start.
 *
 * @throws PlantStoreError `io_error`.
 */
export async function removePersistedIndex(logPath: string): Promise<void> {
  const indexPath = `${logPath}.index`;
  try {
    for (const each of [`${indexPath}.new`, indexPath]) await fs.rm(each, { force: true });
  } catch (cause) {
    throw ioError(`Cannot remove "${indexPath}"`, cause);
  }
}

/** What a log was found to be; nothing was touched yet. */
interface Found {
  readonly scan: LogScan;
  /** Where the scan ended. */
  readonly reached: LinePosition;
  readonly damage: Damage;
  /** The length that was on disk for certain. */
  readonly knownBytes: number;
}

async function read(file: LogFile, { checkpoint, onProgress }: RecoverOptions): Promise<Found> {
  const size = file.size();
  const knownBytes = checkpoint?.bytes ?? 0;
  if (size < knownBytes) throw shorterError(file.path, size, knownBytes);

  const isLost = await lostLineJudge(file, size, checkpoint);
  const scan = new LogScan(file, {
    checkpoint,
    endsBefore: isLost,
    onFault: (fault) => refuse(file.path, fault),
    onProgress: onProgress && ((bytes) => onProgress(bytes, size)),
  });
  const reached = await scan.run(LOG_START, await endOfLines(file, size));
  if (!scan.matchesCheckpoint) throw mismatchError(file.path, knownBytes);
  const damage = await survey(file, scan, reached, isLost);
  return { scan, reached, damage, knownBytes };
}

async function putInOrder(file: LogFile, found: Found): Promise<RecoveredLog> {
  const { scan, reached, damage, knownBytes } = found;
  /** Puts the rest in order and makes it durable. */
  const finish = async (): Promise<Checkpoint> => {
    const length = await mendLog(file, damage);
    await rewriteLastBatch(file, length, knownBytes);
    await scan.run(reached, length);
    return scan.end;
  };
  try {
    const end = await finish();
    return { index: scan.index, end };
  } catch (error) {
    if (!(error instanceof PlantStoreError && isRefusal(error.cause))) throw error;
    const { end } = scan;
    await rewriteLastBatch(file, end.bytes, knownBytes);
    publishWarning("No room to put the end of the log aside: new plants are refused", error);
    return { index: scan.index, end, settle: finish };
  }
}

/** Whether a line that cannot be read lost pages in a power cut: a start puts it aside. */
type LostLineJudge = (line: Buffer, position: LinePosition) => boolean;

/** The judge of a log of this size: only the last batch can have lost pages, behind the checkpoint. */
export async function lostLineJudge(
  file: LogFile,
  size: number,
  checkpoint: Checkpoint | undefined,
): Promise<LostLineJudge> {
  const start = Math.max(checkpoint?.bytes ?? 0, await earliestBatchStart(file, size));
  return (line, { offset }) => offset >= start && hasLostSector(line, offset);
}

/**
 * What has to be put in order from `start` on: lines that lost pages, and the
 * tail. What is readable there is judged too, so that nothing is put in order
 * in a log that needs a person.
 */
async function survey(
  file: LogFile,
  scan: LogScan,
  start: LinePosition,
  isLost: LostLineJudge,
): Promise<Damage> {
  const end = await endOfLines(file, file.survey());
  const damaged: ByteRange[] = [];
  const readable: { line: Buffer; position: LinePosition }[] = [];
  let tail = start;
  for await (const block of readBlocks(file, start, end)) {
    visitLines(block, (line, position) => {
      if (isLost(line, position)) damaged.push({ ...position, bytes: line.length + 1 });
      else readable.push({ line, position });
    });
    tail = positionAfter(block);
  }
  for (const { line, position } of readable) await scan.inspect(line, position);
  await scan.inspectTail(tail);
  return { damaged, tail, isRecord };
}

function refuse(path: string, { kind, position, reason }: LineFault): void {
  if (kind === "repeat") return;
  const advice =
    'restore the log from a backup, or have "plant-store repair" write one of what is readable';
  throw lineError(path, position, `${reason}; ${advice}`);
}

/**
 * Opens a log for appending, and makes it where there never was one.
 *
 * @throws PlantStoreError `corruption` when a log that is known to have held
 * something is gone, `io_error`.
 */
export async function openLog(
  logPath: string,
  checkpoint: Checkpoint | undefined,
): Promise<LogFile> {
  const knownBytes = checkpoint?.bytes ?? 0;
  if (knownBytes === 0 || existsSync(logPath)) return LogFile.open(logPath);
  throw missingError(logPath, knownBytes);
}

export function missingError(logPath: string, knownBytes: number): PlantStoreError {
  return new PlantStoreError(
    "corruption",
    `Cannot open "${logPath}": it is missing, and its checkpoint knows of ${knownBytes} bytes; ` +
      'restore it from a backup, or accept the loss with "plant-store repair"',
  );
}

export function shorterError(path: string, size: number, knownBytes: number): PlantStoreError {
  return new PlantStoreError(
    "corruption",
    `Cannot open "${path}": it holds ${size} bytes, and its checkpoint knows of ${knownBytes}: ` +
      "it was cut, or copied before its checkpoint; " +
      'restore it from a backup, or accept it as it is with "plant-store repair"',
  );
}

export function mismatchError(path: string, knownBytes: number): PlantStoreError {
  return new PlantStoreError(
    "corruption",
    `Cannot open "${path}": its first ${knownBytes} bytes are not those its checkpoint knows; ` +
      "if that was an edit made on purpose, or there is no backup to restore, accept it " +
      'with "plant-store repair"',
  );
}
