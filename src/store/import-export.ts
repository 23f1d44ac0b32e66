/**
 * `export` and `import`: the plants of a data directory as JSON lines, and back.
 *
 * Invariants. An export only reads, even while a server runs, and checks lines as a start does, except for ids
 * that appear twice. An import creates each plant with the validator and the writer of requests, so it
 * may be run again. Memory is bounded by a chunk of text and by the longest record.
 */
import { PlantStoreError } from "../core/errors.ts";
import { RECORD_BYTES_MAX } from "../core/options.ts";
import { type NewPlant, parseNewPlant } from "../core/plant.ts";
import type { PlantService } from "../core/services.ts";
import { LINE_FEED, linesOf } from "../log/lines.ts";
import { readLog } from "./open.ts";

/**
 * The lines of the log, each one a plant: up to a MiB at a time, ready to be written somewhere.
 *
 * @throws PlantStoreError `io_error`; `locked`; `corruption` after the lines before the damage.
 */
export function exportLines(directory: string): AsyncGenerator<Buffer> {
  return readLog(directory);
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
  /** Receives how many bytes were processed so far. */
  readonly onProgress?: (bytes: number) => void;
}

/** Below it an error number is about the line; from here on it is about the store, and the import ends. */
const STORE_ERRORS = 50_000;

/**
 * Creates every plant of the text; refuses each line that is no plant, and continues. The creates of a chunk of text
 * are sent together, in order.
 *
 * @throws PlantStoreError if the store takes no more, or the text has no lines (`invalid_json`): the plants before
 * are durable, so run it again.
 */
export async function importPlants(
  plants: Pick<PlantService, "create">,
  text: AsyncIterable<Buffer>,
  options: ImportOptions = {},
): Promise<ImportReport> {
  const report = { created: 0, replayed: 0, refused: 0 };
  let line = 0;
  let bytes = 0;
  for await (const records of splitLines(text)) {
    const outcomes = await Promise.all(records.map((record) => tryCreate(plants, record)));
    for (const [at, record] of records.entries()) {
      const outcome = outcomes[at];
      line++;
      bytes += record.length + 1;
      if (typeof outcome === "string") report[outcome]++;
      else if (outcome !== undefined) {
        if ((outcome.number ?? STORE_ERRORS) >= STORE_ERRORS) throw outcome;
        report.refused++;
        options.onRefused?.(line, outcome.message);
      }
    }
    options.onProgress?.(bytes);
  }
  return report;
}

/** Creates a plant, or returns the error that refuses it; `undefined` for a blank line. */
async function tryCreate(plants: Pick<PlantService, "create">, record: Buffer) {
  try {
    const plant = parseLine(record);
    return plant && (await plants.create(plant));
  } catch (error) {
    if (error instanceof PlantStoreError) return error;
    throw error;
  }
}

/** The plant of a line in any spelling; `undefined` for a blank line. @throws like `parseNewPlant`. @internal */
export function parseLine(line: Buffer): NewPlant | undefined {
  const record = line.toString("utf8", 0, 3) === "\ufeff" ? line.subarray(3) : line;
  return /^[ \t\r\n]*$/.test(record.toString("latin1")) ? undefined : parseNewPlant(record);
}

/** The lines that end in each chunk; the last one may lack its line feed. */
async function* splitLines(text: AsyncIterable<Buffer>): AsyncGenerator<Buffer[]> {
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of text) {
    const bytes = Buffer.concat([rest, chunk]);
    const linesEnd = bytes.lastIndexOf(LINE_FEED) + 1;
    if (linesEnd > 0) yield [...linesOf(bytes.subarray(0, linesEnd))];
    rest = bytes.subarray(linesEnd);
    if (rest.length > RECORD_BYTES_MAX) {
      throw new PlantStoreError(
        "invalid_json",
        `Expected one plant a line, got a line of more than ${RECORD_BYTES_MAX} bytes; put each plant of an ` +
          "array on a line of its own, without the array's brackets and commas",
      );
    }
  }
  if (rest.length > 0) yield [rest];
}
