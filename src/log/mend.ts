/**
 * What a crash leaves at the end of a log, and what a start does about it.
 *
 * Invariant: nothing that was ever acknowledged is removed or changed. A cut is made only after the
 * last line feed, where no acknowledged record can be. Lines are blanked only if their batch lost
 * pages in a power cut, so that it was never acknowledged. What is taken out of a log is kept in
 * `<log>.quarantine-N`, synced, before the log is changed; no quarantine file is written twice.
 * What makes a text a record is the caller's to say.
 */
import fs from "node:fs";
import path from "node:path";
import { publishWarning } from "../core/channels.ts";
import { NUMBER_OPTIONS } from "../core/options.ts";
import { type ByteRange, LogFile } from "./file.ts";
import { isBlank, LINE_FEED, type LinePosition } from "./format.ts";
import { endOfLines, readTail } from "./reader.ts";

/** The most bytes of records a batch holds before its last one. */
export const BATCH_BYTES_LIMIT = NUMBER_OPTIONS.batchBytesMax.max;

const SECTOR_BYTES = 512;

/**
 * Whether a line holds a whole sector of zeros: a page of its batch never reached the disk (etcd
 * judges its log by the same rule). The first sector counts from the start of the line: before it
 * is what was on disk already.
 */
export function hasLostSector(line: Buffer, offset: number): boolean {
  for (const { isLost } of sectorsOf(line, offset)) if (isLost) return true;
  return false;
}

/** A sector of the disk that a line lies in, as a range of the line. */
interface Sector {
  readonly start: number;
  readonly end: number;
  readonly isLost: boolean;
}

function* sectorsOf(line: Buffer, offset: number): Iterable<Sector> {
  let start = 0;
  for (let end = SECTOR_BYTES - (offset % SECTOR_BYTES); start < line.length; end += SECTOR_BYTES) {
    // The last sector counts only if the line reaches its end.
    const isLost = end <= line.length && line.subarray(start, end).every((byte) => byte === 0);
    yield { start, end: Math.min(end, line.length), isLost };
    start = end;
  }
}

/**
 * The earliest offset at which the last batch of a log of this length can have started. A batch
 * takes records until it holds `BATCH_BYTES_LIMIT` bytes, so that is at most so far before the start
 * of its last record, which may lack its line feed.
 */
export async function earliestBatchStart(file: LogFile, end: number): Promise<number> {
  return Math.max(0, (await endOfLines(file, end - 1)) - BATCH_BYTES_LIMIT);
}

/**
 * Judges whether a line that cannot be read lost pages in a power cut. Only the last batch can have
 * lost some, and only after the bytes that are on disk for certain.
 *
 * @param size the length of the log.
 */
export async function lostLineJudge(
  file: LogFile,
  size: number,
  knownBytes = 0,
): Promise<(line: Buffer, position: LinePosition) => boolean> {
  const start = Math.max(knownBytes, await earliestBatchStart(file, size));
  return (line, { offset }) => offset >= start && hasLostSector(line, offset);
}

/** What has to be mended before a log is served. */
export interface Damage {
  /** Whole lines that lost pages, with their line feeds. */
  readonly damaged: readonly ByteRange[];
  /** Where the whole lines end. */
  readonly tail: LinePosition;
  /** Whether these bytes are a record. */
  readonly isRecord: (text: Buffer) => boolean;
}

/**
 * Mends a log, so that it is whole lines only. Damaged lines are overwritten with spaces. What
 * follows the last line feed gets its own if it is a whole record, and is cut if not.
 *
 * The file was surveyed before it was read; if another process has changed it since, nothing of it
 * is changed.
 *
 * @returns the length of the log.
 * @throws PlantStoreError `locked` if another process writes the file; `io_error`, also if there is
 * no room for the quarantine.
 */
export async function mendLog(file: LogFile, { damaged, tail, isRecord }: Damage): Promise<number> {
  const rest = { offset: tail.offset, bytes: file.end - tail.offset };
  const text = await readTail(file, tail.offset, file.end);
  const isWhole = text !== undefined && (isBlank(text) || isRecord(text));
  const isTorn = rest.bytes > 0 && !isWhole;
  const taken = isTorn ? [...damaged, rest] : damaged;
  if (taken.length > 0) {
    file.assertUnchanged(); // else a record that another process appends would be put aside
    const name = await quarantine(file, taken);
    for (const range of damaged) await blank(file, range, name);
    if (isTorn) await cut(file, tail, rest.bytes, name);
  }
  if (!isWhole) return tail.offset;
  file.assertUnchanged();
  await file.appendOrThrow(Buffer.of(LINE_FEED));
  publishWarning(`"${file.path}": completed line ${tail.line}, which lacked only its line feed`);
  return tail.offset + rest.bytes + 1;
}

/**
 * Copies the ranges, one after the other, into a new quarantine file.
 *
 * @returns the file's name.
 * @throws PlantStoreError `io_error`; no file is left then.
 */
export async function quarantine(file: LogFile, ranges: readonly ByteRange[]): Promise<string> {
  const target = await createQuarantine(file.path);
  try {
    for (const range of ranges) await target.appendRange(file, range);
  } catch (error) {
    fs.rmSync(target.path, { force: true });
    throw error;
  } finally {
    await target.close();
  }
  return path.basename(target.path);
}

/** Takes the first number that is free. */
async function createQuarantine(logPath: string): Promise<LogFile> {
  for (let number = 1; ; number++) {
    const target = await LogFile.create(`${logPath}.quarantine-${number}`);
    if (target !== undefined) return target;
  }
}

/**
 * Overwrites a damaged line with spaces, its lost sectors last: interrupted at any moment, the line
 * still is one that lost pages.
 */
async function blank(file: LogFile, { offset, bytes }: ByteRange, name: string): Promise<void> {
  const line = Buffer.alloc(bytes - 1);
  await file.read(line, offset);
  for (const { start, end, isLost } of sectorsOf(line, offset)) {
    if (!isLost) line.fill(" ", start, end);
  }
  await file.overwrite(line, offset);
  await file.overwrite(line.fill(" "), offset);
  publishWarning(
    `"${file.path}": blanked ${bytes} bytes at byte offset ${offset}, a batch that was never ` +
      `acknowledged and lost pages in a power cut; they are kept in "${name}"`,
  );
}

async function cut(
  file: LogFile,
  { offset, line }: LinePosition,
  bytes: number,
  name: string,
): Promise<void> {
  await file.truncate(offset);
  publishWarning(
    `"${file.path}": cut ${bytes} bytes of a record that was never acknowledged ` +
      `(line ${line}, byte offset ${offset}); they are kept in "${name}"`,
  );
}

/**
 * Writes what may be the last batch again, unchanged, and syncs it: what was read may be in the page
 * cache only, even marked clean by a sync that failed, and the answer to a replay would rely on it.
 *
 * @param knownBytes are on disk for certain.
 * @throws PlantStoreError `locked` when another process has changed the file since it was surveyed;
 * `io_error`.
 */
export async function rewriteLastBatch(file: LogFile, end: number, knownBytes = 0): Promise<void> {
  const start = Math.max(knownBytes, await earliestBatchStart(file, end));
  if (start >= end) return;
  const bytes = Buffer.alloc(end - start);
  await file.read(bytes, start);
  await file.overwrite(bytes, start);
}
