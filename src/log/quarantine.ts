/**
 * `<log>.quarantine-N`: what a start takes out of a log, kept as it was.
 *
 * Invariant: what is in a quarantine file was synced before the log is changed,
 * and no quarantine file is ever written twice.
 */
import fs from "node:fs";
import path from "node:path";
import { LogFile } from "./file.ts";

/** Some bytes of a file. */
export interface ByteRange {
  readonly offset: number;
  readonly bytes: number;
}

const COPY_BYTES = 1024 * 1024;

/**
 * Copies the ranges, one after the other, into a new quarantine file.
 *
 * @returns the file's name.
 * @throws PlantStoreError `io_error`; nothing is left behind then.
 */
export async function quarantine(file: LogFile, ranges: readonly ByteRange[]): Promise<string> {
  const target = await createNext(file.path);
  try {
    for (const range of ranges) await copyRange(file, range, target);
  } catch (error) {
    fs.rmSync(target.path, { force: true });
    throw error;
  } finally {
    await target.close();
  }
  return path.basename(target.path);
}

/** Appends a range to another file, as much of it as the file has. */
export async function copyRange(
  file: LogFile,
  { offset, bytes }: ByteRange,
  target: LogFile,
): Promise<void> {
  let copied = 0;
  while (copied < bytes) {
    const chunk = Buffer.alloc(Math.min(COPY_BYTES, bytes - copied));
    const got = await file.read(chunk, offset + copied);
    if (got === 0) break;
    await target.appendOrThrow(chunk.subarray(0, got));
    copied += got;
  }
}

/** The first number that is still free. */
async function createNext(logPath: string): Promise<LogFile> {
  for (let number = 1; ; number++) {
    const target = await LogFile.create(`${logPath}.quarantine-${number}`);
    if (target !== undefined) return target;
  }
}
