/**
 * What a start does to a log before it is served from.
 *
 * Invariant: nothing that was ever acknowledged is removed or changed. The
 * only cut is behind the last line feed, where no acknowledged record can be,
 * and what is cut is kept in a quarantine file first. What makes a text a
 * record is the caller's to say.
 */
import path from "node:path";
import { publishWarning } from "../core/channels.ts";
import { ioError, LogFile } from "./file.ts";
import { LINE_FEED } from "./format.ts";
import type { LinePosition } from "./reader.ts";

/** The most bytes of records a batch holds before its last one; see `rewriteLastBatch`. */
export const BATCH_BYTES_LIMIT = 1024 * 1024;

/** A tail longer than this is no record that was cut short, so nobody tries to read it as one. */
const RECORD_BYTES_MAX = 64 * 1024 * 1024;

const COPY_BYTES = 1024 * 1024;

/**
 * Settles what stands behind the last line feed, from `start` on: a whole record gets its line
 * feed, anything else goes to a quarantine file and is cut.
 *
 * @returns the length of the log, all of it whole lines.
 * @throws PlantStoreError `io_error`.
 */
export async function settleTail(
  file: LogFile,
  start: LinePosition,
  isRecord: (text: Buffer) => boolean,
): Promise<number> {
  const size = file.size();
  const tailBytes = size - start.offset;
  if (tailBytes === 0) return size;
  if (tailBytes <= RECORD_BYTES_MAX) {
    const tail = Buffer.alloc(tailBytes);
    await file.read(tail, start.offset);
    if (isRecord(tail)) {
      await appendOrThrow(file, Buffer.of(LINE_FEED), size);
      publishWarning(
        `"${file.path}": completed line ${start.line}, whose record was whole but for its line feed`,
      );
      return size + 1;
    }
  }
  const quarantine = await copyToQuarantine(file, start.offset, size);
  try {
    await file.truncate(start.offset);
    await file.sync();
  } catch (cause) {
    throw ioError(`Cannot cut the torn end of "${file.path}"`, cause);
  }
  publishWarning(
    `"${file.path}": cut ${tailBytes} bytes of a record that was never acknowledged ` +
      `(line ${start.line}, byte offset ${start.offset}); they are kept in "${quarantine}"`,
  );
  return start.offset;
}

/**
 * Writes the last batch again, unchanged, and syncs it: what the scan has read
 * may be in the page cache only, even marked clean by a sync that failed, and
 * the answer to a replay would vouch for it.
 *
 * A batch takes records until it holds `BATCH_BYTES_LIMIT` bytes, so it starts
 * at most that far before its last line.
 *
 * @throws PlantStoreError `io_error`.
 */
export async function rewriteLastBatch(file: LogFile, end: number): Promise<void> {
  const start = Math.max(0, (await lastLineStart(file, end)) - BATCH_BYTES_LIMIT);
  if (start === end) return;
  const bytes = Buffer.alloc(end - start);
  await file.read(bytes, start);
  await appendOrThrow(file, bytes, start);
}

/** Where the last of the whole lines before `end` starts. */
async function lastLineStart(file: LogFile, end: number): Promise<number> {
  const bytes = Buffer.alloc(COPY_BYTES);
  let position = end - 1; // before the line feed that ends the last line
  while (position > 0) {
    const from = Math.max(0, position - bytes.length);
    const got = await file.read(bytes.subarray(0, position - from), from);
    const lineFeed = bytes.subarray(0, got).lastIndexOf(LINE_FEED);
    if (lineFeed >= 0) return from + lineFeed + 1;
    position = from;
  }
  return 0;
}

async function copyToQuarantine(file: LogFile, start: number, end: number): Promise<string> {
  const target = await openQuarantine(file.path);
  try {
    for (let position = start; position < end; position += COPY_BYTES) {
      const bytes = Buffer.alloc(Math.min(COPY_BYTES, end - position));
      await file.read(bytes, position);
      await appendOrThrow(target, bytes, position - start);
    }
    return path.basename(target.path);
  } finally {
    await target.close();
  }
}

/** The first `<log>.quarantine-N` that is still free. */
async function openQuarantine(logPath: string): Promise<LogFile> {
  for (let number = 1; ; number++) {
    const target = await LogFile.create(`${logPath}.quarantine-${number}`);
    if (target !== undefined) return target;
  }
}

async function appendOrThrow(file: LogFile, bytes: Buffer, position: number): Promise<void> {
  const result = await file.append(bytes, position);
  if (result.outcome !== "durable") throw ioError(`Cannot write "${file.path}"`, result.cause);
}
