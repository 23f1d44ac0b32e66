/**
 * What a killed process leaves unfinished in the data directory, and that the
 * next start removes it.
 */
import assert from "node:assert/strict";
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { test } from "node:test";
import { PlantStore } from "../../src/index.ts";
import { repairLog } from "../../src/tools.ts";
import { makeFolder } from "../support/folders.ts";
import { snapshot } from "../support/snapshot.ts";
import { logPath, writeLog } from "../support/stores.ts";

const A = '{"id":1,"name":"a"}\n';
const DAMAGED = `${A}x\n`;

const openAndClose = async (folder: string) => (await PlantStore.open(folder)).close();

const NAMES = ["repaired", "checkpoint.new"];
const OF_OTHERS = ["repaired.txt", "repaired-1", "quarantine-1", "before-repair-1", "new", "bak"];

function leave(folder: string, names: readonly string[]): void {
  for (const name of names) writeFileSync(`${logPath(folder)}.${name}`, "left");
}

test("a start removes what a killed process left unfinished, and no other file", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, A);
  leave(folder, [...NAMES, ...OF_OTHERS]);
  writeFileSync(`${folder}/notes.new`, "left");
  await openAndClose(folder);
  const kept = OF_OTHERS.map((name) => `plants.jsonl.${name}`);
  assert.deepEqual(
    Object.keys(snapshot(folder)),
    ["notes.new", "plants.jsonl", "plants.jsonl.checkpoint", ...kept].sort(),
  );
});

test("a start without a log keeps the new log of a killed repair, which may be the only copy", async (t) => {
  const folder = makeFolder(t);
  leave(folder, ["repaired"]);
  await openAndClose(folder);
  assert.ok(existsSync(`${logPath(folder)}.repaired`));
});

test("a repair that is declined, or whose log is missing, leaves the new log of a killed repair alone", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, A);
  await openAndClose(folder);
  for (const [log, isAgreed] of [
    [DAMAGED, false],
    [undefined, true],
  ] as const) {
    leave(folder, ["repaired"]);
    if (log === undefined) rmSync(logPath(folder));
    else writeLog(folder, log);
    await repairLog(folder, { confirm: async () => isAgreed });
    assert.ok(existsSync(`${logPath(folder)}.repaired`));
  }
});
