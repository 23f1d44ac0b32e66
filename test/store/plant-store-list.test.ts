/** Listing from the middle of an open store, as plants and as lines. */
import assert from "node:assert/strict";
import { closeSync, openSync, truncateSync, writeSync } from "node:fs";
import { test } from "node:test";
import { encodeNewPlant } from "../../src/core/plant.ts";
import type { NewPlant, PlantStore } from "../../src/index.ts";
import { makeFolder } from "../support/folders.ts";
import { collect, logPath, openStore, writeLog } from "../support/stores.ts";

/** Lists a store both as plants and as lines, which must agree. */
async function listBoth(store: PlantStore, after?: bigint): Promise<NewPlant[]> {
  const plants = await collect(store.list({ after }));
  const lines = Buffer.concat(await collect(store.listLines({ after })));
  assert.equal(lines.toString(), plants.map((plant) => `${encodeNewPlant(plant)}\n`).join(""));
  return plants;
}

const BOTH = ["list", "listLines"] as const;

test("a list after an id that no plant has, or none can have, is refused", async (t) => {
  const store = await openStore(t, makeFolder(t));
  await store.create({ id: 1n, name: "a" });
  for (const list of BOTH) {
    const listAfter = (after: unknown) => collect<unknown>(store[list]({ after: after as bigint }));
    await assert.rejects(listAfter(2n), { code: "unknown_cursor" });
    await assert.rejects(listAfter(2n ** 63n), RangeError);
    await assert.rejects(listAfter(1), TypeError);
  }
});

test("a list begins after any plant at once, no matter how many plants come before it", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, `${"\n".repeat(2 ** 20)}{"id":1,"name":"a"}\n{"id":2,"name":"b"}\n`);
  const store = await openStore(t, folder);
  assert.deepEqual(await listBoth(store, 1n), [{ id: 2n, name: "b" }]);
});

test("a plant that was repeated or written in another form by hand is listed once, from any cursor", async (t) => {
  const folder = makeFolder(t);
  const lines = [
    '\ufeff{"id":1,"name":"a"}',
    '{"name":"b","id":2.0,"more":1}\r',
    "",
    '{"id":1,"name":"a"}',
    '  {"id":3,"name":"c"}',
    '{"id":2,"name":"b"}',
  ];
  writeLog(folder, `${lines.join("\n")}\n`);
  const store = await openStore(t, folder);
  const ids = async (after?: bigint) => (await listBoth(store, after)).map(({ id }) => id);
  assert.deepEqual(await ids(), [1n, 2n, 3n]);
  assert.deepEqual(await ids(1n), [2n, 3n]);
  assert.deepEqual(await ids(2n), [3n]);
  assert.deepEqual(await ids(3n), []);
});

for (const which of BOTH) {
  test(`${which} reads nothing before its first item is requested`, async (t) => {
    const folder = makeFolder(t);
    const store = await openStore(t, folder);
    const plants = Array.from({ length: 3 }, (_, id) => ({
      id: BigInt(id),
      name: "n".repeat(50_000),
    }));
    for (const plant of plants) await store.create(plant);
    const list = store[which]();
    await list.next();
    await store.get(0n); // after all other reads
    overwrite(logPath(folder), encodeNewPlant(plants[0] as NewPlant).length + 1, "[");
    await assert.rejects(collect<unknown>(list), { code: "store_failed" });
  });
}

/** What may happen to a log of three lines while a store has it open. */
const DAMAGES: readonly [says: string, damage: (log: string, line: string) => void][] = [
  ["is cut before its second line", (log, line) => truncateSync(log, line.length)],
  ["is cut within its second line", (log, line) => truncateSync(log, line.length + 5)],
  ["has a line that is no plant", (log, line) => overwrite(log, line.length, "[")],
  ["has a plant that was never stored", (log, line) => overwrite(log, line.length + 6, "7")],
  ["has a later plant in its second line", (log, line) => overwrite(log, line.length + 6, "3")],
  ["has no line feed at its end", (log, line) => overwrite(log, 3 * line.length - 1, "X")],
];

function overwrite(log: string, offset: number, text: string): void {
  const fd = openSync(log, "r+");
  writeSync(fd, text, offset);
  closeSync(fd);
}

for (const [list, says, damage] of BOTH.flatMap((list) =>
  DAMAGES.map((each) => [list, ...each] as const),
)) {
  test(`${list} throws, and the store fails, if the log ${says}`, async (t) => {
    const folder = makeFolder(t);
    const store = await openStore(t, folder);
    for (const id of [1n, 2n, 3n]) await store.create({ id, name: "a" });
    damage(logPath(folder), `${encodeNewPlant({ id: 1n, name: "a" })}\n`);
    await assert.rejects(collect<unknown>(store[list]()), { code: "store_failed" });
    assert.equal((await store.failed).code, "store_failed");
  });
}

for (const which of BOTH) {
  test(`${which} does not fail the store if its consumer throws`, async (t) => {
    const store = await openStore(t, makeFolder(t));
    await store.create({ id: 1n, name: "a" });
    const list = store[which]();
    await list.next();
    await assert.rejects(list.throw(new Error("mine")), /mine/);
    assert.equal((await listBoth(store)).length, 1);
  });
}
