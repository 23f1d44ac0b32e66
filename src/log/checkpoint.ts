/**
 * The checkpoint of a log: how long it was, how many records it held, and the
 * CRC-32 of its bytes, when all of them were on disk.
 *
 * Invariant: a checkpoint speaks of synced bytes only, so a log that is shorter
 * or that differs before that length has lost or changed something that was
 * acknowledged. It is written atomically and checks itself; one that is missing
 * or torn says nothing, which is no fault.
 */
import fs from "node:fs/promises";
import path from "node:path";
import { crc32 } from "node:zlib";
import { ioError, openEntry, syncDirectory } from "./file.ts";
import { replaceFile } from "./replace-file.ts";

export interface Checkpoint {
  /** The length of the log; a line starts there. */
  readonly bytes: number;
  readonly records: number;
  /** Of those bytes, as an unsigned number. */
  readonly crc32: number;
}

/** Of a log that holds nothing. @internal */
export const EMPTY_LOG: Checkpoint = { bytes: 0, records: 0, crc32: 0 };

/** The checkpoint of a log that has grown by whole lines. @internal */
export function extendCheckpoint(before: Checkpoint, bytes: Buffer, records: number): Checkpoint {
  return {
    bytes: before.bytes + bytes.length,
    records: before.records + records,
    crc32: crc32(bytes, before.crc32),
  };
}

/**
 * The checkpoint that lies beside a log, or `undefined` when there is none that can be read.
 *
 * @throws PlantStoreError `io_error`.
 * @internal
 */
export async function readCheckpoint(logPath: string): Promise<Checkpoint | undefined> {
  try {
    const handle = await openEntry(checkpointPath(logPath));
    try {
      return decodeCheckpoint(await handle.readFile("utf8"));
    } finally {
      await handle.close();
    }
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw ioError(`Cannot read "${checkpointPath(logPath)}"`, cause);
  }
}

/** @throws PlantStoreError `io_error`; the checkpoint before it stays then. @internal */
export async function writeCheckpoint(logPath: string, checkpoint: Checkpoint): Promise<void> {
  await replaceFile(checkpointPath(logPath), Buffer.from(encodeCheckpoint(checkpoint)));
}

/**
 * Removes it durably, so that what is done to the log next cannot contradict it.
 *
 * @throws PlantStoreError `io_error`.
 * @internal
 */
export async function removeCheckpoint(logPath: string): Promise<void> {
  try {
    await fs.rm(checkpointPath(logPath), { force: true });
    await syncDirectory(path.dirname(logPath));
  } catch (cause) {
    throw ioError(`Cannot remove "${checkpointPath(logPath)}"`, cause);
  }
}

/** @internal */
export function checkpointPath(logPath: string): string {
  return `${logPath}.checkpoint`;
}

/** One line of JSON; the member `check` is the CRC-32 of the text before it. @internal */
export function encodeCheckpoint({ bytes, records, crc32: sum }: Checkpoint): string {
  const text = `{"bytes":${bytes},"records":${records},"crc32":"${hex(sum)}"`;
  return `${text},"check":"${hex(crc32(text))}"}\n`;
}

const LINE =
  /^(\{"bytes":([0-9]{1,15}),"records":([0-9]{1,15}),"crc32":"([0-9a-f]{8})"),"check":"([0-9a-f]{8})"\}\n$/;

function decodeCheckpoint(line: string): Checkpoint | undefined {
  const [, text = "", bytes, records, sum = "", check] = LINE.exec(line) ?? [];
  if (check === undefined || check !== hex(crc32(text))) return undefined;
  return { bytes: Number(bytes), records: Number(records), crc32: Number.parseInt(sum, 16) };
}

function hex(sum: number): string {
  return sum.toString(16).padStart(8, "0");
}
