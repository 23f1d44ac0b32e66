/**
 * The one reader of logs: recovery, listing and every command that looks at
 * the file go through here, so what a line is stands once.
 *
 * Reads in large blocks that end at a line feed; memory is bounded by the
 * block and the longest line. What follows the last line feed is the tail: it
 * is never given out as a line, and whoever recovers the log decides about it.
 */

import { PlantStoreError } from "../core/errors.ts";
import type { LogFile } from "./file.ts";
import { isBlank, LINE_FEED, type LinePosition, markLength, RECORD_BYTES_MAX } from "./format.ts";
import { ioError } from "./system-error.ts";

/** With a quarter of this a scan takes a tenth longer, and an export a fifth. */
const BLOCK_BYTES = 1024 * 1024;

/** Far more than a record may have: a longer line is a hole that a disk left, and fits no buffer. */
const LINE_BYTES_MAX = 2 ** 29;

const TOO_LONG =
  "no line feed within 512 MiB, which no record is as long as; restore the log from a backup";

/** What is read from a log here. */
export type ReadableFile = Pick<LogFile, "path" | "read">;

/** Where every log starts. */
export const LOG_START: LinePosition = { offset: 0, line: 1 };

/** Called for every line that is not blank, without its line feed. The buffer is only lent. */
export type LineVisitor = (record: Buffer, position: LinePosition) => void;

/**
 * Takes a line by itself, where it can: gets the place in the block where the line
 * starts, and its number; returns where its line feed stands, or -1 to have it visited.
 */
export type LineTaker = (start: number, line: number) => number;

/** Whole lines, as they stand in the file; the position is that of the first. */
export interface LineBlock extends LinePosition {
  readonly bytes: Buffer;
  /** Where the line behind it starts: known once its lines were visited. */
  after?: LinePosition;
}

export interface BlockOptions {
  /** What is read at once. */
  readonly blockBytes?: number;
  /**
   * Whether a block is good only until the next is asked for: the first touch of new memory takes
   * longer than to read into it. A scan of a million lines takes a third less time.
   */
  readonly isLent?: boolean;
}

/**
 * The whole lines of a file from the start of one line up to `end`, block by block.
 *
 * @throws PlantStoreError `io_error`, also where the file ends before `end`, and `corruption` for
 * a line of more than 512 MiB.
 */
export async function* readBlocks(
  file: ReadableFile,
  start: LinePosition,
  end: number,
  { blockBytes = BLOCK_BYTES, isLent = false }: BlockOptions = {},
): AsyncGenerator<LineBlock> {
  // The one is read into while the other is looked at.
  const buffers = isLent ? [Buffer.allocUnsafe(blockBytes), Buffer.allocUnsafe(blockBytes)] : [];
  const readLines = (offset: number) => {
    buffers.reverse();
    return readLinesAt(file, offset, end, blockBytes, buffers[0]);
  };
  let bytes = await readLines(start.offset);
  for (let position = start; bytes.length > 0; ) {
    // Read while these are looked at.
    const next = readLines(position.offset + bytes.length);
    next.catch(() => {}); // whoever has seen enough never asks for it
    const block: LineBlock = { bytes, ...position };
    yield block;
    position = positionAfter(block);
    bytes = await next;
  }
}

/**
 * The whole lines from the start of one on: all that end within so many bytes, or the one that is
 * longer. What is read of the line behind them is read again: joining it costs a scan a sixth more.
 */
export async function readLinesAt(
  file: ReadableFile,
  offset: number,
  end: number,
  bytes: number,
  buffer = Buffer.allocUnsafe(Math.max(0, Math.min(bytes, end - offset))),
): Promise<Buffer> {
  let read = Buffer.alloc(0);
  for (let length = bytes; ; length *= 2) {
    const wanted = Math.max(0, Math.min(length, end - offset));
    const chunk = length === bytes ? buffer.subarray(0, wanted) : Buffer.allocUnsafe(wanted);
    const searched = read.copy(chunk);
    const rest = chunk.subarray(searched);
    // What is gone must not look like the end.
    if ((await file.read(rest, offset + searched)) < rest.length) throw cutError(file);
    const lineEnd =
      searched > 0 ? chunk.indexOf(LINE_FEED, searched) : chunk.lastIndexOf(LINE_FEED);
    if (lineEnd >= 0 || chunk.length < length) return chunk.subarray(0, lineEnd + 1);
    if (length >= LINE_BYTES_MAX) throw lineError(file.path, { offset }, TOO_LONG);
    read = chunk;
  }
}

/** Where a line stands; without its number where that would have to be counted from the start. */
export interface LinePlace {
  readonly offset: number;
  readonly line?: number;
}

/**
 * @param fault what is wrong with the line, and what to do about it.
 * @returns a `corruption` that names path, line and byte offset.
 */
