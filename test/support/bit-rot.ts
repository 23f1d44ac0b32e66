/** Bits flipped in a log at rest, one at a time, and whether each is found. */
import { closeSync, openSync, readSync, writeSync } from "node:fs";
import { isSound, PlantStore, PlantStoreError, verifyLog } from "../../src/index.ts";
import { logPath, writeLog } from "./stores.ts";

/** Makes a log of this many lines, as a clean stop leaves it; returns its length. */
export async function makeLogAtRest(folder: string, lines: number): Promise<number> {
  const log = Array.from({ length: lines }, (_, n) => {
    const tag = n % 2 === 0 ? ',"tag":"indoor"' : "";
    return `{"id":${n * 7919},"name":"Fern ${n}"${tag}}\n`;
  }).join("");
  writeLog(folder, log);
  await (await PlantStore.open(folder)).close();
  return log.length;
}

export interface Flip {
  readonly position: number;
  /** 0 to 7. */
  readonly bit: number;
}

/** Places and bits that follow from the seed (xorshift32). */
export function* randomFlips(bytes: number, count: number, seed: number): Generator<Flip> {
  let state = seed;
  const next = (limit: number) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % limit;
  };
  for (let n = 0; n < count; n++) yield { position: next(bytes), bit: next(8) };
}

export interface Findings {
  readonly byVerify: boolean;
  /** `undefined` if no start was tried. */
  readonly byStart: boolean | undefined;
}

/** Flips a bit, checks whether that is found, and flips it back. */
export async function findFlip(folder: string, flip: Flip, triesStart: boolean): Promise<Findings> {
  flipBit(folder, flip);
  try {
    const byVerify = !isSound(await verifyLog(folder));
    return { byVerify, byStart: triesStart ? await refusesToStart(folder) : undefined };
  } finally {
    flipBit(folder, flip);
  }
}

async function refusesToStart(folder: string): Promise<boolean> {
  try {
    await (await PlantStore.open(folder)).close();
    return false;
  } catch (error) {
    if (error instanceof PlantStoreError && error.code === "corruption") return true;
    throw error;
  }
}

function flipBit(folder: string, { position, bit }: Flip): void {
  const file = openSync(logPath(folder), "r+");
  try {
    const byte = Buffer.alloc(1);
    readSync(file, byte, 0, 1, position);
    byte[0] = (byte[0] ?? 0) ^ (1 << bit);
    writeSync(file, byte, 0, 1, position);
  } finally {
    closeSync(file);
  }
}
