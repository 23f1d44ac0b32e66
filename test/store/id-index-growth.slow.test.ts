/** The highest cost of one call of the index, while it grows again and again. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { IdIndex } from "../../src/store/id-index.ts";
import { hashWordsOf } from "../support/id-words.ts";
import { watchSlots } from "../support/written-slots.ts";

const SEED = hashWordsOf(0);
const MIB = 1024 * 1024;
/** Enough to grow from one page to more than twenty. */
const COUNT = 400_000;
/** An add makes a few moves, and continues to the end of a run of used slots. */
const MOVES_MAX = 600;

const PATTERNS: readonly [says: string, id: (n: number) => bigint][] = [
  ["that rise", (n) => BigInt(n)],
  ["that are scattered", (n) => BigInt(n) * 0x9e37_79b9_7f4a_7c15n],
  ["that are equal modulo 2^32", (n) => (BigInt(n) << 32n) + 7n],
];

/** Records the sizes of allocations from now on; reading them removes them. */
function watchAllocations(t: TestContext): () => number {
  const Original = globalThis.ArrayBuffer;
  let bytes = 0;
  globalThis.ArrayBuffer = class extends Original {
    constructor(length: number) {
      super(length);
      bytes += length;
    }
  } as ArrayBufferConstructor;
  t.after(() => {
    globalThis.ArrayBuffer = Original;
  });
  return () => {
    const taken = bytes;
    bytes = 0;
    return taken;
  };
}

for (const [says, idOf] of PATTERNS) {
  test(`no add of ids ${says} moves more than a few slots, also while the index grows`, (t) => {
    const written = watchSlots(t);
    const index = new IdIndex(0, SEED);
    let most = 0;
    let total = 0;
    for (let n = 0; n < COUNT; n++) {
      index.add(BigInt.asIntN(64, idOf(n)), n);
      const slots = written() - total;
      most = Math.max(most, slots);
      total += slots;
    }
    assert.equal(index.size, COUNT);
    assert.ok(most <= MOVES_MAX, `${most} in one call`);
    assert.ok(total >= 3 * COUNT, "it has grown, so that slots were moved");
    assert.ok(total <= 6 * COUNT, `${total / COUNT} writes for each add`);
  });

  test(`no add of ids ${says} allocates more than 1 MiB, and all adds allocate at most 24 bytes an id`, (t) => {
    const allocated = watchAllocations(t);
    const index = new IdIndex(0, SEED);
    let most = allocated();
    let total = most;
    for (let n = 0; n < COUNT; n++) {
      index.add(BigInt.asIntN(64, idOf(n)), n);
      const bytes = allocated();
      most = Math.max(most, bytes);
      total += bytes;
      // Besides, there are a few pages: those of a small index, and one on each side of a move.
      assert.ok(total <= 24 * n + 2 * MIB, `${total} bytes for ${n} ids`);
    }
    assert.ok(most > 0 && most <= MIB, `${most} in one call`);
  });
}

test("an index that expects many ids allocates nothing for them beforehand", (t) => {
  const allocated = watchAllocations(t);
  const index = new IdIndex(50_000_000, SEED);
  assert.ok(allocated() < MIB);
  assert.equal(index.add(1n, 40), undefined);
  assert.equal(index.get(1n), 40);
});