export function lineError(
  path: string,
  { line, offset }: LinePlace,
  fault: string,
  cause?: unknown,
): PlantStoreError {
  return new PlantStoreError(
    "corruption",
    `Cannot read "${path}": ${line === undefined ? "" : `line ${line}, `}byte offset ${offset}: ${fault}`,
    { cause },
  );
}

function cutError({ path }: ReadableFile): Error {
  return ioError(`Cannot read "${path}"`, "it became shorter while it was read");
}

/** The same for bytes from anywhere; `start` is where their first line stands. */
export async function* splitLines(
  chunks: AsyncIterable<Buffer>,
  start: LinePosition = LOG_START,
): AsyncGenerator<LineBlock> {
  let position = start;
  let carried: Buffer[] = []; // joined only once: a line may span many chunks
  for await (const chunk of chunks) {
    const linesEnd = chunk.lastIndexOf(LINE_FEED) + 1;
    if (linesEnd === 0) {
      carried.push(chunk);
      continue;
    }
    const bytes = Buffer.concat([...carried, chunk.subarray(0, linesEnd)]);
    carried = [chunk.subarray(linesEnd)];
    const block: LineBlock = { bytes, ...position };
    yield block;
    position = positionAfter(block);
  }
}

/** Visits the lines of a block in order, but for those that `take` takes. */
export function visitLines(block: LineBlock, visit: LineVisitor, take: LineTaker = takeNone): void {
  const { bytes, offset } = block;
  let { line } = block;
  let start = offset === 0 ? markLength(bytes) : 0;
  while (start < bytes.length) {
    let end = take(start, line);
    if (end < 0) {
      end = bytes.indexOf(LINE_FEED, start);
      const record = bytes.subarray(start, end);
      if (!isBlank(record)) visit(record, { offset: offset + start, line });
    }
    start = end + 1;
    line++;
  }
  block.after = { offset: offset + bytes.length, line };
}

const takeNone: LineTaker = () => -1;

/** Where the line behind a block starts. */
export function positionAfter({ bytes, offset, line, after }: LineBlock): LinePosition {
  return after ?? { offset: offset + bytes.length, line: line + countLines(bytes) };
}

/** First guess at the length of a record: nearly all fit. */
const RECORD_BYTES_GUESS = 512;

/**
 * The line that starts at `offset`, without its line feed; it must end before `end`. Reads twice as
 * much as the line is long at most, or 512 bytes.
 */
export async function readLineAt(file: LogFile, offset: number, end: number): Promise<Buffer> {
  const lines = await readLinesAt(file, offset, end, RECORD_BYTES_GUESS);
  if (lines.length > 0) return lines.subarray(0, lines.indexOf(LINE_FEED));
  throw new Error(`no whole line at byte offset ${offset}`);
}

/** Where the whole lines before `end` end. */
export async function endOfLines(file: ReadableFile, end: number): Promise<number> {
  const bytes = Buffer.allocUnsafe(BLOCK_BYTES);
  for (let from = end; from > 0; ) {
    const length = Math.min(from, bytes.length);
    from -= length;
    const got = await file.read(bytes.subarray(0, length), from);
    const lineFeed = bytes.subarray(0, got).lastIndexOf(LINE_FEED);
    if (lineFeed >= 0) return from + lineFeed + 1;
  }
  return 0;
}

/**
 * What follows the last line feed of a log, without a byte order mark; `undefined` for nothing, or
 * for more than a record.
 */
export async function readTail(
  file: ReadableFile,
  offset: number,
  end: number,
): Promise<Buffer | undefined> {
  const bytes = end - offset;
  if (bytes <= 0 || bytes > RECORD_BYTES_MAX) return undefined;
  const text = Buffer.alloc(bytes);
  await file.read(text, offset);
  return offset === 0 ? text.subarray(markLength(text)) : text;
}

function countLines(bytes: Buffer): number {
  let count = 0;
  for (let at = bytes.indexOf(LINE_FEED); at >= 0; at = bytes.indexOf(LINE_FEED, at + 1)) count++;
  return count;
}

const SAMPLES = 16;
const SAMPLE_BYTES = 64 * 1024;

/** About how many lines there are before `end`, by samples from all over them. */
export async function estimateLines(file: LogFile, end: number): Promise<number> {
  const sample = Buffer.allocUnsafe(SAMPLE_BYTES);
  let lines = 0;
  let bytes = 0;
  for (let number = 0; number < SAMPLES; number++) {
    const got = await file.read(sample, Math.floor((end * (number + 0.5)) / SAMPLES));
    lines += countLines(sample.subarray(0, got));
    bytes += got;
  }
  return bytes === 0 ? 0 : Math.ceil((end * lines) / bytes);
}
