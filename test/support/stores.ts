/** A store on a folder of the test's own, and its log as bytes. */
import { existsSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { PlantStore, type PlantStoreOptions } from "../../src/index.ts";

/** Opens the folder; the end of the test closes the store, if it still is open. */
export async function openStore(
  t: TestContext,
  folder: string,
  options?: PlantStoreOptions,
): Promise<PlantStore> {
  const store = await PlantStore.open(folder, options);
  t.after(() => store.close());
  return store;
}

export function logPath(folder: string): string {
  return join(folder, "plants.jsonl");
}

export function readLog(folder: string): string {
  return readFileSync(logPath(folder), "utf8");
}

/** Puts a log there as if an earlier process, or an editor, had left it. */
export function writeLog(folder: string, content: string | Buffer): void {
  writeFileSync(logPath(folder), content, { mode: 0o600 });
}

/** Everything an iteration gives, in order. */
export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

/** Files in the folder that this process holds open; none where it cannot know. */
export function openFilesIn(folder: string): string[] {
  const descriptors = "/proc/self/fd";
  if (!existsSync(descriptors)) return [];
  return readdirSync(descriptors).flatMap((fd) => {
    try {
      const target = readlinkSync(join(descriptors, fd));
      return target.startsWith(folder) ? [target] : [];
    } catch {
      return []; // the descriptor of the listing itself
    }
  });
}
