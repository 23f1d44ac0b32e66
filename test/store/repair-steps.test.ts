/**
 * A repair that ends at any of its steps. FAKE ends: the step throws, instead of a kill. Real kills
 * at every system call are in test/crash.
 */
import assert from "node:assert/strict";
import fs from "node:fs";
import { basename } from "node:path";
import { type TestContext, test } from "node:test";
import { crc32 } from "node:zlib";
import { isSound, PlantStore, repairLog, verifyLog } from "../../src/index.ts";
import { checkpointPath, encodeCheckpoint } from "../../src/log/checkpoint.ts";
import { disk } from "../../src/log/disk.ts";
import { makeFolder } from "../support/folders.ts";
import { snapshot } from "../support/snapshot.ts";
import { logPath, writeLog } from "../support/stores.ts";

const A = '{"id":1,"name":"a"}\n';
const B = '{"id":2,"name":"b"}\n';
const DAMAGED = `${A}x\n${B}`;
const EDITED = A;
const YES = { confirm: async () => true };

/** Records every step that changes a name in the folder, in order. */
function watchSteps(t: TestContext, onStep: (step: string) => void): void {
  const { link, rename, unlink } = disk;
  t.mock.method(disk, "link", (from: string, to: string) => {
    onStep(`keep as ${basename(to)}`);
    link(from, to);
  });
  t.mock.method(disk, "rename", (from: string, to: string) => {
    onStep(`${basename(from)} becomes ${basename(to)}`);
    rename(from, to);
  });
  t.mock.method(disk, "unlink", (path: string) => {
    if (/checkpoint(\.unsynced)?$/.test(path)) onStep(`remove ${basename(path)}`);
    unlink(path);
  });
}

function prepare(t: TestContext, log: string): string {
  const folder = makeFolder(t);
  writeLog(folder, log);
  const known = A + B;
  const checkpoint = { bytes: known.length, records: 2, crc32: crc32(known) };
  fs.writeFileSync(checkpointPath(logPath(folder)), encodeCheckpoint(checkpoint));
  return folder;
}

const STEPS: readonly [says: string, log: string, steps: readonly string[]][] = [
  [
    "writes a new log",
    DAMAGED,
    [
      "keep as plants.jsonl.before-repair-1",
      "remove plants.jsonl.checkpoint",
      "plants.jsonl.repaired becomes plants.jsonl",
      "plants.jsonl.checkpoint.new becomes plants.jsonl.checkpoint",
      "remove plants.jsonl.checkpoint.unsynced",
    ],
  ],
  [
    "accepts an edit",
    EDITED,
    [
      "remove plants.jsonl.checkpoint",
      "plants.jsonl.checkpoint.new becomes plants.jsonl.checkpoint",
      "remove plants.jsonl.checkpoint.unsynced",
    ],
  ],
];

for (const [says, log, steps] of STEPS) {
  test(`a repair that ${says} removes the checkpoint first and writes the new one last`, async (t) => {
    const folder = prepare(t, log);
    const done: string[] = [];
    watchSteps(t, (step) => done.push(step));
    await repairLog(folder, YES);
    assert.deepEqual(done, steps);
  });

  for (const last of steps) {
    test(`a repair that ${says} and ends before "${last}" leaves a folder that starts, or refuses as before`, async (t) => {
      const folder = prepare(t, log);
      watchSteps(t, (step) => {
        if (step === last) throw new Error("the end");
      });
      await assert.rejects(repairLog(folder, YES));
      t.mock.restoreAll();

      const left = snapshot(folder)["plants.jsonl"];
      assert.ok(left === log || left === A + B, "the old log or the new one, whole");
      try {
        await (await PlantStore.open(folder)).close();
        assert.notEqual(left, DAMAGED);
      } catch (error) {
        assert.equal((error as { code?: string }).code, "corruption");
        assert.equal(snapshot(folder)["plants.jsonl"], log);
      }

      await repairLog(folder, YES);
      const { "plants.jsonl": repaired, ...others } = snapshot(folder);
      assert.equal(repaired, log === DAMAGED ? A + B : EDITED);
      const kept = Object.entries(others).filter(([name]) => name.includes("before-repair"));
      assert.deepEqual(kept, log === DAMAGED ? [["plants.jsonl.before-repair-1", DAMAGED]] : []);
      assert.equal("plants.jsonl.repaired" in others, false);
      assert.equal(isSound(await verifyLog(folder)), true);
      await (await PlantStore.open(folder)).close();
    });
  }
}

test("the unfinished log of a killed repair is never used", async (t) => {
  const folder = prepare(t, DAMAGED);
  fs.writeFileSync(`${logPath(folder)}.repaired`, '{"id":66,"name":"unfinished"}\n'.repeat(3));
  await repairLog(folder, YES);
  assert.equal(snapshot(folder)["plants.jsonl"], A + B);
});

test("every repair keeps the old log under a new name", async (t) => {
  const folder = makeFolder(t);
  for (const number of [1, 2, 3]) {
    writeLog(folder, `${A}damage ${number}\n`);
    const { keptAs } = await repairLog(folder, YES);
    assert.equal(keptAs, `plants.jsonl.before-repair-${number}`);
  }
  const files = snapshot(folder);
  for (const number of [1, 2, 3]) {
    assert.equal(files[`plants.jsonl.before-repair-${number}`], `${A}damage ${number}\n`);
  }
});
