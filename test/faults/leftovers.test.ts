/**
 * What a killed process leaves unfinished in the data directory, and that the
 * next start removes it.
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { describe, type TestContext, test } from "node:test";
import { PlantStore, repairLog } from "../../src/index.ts";
import { runCli } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { PROGRAM } from "../support/program.ts";
import { snapshot } from "../support/snapshot.ts";
import { logPath, readLog, writeLog } from "../support/stores.ts";
import { TIMEOUT } from "../support/watch.ts";
import { canTrace, killedAt } from "./machine.ts";

const AT_ONCE = { concurrency: 2, ...TIMEOUT };

const A = '{"id":1,"name":"a"}\n';
const DAMAGED = `${A}x\n`;

/** Kills a repair when it begins to write its new log, and returns the path of that log. */
function killRepair(t: TestContext, folder: string): string {
  writeLog(folder, DAMAGED);
  const repaired = `${logPath(folder)}.repaired`;
  writeFileSync(repaired, ""); // so that strace knows the file
  const { wrapper, env, read } = killedAt(t, "write", repaired);
  const words = [...wrapper, process.execPath, PROGRAM, "repair", "--yes", "--data", folder];
  const [program = "", ...args] = words;
  const { signal } = spawnSync(program, args, { env: { ...process.env, ...env } });
  assert.equal(signal, "SIGKILL");
  assert.match(read(), /write/);
  assert.ok(existsSync(repaired));
  return repaired;
}

const openAndClose = async (folder: string) => (await PlantStore.open(folder)).close();

describe("what a killed process left unfinished", AT_ONCE, () => {
  test("the new log of a killed repair is removed by the next start that succeeds, and by no start that refuses", async (t) => {
    if (!canTrace(t)) return;
    const folder = makeFolder(t);
    const repaired = killRepair(t, folder);
    const before = snapshot(folder);
    await assert.rejects(openAndClose(folder), { code: "corruption" });
    assert.deepEqual(snapshot(folder), before, "a start that refuses changes nothing");

    writeLog(folder, A); // the line was mended by hand
    await openAndClose(folder);
    assert.equal(existsSync(repaired), false);
    assert.equal(readLog(folder), A);
  });

  test("the new log of a killed repair is removed by the next repair", async (t) => {
    if (!canTrace(t)) return;
    const folder = makeFolder(t);
    const repaired = killRepair(t, folder);
    writeLog(folder, A);
    assert.equal((await runCli(["repair", "--data", folder])).status, 0);
    assert.equal(existsSync(repaired), false);
  });
});

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
