import assert from "node:assert/strict";
import { appendFileSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { encodeNewPlant } from "../../src/core/plant.ts";
import type { NewPlant } from "../../src/index.ts";
import { exportLines, readPlants } from "../../src/tools.ts";
import { makeFolder } from "../support/folders.ts";
import { collect, logPath, openFilesIn, openStore, readLog, writeLog } from "../support/stores.ts";

const PLANTS: readonly NewPlant[] = [
  { id: 2n, name: "b", tag: "t" },
  { id: 1n, name: "a" },
];

test("the plants of a closed store are read in order, and nothing is changed", async (t) => {
  const folder = makeFolder(t);
  const store = await openStore(t, folder);
  for (const plant of PLANTS) await store.create(plant);
  await store.close();
  const names = readdirSync(folder);
  const log = readLog(folder);

  assert.deepEqual(await collect(readPlants(folder)), PLANTS);
  assert.deepEqual(await collect(readPlants(folder)), PLANTS);

  assert.deepEqual(readdirSync(folder), names);
  assert.equal(readLog(folder), log);
});

test("reading needs no lock: a store can be open, or be opened, at the same time", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, '{"id":1,"name":"a"}\n{"id":2,"name":"b"}\n');
  const reading = readPlants(folder);
  await reading.next();
  const store = await openStore(t, folder);
  await store.create({ id: 3n, name: "c" });
  // The plants that were there when the reading began.
  assert.deepEqual(await collect(reading), [{ id: 2n, name: "b" }]);
});

test("while a store is open, only its durable plants are read", async (t) => {
  const folder = makeFolder(t);
  const store = await openStore(t, folder);
  for (const plant of PLANTS) await store.create(plant);
  // As if a batch were being written: in the file, but not synced yet.
  for (const bytes of ['{"id":3,"name":"not yet"}', "\n"]) {
    appendFileSync(logPath(folder), bytes);
    assert.deepEqual(await collect(readPlants(folder)), PLANTS);
    const exported = Buffer.concat(await collect(exportLines(folder))).toString();
    assert.equal(exported, `${PLANTS.map(encodeNewPlant).join("\n")}\n`);
  }
});

test("a log whose path is too long for a socket address is read beside its store", async (t) => {
  const folder = join(makeFolder(t), "long".repeat(30));
  const store = await openStore(t, folder);
  await store.create({ id: 1n, name: "a" });
  assert.deepEqual(await collect(readPlants(folder)), [{ id: 1n, name: "a" }]);
});

test("reading a missing folder or log, or a folder in its place, is an io_error, and makes none", async (t) => {
  const [folder, odd] = [makeFolder(t), makeFolder(t)];
  mkdirSync(logPath(odd));
  for (const each of [join(folder, "none"), folder, odd]) {
    await assert.rejects(collect(readPlants(each)), { code: "io_error" });
    await assert.rejects(collect(exportLines(each)), { code: "io_error" });
  }
  assert.deepEqual(readdirSync(folder), []);
});

test("a reading that is stopped leaves no file open", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, '{"id":1,"name":"a"}\n{"id":2,"name":"b"}\n');
  for await (const plant of readPlants(folder)) {
    assert.equal(plant.id, 1n);
    break;
  }
  assert.deepEqual(openFilesIn(folder), []);
});

const A_LINE = '{"id":1,"name":"a"}\n';
const B_LINE = '{ "tag":"t", "name":"\\u0062","id":2.0,"more":[1] }\n';

test("the export of a log of several blocks is that log, byte for byte", async (t) => {
  const folder = makeFolder(t);
  const log = Array.from({ length: 6000 }, (_, id) => {
    return `{"id":${id},"name":"${"x".repeat((id * 7919) % 900)}"}\n`;
  }).join("");
  writeLog(folder, log);
  const blocks = await collect(exportLines(folder));
  assert.ok(blocks.length > 1, "in bounded memory");
  assert.equal(Buffer.concat(blocks).equals(Buffer.from(log)), true);
});

test("the lines before a damaged one are exported, and the fault names path, line and byte", async (t) => {
  const folder = makeFolder(t);
  const bad = Buffer.from('{"id":2,"name":"\xe9"}\n', "latin1");
  writeLog(folder, Buffer.concat([Buffer.from(`${A_LINE}\n${B_LINE}`), bad, Buffer.from(A_LINE)]));
  const given: Buffer[] = [];
  const reading = async () => {
    for await (const bytes of exportLines(folder)) given.push(bytes);
  };
  await assert.rejects(reading, (error: Error & { code?: string }) => {
    assert.equal(error.code, "corruption");
    assert.ok(error.message.includes(logPath(folder)));
    assert.match(error.message, /\b4\b.*\b72\b/);
    return true;
  });
  assert.equal(Buffer.concat(given).toString(), A_LINE + B_LINE);
});
