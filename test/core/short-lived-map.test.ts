/** A map whose entries come and go holds what a map holds. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ShortLivedMap } from "../../src/core/short-lived-map.ts";

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
