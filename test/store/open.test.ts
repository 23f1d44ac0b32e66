/** How a store is opened: what is made durable before it serves, and when it writes a checkpoint. */
import assert from "node:assert/strict";
import fs from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { clock } from "../../src/clock.ts";
import { PlantStore } from "../../src/index.ts";
import { endWrites } from "../support/failing-writes.ts";
import { makeFolder } from "../support/folders.ts";
import { logPath, openFilesIn, openStore, readLog, snapshot, writeLog } from "../support/stores.ts";
import { collectWarnings, until } from "../support/watch.ts";
import { changesOf, failAt, watchDisk } from "../support/watched-disk.ts";

const LINE = '{"id":1,"name":"a"}\n';
const TORN = `${LINE}{"id":2`;

const OPENED = ["sync LOG", "syncFolder DIR", "syncFolder DIR/..", "unlink LOG.new"];
const CHECKPOINT = [
  "unlink LOG.checkpoint.new",
  "open LOG.checkpoint.new",
  "append LOG.checkpoint.new",
  "rename LOG.checkpoint",
  "syncFolder DIR",
];
const KEPT = ["open LOG.quarantine", "append LOG.quarantine", "syncFolder DIR"];
const CUT = ["truncate LOG", "sync LOG"];

for (const [says, log, steps] of [
  ["a new log, its name and its folder are synced", "", OPENED],
  ["a torn tail is kept, then cut, and all is synced", TORN, [...KEPT, ...CUT, ...OPENED]],
  ["a log that is as its checkpoint knows, perhaps as a copy, is synced", LINE, OPENED],
] as const) {
  test(`${says} before the checkpoint is written`, async (t) => {
    const folder = makeFolder(t);
    if (log !== "") writeLog(folder, log);
    if (log === LINE) await (await openStore(t, folder)).close();
    const changes = await changesOf(folder, () => openStore(t, folder));
    assert.deepEqual(changes, ["open LOG", ...steps, ...CHECKPOINT]);
  });
}

for (const [log, failing, code] of [
  [LINE, "sync LOG", "unsynced"],
  [LINE, "syncFolder DIR", "unsynced"],
  [LINE, "syncFolder DIR/..", "unsynced"],
  [TORN, "append LOG.quarantine", "unsynced"],
  [TORN, "syncFolder DIR", "unsynced"],
  [TORN, "truncate LOG", "unsynced"],
  [TORN, "open LOG.quarantine", "io_error"],
] as const) {
  const what = log === TORN ? "a torn tail" : "an open";
  test(`${what} whose "${failing}" fails is ${code}, and the log stays as it is`, async (t) => {
    const folder = makeFolder(t);
    writeLog(folder, log);
    const opening = failAt(folder, failing, () => PlantStore.open(folder));
    const message = code === "unsynced" ? /restart the machine/ : /quarantine/;
    await assert.rejects(opening, { code, message });
    assert.deepEqual([readLog(folder), openFilesIn(folder)], [log, []]);
    await openStore(t, folder);
  });
}

for (const [says, refusals, kept] of [
  ["kept once it is cut", 1, '{"id":2\n'],
  ["dropped if there is still none", 2, ""],
] as const) {
  test(`a torn tail for which quarantine has no room is ${says} (fake refusal)`, async (t) => {
    const folder = makeFolder(t);
    writeLog(folder, TORN);
    const warnings = collectWarnings(t, folder);
    await endWrites(t, ...Array(refusals).fill({ code: "ENOSPC" }));
    await openStore(t, folder);
    assert.equal(readLog(folder), LINE);
    assert.equal(snapshot(folder)["plants.jsonl.quarantine"], kept);
    const [warning] = warnings;
    assert.match(
      warning?.message ?? "",
      kept === "" ? /cut 7 bytes.*dropped/ : /cut 7 bytes.*kept/,
    );
  });
}

function checkpointOf(folder: string): number {
  return JSON.parse(fs.readFileSync(`${logPath(folder)}.checkpoint`, "utf8")).bytes;
}

test("a checkpoint is written at open, every 10 s if the log has grown, and at close (fake interval)", async (t) => {
  const folder = makeFolder(t);
  let tick = () => {};
  t.mock.method(clock, "setInterval", (run: () => void, ms: number) => {
    assert.equal(ms, 10_000);
    tick = run;
    return { unref() {} };
  });
  const store = await openStore(t, folder);
  assert.equal(checkpointOf(folder), 0);
  await store.create({ id: 1n, name: "a" });
  assert.equal(checkpointOf(folder), 0);
  tick();
  await until("the checkpoint is written", () => checkpointOf(folder) === LINE.length);
  await store.create({ id: 2n, name: "a" });
  await store.close();
  assert.equal(checkpointOf(folder), 2 * LINE.length);
});

test("a checkpoint never describes a log that was replaced while it was written", async (t) => {
  const [folder, other] = [makeFolder(t), makeFolder(t)];
  collectWarnings(t); // that the checkpoint is not written
  await (await openStore(t, other)).close();
  const store = await openStore(t, folder);
  await store.create({ id: 1n, name: "a" });
  const replace = (change: string) => {
    if (!change.startsWith("append ")) return;
    for (const name of ["plants.jsonl.checkpoint", "plants.jsonl"]) {
      fs.renameSync(join(other, name), join(folder, name));
    }
  };
  await watchDisk(replace, () => store.close());
  assert.equal(checkpointOf(folder), 0);
  await openStore(t, folder);
});

test("no room for a checkpoint is a warning, and the store opens (fake refusal)", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, LINE);
  const warnings = collectWarnings(t);
  await endWrites(t, { code: "ENOSPC" });
  const store = await openStore(t, folder);
  assert.deepEqual([store.status().plants, warnings.length], [1, 1]);
});

test("one of many concurrent opens succeeds, and the others are refused as locked", async (t) => {
  const folder = makeFolder(t);
  const settled = await Promise.allSettled(Array.from({ length: 8 }, () => openStore(t, folder)));
  const codes = settled.map((each) => (each.status === "rejected" ? each.reason.code : "open"));
  assert.deepEqual(codes.toSorted(), [...Array(7).fill("locked"), "open"]);
});

test("an open reports its progress to the end, and is aborted by an onProgress that throws", async (t) => {
  const folder = makeFolder(t);
  const log = Array.from({ length: 60_000 }, (_, id) => `{"id":${id},"name":"a"}\n`).join("");
  writeLog(folder, `${log}{"id":2`);
  const enough = new Error("enough");
  const onProgress = () => {
    throw enough;
  };
  await assert.rejects(PlantStore.open(folder, { onProgress }), (error) => error === enough);
  assert.deepEqual([openFilesIn(folder), readLog(folder)], [[], `${log}{"id":2`]);
  const seen: number[][] = [];
  await openStore(t, folder, { onProgress: (bytes, total) => seen.push([bytes, total]) });
  assert.ok(seen.length > 1);
  assert.deepEqual(seen.at(-1), [log.length, log.length + 7]);
});

test("an open with a wrong option is refused before anything is made", async (t) => {
  const folder = join(makeFolder(t), "new");
  const wrong = PlantStore.open(folder, { queueBytesMax: Number.NaN });
  await assert.rejects(wrong, { name: "RangeError", message: /queueBytesMax/ });
  assert.equal(fs.existsSync(folder), false);
});
