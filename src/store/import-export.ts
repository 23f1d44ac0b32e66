/**
 * `export` and `import`: the plants of a data directory as JSON lines, and back.
 *
 * A directory is only read, without its lock, also beside a running server; store/start decides how far.
 * An export passes the lines on as they are. An import creates each plant with the validator and the writer of
 * requests. It may be run again: a plant that is stored already counts as replayed.
 *
 * Invariants. No part of a damaged log is imported: the log of a directory is read and judged to its end
 * before its first line is returned. Memory is bounded by a block of lines, whose creates are sent together,
 * and by the longest line.
 */
import { crc32 } from "node:zlib";
import { PlantStoreError } from "../core/errors.ts";
import { RECORD_BYTES_MAX } from "../core/options.ts";
import { type NewPlant, parseNewPlant } from "../core/plant.ts";
import type { CreateOutcome, PlantService } from "../core/services.ts";
import { readCheckpoint } from "../log/checkpoint.ts";
import { disk, orIoError } from "../log/disk.ts";
import type { LogFile } from "../log/file.ts";
import {
  LINE_FEED,
  type LineBlock,
  LOG_START,
  positionAfter,
  readBlocks,
  splitLines,
  visitLines,
} from "../log/lines.ts";
import { parseLines, selectLines } from "./records.ts";
import { findReadable, openLogForReading, type Readable, scanSoundLog } from "./start.ts";

/**
 * Every plant in the log, oldest first, in bounded memory. A plant that was duplicated by hand is
 * yielded twice.
 *
 * @throws PlantStoreError `io_error` if there is no log, `locked` if the process that holds the
 * directory does not answer within 1 s, `corruption`.
 */
export function readPlants(directory: string): AsyncGenerator<NewPlant> {
  return parseLines(exportLines(directory));
}

/**
 * The lines of the log as they are in the file, each one a plant, without blank lines: up to a MiB of JSON
 * lines at a time, ready to be written somewhere. Fails like `readPlants`.
 */
export async function* exportLines(directory: string): AsyncGenerator<Buffer> {
  const file = await openLogForReading(directory);
  const isListed = () => true;
  const select = (block: LineBlock) => selectLines(block, file.path, isListed, (_, line) => line);
  try {
    const { end, lastLine } = await findReadable(directory, file);
    let position = LOG_START;
    for await (const block of readBlocks(file, position, end)) {
      for (const lines of select(block)) yield lines;
      position = positionAfter(block);
    }
    if (lastLine.length === 0) return;
    for (const lines of select({ bytes: lastLine, ...position })) yield lines;
  } finally {
    await file.close();
  }
}

export interface ImportReport {
  readonly created: number;
  /** Were stored already, with the same content. */
  readonly replayed: number;
  readonly refused: number;
}

export interface ImportOptions {
  /** Receives the reason why a line was refused; lines count from 1. */
  readonly onRefused?: (line: number, reason: string) => void;
  /** Receives how many bytes and lines were processed so far. */
  readonly onProgress?: (bytes: number, lines: number) => void;
}

/**
 * About so many bytes of lines, or one longer line, are created at the same time. With 1 MiB an import of
 * a file was half as fast, because 16,000 plants were on their way, and V8 copied them while they waited.
 */
const BLOCK_BYTES = 128 * 1024;

/** Errors of `create` that are the fault of the line; after any other error the import ends. */
const LINE_FAULTS: readonly string[] = [
  "invalid_json",
  "invalid_utf8",
  "duplicate_member",
  "invalid_plant",
  "body_too_large",
  "conflict",
];

/**
 * Creates every plant of the text; refuses each line that is not a plant, and continues. The creates of
 * a block of lines are sent together, in order. If the store has no room for some of them (`overloaded`),
 * they are sent again after the others. Chunks of less than 64 KiB make small blocks, and so a slow import.
 *
 * @throws PlantStoreError if the store takes no more (`write_failed`, `not_stored`, `overloaded`,
 * `store_failed`, `closed`), or the text has no lines (`invalid_json`): the plants before are
 * durable, so run it again.
 */
