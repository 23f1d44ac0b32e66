/** Which plants of an open store are read from memory, and how the others are read. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { encodeNewPlant } from "../../src/core/plant.ts";
import type { NewPlant, PlantStore } from "../../src/index.ts";
import { LogFile } from "../../src/log/file.ts";
import { makeFolder } from "../support/folders.ts";
import { holdReads } from "../support/held-reads.ts";
import { openStore, writeLog } from "../support/stores.ts";

/** Repeats every plant and reads it, all at once. */
async function lookUpAll(store: PlantStore, plants: readonly NewPlant[]): Promise<void> {
  const outcomes = await Promise.all(plants.map((plant) => store.create(plant)));
  assert.deepEqual(new Set(outcomes), new Set(["replayed"]));
  assert.deepEqual(await Promise.all(plants.map(({ id }) => store.get(id))), plants);
}

/** A plant whose line has so many bytes, its line feed included. */
function plantOfLine(id: bigint, bytes: number): NewPlant {
  const name = "x".repeat(bytes - encodeNewPlant({ id, name: "" }).length - 1);
  return { id, name };
}

/** Plants whose lines are short and long, so that 8 MiB hold a few hundred of them. */
function variedPlants(count: number): NewPlant[] {
  const lengths = [40, 1023, 1024, 1025, 1026, 2000, 30_000, 150_000];
  return Array.from({ length: count }, (_, at) =>
    plantOfLine(BigInt(at), lengths[at % lengths.length] as number),
  );
}

function linesOf(plants: readonly NewPlant[]): string {
  return plants.map((plant) => `${encodeNewPlant(plant)}\n`).join("");
}

/** How many pieces of logs were read. */
function countPieces(t: TestContext): () => number {
  const { readPieces } = LogFile.prototype;
  let pieces = 0;
  t.mock.method(
    LogFile.prototype,
    "readPieces",
    function (this: LogFile, ...given: Parameters<typeof readPieces>) {
      pieces += given[1].length;
      return readPieces.apply(this, given);
    },
  );
  return () => pieces;
}

test("repeats and reads of plants that were just created read nothing from the log", async (t) => {
  const store = await openStore(t, makeFolder(t));
  const plants = [40, 1000, 1024].map((bytes, at) => plantOfLine(BigInt(at), bytes));
  await Promise.all(plants.map((plant) => store.create(plant)));
  const reads = holdReads(t);
  await lookUpAll(store, plants);
  await assert.rejects(store.create({ id: 1n, name: "other" }), { code: "conflict" });
  assert.equal(reads.count(), 0);
  reads.release();
});

test("a repeat answers from memory while an older plant waits for the disk", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, '{"id":1,"name":"a"}\n');
  const store = await openStore(t, folder);
  await store.create({ id: 2n, name: "b" });
  const reads = holdReads(t);
  const older = store.get(1n);
  assert.equal(await store.create({ id: 2n, name: "b" }), "replayed");
  reads.release();
  assert.deepEqual(await older, { id: 1n, name: "a" });
});

test("every plant of a log longer than the memory is repeated and read right, whatever its length", async (t) => {
  const folder = makeFolder(t);
  const store = await openStore(t, folder);
  const plants = variedPlants(900);
  for (let at = 0; at < plants.length; at += 50) {
    await Promise.all(plants.slice(at, at + 50).map((plant) => store.create(plant)));
  }
  await lookUpAll(store, plants);
});

test("a batch longer than the memory leaves plants before and after it readable", async (t) => {
  const store = await openStore(t, makeFolder(t));
  const plants = [40, 5_000_000, 40].map((bytes, at) => plantOfLine(BigInt(at), bytes));
  for (const plant of plants) await store.create(plant);
  await lookUpAll(store, plants);
});

test("older plants that follow each other in the log share reads", async (t) => {
  const folder = makeFolder(t);
  const plants = Array.from({ length: 5000 }, (_, at) => plantOfLine(BigInt(at), 60));
  writeLog(folder, linesOf(plants));
  const store = await openStore(t, folder);
  const pieces = countPieces(t);
  await lookUpAll(store, plants.toReversed());
  assert.ok(pieces() <= 20, `${pieces()} pieces`);
});

test("older plants from all over the log, short, long and the last ones, are read right", async (t) => {
  const folder = makeFolder(t);
  const plants = [...variedPlants(300), plantOfLine(300n, 40), plantOfLine(301n, 40)];
  writeLog(folder, linesOf(plants));
  const store = await openStore(t, folder);
  await lookUpAll(store, plants);
});

test("a store that is closed while plants are read gives them first", async (t) => {
  const folder = makeFolder(t);
  const plants = variedPlants(20);
  writeLog(folder, linesOf(plants));
  const store = await openStore(t, folder);
  const gets = plants.map(({ id }) => store.get(id));
  const closing = store.close();
  assert.deepEqual(await Promise.all(gets), plants);
  await closing;
});

test("a line that was read does not change while the memory is used for other plants", async (t) => {
  const store = await openStore(t, makeFolder(t));
  await store.create({ id: 1n, name: "first" });
  const line = await store.getLine(1n);
  for (let id = 2n; id < 14n; id++) await store.create({ id, name: "z".repeat(1_000_000) });
  assert.equal(String(line), '{"id":1,"name":"first"}');
});

const EDITED: readonly [what: string, line: Buffer][] = [
  ["has another id", Buffer.from('{"id":2,"name":"abc"}\n')],
  ["is not UTF-8", Buffer.from('{"id":1,"name":"a\xff\xff"}\n', "latin1")],
  ["is no plant", Buffer.from('{"id":1,"nama":"abc"}\n')],
  ["has no line feed", Buffer.from('{"id":1,"name":"abc"} ')],
  ["is cut", Buffer.from('{"id":1,"n')],
];

const READS: Readonly<Record<string, (store: PlantStore) => Promise<unknown>>> = {
  get: (store) => store.get(1n),
  getLine: (store) => store.getLine(1n),
  "a repeat": (store) => store.create({ id: 1n, name: "abc" }),
};

for (const [what, line] of EDITED) {
  for (const [how, read] of Object.entries(READS)) {
    test(`${how} fails the store if the line of a plant ${what} by now`, async (t) => {
      const folder = makeFolder(t);
      writeLog(folder, '{"id":1,"name":"abc"}\n');
      const store = await openStore(t, folder);
      writeLog(folder, line);
      await assert.rejects(read(store), { code: "store_failed" });
      assert.equal((await store.failed).code, "store_failed");
    });
  }
}

test("the search for the end of a long line ends after a few KiB, however many are read together", async (t) => {
  const folder = makeFolder(t);
  const plants = Array.from({ length: 1024 }, (_, at) => plantOfLine(BigInt(at), 2000));
  writeLog(folder, linesOf(plants));
  const store = await openStore(t, folder);
  const { indexOf } = Buffer.prototype;
  let searchedMax = 0;
  t.mock.method(Buffer.prototype, "indexOf", function (this: Buffer, ...given: [number, number?]) {
    const found = indexOf.apply(this, given);
    const end = found < 0 ? this.length : found;
    searchedMax = Math.max(searchedMax, end - (given[1] ?? 0));
    return found;
  });
  await lookUpAll(store, plants);
  assert.ok(searchedMax > 0 && searchedMax <= 4096, `${searchedMax} bytes`);
});
