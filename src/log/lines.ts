/**
 * The lines of a log, read in blocks. A line is a record and a line feed. What follows the last line feed is
 * no line. Knows no plants.
 */
import { PlantStoreError } from "../core/errors.ts";
import { RECORD_BYTES_MAX } from "../core/options.ts";
import { ioError } from "./disk.ts";

export const LINE_FEED = 0x0a;

/** A file to read lines from. */
export interface LineSource {
  readonly path: string;
  /** Fills `buffer` from `position`; returns how many bytes it read: fewer only at the end of the file. */
  read(buffer: Buffer, position: number): Promise<number>;
}

/** Whole lines, or a piece of a line that is longer than a record may be. */
export interface Block {
  readonly bytes: Buffer;
  /** Where it begins in the file. */
  readonly offset: number;
  readonly isPiece: boolean;
}

export const BLOCK_BYTES = 1024 * 1024; // smaller ones make a start slower

/**
 * The whole lines from the start of a line to `end`, in blocks. A line that is longer than a record may be
 * comes in pieces, the last of which ends with the line feed, if there is one before `end`.
 *
 * @param isShared whether each block takes the memory of the one before, which is faster.
 * @throws PlantStoreError `io_error`, for example if the file ends before `end`.
 */
export async function* readBlocks(
  file: LineSource,
  start: number,
  end: number,
  blockBytes = BLOCK_BYTES,
  isShared = false,
): AsyncGenerator<Block> {
  const shared = isShared
    ? Buffer.allocUnsafeSlow(Math.max(blockBytes, RECORD_BYTES_MAX))
    : undefined;
  let size = blockBytes;
  let isPiece = false;
  for (let offset = start; offset < end; ) {
    const wanted = Math.min(size, end - offset);
    const buffer = shared?.subarray(0, wanted) ?? Buffer.allocUnsafe(wanted);
    const bytes = await readExactly(file, offset, buffer);
    let length = isPiece ? bytes.indexOf(LINE_FEED) + 1 : bytes.lastIndexOf(LINE_FEED) + 1;
    const hasLine = length > 0;
    if (!hasLine) {
      if (!isPiece && bytes.length < size) return; // the tail
      if (!isPiece && size < RECORD_BYTES_MAX) {
        size = Math.min(2 * size, RECORD_BYTES_MAX);
        continue;
      }
      isPiece = true;
      length = bytes.length;
    }
    yield { bytes: bytes.subarray(0, length), offset, isPiece };
    if (hasLine) isPiece = false;
    offset += length;
    size = blockBytes;
  }
}

/** The lines of a block of whole lines, without their line feeds. */
export function* linesOf(block: Buffer): Generator<Buffer> {
  for (let start = 0; start < block.length; ) {
    const end = block.indexOf(LINE_FEED, start);
    yield block.subarray(start, end);
    start = end + 1;
  }
}

const RECORD_BYTES_GUESS = 512; // nearly all records are shorter

/**
 * The line that starts at `offset`, without its line feed.
 *
 * @throws PlantStoreError `io_error`; `corruption` if it does not end before `end`, or is longer than a record.
 */
export async function readLine(file: LineSource, offset: number, end: number): Promise<Buffer> {
  for (let size = RECORD_BYTES_GUESS; ; size *= 16) {
    const wanted = Math.min(size, RECORD_BYTES_MAX, end - offset);
    const bytes = await readExactly(file, offset, Buffer.allocUnsafe(wanted));
    const length = bytes.indexOf(LINE_FEED);
    if (length >= 0) return bytes.subarray(0, length);
    if (bytes.length < size) throw lineError(file.path, { offset }, "its line feed is gone");
  }
}

/** Fills a buffer, and returns it. @throws PlantStoreError `io_error` if the file ends before. */
export async function readExactly(file: LineSource, offset: number, into: Buffer): Promise<Buffer> {
  if ((await file.read(into, offset)) === into.length) return into;
  throw ioError(`Cannot read "${file.path}"`, "it became shorter while it was read");
}

/** A `corruption` that names path, line and byte offset; `fault`: what is wrong, and what to do about it. */
export function lineError(
  path: string,
  { line, offset }: { readonly line?: number; readonly offset: number },
  fault: string,
): PlantStoreError {
  const place = `${line === undefined ? "" : `line ${line}, `}byte offset ${offset}`;
  return new PlantStoreError("corruption", `Cannot read "${path}": ${place}: ${fault}`);
}
