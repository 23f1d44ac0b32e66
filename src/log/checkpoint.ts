/**
 * The checkpoint of a log: its length and the CRC-32 of its bytes, when all of them were on disk.
 *
 * Invariant: a checkpoint is written for synced bytes only, so a log that is shorter, or differs before that
 * length, has lost or changed something that was acknowledged. Without one, nothing is known of the log.
 */
import { crc32 } from "node:zlib";
import { PlantStoreError } from "../core/errors.ts";
import { allowMissing, disk } from "./disk.ts";
import { type LogFile, replaceFile } from "./file.ts";
import type { Lock } from "./lock.ts";

export interface Checkpoint {
  readonly bytes: number;
  /** Of these bytes, unsigned. */
  readonly crc32: number;
}

export const EMPTY_LOG: Checkpoint = { bytes: 0, crc32: 0 };

/** The checkpoint of a log to which bytes were appended. */
export function extendCheckpoint(end: Checkpoint, bytes: Buffer): Checkpoint {
  return { bytes: end.bytes + bytes.length, crc32: crc32(bytes, end.crc32) };
}

export function checkpointPath(logPath: string): string {
  return `${logPath}.checkpoint`;
}

const TEXT = /^\{"bytes":(\d{1,15}),"crc32":(\d{1,10})\}\n$/;

/** `undefined` if there is none. @throws PlantStoreError `corruption` if the file is no checkpoint; `io_error`. */
export async function readCheckpoint(logPath: string): Promise<Checkpoint | undefined> {
  const filePath = checkpointPath(logPath);
  const bytes = await disk.readFile(filePath).catch(allowMissing(filePath));
  if (bytes === undefined) return undefined;
  const [, length, sum] = TEXT.exec(bytes.toString("latin1")) ?? [];
  if (sum !== undefined) return { bytes: Number(length), crc32: Number(sum) };
  const advice = 'check the disk, then let "plant-store repair --yes" write another one';
  throw new PlantStoreError("corruption", `"${filePath}" is damaged; ${advice}`);
}

/** @throws PlantStoreError like `replaceFile`: the old checkpoint stays, or the new one is there. */
export function writeCheckpoint(logPath: string, end: Checkpoint, lock?: Lock): Promise<void> {
  const text = `{"bytes":${end.bytes},"crc32":${end.crc32}}\n`;
  const write = (file: LogFile) => file.append(Buffer.from(text));
  return replaceFile(checkpointPath(logPath), write, lock);
}
