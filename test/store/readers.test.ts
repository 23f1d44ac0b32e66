/** Readers of a log beside a store, in a log of many blocks, and beside a program that changes it. */
import assert from "node:assert/strict";
import fs from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { PlantStore } from "../../src/index.ts";
import { unsyncedPath } from "../../src/log/checkpoint.ts";
import {
  backup,
  exportLines,
  type LineFault,
  type RepairPlan,
  readPlants,
  repairLog,
  verifyLog,
} from "../../src/tools.ts";
import { makeFolder } from "../support/folders.ts";
import { snapshot } from "../support/snapshot.ts";
import {
  collect,
  logPath,
  openFilesIn,
  openStore,
  readLog,
  writeCheckpointOf,
  writeLog,
} from "../support/stores.ts";

const A = '{"id":1,"name":"a"}\n';
const B = '{"id":2,"name":"b","tag":"t"}\n';
const LATE = '{"id":9,"name":"acknowledged by another"}\n';
const YES = async () => true;

test("beside an open store every reader sees what is durable, and takes no lock", async (t) => {
  const folder = makeFolder(t);
  const store = await openStore(t, folder);
  await store.create({ id: 1n, name: "a" });
  const names = fs.readdirSync(folder);
  for (const bytes of [B.trimEnd(), "\n"]) {
    fs.appendFileSync(logPath(folder), bytes); // as if a batch were being written
    assert.deepEqual(await collect(readPlants(folder)), [{ id: 1n, name: "a" }]);
    assert.equal(String(Buffer.concat(await collect(exportLines(folder)))), A);
    const { records, tornBytes } = await verifyLog(folder);
    assert.deepEqual([records, tornBytes], [1, 0]);
    const target = join(makeFolder(t), "copy");
    assert.deepEqual(await backup(folder, target), { plants: 1, bytes: A.length });
    assert.equal(readLog(target), A);
  }
  assert.deepEqual(fs.readdirSync(folder), names);
  await assert.rejects(repairLog(folder, { confirm: YES }), { code: "locked" });
});

test("beside an open store no line counts as mendable", async (t) => {
  const folder = makeFolder(t);
  const store = await openStore(t, folder);
  await store.create({ id: 1n, name: "x".repeat(1100) });
  writeLog(folder, readLog(folder).replaceAll("x", "\0"));
  const { mendable, damaged } = await verifyLog(folder);
  assert.deepEqual([mendable, damaged], [0, 1]);
});

test("a log whose path is too long for a socket is read beside its store", async (t) => {
  const folder = join(makeFolder(t), "long".repeat(30));
  const store = await openStore(t, folder);
  await store.create({ id: 1n, name: "a" });
  assert.deepEqual(await collect(readPlants(folder)), [{ id: 1n, name: "a" }]);
});

test("reading that is stopped leaves no file open, and a store can be opened meanwhile", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, A + B);
  for await (const plant of readPlants(folder)) {
    const store = await openStore(t, folder);
    assert.equal(await store.create({ ...plant }), "replayed");
    await store.close();
    break;
  }
  assert.deepEqual(openFilesIn(folder), []);
});

/** Lines of many lengths, one longer than a block, of 3 MiB and more. */
const MANY = Array.from({ length: 3000 }, (_, n) => {
  const length = n === 1500 ? 1_500_000 : (n * 7919) % 1200;
  return `{"id":${n},"name":"${"x".repeat(length)}"}\n`;
});

test("every line of a log of many blocks is read at its place, wherever its checkpoint ends", async (t) => {
  const log = MANY.join("");
  const folder = makeFolder(t);
  writeLog(folder, log);
  const exported = await collect(exportLines(folder));
  assert.ok(exported.length > 1, "in bounded memory");
  assert.equal(Buffer.concat(exported).equals(Buffer.from(log)), true);
  const borders = [1, 1500, 1501, 2999, 3000].map((n) => MANY.slice(0, n).join("").length);
  const edges = [1, 2, 3].flatMap((mib) => [mib * 1024 * 1024, mib * 1024 * 1024 + 1]);
  for (const bytes of [...borders, ...edges]) {
    writeCheckpointOf(folder, log.slice(0, bytes));
    const reported: number[] = [];
    const onProgress = (done: number) => reported.push(done);
    assert.equal((await verifyLog(folder, { onProgress })).checksum, "matches", `${bytes} bytes`);
    assert.equal(reported.at(-1), log.length);
    assert.ok(reported.length >= 2 && reported.length <= log.length / 1024 / 1024 + 1);
  }
  const store = await openStore(t, folder);
  assert.equal(store.size, MANY.length);
  for (const id of [0, 1499, 1500, 1501, 2999]) {
    assert.equal(`${await store.getLine(BigInt(id))}\n`, MANY[id]);
  }
});

