/** How a store is opened: what is made durable before it serves, and when it writes a checkpoint. */
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { clock } from "../../src/clock.ts";
import { PlantStore } from "../../src/index.ts";
import { endWrites } from "../support/failing-writes.ts";
import { makeFolder } from "../support/folders.ts";
import { snapshot } from "../support/snapshot.ts";
import { logPath, openFilesIn, openStore, readLog, writeLog } from "../support/stores.ts";
import { collectWarnings, until } from "../support/watch.ts";
import { watchDisk } from "../support/watched-disk.ts";

const LINE = '{"id":1,"name":"a"}\n';

/** The changes of an open, without those of the lock. */
async function changesOf(t: TestContext, folder: string): Promise<string[]> {
  const changes: string[] = [];
  await watchDisk(
    (change) => changes.push(change.replace(folder, "")),
    () => openStore(t, folder),
  );
  return changes;
}

const CHECKPOINT = [
  "unlink /plants.jsonl.checkpoint.new",
  "open /plants.jsonl.checkpoint.new",
  "append /plants.jsonl.checkpoint.new",
  "rename /plants.jsonl.checkpoint",
  "syncFolder ",
];
const OPENED = ["sync /plants.jsonl", "syncFolder ", "syncFolder /..", "unlink /plants.jsonl.new"];

test("a new log, its name and its folder are synced before the checkpoint is written", async (t) => {
  const folder = makeFolder(t);
  assert.deepEqual(await changesOf(t, folder), ["open /plants.jsonl", ...OPENED, ...CHECKPOINT]);
});

test("a torn tail is kept before it is cut", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, `${LINE}{"id":2`);
  assert.deepEqual(await changesOf(t, folder), [
    "open /plants.jsonl",
    "open /plants.jsonl.quarantine",
    "append /plants.jsonl.quarantine",
    "syncFolder ",
    "truncate /plants.jsonl",
    "sync /plants.jsonl",
    ...OPENED,
    ...CHECKPOINT,
  ]);
});

for (const failing of ["sync /plants.jsonl", "syncFolder ", "syncFolder /.."]) {
  test(`an open whose "${failing}" fails is unsynced, and holds no lock and no file`, async (t) => {
    const folder = makeFolder(t);
    writeLog(folder, LINE);
    const before = snapshot(folder);
    const fail = (change: string) => {
      if (change.replace(folder, "") === failing) throw new Error("EIO");
    };
    const opening = watchDisk(fail, () => PlantStore.open(folder));
    await assert.rejects(opening, { code: "unsynced", message: /restart the machine/ });
    assert.deepEqual([openFilesIn(folder), snapshot(folder)], [[], before]);
    await openStore(t, folder);
  });
}

for (const [says, refusals, isKept] of [
  ["kept once it is cut", 1, true],
  ["dropped if there is still none", 2, false],
] as const) {
  test(`a tail for which quarantine has no room is ${says} (fake refusal)`, async (t) => {
    const folder = makeFolder(t);
    writeLog(folder, `${LINE}{"id":2`);
    const warnings = collectWarnings(t, folder);
    await endWrites(t, ...Array(refusals).fill({ code: "ENOSPC" }));
    await openStore(t, folder);
    assert.equal(readLog(folder), LINE);
    const kept = snapshot(folder)["plants.jsonl.quarantine"] ?? "";
    assert.equal(kept, isKept ? '{"id":2\n' : "");
    const [warning] = warnings;
    assert.match(warning?.message ?? "", isKept ? /cut 7 bytes.*kept/ : /cut 7 bytes.*dropped/);
  });
}

for (const step of ["append /plants.jsonl.quarantine", "syncFolder ", "truncate /plants.jsonl"]) {
  test(`a tail whose "${step}" fails makes the start unsynced`, async (t) => {
    const folder = makeFolder(t);
    writeLog(folder, `${LINE}{"id":2`);
    const fail = (change: string) => {
      if (change.replace(folder, "") === step) throw new Error("EIO");
    };
    const opening = watchDisk(fail, () => PlantStore.open(folder));
    await assert.rejects(opening, { code: "unsynced", message: /restart the machine/ });
    assert.equal(readLog(folder), `${LINE}{"id":2`);
  });
}

test("a tail that cannot be kept for another reason stays, and the start is refused", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, `${LINE}{"id":2`);
  fs.mkdirSync(`${logPath(folder)}.quarantine`);
  await assert.rejects(PlantStore.open(folder), { code: "io_error" });
  assert.equal(readLog(folder), `${LINE}{"id":2`);
});

function checkpointOf(folder: string): number {
  return JSON.parse(fs.readFileSync(`${logPath(folder)}.checkpoint`, "utf8")).bytes;
}

