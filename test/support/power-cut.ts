/**
 * A model of a power cut: a log whose last batch was being written, what the disk may have of that
 * batch afterwards, and what a start has to do in each case.
 *
 * The verdict follows the documented rules, but with other code than the code under test: lines by
 * `split`, sectors by their place in the file.
 */
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { encodeNewPlant } from "../../src/core/plant.ts";
import { type NewPlant, PlantStore } from "../../src/index.ts";
import { type Checkpoint, checkpointPath, encodeCheckpoint } from "../../src/log/checkpoint.ts";
import { readQuarantines, snapshot } from "./snapshot.ts";

const PAGE_BYTES = 4096;
const SECTOR_BYTES = 512;
const FRESH: NewPlant = { id: -1n, name: "created after the power cut" };

export interface PowerCutLog {
  /** Lines that were acknowledged. */
  readonly durable: readonly NewPlant[];
  /** Lines of the batch that was being written. */
  readonly batch: readonly NewPlant[];
  readonly durableBytes: number;
  readonly bytes: Buffer;
}

/** A log whose last batch starts at this byte and holds records with names of these lengths. */
export function makeLog(start: number, nameLengths: readonly number[]): PowerCutLog {
  const durable: NewPlant[] = [];
  let durableBytes = 0;
  const add = (bytes: number) => {
    const id = BigInt(durable.length);
    const shortest = encodeNewPlant({ id, name: "" }).length + 1;
    durable.push({ id, name: "d".repeat(bytes - shortest) });
    durableBytes += bytes;
  };
  while (durableBytes < start - 2000) add(900);
  add(start - durableBytes);
  const batch = nameLengths.map((length, n) => {
    const plant = { id: 1000n + BigInt(n), name: String(n).padEnd(length, "b") };
    return n % 3 === 0 ? { ...plant, tag: "indoor" } : plant;
  });
  const lines = [...durable, ...batch].map((plant) => `${encodeNewPlant(plant)}\n`);
  return { durable, batch, durableBytes, bytes: Buffer.from(lines.join("")) };
}

/** The offsets in the batch at which a record, page or sector starts or ends, with their neighbours. */
export function borders({ durableBytes, bytes }: PowerCutLog): number[] {
  const found = new Set<number>();
  for (let at = durableBytes; at <= bytes.length; at++) {
    const isBorder = at % SECTOR_BYTES === 0 || bytes[at - 1] === 0x0a || at === bytes.length;
    for (const near of isBorder ? [at - 1, at, at + 1] : []) {
      if (near >= durableBytes && near <= bytes.length) found.add(near);
    }
  }
  return [...found];
}

export function cutAt({ bytes }: PowerCutLog, offset: number): Buffer {
  return bytes.subarray(0, offset);
}

/** The file already has its full length, but its rest has not reached the disk and is zeros. */
export function zeroedFrom({ bytes }: PowerCutLog, offset: number): Buffer {
  return Buffer.concat([bytes.subarray(0, offset), Buffer.alloc(bytes.length - offset)]);
}

/** Like `zeroedFrom`, with bytes that depend on the offset; after an odd offset they have no line feed. */
export function garbageFrom({ bytes }: PowerCutLog, offset: number): Buffer {
  const garbage = Buffer.alloc(bytes.length - offset);
  let state = (offset + 1) * 0x9e3779b1;
  for (let at = 0; at < garbage.length; at++) {
    state = (Math.imul(state ^ (state >>> 15), 0x85ebca6b) + 0x6d2b79f5) >>> 0;
    const byte = state >>> 24;
    garbage[at] = byte === 0x0a && offset % 2 === 1 ? 0x0b : byte;
  }
  return Buffer.concat([bytes.subarray(0, offset), garbage]);
}

/** How many pages of the file the batch touches. */
export function pageCount({ durableBytes, bytes }: PowerCutLog): number {
  return Math.ceil(bytes.length / PAGE_BYTES) - Math.floor(durableBytes / PAGE_BYTES);
}

/**
 * Without the pages whose bit is set; the lowest bit is the first page of the batch. These pages read as
 * zeros, except the bytes that were on disk before the batch.
 */
export function withoutPages({ durableBytes, bytes }: PowerCutLog, pages: number): Buffer {
  const image = Buffer.from(bytes);
  const first = Math.floor(durableBytes / PAGE_BYTES);
  for (let page = first; page * PAGE_BYTES < bytes.length; page++) {
    if ((pages & (1 << (page - first))) === 0) continue;
    const end = Math.min((page + 1) * PAGE_BYTES, bytes.length);
    image.fill(0, Math.max(page * PAGE_BYTES, durableBytes), end);
  }
  return image;
}

