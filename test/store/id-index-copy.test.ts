/** Copies of an index that are made page by page while ids are added. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { SEED_BYTES } from "../../src/store/id-hash.ts";
import { IdIndex } from "../../src/store/id-index.ts";
import type { IndexCopy } from "../../src/store/index-copy.ts";
import { PAGE_BYTES } from "../../src/store/slot-table.ts";
import { watchSlots } from "../support/written-slots.ts";

const SEED = new Uint8Array(SEED_BYTES).fill(7);

function idOf(n: number): bigint {
  return BigInt.asIntN(64, BigInt(n) * 0x9e37_79b9_7f4a_7c15n);
}

/** An index of the ids 0 to `count` - 1, the offset of each its number. */
function indexOf(count: number): IdIndex {
  const index = new IdIndex(0, SEED);
  for (let n = 0; n < count; n++) index.add(idOf(n), n);
  return index;
}

/** Copies an index; `between` is called after each page. */
function finish(copy: IndexCopy, between: () => void = () => {}): { index: IdIndex; used: number } {
  const pages = [];
  let used = 0;
  const bytes = new Uint8Array(PAGE_BYTES);
  for (const page of copy.pages(bytes)) {
    pages.push({ ...page, bytes: bytes.slice().buffer });
    used += page.used;
    between();
  }
  copy.end();
  const index = IdIndex.ofPages(copy.shape, pages, used);
  for (const page of pages) index.setPage(page, page.bytes);
  return { index, used };
}

function assertHolds(index: IdIndex, from: number, to: number, isThere: boolean): void {
  for (let n = from; n < to; n++) {
    assert.equal(index.get(idOf(n)), isThere ? n : undefined, `id number ${n}`);
  }
}

/** A table is full at 22,938 ids, at 30,585 and so on; then its slots are moved. */
const MOMENTS = [
  0, 1, 22_938, 22_939, 22_940, 23_500, 24_500, 30_584, 30_600, 31_000, 54_400, 60_000,
];

for (const count of MOMENTS) {
  test(`a copy begun at ${count} ids holds these alone, however many are added meanwhile`, () => {
    const index = indexOf(count);
    let added = count;
    const copy = index.beginCopy(count);
    const { index: copied, used } = finish(copy, () => {
      for (let n = 0; n < 200; n++) index.add(idOf(added), added++);
    });
    assert.equal(copy.isLost, false);
    assert.equal(used, count);
    assert.equal(copied.size, count);
    assertHolds(copied, 0, count, true);
    assertHolds(copied, count, count + 1000, false);
    assertHolds(index, 0, added, true);

    // Both go on growing.
    for (const [grown, from] of [
      [copied, count],
      [index, added],
    ] as const) {
      for (let n = from; n < from + 40_000; n++) assert.equal(grown.add(idOf(n), n), undefined);
      assert.equal(grown.size, from + 40_000);
      assertHolds(grown, 0, from + 40_000, true);
    }
  });
}

test("a copy begun at any moment, with any number of ids added between its pages, is exact", () => {
  fc.assert(
    fc.property(fc.nat(45_000), fc.array(fc.nat(500), { maxLength: 6 }), (count, adds) => {
      const index = indexOf(count);
      let added = count;
      const copy = index.beginCopy(count);
      let page = 0;
      const { index: copied, used } = finish(copy, () => {
        for (let n = adds[page++] ?? 0; n > 0; n--) index.add(idOf(added), added++);
      });
      if (copy.isLost) return;
      assert.equal(used, count);
      assertHolds(copied, 0, count, true);
      assertHolds(copied, count, added, false);
      assertHolds(index, 0, added, true);
    }),
    { numRuns: 40, interruptAfterTimeLimit: 15_000 },
  );
});

test("a copy keeps offsets at every boundary, and leaves those from its limit on out", () => {
  const offsets = [0, 1, 2 ** 32 - 2, 2 ** 32 - 1, 2 ** 32, 2 ** 33, 2 ** 40 - 2];
  for (const [at, limit] of [...offsets.entries()].slice(1)) {
    const index = new IdIndex(0, SEED);
    for (let n = 0; n < at; n++) index.add(BigInt(n), offsets[n] as number);
    const copy = index.beginCopy(limit);
    for (let n = at; n < offsets.length; n++) index.add(BigInt(n), offsets[n] as number);
    const { index: copied, used } = finish(copy);
    assert.equal(used, at);
    for (const [n, offset] of offsets.entries()) {
      assert.equal(copied.get(BigInt(n)), n < at ? offset : undefined);
    }
  }
});

test("nothing is moved while a copy is made, and all the more afterwards", (t) => {
  const count = 23_500; // in the middle of a move
  const index = indexOf(count);
  const slots = watchSlots(t);
  const copy = index.beginCopy(count);
  for (let n = count; n < count + 1000; n++) index.add(idOf(n), n);
  assert.equal(slots(), 1000, "one for each");
  finish(copy);
  index.add(idOf(count + 1000), count + 1000);
  assert.ok(slots() >= 1001 + 5);
});

test("a copy that takes too long is given up, so that the index stays quick", () => {
  for (const count of [10_000, 22_938, 23_500]) {
    const index = indexOf(count);
    const copy = index.beginCopy(count);
    let n = count;
    while (!copy.isLost && n < 2 * count + 20_000) index.add(idOf(n), n++);
    assert.equal(copy.isLost, true);
    assert.ok(n - count <= 28_672 * 0.05 * (4 / 3) + 1, `${n - count} adds`);
    for (const end = n + 40_000; n < end; n++) index.add(idOf(n), n);
    assertHolds(index, 0, n, true);
  }
});
