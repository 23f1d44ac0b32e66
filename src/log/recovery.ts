/**
 * What a start does to a log before it is served from.
 *
 * Invariant: nothing that was ever acknowledged is removed or changed. A cut is
 * made only behind the last line feed, where no acknowledged record can be;
 * lines are blanked only where a batch lost pages in a power cut, so that it
 * was never acknowledged; and what is taken out is kept in a quarantine file
 * first. What makes a text a record is the caller's to say.
 */
import { publishWarning } from "../core/channels.ts";
import { NUMBER_OPTIONS } from "../core/options.ts";
import type { LogFile } from "./file.ts";
import type { LinePosition } from "./format.ts";
import { isBlank, LINE_FEED, markLength, RECORD_BYTES_MAX } from "./format.ts";
import { type ByteRange, quarantine } from "./quarantine.ts";

/** The most bytes of records a batch holds before its last one. */
export const BATCH_BYTES_LIMIT = NUMBER_OPTIONS.batchBytesMax.max;

const SECTOR_BYTES = 512;

/**
 * Whether a line holds a whole sector of zeros: a page of its batch never
 * reached the disk (etcd judges its log by the same rule). The first sector
 * counts from the start of the line: before it stands what was on disk already.
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
    // The last sector counts only where the line reaches its end.
    const isLost = end <= line.length && line.subarray(start, end).every((byte) => byte === 0);
    yield { start, end: Math.min(end, line.length), isLost };
    start = end;
  }
}

/**
 * Where the last batch can have started at the earliest, given the length of
 * the log. A batch takes records until it holds `BATCH_BYTES_LIMIT` bytes, so
 * that is at most so far before the start of its last record.
 */
export async function earliestBatchStart(file: LogFile, end: number): Promise<number> {
  return Math.max(0, (await lastLineStart(file, end)) - BATCH_BYTES_LIMIT);
}

/** What stands in the way of serving a log. */
export interface Unsettled {
  /** Whole lines that lost pages, with their line feeds. */
  readonly damaged: readonly ByteRange[];
  /** Where the whole lines end. */
  readonly tail: LinePosition;
  /** Whether these bytes are a record. */
  readonly isRecord: (text: Buffer) => boolean;
  /** The quarantine file of an earlier call that failed later on. */
  quarantine?: string;
}

/**
 * Settles a log, so that it is whole lines only: damaged lines are overwritten
 * with spaces; what stands behind the last line feed gets its own when it is a
 * whole record, and is cut when it is not. Quarantine comes before either.
 *
 * The file was surveyed before it was read; if another process has changed it
 * since, nothing of it is changed.
 *
 * @returns the length of the log.
 * @throws PlantStoreError `locked` when another process writes the file;
 * `io_error`, and then it may be called again.
 */
export async function settle(file: LogFile, unsettled: Unsettled): Promise<number> {
  const { damaged, tail, isRecord } = unsettled;
  const rest = { offset: tail.offset, bytes: file.end - tail.offset };
  const text = await readTail(file, tail.offset, file.end);
  const isWhole = text !== undefined && (isBlank(text) || isRecord(text));
  const isTorn = rest.bytes > 0 && !isWhole;
  const taken = isTorn ? [...damaged, rest] : damaged;
  if (taken.length > 0) {
    file.assertUnchanged(); // else a record that another process appends would be put aside
    unsettled.quarantine ??= await quarantine(file, taken);
    const name = unsettled.quarantine;
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
 * What stands between the last line feed and the end of a log; `undefined` for
 * nothing, or for more than a record.
 */
export async function readTail(
  file: LogFile,
  offset: number,
  end: number,
): Promise<Buffer | undefined> {
  const bytes = end - offset;
  if (bytes <= 0 || bytes > RECORD_BYTES_MAX) return undefined;
  const text = Buffer.alloc(bytes);
  await file.read(text, offset);
  return offset === 0 ? text.subarray(markLength(text)) : text;
}

/**
 * Overwrites a damaged line with spaces, its lost sectors last: cut short at any
 * moment, the line is one that lost pages still.
 */
async function blank(file: LogFile, { offset, bytes }: ByteRange, name: string): Promise<void> {
  const line = Buffer.alloc(bytes - 1);
  await file.read(line, offset);
  for (const [start, end] of textRanges(line, offset)) {
    await file.overwrite(Buffer.alloc(end - start, " "), offset + start);
  }
  await file.overwrite(Buffer.alloc(bytes - 1, " "), offset);
  publishWarning(
    `"${file.path}": blanked ${bytes} bytes at byte offset ${offset}, a batch that was never ` +
      `acknowledged and lost pages in a power cut; they are kept in "${name}"`,
  );
}

/** What of a line is no lost sector, as ranges of it. */
function textRanges(line: Buffer, offset: number): [start: number, end: number][] {
  const ranges: [number, number][] = [];
  for (const { start, end, isLost } of sectorsOf(line, offset)) {
    if (isLost) continue;
    const last = ranges.at(-1);
    if (last?.[1] === start) last[1] = end;
    else ranges.push([start, end]);
  }
  return ranges;
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
 * Writes what may be the last batch again, unchanged, and syncs it: what the
 * scan has read may be in the page cache only, even marked clean by a sync that
 * failed, and the answer to a replay would vouch for it.
 *
 * @throws PlantStoreError `locked` when another process has changed the file since
 * it was surveyed; `io_error`.
 */
export async function rewrite(file: LogFile, start: number, end: number): Promise<void> {
  if (start >= end) return;
  const bytes = Buffer.alloc(end - start);
  await file.read(bytes, start);
  await file.overwrite(bytes, start);
}

/** Where the last of the lines before `end` starts; it may lack its line feed. */
function lastLineStart(file: LogFile, end: number): Promise<number> {
  return endOfLines(file, end - 1); // before the line feed that may stand there
}

/** Where the whole lines before `end` end. */
export async function endOfLines(file: LogFile, end: number): Promise<number> {
  const bytes = Buffer.alloc(BATCH_BYTES_LIMIT);
  let position = end;
  while (position > 0) {
    const from = Math.max(0, position - bytes.length);
    const got = await file.read(bytes.subarray(0, position - from), from);
    const lineFeed = bytes.subarray(0, got).lastIndexOf(LINE_FEED);
    if (lineFeed >= 0) return from + lineFeed + 1;
    position = from;
  }
  return 0;
}
