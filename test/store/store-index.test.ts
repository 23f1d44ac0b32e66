import assert from "node:assert/strict";
import { once } from "node:events";
import { type TestContext, test } from "node:test";
import { SEED_BYTES } from "../../src/store/id-hash.ts";
import { IdIndex } from "../../src/store/id-index.ts";
import type { SnapshotPages } from "../../src/store/snapshot-pages.ts";
import { type IndexRest, StoreIndex } from "../../src/store/store-index.ts";
import { damagePage, writeIndexPages } from "../support/index-pages.ts";
import { makeLatch } from "../support/watch.ts";

const SEED = new Uint8Array(SEED_BYTES).fill(3);
const IDS = 60_000;
/** Enough that adding them takes several goes, and that the index grows meanwhile. */
const RECENT = 40_000;

function indexOf(from: number, to: number): IdIndex {
  const index = new IdIndex(0, SEED);
  for (let n = from; n < to; n++) index.add(BigInt(n), n);
  return index;
}

interface Trial {
  readonly index: StoreIndex;
  /** Has the pages read. */
  readonly release: () => void;
  readonly hash: (n: number) => number;
}

/** An index whose pages wait to be read. */
function begin(t: TestContext, given: Partial<IndexRest> & { damaged?: number } = {}): Trial {
  const { index, pages, path } = writeIndexPages(t, indexOf(0, IDS));
  if (given.damaged !== undefined) damagePage(path, given.damaged);
  const { released, release } = makeLatch();
  const read = pages.readAll.bind(pages);
  t.mock.method(pages, "readAll", async (...args: Parameters<SnapshotPages["readAll"]>) => {
    await released;
    return read(...args);
  });
  const scan = async () => assert.fail("the snapshot is sound");
  const store = new StoreIndex(index, {
    pages,
    recent: indexOf(IDS, IDS + RECENT),
    scan,
    ...given,
  });
  return { index: store, release, hash: (n) => store.hashOfId(BigInt(n)) };
}

function assertHolds(index: StoreIndex, from: number, to: number): void {
  for (let n = from; n < to; n++) assert.equal(index.get(BigInt(n)), n, `id ${n}`);
}

test("an index that lacks nothing is ready at once", async () => {
  const index = new StoreIndex(indexOf(0, 10));
  assert.equal(await index.whole, true);
  assert.equal(index.isReady(index.hashOfId(3n)), true);
  index.add(10n, 10);
  assert.equal(index.size, 11);
  assertHolds(index, 0, 11);
  await index.stop();
  await new Promise(setImmediate); // a rejection that nobody hears would end the process
  assert.equal(await index.whole, true);
});

test("an index that lacks its pages knows how many ids there are, and whom it can look up", async (t) => {
  const { index, release, hash } = begin(t);
  assert.equal(index.size, IDS + RECENT);
  assert.equal(index.isReady(hash(7)), false);
  let isReady = false;
  const ready = index.ready(hash(7)).then(() => {
    isReady = true;
  });
  await new Promise(setImmediate);
  assert.equal(isReady, false);
  release();
  await ready;
  assert.equal(index.isReady(hash(7)), true);
  assert.equal(index.get(7n), 7);
  assert.equal(await index.whole, true);
  assertHolds(index, 0, IDS + RECENT);
  assert.equal(index.get(BigInt(IDS + RECENT)), undefined);
});

test("what is added while pages are read, and while what is recent joins them, is there then and afterwards", async (t) => {
  const { index, release, hash } = begin(t);
  let next = IDS + RECENT;
  let isWhole = false;
  void index.whole.then(() => {
    isWhole = true;
  });
  release();
  let before = 0;
  while (!isWhole) {
    await new Promise(setImmediate);
    if (!index.isReady(hash(next))) continue;
    before++;
    index.add(BigInt(next), next);
    next++;
    assert.equal(index.size, next);
    for (let n = IDS; n < next; n += 997) {
      if (index.isReady(hash(n))) assert.equal(index.get(BigInt(n)), n);
    }
  }
  assert.ok(before > 4);
  assert.equal(index.size, next);
  assertHolds(index, 0, next);
});

