/** Which creates share an outcome, which store a plant themselves; and that their map holds what a map holds. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { CreatesInFlight, ShortLivedMap } from "../../src/core/creates-in-flight.ts";
import { PlantStoreError } from "../../src/core/errors.ts";
import type { NewPlant } from "../../src/core/plant.ts";

const FERN: NewPlant = { id: 7n, name: "Fern" };

interface Storing {
  readonly plant: NewPlant;
  readonly resolve: (stored: NewPlant) => void;
  readonly reject: (error: PlantStoreError) => void;
}

/** Creates that finish storing when the test resolves them. */
function begin(): { creates: CreatesInFlight; storing: Storing[] } {
  const storing: Storing[] = [];
  const creates = new CreatesInFlight((plant) => {
    return new Promise((resolve, reject) => storing.push({ plant, resolve, reject }));
  });
  return { creates, storing };
}

test("repeats of a create in flight share its outcome", async () => {
  const { creates, storing } = begin();
  const first = creates.create(FERN);
  const same = creates.create({ ...FERN });
  const other = creates.create({ ...FERN, tag: "" });
  assert.equal(storing.length, 1);
  storing[0]?.resolve(FERN);
  assert.equal(await first, "created");
  assert.equal(await same, "replayed");
  await assert.rejects(other, { code: "conflict" });
});

test("creates in flight whose id is taken are compared with the stored plant", async () => {
  const { creates, storing } = begin();
  const first = creates.create({ ...FERN, tag: "other" });
  const same = creates.create({ ...FERN });
  storing[0]?.resolve({ ...FERN });
  await assert.rejects(first, { code: "conflict" });
  assert.equal(await same, "replayed");
  assert.equal(storing.length, 1);
});

test("when a create fails, its repeats fail in the same way, and the next create tries again", async () => {
  const { creates, storing } = begin();
  const error = new PlantStoreError("write_failed", "full");
  const first = creates.create(FERN);
  const repeat = creates.create(FERN);
  storing[0]?.reject(error);
  await assert.rejects(first, error);
  await assert.rejects(repeat, error);
  const again = creates.create(FERN);
  storing[1]?.resolve(FERN);
  assert.equal(await again, "created");
});

test("only one create of an id stores at a time, and creates of other ids do not wait for it", async () => {
  const id = fc.bigInt({ min: 0n, max: 20n });
  const step = fc.record({ id, isEnd: fc.boolean() });
  await fc.assert(
    fc.asyncProperty(fc.array(step), async (steps) => {
      const { creates, storing } = begin();
      const inFlight = new Map<bigint, Storing>();
      for (const { id: which, isEnd } of steps) {
        const present = inFlight.get(which);
        if (isEnd) {
          inFlight.delete(which);
          present?.resolve(present.plant);
          await new Promise(setImmediate);
          continue;
        }
        const before = storing.length;
        void creates.create({ id: which, name: "" });
        assert.equal(storing.length, before + (present === undefined ? 1 : 0));
        const added = storing[before];
        if (added !== undefined) inFlight.set(which, added);
      }
    }),
  );
});

/** More than several generations. */
const ENTRIES = 10_000;

for (const alive of [1, 1000, 2047, 2048, 2049, 5000]) {
  test(`each of ${alive} entries that come and go is found until it is deleted`, () => {
    const map = new ShortLivedMap<bigint, string>();
    for (let key = 0; key < ENTRIES; key++) {
      const oldest = key - alive;
      if (oldest >= 0) {
        assert.ok(map.delete(BigInt(oldest)));
        assert.equal(map.get(BigInt(oldest)), undefined);
        assert.ok(!map.delete(BigInt(oldest)));
      }
      map.add(BigInt(key), `value ${key}`);
      assert.equal(map.size, Math.min(key + 1, alive));
      for (const known of [Math.max(0, oldest + 1), key]) {
        assert.equal(map.get(BigInt(known)), `value ${known}`);
      }
    }
    const left = Array.from({ length: alive }, (_, at) => `value ${ENTRIES - alive + at}`);
    assert.deepEqual([...map.values()], left);
  });
}

test("an entry that stays is found while thousands come and go", () => {
  const map = new ShortLivedMap<bigint, string>();
  map.add(-1n, "stays");
  for (let key = 0n; key < ENTRIES; key++) {
    map.add(key, "goes");
    assert.deepEqual([...map.values()], ["stays", "goes"]);
    assert.ok(map.delete(key));
  }
  assert.equal(map.size, 1);
});