export async function importPlants(
  plants: Pick<PlantService, "create">,
  text: AsyncIterable<Buffer>,
  options: ImportOptions = {},
): Promise<ImportReport> {
  const { onRefused, onProgress } = options;
  const report = { created: 0, replayed: 0, refused: 0 };
  for await (const block of splitLines(inPieces(text))) {
    const lines: { readonly record: Buffer; readonly line: number }[] = [];
    visitLines(block, (record, { line }) => lines.push({ record, line }));
    const outcomes = await Promise.all(lines.map(({ record }) => tryCreate(plants, record)));
    for (const [at, { record, line }] of lines.entries()) {
      let outcome = outcomes[at] as CreateOutcome | PlantStoreError;
      // A line of megabytes, or a small queue, leaves no room for all at once.
      if (typeof outcome === "object" && outcome.code === "overloaded") {
        outcome = await tryCreate(plants, record);
      }
      if (typeof outcome === "string") report[outcome]++;
      else if (LINE_FAULTS.includes(outcome.code)) {
        report.refused++;
        onRefused?.(line, outcome.message);
      } else throw outcome;
    }
    onProgress?.(block.offset + block.bytes.length, positionAfter(block).line - 1);
  }
  return report;
}

/** Creates a plant, or returns the error that refuses it. */
async function tryCreate(
  plants: Pick<PlantService, "create">,
  record: Buffer,
): Promise<CreateOutcome | PlantStoreError> {
  try {
    return await plants.create(parseNewPlant(record));
  } catch (error) {
    if (error instanceof PlantStoreError) return error;
    throw error;
  }
}

export interface ImportFile {
  readonly text: AsyncIterable<Buffer>;
  /** Its length; `undefined` for a pipe. */
  readonly bytes: number | undefined;
}

/**
 * Opens a file of JSON lines, or the log of a data directory, for `importPlants`. All of a log is verified
 * first: every line, and its checksum; beside a running server, what is durable.
 *
 * @param onProgress receives how many bytes of a log are verified, about once a MiB.
 * @throws PlantStoreError `io_error`; of a data directory also `corruption` if its log is damaged or has a
 * line that only a start may set aside, and `locked` if the process that holds it does not answer.
 */
export function openImportFile(
  path: string,
  onProgress?: (bytes: number, total: number) => void,
): Promise<ImportFile> {
  return orIoError(`Cannot read "${path}"`, async () => {
    const text = await disk.openText(path, BLOCK_BYTES);
    return text ?? openImportFolder(path, onProgress);
  });
}

async function openImportFolder(
  directory: string,
  onProgress?: (bytes: number, total: number) => void,
): Promise<ImportFile> {
  const file = await openLogForReading(directory);
  try {
    const checkpoint = await readCheckpoint(file.path);
    const readable = await findReadable(directory, file);
    const { end } = await scanSoundLog(file, readable.size, checkpoint, onProgress);
    const bytes = readable.end + readable.lastLine.length;
    return { text: readVerified(file, readable, end.crc32), bytes };
  } catch (error) {
    await file.close();
    throw error;
  }
}

/** Reads a verified log again. @throws PlantStoreError `corruption` if its checksum is another one now. */
async function* readVerified(
  file: LogFile,
  { end, lastLine }: Readable,
  verifiedSum: number,
): AsyncGenerator<Buffer> {
  try {
    let sum = 0;
    for await (const { bytes } of readBlocks(file, LOG_START, end)) {
      sum = crc32(bytes, sum);
      yield bytes;
    }
    if (sum !== verifiedSum) {
      const fault = "it was changed after it was verified; check what was imported";
      throw new PlantStoreError("corruption", `Cannot read "${file.path}": ${fault}`);
    }
    if (lastLine.length > 0) yield lastLine;
  } finally {
    await file.close();
  }
}

/**
 * Cuts long chunks, and ends the last line if it lacks its line feed.
 *
 * @throws PlantStoreError `invalid_json` for a line that no log could hold: it would be held whole.
 */
async function* inPieces(text: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let position = 0;
  let lineStart = 0;
  for await (const chunk of text) {
    for (let at = 0; at < chunk.length; at += BLOCK_BYTES) {
      const piece = chunk.subarray(at, at + BLOCK_BYTES);
      const lineEnd = piece.lastIndexOf(LINE_FEED);
      if (lineEnd >= 0) lineStart = position + lineEnd + 1;
      position += piece.length;
      if (position - lineStart > RECORD_BYTES_MAX) {
        throw new PlantStoreError(
          "invalid_json",
          `Byte offset ${lineStart}: expected one plant a line, got more than ${RECORD_BYTES_MAX} ` +
            "bytes; write the plants of an array one a line, without brackets and commas",
        );
      }
      yield piece;
    }
  }
  if (position > lineStart) yield Buffer.of(LINE_FEED);
}
