/**
 * The lines of a log, and the code that reads them in blocks: for a start, lists and every command.
 *
 * A line is a record without line feeds, and a line feed. Lines of white space are no records: a start
 * overwrites a damaged batch with them, and an editor may leave them. What follows the last line feed is
 * the tail, which is never given as a line. Memory is bounded by a block and the longest line. Knows no
 * plants, and nothing of a file but how to read it.
 */
import { PlantStoreError } from "../core/errors.ts";
import { RECORD_BYTES_MAX } from "../core/options.ts";
import { ioError } from "./disk.ts";

/** @internal */
export const LINE_FEED = 0x0a;

/** The place of a line in its file. */
export interface LinePosition {
  /** Bytes before the line. */
  readonly offset: number;
  /** The line's number, from 1. */
  readonly line: number;
}

/** Whether a line (without its line feed) is white space. @internal */
export function isBlank(line: Buffer): boolean {
  for (const byte of line) {
    if (byte !== 0x20 && byte !== 0x09 && byte !== 0x0d) return false;
  }
  return true;
}

const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);

/** The length of the byte order mark that some editors put at the start of a log; 0 for none. @internal */
export function markLength(logStart: Buffer): number {
  const hasMark = logStart.subarray(0, BYTE_ORDER_MARK.length).equals(BYTE_ORDER_MARK);
  return hasMark ? BYTE_ORDER_MARK.length : 0;
}

/** Smaller blocks make a start slower. */
const BLOCK_BYTES = 1024 * 1024;

/** A line of a MiB takes 16 reads. */
const SEARCH_BYTES = 64 * 1024;

/** Far above `RECORD_BYTES_MAX`: a longer line is a hole that a disk left, and fits no buffer. */
const LINE_BYTES_MAX = 2 ** 29;

const TOO_LONG =
  "no line feed within 512 MiB, longer than any record; restore the log from a backup";

/** A file to read lines from. @internal */
export interface ReadableFile {
  readonly path: string;
  /** Fills `buffer` from `position`; returns how many bytes it read: fewer only at the end of the file. */
  read(buffer: Buffer, position: number): Promise<number>;
}

/** The first line of every log. @internal */
export const LOG_START: LinePosition = { offset: 0, line: 1 };

/** Receives every line that is not blank, without its line feed. The buffer is valid during the call. @internal */
export type LineVisitor = (record: Buffer, position: LinePosition) => void;

/**
 * Receives each line before the visitor: its offset in the block and its number. Returns the offset of
 * its line feed, or -1 to leave the line to the visitor.
 */
type LineTaker = (start: number, line: number) => number;

/** Whole lines of a file; the position is that of the first. @internal */
export interface LineBlock extends LinePosition {
  readonly bytes: Buffer;
  /** Where the next line starts, once the lines were visited. */
  after?: LinePosition;
}

/**
 * The whole lines of a file from the start of a line to `end`, in blocks. The next block is read while
 * the consumer has one.
 *
 * @throws PlantStoreError `io_error`, also if the file ends before `end`; `corruption` for a line of
 * more than 512 MiB.
 * @internal
 */
export async function* readBlocks(
  file: ReadableFile,
  start: LinePosition,
  end: number,
): AsyncGenerator<LineBlock> {
  let bytes = await readLinesAt(file, start.offset, end, BLOCK_BYTES);
  for (let position = start; bytes.length > 0; ) {
    const next = readLinesAt(file, position.offset + bytes.length, end, BLOCK_BYTES);
    next.catch(() => {}); // a consumer that stops early never awaits it
    const block: LineBlock = { bytes, ...position };
    yield block;
    position = positionAfter(block);
    bytes = await next;
  }
}

/**
 * The whole lines from `offset`, the start of a line: all lines that end within this many bytes, or one
 * longer line. Bytes after them are read again with the next block (measured: faster than a copy). The
 * end of a longer line is found before it is read, so that it takes no more memory than its length.
 * @internal
 */
export async function readLinesAt(
  file: ReadableFile,
  offset: number,
  end: number,
  bytes: number,
): Promise<Buffer> {
  const block = await readWhole(file, offset, Math.min(bytes, end - offset));
  const lineEnd = block.lastIndexOf(LINE_FEED) + 1;
  if (lineEnd > 0 || block.length < bytes) return block.subarray(0, lineEnd);
  let step = bytes;
  for (let at = offset + bytes; at < end; at += step) {
    step = Math.min(2 * step, SEARCH_BYTES); // not far beyond the line: a disk may not read there
    const searched = await readWhole(file, at, Math.min(step, end - at));
    const found = searched.indexOf(LINE_FEED) + 1;
    const length = at + (found || step) - offset;
    if (length > LINE_BYTES_MAX) throw lineError(file.path, { offset }, TOO_LONG);
    if (found > 0) return readWhole(file, offset, length);
  }
  return block.subarray(0, 0);
}

async function readWhole(file: ReadableFile, offset: number, bytes: number): Promise<Buffer> {
  const block = Buffer.allocUnsafe(Math.max(0, bytes));
  if ((await file.read(block, offset)) === block.length) return block;
  throw ioError(`Cannot read "${file.path}"`, "it became shorter while it was read");
}

/** The place of a line, without its number if that is not known. @internal */
export interface LinePlace {
  readonly offset: number;
  readonly line?: number;
}

/**
 * @param fault what is wrong with the line, and what to do about it.
 * @returns a `corruption` that names path, line and byte offset.
 * @internal
 */
export function lineError(
  path: string,
  { line, offset }: LinePlace,
  fault: string,
  cause?: unknown,
): PlantStoreError {
  const place = `${line === undefined ? "" : `line ${line}, `}byte offset ${offset}`;
  return new PlantStoreError("corruption", `Cannot read "${path}": ${place}: ${fault}`, { cause });
}

/** Like `readBlocks`, for bytes from anywhere. @internal */
export async function* splitLines(chunks: AsyncIterable<Buffer>): AsyncGenerator<LineBlock> {
  let position = LOG_START;
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

/** Visits the lines of a block in order, except those that `take` takes. @internal */
export function visitLines(block: LineBlock, visit: LineVisitor, take?: LineTaker): void {
  const { bytes, offset } = block;
  let { line } = block;
  let start = offset === 0 ? markLength(bytes) : 0;
  while (start < bytes.length) {
    let end = take?.(start, line) ?? -1;
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

/** Where the line after a block starts. @internal */
export function positionAfter({ bytes, offset, line, after }: LineBlock): LinePosition {
  return after ?? { offset: offset + bytes.length, line: line + countLines(bytes) };
}

/** Nearly all records are shorter. */
const RECORD_BYTES_GUESS = 512;

/**
 * The line that starts at `offset` and ends before `end`, without its line feed.
 *
 * @throws PlantStoreError `corruption` if none does; otherwise like `readBlocks`.
 * @internal
 */
export async function readLineAt(file: ReadableFile, offset: number, end: number): Promise<Buffer> {
  const lines = await readLinesAt(file, offset, end, RECORD_BYTES_GUESS);
  if (lines.length > 0) return lines.subarray(0, lines.indexOf(LINE_FEED));
  throw lineError(file.path, { offset }, "its line feed is gone");
}

/** Where the whole lines before `end` end. @internal */
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
 * What follows the last line feed of a log, without a byte order mark; `undefined` if nothing does,
 * or more than a record may have.
 * @internal
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

/** About how many lines there are before `end`, from samples. @internal */
export async function estimateLines(file: ReadableFile, end: number): Promise<number> {
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
