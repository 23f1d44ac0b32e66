import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { SEED_BYTES } from "../../src/store/id-hash.ts";
import { IdIndex } from "../../src/store/id-index.ts";
import { PAGE_BYTES } from "../../src/store/slot-table.ts";
import { damagePage, writeIndexPages } from "../support/index-pages.ts";
import { openFilesIn } from "../support/stores.ts";

const SEED = new Uint8Array(SEED_BYTES).fill(3);

/** As full as an index gets, so that runs of slots lead over the ends of its pages. */
const FULL = fullIndex(78_000);
/** Of 30 pages, which are read in many groups. */
const LONG = fullIndex(3_000, 780_000);

function fullIndex(ids: number, expected = ids): IdIndex {
  const index = new IdIndex(expected, SEED);
  for (let n = 0; n < ids; n++) index.add(BigInt(n), n);
  return index;
}

/** An id whose place is in the last page that holds any. */
function lastId(index: IdIndex): bigint {
  const pageOf = (id: number) => index.placeOf(index.hashOfId(BigInt(id))).page;
  const ids = Array.from({ length: index.size }, (_, id) => id);
  return BigInt(ids.reduce((last, id) => (pageOf(id) > pageOf(last) ? id : last)));
}

test("all pages give the index back as it was", async (t) => {
  const { index, pages } = writeIndexPages(t, FULL);
  await pages.readAll();
  for (let n = -10; n < FULL.size + 10; n++) {
    assert.equal(index.get(BigInt(n)), FULL.get(BigInt(n)), `id ${n}`);
  }
});

test("an id that is said to be read is found whatever pages are missing, and another one throws", (t) => {
  const { index, sums, path: file } = writeIndexPages(t, FULL);
  const content = fs.readFileSync(file);
  const page = (at: number) =>
    new Uint8Array(content.subarray(at * PAGE_BYTES, (at + 1) * PAGE_BYTES));
  let unread = FULL.size;
  for (const at of [1, 2, 0]) {
    index.setPage(sums[at] as (typeof sums)[number], page(at).buffer);
    unread = 0;
    for (let n = 0; n < FULL.size; n++) {
      const isRead = index.isRead(index.hashOfId(BigInt(n)));
      if (isRead) assert.equal(index.get(BigInt(n)), n);
      else unread++;
    }
    assert.equal(unread > 0, at !== 0);
    if (at === 1) assert.throws(() => index.get(lastId(FULL)), RangeError);
  }
});

test("a page that somebody waits for is read before the others", async (t) => {
  const { index, pages } = writeIndexPages(t, LONG);
  const told: number[] = [];
  let toldBefore: number | undefined;
  const hash = index.hashOfId(lastId(LONG));
  const waiting = pages.wait(hash).then(() => {
    toldBefore = told.length;
  });
  await Promise.all([pages.readAll((share) => told.push(share)), waiting]);
  assert.ok(told.length >= 4);
  assert.ok((toldBefore as number) <= 2, "two are read at once");
});

test("whoever waits for any page has it, at any time", async (t) => {
  const { index, pages } = writeIndexPages(t, LONG);
  const found: Promise<number | undefined>[] = [];
  const ask = (from: number) => {
    for (let n = from; n < LONG.size; n += 7) {
      const wait = pages.wait(index.hashOfId(BigInt(n)));
      found.push(wait.then(() => index.get(BigInt(n))));
    }
  };
  ask(0);
  await pages.readAll(() => ask(found.length % 7));
  ask(6);
  for (const offset of await Promise.all(found)) assert.notEqual(offset, undefined);
});

test("thousands that wait ask for their place once each, and each group is read once", async (t) => {
  const { index, pages, sums } = writeIndexPages(t, LONG);
  const placeOf = t.mock.method(index, "placeOf");
  const setPage = t.mock.method(index, "setPage");
  const waits = Array.from({ length: 5000 }, (_, n) => pages.wait(index.hashOfId(BigInt(n))));
  await pages.readAll();
  await Promise.all(waits);
  assert.equal(placeOf.mock.callCount(), 5000);
  assert.equal(setPage.mock.callCount(), sums.length);
});

test("a damaged page is refused and not set, and the file is closed", async (t) => {
  for (const page of [0, 1, 2]) {
    const { index, pages, path: file } = writeIndexPages(t, FULL);
    damagePage(file, page);
    await assert.rejects(pages.readAll());
    const homeThere = Array.from({ length: FULL.size }, (_, n) => index.hashOfId(BigInt(n))).find(
      (hash) => index.placeOf(hash).page === page,
    );
    assert.equal(index.isRead(homeThere as number), false);
    assert.deepEqual(openFilesIn(path.dirname(file)), []);
  }
});

test("pages that are missing in the file are damaged ones", async (t) => {
  const { pages, path: file } = writeIndexPages(t, FULL);
  fs.truncateSync(file, PAGE_BYTES);
  await assert.rejects(pages.readAll());
});

test("reading that is stopped rejects, early, and the file is closed", async (t) => {
  const { index, pages, path: file } = writeIndexPages(t, LONG);
  let told = 0;
  const reading = pages.readAll(() => {
    told++;
    pages.stop();
  });
  await assert.rejects(reading);
  assert.equal(told, 1);
  assert.equal(index.isRead(index.hashOfId(lastId(LONG))), false);
  assert.deepEqual(openFilesIn(path.dirname(file)), []);
});