test("a checkpoint is written at open, every 10 s if the log has grown, and at close (fake clock)", async (t) => {
  const folder = makeFolder(t);
  const log = logPath(folder);
  let now = 0; // sums of fractions may lack a little
  let tick = () => {};
  t.mock.method(clock, "monotonicMs", () => now);
  t.mock.method(clock, "setInterval", (run: () => void) => {
    tick = run;
    return { unref() {}, refresh() {} };
  });
  const store = await openStore(t, folder);
  assert.equal(checkpointOf(folder), 0);
  await store.create({ id: 1n, name: "a" });
  now += 9999;
  tick();
  await fs.promises.stat(folder); // as long as a checkpoint takes to begin
  assert.deepEqual([checkpointOf(folder), fs.existsSync(`${log}.checkpoint.new`)], [0, false]);
  now += 1;
  tick();
  await until("the checkpoint is written", () => checkpointOf(folder) === LINE.length);
  await store.create({ id: 2n, name: "a" });
  await store.close();
  assert.equal(checkpointOf(folder), 2 * LINE.length);
});

test("a store that has failed writes no checkpoint", async (t) => {
  const folder = makeFolder(t);
  const store = await openStore(t, folder);
  await store.create({ id: 1n, name: "a" });
  fs.appendFileSync(logPath(folder), "x");
  await assert.rejects(store.create({ id: 2n, name: "b" }), { code: "store_failed" });
  await store.close();
  assert.equal(checkpointOf(folder), 0);
});

for (const at of ["before it is written", "while it is written"]) {
  test(`a checkpoint is not that of a log which was replaced ${at}`, async (t) => {
    const [folder, other] = [makeFolder(t), makeFolder(t)];
    await (await openStore(t, other)).close();
    const store = await openStore(t, folder);
    await store.create({ id: 1n, name: "a" });
    const replace = () => {
      for (const path of [`${logPath(folder)}.checkpoint`, logPath(folder)]) {
        fs.copyFileSync(path.replace(folder, other), `${path}.copy`);
        fs.renameSync(`${path}.copy`, path);
      }
    };
    if (at.startsWith("before")) replace();
    const meddle = (change: string) => {
      if (change.startsWith("append ")) replace();
    };
    await watchDisk(meddle, () => store.close());
    assert.equal(checkpointOf(folder), 0);
    await (await openStore(t, folder)).close();
  });
}

test("a checkpoint without room is a warning, and the store opens (fake refusal)", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, LINE);
  const warnings = collectWarnings(t);
  await endWrites(t, { code: "ENOSPC" });
  const store = await openStore(t, folder);
  assert.deepEqual([store.status().plants, warnings.length], [1, 1]);
});

test("of many opens at once one succeeds, and every other is refused as locked", async (t) => {
  const folder = makeFolder(t);
  const settled = await Promise.allSettled(Array.from({ length: 8 }, () => openStore(t, folder)));
  const codes = settled.map((each) => (each.status === "rejected" ? each.reason.code : "open"));
  assert.deepEqual(codes.toSorted(), [...Array(7).fill("locked"), "open"]);
});

test("progress is told to the end, and an onProgress that throws aborts the open", async (t) => {
  const folder = makeFolder(t);
  const log = Array.from({ length: 60_000 }, (_, id) => `{"id":${id},"name":"a"}\n`).join("");
  writeLog(folder, `${log}{"id":2`);
  const before = snapshot(folder);
  const enough = new Error("enough");
  const onProgress = () => {
    throw enough;
  };
  await assert.rejects(PlantStore.open(folder, { onProgress }), (error) => error === enough);
  assert.deepEqual([openFilesIn(folder), snapshot(folder)], [[], before]);
  const seen: number[][] = [];
  await openStore(t, folder, { onProgress: (bytes, total) => seen.push([bytes, total]) });
  assert.ok(seen.length > 1);
  assert.deepEqual(seen.at(-1), [log.length, log.length + 7]);
});

test("a wrong option, and a file in place of the folder, are refused before anything is made", async (t) => {
  const folder = path.join(makeFolder(t), "new");
  const wrong = PlantStore.open(folder, { queueBytesMax: Number.NaN });
  await assert.rejects(wrong, { name: "RangeError", message: /queueBytesMax/ });
  assert.equal(fs.existsSync(folder), false);
  fs.writeFileSync(folder, "");
  await assert.rejects(PlantStore.open(folder), { code: "io_error" });
});

test("a folder may be a symbolic link, and a log may not", async (t) => {
  const folder = makeFolder(t);
  const link = path.join(makeFolder(t), "link");
  fs.symlinkSync(folder, link);
  await (await PlantStore.open(link)).close();
  fs.renameSync(logPath(folder), `${logPath(folder)}.other`);
  fs.symlinkSync(`${logPath(folder)}.other`, logPath(folder));
  await assert.rejects(PlantStore.open(folder), { code: "io_error", message: /symbolic link/ });
});
