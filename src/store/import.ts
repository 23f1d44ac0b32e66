/**
 * `import`: creates the plants of a text of JSON lines, through the same validator and the same
 * writer as requests.
 *
 * May be run again: a plant that is stored already counts as replayed. Memory is bounded by a block
 * of lines, whose creates go out together.
 */
import { open } from "node:fs/promises";
import { PlantStoreError } from "../core/errors.ts";
import { parseNewPlant } from "../core/plant.ts";
import type { CreateOutcome, PlantService } from "../core/services.ts";
import { LINE_FEED, RECORD_BYTES_MAX } from "../log/format.ts";
import { splitLines, visitLines } from "../log/reader.ts";
import { ioError } from "../log/system-error.ts";

export interface ImportReport {
  readonly created: number;
  /** Were stored already, word for word. */
  readonly replayed: number;
  readonly refused: number;
}

export interface ImportOptions {
  /** Receives why a line was not taken; lines count from 1. */
  readonly onRefused?: (line: number, reason: string) => void;
  /** Receives how many bytes and lines were dealt with so far. */
  readonly onProgress?: (bytes: number, lines: number) => void;
}

/** Bytes of lines whose creates go out together. */
const BLOCK_BYTES = 1024 * 1024;

/**
 * Creates every plant of the text; a line that is none is refused and the rest goes on.
 *
 * @throws PlantStoreError if the store takes no more (`write_failed`, `not_stored`, `overloaded`,
 * `store_failed`, `closed`), or the text has no lines (`invalid_json`): the plants before are
 * durable, so run it again.
 */
export async function importPlants(
  plants: PlantService,
  text: AsyncIterable<Buffer>,
  { onRefused, onProgress }: ImportOptions = {},
): Promise<ImportReport> {
  const report = { created: 0, replayed: 0, refused: 0 };
  for await (const block of splitLines(inPieces(text))) {
    const lines: Line[] = [];
    visitLines(block, (bytes, { line }) => lines.push({ line, bytes }));
    for (const [at, outcome] of (await createAll(plants, lines)).entries()) {
      if (!(outcome instanceof PlantStoreError)) report[outcome]++;
      else {
        report.refused++;
        onRefused?.(lines[at]?.line ?? 0, outcome.message);
      }
    }
    onProgress?.(block.offset + block.bytes.length, lines.at(-1)?.line ?? block.line);
  }
  return report;
}

export interface ImportFile {
  readonly text: AsyncIterable<Buffer>;
  /** Its length, if it has one: a pipe has none. */
  readonly bytes: number | undefined;
}

/**
 * Opens a file of JSON lines; what is read from it goes to `importPlants`.
 *
 * @throws PlantStoreError `io_error`.
 */
export async function openImportFile(filePath: string): Promise<ImportFile> {
  try {
    const handle = await open(filePath);
    const stat = await handle.stat();
    if (stat.isDirectory()) {
      await handle.close();
      throw new Error("expected a file, got a folder");
    }
    return {
      text: handle.createReadStream({ highWaterMark: BLOCK_BYTES }),
      bytes: stat.isFile() ? stat.size : undefined,
    };
  } catch (cause) {
    throw ioError(`Cannot read "${filePath}"`, cause);
  }
}

interface Line {
  readonly line: number;
  readonly bytes: Buffer;
}

/** What became of a line; an error if it was not taken. */
type LineOutcome = CreateOutcome | PlantStoreError;

/**
 * The creates of a block go out together. A record may be six times as long as its line, so what the
 * store had no room for then goes out once it has.
 *
 * @throws PlantStoreError what is not the line's fault; every create has ended then.
 */
async function createAll(plants: PlantService, lines: readonly Line[]): Promise<LineOutcome[]> {
  const outcomes = await Promise.all(lines.map(({ bytes }) => createFrom(plants, bytes)));
  const failure = outcomes.find((outcome) => !isOfLine(outcome) && !isOverloaded(outcome));
  if (failure !== undefined) throw failure;
  const waiting = lines.filter((_, at) => isOverloaded(outcomes[at]));
  if (waiting.length === 0) return outcomes;
  if (waiting.length === lines.length) throw outcomes[0]; // others fill the store
  const later = (await createAll(plants, waiting)).values();
  return outcomes.map((outcome) => {
    return isOverloaded(outcome) ? (later.next().value as LineOutcome) : outcome;
  });
}

async function createFrom(plants: PlantService, line: Buffer): Promise<LineOutcome> {
  try {
    return await plants.create(parseNewPlant(line));
  } catch (error) {
    if (error instanceof PlantStoreError) return error;
    throw error;
  }
}

function isOverloaded(outcome: LineOutcome | undefined): boolean {
  return outcome instanceof PlantStoreError && outcome.code === "overloaded";
}

/** Whether it was stored, or the line is at fault rather than the store. */
function isOfLine(outcome: LineOutcome): boolean {
  return !(outcome instanceof PlantStoreError) || LINE_FAULTS.includes(outcome.code);
}

const LINE_FAULTS: readonly string[] = [
  "invalid_json",
  "invalid_utf8",
  "duplicate_member",
  "invalid_plant",
  "body_too_large",
  "conflict",
];

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
      if (position - lineStart > RECORD_BYTES_MAX) throw tooLong(lineStart);
      yield piece;
    }
  }
  if (position > lineStart) yield Buffer.of(LINE_FEED);
}

function tooLong(lineStart: number): PlantStoreError {
  return new PlantStoreError(
    "invalid_json",
    `Byte offset ${lineStart}: expected one plant a line, got more than ${RECORD_BYTES_MAX} bytes; ` +
      "write the plants of an array one a line, without brackets and commas",
  );
}
