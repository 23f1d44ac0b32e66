import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type NewPlant, PlantStore } from "../../src/index.ts";
import { anyPlant } from "../support/arbitraries.ts";
import { makeFolder } from "../support/folders.ts";
import { collect, readLog } from "../support/stores.ts";

test("any plant survives a restart, and JSON.parse reads its line as the same plant", async (t) => {
  const root = makeFolder(t);
  let runs = 0;
  // Many plants for each run, because a restart costs more than a plant.
  const plants = fc.uniqueArray(anyPlant, {
    selector: ({ id }) => id,
    minLength: 1,
    maxLength: 100,
    size: "max",
  });
  await fc.assert(
    fc.asyncProperty(plants, async (created) => {
      const folder = `${root}/${runs++}`;
      const before = await PlantStore.open(folder);
      try {
        const outcomes = await Promise.all(created.map((plant) => before.create(plant)));
        assert.deepEqual(new Set(outcomes), new Set(["created"]));
      } finally {
        await before.close();
      }
      assertLines(readLog(folder), created);

      const after = await PlantStore.open(folder);
      try {
        assert.equal(after.size, created.length);
        for (const plant of created) assert.deepEqual(await after.get(plant.id), plant);
        assert.deepEqual(await collect(after.list()), created);
        const repeats = await Promise.all(created.map((plant) => after.create(plant)));
        assert.deepEqual(new Set(repeats), new Set(["replayed"]));
      } finally {
        await after.close();
      }
    }),
    { numRuns: 50 },
  );
});

/** Checks that each plant is one line, which JSON.parse reads as that plant. */
function assertLines(log: string, plants: readonly NewPlant[]): void {
  assert.ok(log.endsWith("\n"));
  const lines = log.slice(0, -1).split("\n");
  assert.equal(lines.length, plants.length);
  for (const [n, { id, name, tag }] of plants.entries()) {
    const line = lines[n] ?? "";
    const members = tag === undefined ? ["id", "name"] : ["id", "name", "tag"];
    const parsed = JSON.parse(line);
    assert.deepEqual(Object.keys(parsed), members);
    assert.equal(parsed.name, name);
    assert.equal(parsed.tag, tag);
    assert.ok(line.startsWith(`{"id":${id},`)); // JSON.parse would round it
  }
}
