/** A store in a folder of the test, and the bytes of its log. */
import { existsSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { crc32 } from "node:zlib";
import { PlantStore, type PlantStoreOptions } from "../../src/index.ts";
import { checkpointPath } from "../../src/log/checkpoint.ts";
import { atEnd } from "./folders.ts";

/** Opens the folder; the store is closed when the test ends, if it is still open. */
export async function openStore(
  t: TestContext,
  folder: string,
  options?: PlantStoreOptions,
): Promise<PlantStore> {
  const store = await PlantStore.open(folder, options);
  atEnd(t, () => store.close());
  return store;
}

export function logPath(folder: string): string {
  return join(folder, "plants.jsonl");
}

export function readLog(folder: string): string {
  return readFileSync(logPath(folder), "utf8");
}

/** Writes a log as an earlier process or an editor may have left it. */
export function writeLog(folder: string, content: string | Buffer): void {
  writeFileSync(logPath(folder), content, { mode: 0o600 });
}

/** Writes a checkpoint of a log that began with these bytes. */
export function writeCheckpointOf(folder: string, known: string | Buffer): void {
  const checkpoint = { bytes: Buffer.byteLength(known), crc32: crc32(known) };
  writeFileSync(checkpointPath(logPath(folder)), `${JSON.stringify(checkpoint)}\n`);
}

/** Everything that an iteration yields, in order. */
export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

/** The files in the folder that this process has open. */
export function openFilesIn(folder: string): string[] {
  const descriptors = readdirSync("/proc/self/fd").map((fd) => join("/proc/self/fd", fd));
  const isOpen = (path: string) => existsSync(path) && readlinkSync(path).startsWith(folder);
  return descriptors.filter(isOpen).map((path) => readlinkSync(path));
}