test("faults of every kind are reported in the order of their places over many blocks, and repaired", async (t) => {
  const folder = makeFolder(t);
  const faulty: Record<number, [kind: LineFault["kind"], line: string]> = {
    7: ["unreadable", "damage\n"],
    1499: ["repeat", MANY[3] as string],
    1502: ["conflict", '{"id":3,"name":"other"}\n'],
    2998: ["repeat", MANY[1500] as string],
  };
  const lines = MANY.map((line, at) => faulty[at]?.[1] ?? line);
  writeLog(folder, lines.join(""));
  const placeOf = (at: number) => [at + 1, lines.slice(0, at).join("").length];
  const found: unknown[] = [];
  await verifyLog(folder, {
    onFault: ({ kind, position }) => found.push([kind, position.line, position.offset]),
  });
  const expected = Object.entries(faulty).map(([at, [kind]]) => [kind, ...placeOf(Number(at))]);
  assert.deepEqual(found, expected);
  const [line, byte] = placeOf(7);
  await assert.rejects(PlantStore.open(folder), {
    code: "corruption",
    message: new RegExp(`\\b${line}\\b.*\\b${byte}\\b`),
  });
  const { leftOut, plants } = await repairLog(folder, { confirm: YES });
  assert.deepEqual([leftOut, plants], [2, MANY.length - 4]);
  assert.equal(readLog(folder), lines.filter((_, at) => at !== 7 && at !== 1502).join(""));
  assert.equal((await openStore(t, folder)).size, MANY.length - 4);
});

test("the lines before a damaged one are exported", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, `${A}${B}x\n${A}`);
  const given: Buffer[] = [];
  const reading = async () => {
    for await (const bytes of exportLines(folder)) given.push(bytes);
  };
  await assert.rejects(reading, { code: "corruption" });
  assert.equal(String(Buffer.concat(given)), A + B);
});

test("a repair whose question fails changes no byte", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, `${A}x\n`);
  writeCheckpointOf(folder, A + B);
  const before = snapshot(folder);
  const fail = () => Promise.reject(new Error("no terminal"));
  await assert.rejects(repairLog(folder, { confirm: fail }), /no terminal/);
  assert.deepEqual(snapshot(folder), before);
  assert.deepEqual(openFilesIn(folder), []);
});

for (const [action, log] of [
  ["accept", A + B],
  ["rewrite", `${A}x\n${B}`],
  ["start_empty", undefined],
] as const) {
  test(`a repair that is to ${action} changes nothing if another program wrote the log meanwhile`, async (t) => {
    const folder = makeFolder(t);
    if (log !== undefined) writeLog(folder, log);
    writeCheckpointOf(folder, "another log\n");
    let before: ReturnType<typeof snapshot> = {};
    const confirm = async (plan: RepairPlan) => {
      assert.equal(plan.action, action);
      fs.appendFileSync(logPath(folder), LATE);
      before = snapshot(folder);
      return true;
    };
    await assert.rejects(repairLog(folder, { confirm }), { code: "locked" });
    assert.deepEqual(snapshot(folder), before);
  });
}

test("a repair of a log whose sync has failed keeps a copy, because the old file may never be on the disk", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, `${A}no plant\n`);
  fs.writeFileSync(unsyncedPath(logPath(folder)), "");
  const { ino } = fs.statSync(logPath(folder));
  const { keptAs = "" } = await repairLog(folder, { confirm: YES });
  assert.equal(fs.readFileSync(join(folder, keptAs), "utf8"), `${A}no plant\n`);
  assert.notEqual(fs.statSync(join(folder, keptAs)).ino, ino);
  assert.equal(readLog(folder), A);
});
