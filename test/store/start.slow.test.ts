/** Opening a log of many blocks. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { makeFolder } from "../support/folders.ts";
import { collect, openStore, writeLog } from "../support/stores.ts";

test("a log of many blocks is recovered with every line at its place", async (t) => {
  const folder = makeFolder(t);
  // Lines of many lengths, one longer than a block, so that blocks end within lines.
  const plants = Array.from({ length: 2000 }, (_, n) => ({
    id: BigInt(n) - 1000n,
    name: "x".repeat(n === 1000 ? 1_500_000 : (n * 7919) % 3000),
  }));
  const lines = plants.map(({ id, name }) => `{"id":${id},"name":"${name}"}\n`);
  writeLog(folder, lines.join(""));
  const store = await openStore(t, folder);
  assert.equal(store.size, plants.length);
  for (const plant of plants) assert.deepEqual(await store.get(plant.id), plant);
  assert.deepEqual(await collect(store.list()), plants);
});
