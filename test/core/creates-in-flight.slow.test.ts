/** Very many creates in flight. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { CreatesInFlight } from "../../src/core/creates-in-flight.ts";

test("each of very many creates is found while it is in flight, and not afterwards", async () => {
  const storing: (() => void)[] = [];
  const creates = new CreatesInFlight((plant) => {
    return new Promise((resolve) => storing.push(() => resolve(plant)));
  });
  const plants = Array.from({ length: 20_000 }, (_, at) => ({ id: BigInt(at), name: "" }));
  for (let round = 1; round <= 2; round++) {
    const outcomes = plants.map((plant) => creates.create(plant));
    const repeats = plants.map((plant) => creates.create({ ...plant }));
    assert.equal(storing.length, round * plants.length);
    for (const resolve of storing) resolve();
    assert.deepEqual(new Set(await Promise.all(outcomes)), new Set(["created"]));
    assert.deepEqual(new Set(await Promise.all(repeats)), new Set(["replayed"]));
  }
});
