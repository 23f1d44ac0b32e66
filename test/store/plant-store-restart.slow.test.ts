import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { INT64_MAX, INT64_MIN } from "../../src/core/json.ts";
import { type NewPlant, PlantStore } from "../../src/index.ts";
import { makeFolder } from "../support/folders.ts";
import { collect, openStore, readLog } from "../support/stores.ts";

const anyId = fc.oneof(
  fc.bigInt({ min: INT64_MIN, max: INT64_MAX }),
  fc.constantFrom(INT64_MIN, INT64_MAX, 0n, -1n, 2n ** 53n + 1n, -(2n ** 53n) - 1n),
);

// Any UTF-16 code units, including lone surrogates, and characters with a special meaning.
const codeUnit = fc.integer({ min: 0, max: 0xffff }).map((unit) => String.fromCharCode(unit));
const surrogate = fc.integer({ min: 0xd800, max: 0xdfff }).map((unit) => String.fromCharCode(unit));
const hurtful = fc.constantFrom(
  "\n",
  "\r",
  "\0",
  '"',
  "\\",
  "\u2028",
  "\u2029",
  "\u202e",
  "\ufeff",
);
const anyString = fc.oneof(
  fc.string({ unit: fc.oneof(codeUnit, surrogate, hurtful) }),
  fc.string({ unit: "binary" }),
  fc.constantFrom("", "null", "__proto__", "\ud800", "\udc00\ud800"),
);

const anyPlant: fc.Arbitrary<NewPlant> = fc.oneof(
  fc.tuple(anyId, anyString).map(([id, name]) => ({ id, name })),
  fc.tuple(anyId, anyString, anyString).map(([id, name, tag]) => ({ id, name, tag })),
);

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

const LENGTHS: readonly number[] = [490, 491, 492, 493, 8192, 131_072, 1_048_576, 3_000_000];

test("plants of every length survive a restart, with any size of a read", async (t) => {
  const folder = makeFolder(t);
  const plants = LENGTHS.map((length, n) => ({ id: BigInt(n), name: "x".repeat(length) }));
  const before = await openStore(t, folder);
  for (const plant of plants) await before.create(plant);
  for (const plant of plants) assert.deepEqual(await before.get(plant.id), plant);
  await before.close();

  const after = await openStore(t, folder);
  for (const plant of plants) assert.equal(await after.create(plant), "replayed");
  assert.deepEqual(await collect(after.list()), plants);
});
