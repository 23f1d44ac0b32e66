/**
 * What a start does about the end of a log after a crash.
 *
 * Invariant: a cut is made only after the last line feed, where no acknowledged record can be. A line is
 * blanked only if it holds a whole sector of zeros and is so near the end that it may belong to the last
 * batch, which was never acknowledged if it lost pages in a power cut. Earlier batches may end there,
 * too: a disk that zeroes one of their sectors has lost an acknowledged plant, whose line is blanked as
 * well. What is taken out of a log is first copied to a new file `<log>.quarantine-N` and synced.
 */
import path from "node:path";
import { publishWarning } from "../core/channels.ts";
import { NUMBER_OPTIONS } from "../core/options.ts";
import { disk, orIoError } from "./disk.ts";
import { type ByteRange, LogFile } from "./file.ts";
import { removeLeftover } from "./folder.ts";
import { endOfLines, isBlank, LINE_FEED, type LinePosition, readTail } from "./lines.ts";

/** The most bytes of records that a batch holds before its last record. */
export const BATCH_BYTES_LIMIT = NUMBER_OPTIONS.batchBytesMax.max;

/**
 * Returns a function that judges whether an unreadable line lost pages in a power cut. Only the last
 * batch can have lost some.
 *
 * @param size the length of the log.
 * @param knownBytes this many bytes are certainly on disk.
 */
export async function lostLineJudge(
  file: LogFile,
  size: number,
  knownBytes = 0,
): Promise<(line: Buffer, position: LinePosition) => boolean> {
  const start = Math.max(knownBytes, await earliestBatchStart(file, size));
  return (line, { offset }) => offset >= start && hasLostSector(line, offset);
}

/**
 * The earliest offset at which the last batch of a log of this length can start: at most
 * `BATCH_BYTES_LIMIT` before its last record, which may lack its line feed.
 */
export async function earliestBatchStart(file: LogFile, end: number): Promise<number> {
  return Math.max(0, (await endOfLines(file, end - 1)) - BATCH_BYTES_LIMIT);
}

const SECTOR_BYTES = 512;

/**
 * Whether a line holds a whole sector of zeros: a page of its batch never reached the disk (etcd
 * judges its log by the same rule). The first sector begins with the line: what is before it was on
 * disk already.
 */
function hasLostSector(line: Buffer, offset: number): boolean {
  return sectorsOf(line, offset).some(({ isLost }) => isLost);
}

/** A part of a line that is in one sector of the disk. */
interface Sector {
  readonly start: number;
  readonly end: number;
  readonly isLost: boolean;
}

function sectorsOf(line: Buffer, offset: number): Sector[] {
  const sectors: Sector[] = [];
  let start = 0;
  for (let end = SECTOR_BYTES - (offset % SECTOR_BYTES); start < line.length; end += SECTOR_BYTES) {
    const sector = line.subarray(start, end);
    // The last sector counts only if the line reaches its end.
    const isLost = end <= line.length && sector.every((byte) => byte === 0);
    sectors.push({ start, end: start + sector.length, isLost });
    start = end;
  }
  return sectors;
}

interface Mendable {
  /** Whole lines that lost pages, with their line feeds. */
  readonly lost: readonly ByteRange[];
  /** Where the whole lines end. */
  readonly tail: LinePosition;
  /** Whether these bytes are a record. */
  readonly isRecord: (text: Buffer) => boolean;
}

/**
 * Repairs a log, so that it is whole lines only. Lost lines are overwritten with spaces. What
 * follows the last line feed gets its own if it is a whole record, and is cut if not.
 *
 * @returns the length of the log.
 * @throws PlantStoreError `locked` if another process has changed the file since it was opened;
 * `io_error`, also if there is no room for the quarantine.
 */
export async function mendLog(file: LogFile, { lost, tail, isRecord }: Mendable): Promise<number> {
  const rest = { offset: tail.offset, bytes: file.end - tail.offset };
  const text = await readTail(file, tail.offset, file.end);
  const isWhole = text !== undefined && (isBlank(text) || isRecord(text));
  const isTorn = rest.bytes > 0 && !isWhole;
  const taken = isTorn ? [...lost, rest] : lost;
  if (taken.length > 0) {
    file.assertInPlace(); // else the quarantine would hold a record of another process
    const name = await quarantine(file, taken);
    for (const range of lost) await blank(file, range, name);
    if (isTorn) {
      await file.truncate(tail.offset);
      publishWarning(
        `"${file.path}": cut ${rest.bytes} bytes of a record that was never acknowledged ` +
          `(line ${tail.line}, byte offset ${tail.offset}); they are kept in "${name}"`,
      );
    }
  }
  if (!isWhole) return tail.offset;
  file.assertInPlace();
  await file.appendOrThrow(Buffer.of(LINE_FEED));
  publishWarning(`"${file.path}": completed line ${tail.line}, which lacked only its line feed`);
  return tail.offset + rest.bytes + 1;
}

/**
 * Copies the ranges, one after the other, into a new quarantine file, under the first free number.
 *
 * @returns the file's name.
 * @throws PlantStoreError `io_error`; no file is left then.
 */
export async function quarantine(file: LogFile, ranges: readonly ByteRange[]): Promise<string> {
  const target = await orIoError("Cannot make a quarantine file", async () => {
    let number = 1;
    while (disk.findEntry(`${file.path}.quarantine-${number}`) !== undefined) number++;
    return LogFile.open(`${file.path}.quarantine-${number}`);
  });
  try {
    for (const range of ranges) await target.appendRange(file, range);
  } catch (error) {
    removeLeftover(target.path);
    throw error;
  } finally {
    await target.close();
  }
  return path.basename(target.path);
}

/**
 * Overwrites a lost line with spaces, its lost sectors last: after a crash at any moment it still
 * is a line that lost pages.
 */
async function blank(file: LogFile, { offset, bytes }: ByteRange, name: string): Promise<void> {
  const line = Buffer.alloc(bytes - 1);
  await file.read(line, offset);
  for (const { start, end, isLost } of sectorsOf(line, offset)) {
    if (!isLost) line.fill(" ", start, end);
  }
  for (const bytes of [line, Buffer.alloc(line.length, " ")]) {
    await file.overwrite(bytes, offset);
    await orIoError(`Cannot sync "${file.path}"`, () => file.sync());
  }
  publishWarning(
    `"${file.path}": blanked ${bytes} bytes at byte offset ${offset}, a line whose batch lost pages in ` +
      `a power cut; they are kept in "${name}"`,
  );
}