test("an id that stands behind the snapshot again counts once and keeps its first offset", async (t) => {
  const recent = new IdIndex(0, SEED);
  recent.add(5n, IDS + 1);
  recent.add(BigInt(IDS), IDS);
  const { index, release } = begin(t, { recent });
  release();
  await index.whole;
  assert.equal(index.size, IDS + 1);
  assert.equal(index.get(5n), 5);
});

test("where a page is damaged, nothing is ready until the log was read in its place", async (t) => {
  const start = makeLatch();
  const end = makeLatch();
  const scan: IndexRest["scan"] = async (index, cause) => {
    assert.ok(cause instanceof Error);
    assert.equal(index.size, 0);
    assert.equal(
      index.hashOfId(7n),
      new IdIndex(0, SEED).hashOfId(7n),
      "creates in flight have it",
    );
    start.release();
    await end.released;
    for (let n = 0; n < IDS; n++) index.add(BigInt(n), n);
  };
  const { index, release, hash } = begin(t, { scan, damaged: 1 });
  const ready = index.ready(hash(7));
  release();
  await start.released;
  for (let n = 0; n < 1000; n++) assert.equal(index.isReady(hash(n)), false);
  assert.equal(index.size, IDS + RECENT);
  index.add(BigInt(IDS + RECENT), IDS + RECENT); // whose create was under way
  end.release();
  await ready;
  assert.equal(await index.whole, false);
  assert.equal(index.size, IDS + RECENT + 1);
  assertHolds(index, 0, IDS + RECENT + 1);
});

test("where the log cannot be read either, whoever waits is told", async (t) => {
  const fault = new Error("fault");
  const scan = () => Promise.reject(fault);
  const { index, release, hash } = begin(t, { scan, damaged: 0 });
  const isFault = (error: unknown) => error === fault;
  const ready = assert.rejects(index.ready(hash(7)), isFault);
  release();
  await ready;
  await assert.rejects(index.whole, isFault);
});

test("an index can be stopped at any time, and is never whole then", async (t) => {
  const { index, release } = begin(t);
  const stopped = index.stop();
  release();
  await stopped;
  await assert.rejects(index.whole);
});

test("an index that is to forgo a scan is whole where its pages are sound", async (t) => {
  const { index, release } = begin(t);
  index.forgoScan();
  release();
  assert.equal(await index.whole, true);
  assertHolds(index, 0, IDS + RECENT);
});

test("an index that is to forgo a scan is never whole where a page is damaged", async (t) => {
  const { index, release } = begin(t, { damaged: 0 });
  index.forgoScan();
  release();
  await assert.rejects(index.whole, { name: "AbortError" });
});

test("those who wait are told of a stop at once, and the stop waits for the read under way", async (t) => {
  const { index, release, hash } = begin(t);
  const ready = assert.rejects(index.ready(hash(7)), { name: "AbortError" });
  let isStopped = false;
  const stopped = index.stop().then(() => {
    isStopped = true;
  });
  await ready;
  await new Promise(setImmediate);
  assert.equal(isStopped, false);
  release();
  await stopped;
});

test("a scan of the log in the place of a damaged page can be stopped", async (t) => {
  const start = makeLatch();
  const scan: IndexRest["scan"] = async (_index, _cause, signal) => {
    start.release();
    await once(signal, "abort");
    signal.throwIfAborted();
  };
  const { index, release } = begin(t, { scan, damaged: 0 });
  release();
  await start.released;
  await index.stop();
  await assert.rejects(index.whole);
});

test("an index that is whole can be stopped too", async (t) => {
  const { index, release } = begin(t);
  release();
  await index.whole;
  await index.stop();
  assert.equal(await index.whole, true);
});
