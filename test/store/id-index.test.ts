/** The index finds every id that was added, one by one or in bulk, and no other. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { INT64_MAX, INT64_MIN } from "../../src/core/json.ts";
import { IdIndex, IdLoader } from "../../src/store/id-index.ts";

/** Enough to make the index grow several times. */
const COUNT = 10_000;
/** So far apart that offsets need more than 32 bits. */
const OFFSET_STEP = 2 ** 24 + 1;

/** Patterns of ids for which hash tables or 32-bit arithmetic often fail. */
const PATTERNS: readonly [says: string, id: (n: bigint) => bigint][] = [
  ["that rise from 0", (n) => n],
  ["up to the greatest int64", (n) => INT64_MAX - n],
  ["from the least int64", (n) => INT64_MIN + n],
  ["that are equal modulo 2^32", (n) => (n << 32n) + 7n],
  ["whose low half is zero", (n) => n << 32n],
  ["around 2^31 and 2^32", (n) => (n % 2n === 0n ? 2n ** 31n : 2n ** 32n) + n - 5000n],
  ["whose halves are swapped copies", (n) => (n % 2n === 0n ? n : (n - 1n) << 32n)],
];

type Words = readonly [low: number, high: number];

function wordsOf(id: bigint): Words {
  return [Number(BigInt.asIntN(32, id)), Number(id >> 32n)];
}

for (const [says, idOf] of PATTERNS) {
  test(`every one of ${COUNT} ids ${says} is found, and no other`, () => {
    const oracle = new Map<bigint, number>();
    for (let n = 0; n < COUNT; n++) oracle.set(idOf(BigInt(n)), n * OFFSET_STEP);
    const added = new IdIndex();
    const loaded = new IdIndex();
    const loader = new IdLoader(loaded, COUNT * OFFSET_STEP);
    for (const [id, offset] of oracle) {
      added.add(id, offset);
      loader.addWords(...wordsOf(id), offset);
    }
    loader.flush();
    for (const index of [added, loaded]) {
      assert.equal(index.size, oracle.size);
      for (const [id, offset] of oracle) {
        assert.equal(index.get(id), offset);
        for (const other of [id + 1n, id ^ (1n << 32n), id ^ (1n << 62n), -id]) {
          const wrapped = BigInt.asIntN(64, other);
          assert.equal(index.get(wrapped), oracle.get(wrapped), String(wrapped));
        }
      }
    }
  });
}

/** Where an offset, or the one after it, needs another bit of a half. */
const EDGES = [0, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 2, 2 ** 32 - 1, 2 ** 32, 2 ** 53 - 2];
const anyOffset = fc.oneof(fc.nat(), fc.constantFrom(...EDGES));
const someId = fc.bigInt({ min: -20n, max: 20n });
const someIds = fc.array(fc.tuple(someId, anyOffset), { maxLength: 60 });

test("an id keeps its first offset, whether ids are added one by one or in bulk", () => {
  fc.assert(
    fc.property(someIds, someIds, (ids, idsInBulk) => {
      const oracle = new Map<bigint, number>();
      const index = new IdIndex();
      for (const [id, offset] of ids) {
        assert.equal(index.add(id, offset), oracle.get(id));
        if (!oracle.has(id)) oracle.set(id, offset);
      }
      const loader = new IdLoader(index, 2000);
      for (const [id, offset] of idsInBulk) {
        loader.addWords(...wordsOf(id), offset);
        if (!oracle.has(id)) oracle.set(id, offset);
      }
      loader.flush();
      assert.equal(index.size, oracle.size);
      for (const [id, offset] of oracle) assert.equal(index.get(id), offset);
    }),
  );
});

test("two million ids in bulk are all found, and take less than 30 bytes each", () => {
  const count = 2_000_000;
  const before = process.memoryUsage().arrayBuffers;
  const index = new IdIndex();
  const loader = new IdLoader(index, count * 30);
  for (let n = 0; n < count; n++) loader.addWords(Math.imul(n, 7919), n % 3, n * 30);
  loader.flush();
  assert.equal(index.size, count);
  for (let n = 0; n < count; n += 997) {
    const id = (BigInt(n % 3) << 32n) | BigInt(Math.imul(n, 7919) >>> 0);
    assert.equal(index.get(id), n * 30);
  }
  const bytes = (process.memoryUsage().arrayBuffers - before - 23 * 2 ** 20) / count;
  assert.ok(bytes < 30, `${bytes} bytes a plant`);
});
