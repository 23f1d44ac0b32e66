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
import { askHolder } from "../log/lock.ts";
import { LOG_START, readBlocks, visitLines } from "../log/reader.ts";
import { LOCK_NAME, LOG_NAME } from "./plant-store.ts";
import { decodeRecord } from "./record.ts";

/**
 * Every plant in the log, oldest first, in bounded memory.
 *
 * @throws PlantStoreError `io_error` where there is no log, `locked` when the
 * process that holds the directory does not answer within 1 s, `corruption`.
 */
export async function* readPlants(directory: string): AsyncGenerator<NewPlant> {
  const logPath = path.join(path.resolve(directory), LOG_NAME);
  const file = await LogFile.openForReading(logPath);
  if (file === undefined) {
    throw new PlantStoreError(
      "io_error",
      `Cannot read "${logPath}": there is no such file; name the data directory with --data`,
    );
  }
  try {
    const holder = await askHolder(directory, LOCK_NAME);
    for await (const block of readBlocks(file, LOG_START, holder?.durableBytes ?? file.size())) {
      const plants: NewPlant[] = [];
      visitLines(block, (record, position) => {
        plants.push(decodeRecord(record, logPath, position));
      });
      yield* plants;
    }
  } finally {
    await file.close();
  }
}
