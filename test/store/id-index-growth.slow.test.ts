/** What adding costs while the index grows again and again. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { IdIndex, TABLES } from "../../src/store/id-index.ts";
import { hashWordsOf } from "../support/id-words.ts";
import { watchSlots } from "../support/written-slots.ts";

const SEED = hashWordsOf(0);
const COUNT = 400_000;

const PATTERNS: readonly [says: string, id: (n: number) => bigint][] = [
  ["that rise", (n) => BigInt(n)],
  ["that are scattered", (n) => BigInt(n) * 0x9e37_79b9_7f4a_7c15n],
  ["that are equal modulo 2^32", (n) => (BigInt(n) << 32n) + 7n],
];

for (const [says, idOf] of PATTERNS) {
  test(`no add of ids ${says} moves more than a few thousandths of them, nor do a thousand adds`, (t) => {
    const written = watchSlots(t);
    const index = new IdIndex(0, SEED);
    let total = 0;
    let ofThousand = 0;
    for (let n = 0; n < COUNT; n++) {
      index.add(BigInt.asIntN(64, idOf(n)), n);
      const slots = written() - total;
      total += slots;
      assert.ok(slots <= 10 + (3 * n) / TABLES, `${slots} in add ${n}`);
      if (n % 1000 === 0) ofThousand = 0;
      ofThousand += slots;
      assert.ok(ofThousand <= 10_000, `${ofThousand} in a thousand adds up to ${n}`);
    }
    assert.equal(index.size, COUNT);
    assert.ok(total >= 3 * COUNT, "it has grown, so that slots were moved");
    assert.ok(total <= 6 * COUNT, `${total / COUNT} writes for each add`);
  });
}

test("an index that expects as many ids as come moves few of them", (t) => {
  const written = watchSlots(t);
  const index = new IdIndex(COUNT, SEED);
  for (let n = 0; n < COUNT; n++) index.add(BigInt(n), n);
  assert.ok(written() < 1.3 * COUNT, `${written() / COUNT} writes for each add`);
});

test("an index that expects many ids allocates nothing for them beforehand", () => {
  const { arrayBuffers } = process.memoryUsage();
  const index = new IdIndex(50_000_000, SEED);
  assert.ok(process.memoryUsage().arrayBuffers - arrayBuffers < 1024 * 1024);
  assert.equal(index.add(1n, 40), undefined);
  assert.equal(index.get(1n), 40);
});
