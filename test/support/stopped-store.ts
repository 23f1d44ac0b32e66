/** A data directory as a clean stop leaves it: with a snapshot of its index. */
import assert from "node:assert/strict";
import fs from "node:fs";
import type { TestContext } from "node:test";
import { type NewPlant, PlantStore, type PlantStoreOptions } from "../../src/index.ts";
import { snapshotPath } from "../../src/store/index-snapshot.ts";
import { makeFolder } from "./folders.ts";
import { logPath, writeLog } from "./stores.ts";

/** A snapshot for every log. */
export const ANY: PlantStoreOptions = { snapshotBytesMin: 1 };
export const PLANTS = 20_000;

export function plantOf(n: number): NewPlant {
  return { id: BigInt(n) * 7919n, name: `Fern ${String(n).padStart(70, "0")}` };
}

export function lineOf({ id, name }: NewPlant): string {
  return `{"id":${id},"name":"${name}"}\n`;
}

/** Two MiB of log after a clean stop, so that half of it is not looked at by a start. */
export async function makeStopped(t: TestContext): Promise<string> {
  const folder = makeFolder(t);
  writeLog(folder, Array.from({ length: PLANTS }, (_, n) => lineOf(plantOf(n))).join(""));
  await (await PlantStore.open(folder, ANY)).close();
  assert.ok(fs.statSync(logPath(folder)).size > 1.8 * 1024 * 1024);
  assert.ok(fs.existsSync(snapshotPath(logPath(folder))));
  return folder;
}
