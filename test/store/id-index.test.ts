import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { INT64_MAX, INT64_MIN } from "../../src/core/json.ts";
import { hashId, IdIndex } from "../../src/store/id-index.ts";
import { hashWordsOf } from "../support/id-words.ts";

/** Enough to make the index grow several times. */
const COUNT = 50_000;
/** So far apart that offsets need all their 40 bits. */
const OFFSET_STEP = 2 ** 24 + 1;

const SEED = hashWordsOf(0);

/** Patterns of ids for which hash tables or 32-bit arithmetic often fail. */
const PATTERNS: readonly [says: string, id: (n: bigint) => bigint][] = [
  ["that rise from 0", (n) => n],
  ["that fall from -1", (n) => -1n - n],
  ["up to the greatest int64", (n) => INT64_MAX - n],
  ["from the least int64", (n) => INT64_MIN + n],
  ["that are equal modulo 2^32", (n) => (n << 32n) + 7n],
  ["that are negative and equal modulo 2^32", (n) => (-n << 32n) - 7n],
  ["whose low half is zero", (n) => n << 32n],
  ["whose low half is all ones", (n) => (n << 32n) | 0xffff_ffffn],
  ["that are equal modulo 2^20", (n) => n << 20n],
  ["around 2^31 and 2^32", (n) => (n % 2n === 0n ? 2n ** 31n : 2n ** 32n) + n - 25_000n],
  ["that alternate in sign", (n) => (n % 2n === 0n ? n : -n)],
  ["whose halves are swapped copies", (n) => (n % 2n === 0n ? n : (n - 1n) << 32n)],
];

for (const [says, idOf] of PATTERNS) {
  test(`the index finds every one of ${COUNT} ids ${says}, and no other`, () => {
    const oracle = new Map<bigint, number>();
    for (let n = 0; n < COUNT; n++) oracle.set(idOf(BigInt(n)), n * OFFSET_STEP);
    const index = new IdIndex(0, SEED);
    for (const [id, offset] of oracle) index.add(id, offset);

    assert.equal(index.size, oracle.size);
    for (const [id, offset] of oracle) {
      assert.equal(index.get(id), offset);
      for (const other of [id + 1n, id - 1n, id ^ (1n << 32n), id ^ (1n << 62n), -id]) {
        const wrapped = BigInt.asIntN(64, other);
        assert.equal(index.get(wrapped), oracle.get(wrapped), String(wrapped));
      }
    }
  });
}

test("an empty index knows no id", () => {
  const index = new IdIndex(0, SEED);
  assert.equal(index.size, 0);
  for (const id of [0n, 1n, -1n, INT64_MIN, INT64_MAX, 2n ** 32n]) {
    assert.equal(index.get(id), undefined, String(id));
  }
});

test("the index keeps offsets at every boundary of 32 bits, and of a terabyte", () => {
  const offsets = [
    0,
    1,
    2 ** 16 - 1,
    2 ** 31 - 1,
    2 ** 31,
    2 ** 32 - 2,
    2 ** 32 - 1,
    2 ** 32,
    2 ** 32 + 1,
    2 ** 33 - 1,
    2 ** 33,
    2 ** 40 - 2,
  ];
  const index = new IdIndex(0, SEED);
  for (const [n, offset] of offsets.entries()) index.add(BigInt(n), offset);
  for (const [n, offset] of offsets.entries()) assert.equal(index.get(BigInt(n)), offset);
});

test("the index finds ids whose slots are on both sides of a page border", () => {
  const count = 300_000;
  const index = new IdIndex(count, SEED); // as full as it gets without growing
  for (let id = 0; id < count; id++) index.add(BigInt(id), id);
  for (let id = 0; id < count; id++) {
    if (index.get(BigInt(id)) !== id) assert.fail(String(id));
  }
  assert.equal(index.size, count);
});

test("the index refuses an offset beyond its range", () => {
  const index = new IdIndex(0, SEED);
  assert.throws(() => index.add(1n, 2 ** 40 - 1), RangeError);
  assert.equal(index.get(1n), undefined);
});

test("entries are found from the moment they are added, also while the index grows", () => {
  const index = new IdIndex(0, SEED);
  for (let n = 0; n < COUNT; n++) {
    const id = BigInt(n) * 0x1_0000_0001n;
    assert.equal(index.get(id), undefined);
    index.add(id, n);
    assert.equal(index.size, n + 1);
    assert.equal(index.get(id), n);
    assert.equal(index.get(0n), 0);
  }
});

test("any ids under any seed are found at their offsets, as a Map finds them", () => {
  const id = fc.oneof(
    fc.bigInt({ min: INT64_MIN, max: INT64_MAX }),
    fc.bigInt({ min: -20n, max: 20n }),
    fc.bigInt({ min: -20n, max: 20n }).map((high) => high << 32n),
    fc.constantFrom(INT64_MIN, INT64_MAX),
  );
  const ids = fc.uniqueArray(id, { maxLength: 3000, size: "max" });
  // A log only grows, so the offsets of its records rise.
  const step = fc.constantFrom(1, 40, 2 ** 20, 2 ** 28);
  const seed = fc.integer({ min: 0, max: 255 }).map(hashWordsOf);
  fc.assert(
    fc.property(ids, ids, step, seed, (added, others, bytes, seedValue) => {
      const oracle = new Map(added.map((value, n) => [value, n * bytes]));
      const index = new IdIndex(0, seedValue);
      for (const [value, offset] of oracle) index.add(value, offset);
      assert.equal(index.size, oracle.size);
      for (const value of [...added, ...others]) {
        assert.equal(index.get(value), oracle.get(value), String(value));
      }
    }),
    // Shrinking thousands of ids could take minutes.
    { numRuns: 60, interruptAfterTimeLimit: 10_000 },
  );
});

function hashesOf(index: IdIndex): number[] {
  return Array.from({ length: 10 }, (_, n) => index.tableOf(n, -n));
}

test("every index hashes with random words of its own, unless a seed is given", () => {
  assert.notDeepEqual(hashesOf(new IdIndex()), hashesOf(new IdIndex()));
  const seed = hashWordsOf(5);
  assert.deepEqual(hashesOf(new IdIndex(0, seed)), hashesOf(new IdIndex(0, seed)));
});

test("ids that collide under one seed are spread under another", () => {
  const [known, secret] = [hashWordsOf(1), hashWordsOf(2)];
  /** The first ten bits of the hash: the home of an id in a table of 1024 homes. */
  const homeOf = (words: Int32Array, id: number) => hashId(words, id, 0) >>> 22;
  const chosen: number[] = [];
  for (let id = 0; chosen.length < 512; id++) if (homeOf(known, id) === 7) chosen.push(id);
  const homes = new Set(chosen.map((id) => homeOf(secret, id)));
  // 512 ids that are thrown into 1024 homes at random occupy 403 on average.
  assert.ok(homes.size > 350 && homes.size < 450, `${homes.size} homes`);
});
