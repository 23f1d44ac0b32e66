/** Lists of stores of many blocks, and of any plants. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { encodeNewPlant } from "../../src/core/plant.ts";
import type { NewPlant, PlantStore } from "../../src/index.ts";
import { anyPlant } from "../support/arbitraries.ts";
import { makeFolder } from "../support/folders.ts";
import { collect, openStore, writeLog } from "../support/stores.ts";

/** Lists a store both as plants and as lines, which must agree. */
async function listBoth(store: PlantStore, after?: bigint): Promise<NewPlant[]> {
  const plants = await collect(store.list({ after }));
  const lines = Buffer.concat(await collect(store.listLines({ after })));
  assert.equal(lines.toString(), plants.map((plant) => `${encodeNewPlant(plant)}\n`).join(""));
  return plants;
}

test("a list begins after any plant of a store of many blocks", async (t) => {
  const store = await openStore(t, makeFolder(t));
  const plants = Array.from({ length: 400 }, (_, index) => ({
    // Ids in no order; lines of many lengths, some of them longer than a block.
    id: BigInt((index * 7919) % 400),
    name: "x".repeat(index % 50 === 0 ? 200_000 : index),
  }));
  await Promise.all(plants.map((plant) => store.create(plant)));
  for (const start of [0, 1, 49, 50, 51, 199, 398, 399]) {
    const after = plants[start]?.id;
    assert.deepEqual(await listBoth(store, after), plants.slice(start + 1));
  }
  assert.deepEqual(await listBoth(store, undefined), plants);
});

test("a part of the log that only repeats plants yields empty slices", async (t) => {
  const folder = makeFolder(t);
  const lines = Array.from({ length: 3000 }, (_, id) =>
    encodeNewPlant({ id: BigInt(id), name: "a" }),
  );
  writeLog(folder, `${[...lines, ...lines].join("\n")}\n`);
  const store = await openStore(t, folder);
  const slices = await collect(store.listLines());
  assert.equal(Buffer.concat(slices).toString(), `${lines.join("\n")}\n`);
  assert.equal(slices.at(-1)?.length, 0);
});

/** As another program may write it: with more escapes, or with fewer. */
function encodeEscaped(plant: NewPlant): string {
  return encodeNewPlant(plant).replace(
    /[^\0-~]/g,
    (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

function encodeRaw({ id, name, tag }: NewPlant): string {
  const members = JSON.stringify({ name, tag });
  return `{"id":${id},${members.slice(1)}`;
}

test("a line is listed as it was written, whatever its name, and whichever program wrote it", async (t) => {
  const line = fc.tuple(anyPlant, fc.constantFrom(encodeNewPlant, encodeEscaped, encodeRaw));
  const lines = fc.uniqueArray(line, { selector: ([{ id }]) => id });
  await fc.assert(
    fc.asyncProperty(lines, async (written) => {
      const folder = makeFolder(t);
      const log = written.map(([plant, encode]) => `${encode(plant)}\n`).join("");
      writeLog(folder, log);
      await using store = await openStore(t, folder);
      assert.equal(Buffer.concat(await collect(store.listLines())).toString(), log);
      assert.deepEqual(
        await collect(store.list()),
        written.map(([plant]) => ({ ...plant })),
      );
    }),
  );
});
