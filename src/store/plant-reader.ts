/**
 * Reading a data directory that another process may be writing.
 *
 * Takes no lock and changes nothing. While a server runs it stops at the bytes
 * that server knows to be durable; without one, at the last line feed.
 */
import path from "node:path";
import { PlantStoreError } from "../core/errors.ts";
import type { NewPlant } from "../core/plant.ts";
import { LogFile } from "../log/file.ts";
import { askDurableBytes } from "../log/lock.ts";
import {
  type LineBlock,
  type LineVisitor,
  LOG_START,
  readBlocks,
  visitLines,
} from "../log/reader.ts";
import { LOCK_NAME, LOG_NAME } from "./names.ts";
import { decodeRecord } from "./record.ts";

/**
 * Every plant in the log, oldest first, in bounded memory.
 *
 * @throws PlantStoreError `io_error` where there is no log, `locked` when the
 * process that holds the directory does not answer within 1 s, `corruption`.
 */
export async function* readPlants(directory: string): AsyncGenerator<NewPlant> {
  for await (const { block, logPath } of readDurableBlocks(directory)) {
    const plants: NewPlant[] = [];
    const fault = visitUntilFault(block, (record, position) => {
      plants.push(decodeRecord(record, logPath, position));
    });
    yield* plants;
    if (fault !== undefined) throw fault;
  }
}

/**
 * The lines of the log as they stand there, each one a plant, without blank
 * ones: bytes of JSON lines, ready to be written somewhere. Fails like `readPlants`.
 */
export async function* exportLines(directory: string): AsyncGenerator<Buffer> {
  for await (const { block, logPath } of readDurableBlocks(directory)) {
    const lines: Buffer[] = [];
    const fault = visitUntilFault(block, (record, position) => {
      decodeRecord(record, logPath, position);
      const start = position.offset - block.offset;
      lines.push(block.bytes.subarray(start, start + record.length + 1));
    });
    yield Buffer.concat(lines);
    if (fault !== undefined) throw fault;
  }
}

/** What stands before a damaged line is good, so it is given out before the fault is told. */
function visitUntilFault(block: LineBlock, visit: LineVisitor): unknown {
  try {
    visitLines(block, visit);
    return undefined;
  } catch (fault) {
    return fault;
  }
}

/**
 * The log of a data directory, opened for reading.
 *
 * @throws PlantStoreError `io_error` where there is none.
 */
export async function openForReading(directory: string): Promise<LogFile> {
  const logPath = path.join(path.resolve(directory), LOG_NAME);
  const file = await LogFile.openForReading(logPath);
  if (file !== undefined) return file;
  throw new PlantStoreError(
    "io_error",
    `Cannot read "${logPath}": there is no such file; name the data directory with --data`,
  );
}

async function* readDurableBlocks(
  directory: string,
): AsyncGenerator<{ readonly block: LineBlock; readonly logPath: string }> {
  const file = await openForReading(directory);
  try {
    const end = await askDurableBytes(directory, LOCK_NAME, file);
    for await (const block of readBlocks(file, LOG_START, end)) {
      yield { block, logPath: file.path };
    }
  } finally {
    await file.close();
  }
}