export type Verdict =
  | { readonly refuses: true }
  | {
      readonly refuses: false;
      readonly kept: string;
      readonly quarantined: string;
      /** Whole lines of the batch that are still there. */
      readonly survivors: number;
    };

/** What a start has to do with these bytes on the disk; all texts are latin1. */
export function judge({ durableBytes, bytes }: PowerCutLog, image: Buffer): Verdict {
  const records = new Set(bytes.toString("latin1", durableBytes).split("\n").slice(0, -1));
  const lines = image.toString("latin1", durableBytes).split("\n");
  const rest = lines.pop() ?? "";
  let kept = image.toString("latin1", 0, durableBytes);
  let quarantined = "";
  let survivors = 0;
  for (const line of lines) {
    if (/^[ \t\r]*$/.test(line)) kept += `${line}\n`;
    else if (records.has(line)) {
      survivors++;
      kept += `${line}\n`;
    } else if (isSectorLost(line, kept.length)) {
      quarantined += `${line}\n`;
      kept += `${" ".repeat(line.length)}\n`;
    } else return { refuses: true };
  }
  const isWhole = records.has(rest) || /^[ \t\r]+$/.test(rest);
  if (isWhole) kept += `${rest}\n`;
  else quarantined += rest;
  if (records.has(rest)) survivors++;
  return { refuses: false, kept, quarantined, survivors };
}

function isSectorLost(line: string, offset: number): boolean {
  const end = offset + line.length;
  let sectorEnd = (Math.floor(offset / SECTOR_BYTES) + 1) * SECTOR_BYTES;
  for (; sectorEnd <= end; sectorEnd += SECTOR_BYTES) {
    const start = Math.max(offset, sectorEnd - SECTOR_BYTES);
    if (/^\0+$/.test(line.slice(start - offset, sectorEnd - offset))) return true;
  }
  return false;
}

/** A folder in memory if possible, because there are thousands of starts and only bytes are compared. */
export function makeQuickFolder(): string {
  const memory = "/dev/shm";
  return mkdtempSync(join(existsSync(memory) ? memory : tmpdir(), "plant-store-power-cut-"));
}

/** Starts a store on these bytes, checks every promise, and returns the verdict. */
export async function checkStart(
  folder: string,
  log: PowerCutLog,
  image: Buffer,
  hasCheckpoint: boolean,
): Promise<Verdict> {
  for (const name of readdirSync(folder)) {
    if (name.startsWith("plants.jsonl")) rmSync(join(folder, name));
  }
  const logPath = join(folder, "plants.jsonl");
  writeFileSync(logPath, image, { mode: 0o600 });
  if (hasCheckpoint) writeFileSync(checkpointPath(logPath), encodeCheckpoint(checkpointOf(log)));
  const verdict = judge(log, image);
  if (verdict.refuses) {
    const before = snapshot(folder);
    await assert.rejects(PlantStore.open(folder), { code: "corruption" });
    assert.deepEqual(snapshot(folder), before);
    return verdict;
  }

  const store = await PlantStore.open(folder);
  assert.equal(snapshot(folder)["plants.jsonl"] === verdict.kept, true, "the log after the start");
  assert.equal(readQuarantines(folder).join("") === verdict.quarantined, true, "the quarantine");
  assert.equal(store.size, log.durable.length + verdict.survivors);
  for (const plant of log.durable) assert.deepEqual(await store.get(plant.id), plant);
  // A client without an answer repeats its request, and another client sends a new one.
  const outcomes = await Promise.all([...log.batch, FRESH].map((plant) => store.create(plant)));
  const replayed = outcomes.filter((outcome) => outcome === "replayed").length;
  assert.equal(replayed, verdict.survivors);
  await store.close();

  const settled = snapshot(folder);
  const again = await PlantStore.open(folder);
  const { "plants.jsonl": content = "" } = snapshot(folder);
  assert.deepEqual(snapshot(folder), settled, "the second start changes nothing");
  assert.equal(again.size, log.durable.length + log.batch.length + 1);
  for (const plant of [...log.durable, ...log.batch, FRESH]) {
    assert.deepEqual(await again.get(plant.id), plant);
    assert.equal(content.split(`${encodeNewPlant(plant)}\n`).length, 2, "one line, once");
  }
  await again.close();
  return verdict;
}

function checkpointOf({ durable, durableBytes, bytes }: PowerCutLog): Checkpoint {
  const sum = crc32(bytes.subarray(0, durableBytes));
  return { bytes: durableBytes, records: durable.length, crc32: sum };
}
