import assert from "node:assert/strict";
import { test } from "node:test";
import { PlantStore } from "../../src/index.ts";
import { requireRoom } from "../../src/store/capacity.ts";
import { makeFolder } from "../support/folders.ts";
import { openStore } from "../support/stores.ts";

const FULL = { code: "write_failed" };
const LOG_BYTES = 2 ** 40 - 1 - 2 ** 32;
const PLANTS = 2 ** 31;

const PLACES: readonly [logBytes: number, plants: number, hasRoom: boolean][] = [
  [0, 0, true],
  [LOG_BYTES - 1, PLANTS - 1, true],
  [LOG_BYTES, 0, false],
  [0, PLANTS, false],
  [LOG_BYTES + 1, PLANTS + 1, false],
];

for (const [logBytes, plants, hasRoom] of PLACES) {
  test(`a log of ${logBytes} bytes with ${plants} plants takes ${hasRoom ? "another" : "no other"}`, () => {
    if (hasRoom) requireRoom(logBytes, plants);
    else assert.throws(() => requireRoom(logBytes, plants), FULL);
  });
}

test("a store that holds as many plants as it may refuses a new one and goes on (fake size)", async (t) => {
  const store = await openStore(t, makeFolder(t));
  await store.create({ id: 1n, name: "a" });
  const size = t.mock.getter(PlantStore.prototype, "size", () => PLANTS);
  await assert.rejects(store.create({ id: 2n, name: "b" }), FULL);
  assert.equal(await store.create({ id: 1n, name: "a" }), "replayed");
  size.mock.restore();
  assert.equal(await store.create({ id: 2n, name: "b" }), "created");
});
