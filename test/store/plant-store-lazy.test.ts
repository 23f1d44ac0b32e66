/** Stores that serve while the snapshot of their index is still being read. */
import assert from "node:assert/strict";
import fs from "node:fs";
import { open } from "node:fs/promises";
import { type TestContext, test } from "node:test";
import { type NewPlant, PlantStore, type PlantStoreOptions, verifyLog } from "../../src/index.ts";
import { LogFile } from "../../src/log/file.ts";
import { snapshotPath } from "../../src/store/index-snapshot.ts";
import { LogScan } from "../../src/store/log-scan.ts";
import { PAGE_BYTES } from "../../src/store/slot-table.ts";
import { SnapshotPages } from "../../src/store/snapshot-pages.ts";
import { makeFolder } from "../support/folders.ts";
import { holdReads } from "../support/held-reads.ts";
import { damagePage } from "../support/index-pages.ts";
import { ANY, lineOf, makeStopped, PLANTS, plantOf } from "../support/stopped-store.ts";
import { collect, logPath, openFilesIn, openStore, readLog, writeLog } from "../support/stores.ts";
import { collectWarnings, makeLatch, until } from "../support/watch.ts";

/** No snapshot at the stop: what was created stands behind the one that is there. */
const NONE: PlantStoreOptions = { snapshotBytesMin: 64 * 1024 * 1024 };

/** FAKE: pages that wait as on a disk that hangs, until they are let go. */
function holdPages(t: TestContext): { readonly release: () => void } {
  const { readAll } = SnapshotPages.prototype;
  const { released, release } = makeLatch();
  const held = t.mock.method(
    SnapshotPages.prototype,
    "readAll",
    async function (this: SnapshotPages, ...given: Parameters<typeof readAll>) {
      await released;
      return readAll.apply(this, given);
    },
  );
  return {
    release: () => {
      held.mock.restore();
      release();
    },
  };
}

/** FAKE: writes that wait as on a disk that hangs, until they are let go. */
function holdAppends(t: TestContext): {
  readonly count: () => number;
  readonly release: () => void;
} {
  const { append } = LogFile.prototype;
  const { released, release } = makeLatch();
  const held = t.mock.method(
    LogFile.prototype,
    "append",
    async function (this: LogFile, ...given: Parameters<typeof append>) {
      await released;
      return append.apply(this, given);
    },
  );
  return { count: () => held.mock.callCount(), release };
}

/** FAKE: the read of one page and what is read with it waits as on a disk that hangs, until it is let go. */
async function holdPage(
  t: TestContext,
  folder: string,
  page: number,
): Promise<{ readonly count: () => number; readonly release: () => void }> {
  const handle = await open(logPath(folder));
  const prototype: typeof handle = Object.getPrototypeOf(handle);
  await handle.close();
  const { readv } = prototype;
  const { released, release } = makeLatch();
  let held = 0;
  t.mock.method(
    prototype,
    "readv",
    async function (this: typeof handle, ...given: Parameters<typeof readv>) {
      if (given[1] === page * PAGE_BYTES) {
        held++;
        await released;
      }
      return readv.apply(this, given);
    },
  );
  return { count: () => held, release };
}

/** Plants whose index has pages enough that one read of them is a part; after a clean stop. */
async function makeLong(t: TestContext): Promise<string> {
  const folder = makeFolder(t);
  writeLog(folder, Array.from({ length: LONG }, (_, n) => lineOf(shortPlantOf(n))).join(""));
  await (await PlantStore.open(folder, ANY)).close();
  return folder;
}

const LONG = 140_000;
/** The first of a group in the middle. While it is held, the other lane reads all others. */
const HELD_PAGE = 2;

function shortPlantOf(n: number): NewPlant {
  return { id: BigInt(n), name: "a" };
}

/** Whether it has come to its end, a few turns of the event loop later. */
async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  let is = false;
  const settle = () => {
    is = true;
  };
  promise.then(settle, settle);
  for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate);
  return is;
}

/** Creates so many plants behind the snapshot, and stops. */
async function growTo(folder: string, plants: number): Promise<void> {
  const store = await PlantStore.open(folder, NONE);
  const created = Array.from({ length: plants - PLANTS }, (_, n) =>
    store.create(plantOf(PLANTS + n)),
  );
  await Promise.all(created);
  await store.close();
}

test("a store is open before its pages are read, and every call waits for what it needs of them", async (t) => {
  const folder = await makeStopped(t);
  await growTo(folder, PLANTS + 100);
  const pages = holdPages(t);
  const store = await openStore(t, folder, NONE);
  assert.equal(store.size, PLANTS + 100);
  const calls = [
    store.create(plantOf(5)),
    store.create({ ...plantOf(6), name: "other" }).catch((error) => error.code),
    store.create({ id: 1n, name: "new" }),
    store.create({ id: 1n, name: "new" }),
    store.create(plantOf(PLANTS + 7)),
    store.get(plantOf(7).id),
    store.get(2n),
    store.get(plantOf(PLANTS + 8).id),
    collect(store.list()).then(({ length }) => length),
    collect(store.list({ after: plantOf(PLANTS + 98).id })).then((plants) => plants.slice(0, 1)),
  ];
  for (const call of calls) assert.equal(await isSettled(call), false);
  pages.release();
  assert.deepEqual(await Promise.all(calls.slice(0, 8)), [
    "replayed",
    "conflict",
    "created",
    "replayed",
    "replayed",
    plantOf(7),
    undefined,
    plantOf(PLANTS + 8),
  ]);
  assert.ok(((await calls[8]) as number) >= PLANTS + 100);
  assert.deepEqual(await calls[9], [plantOf(PLANTS + 99)]);
  assert.equal(store.size, PLANTS + 101);
});

test("a close lets whoever waits for pages come to his end first", async (t) => {
  const folder = await makeStopped(t);
  const pages = holdPages(t);
  const store = await PlantStore.open(folder, NONE);
  const calls = [
    store.create({ id: 1n, name: "new" }),
    store.create(plantOf(5)),
    store.get(plantOf(7).id),
  ];
  const closed = store.close();
  assert.equal(await isSettled(closed), false);
  await assert.rejects(store.create({ id: 2n, name: "late" }), { code: "closed" });
  const appends = holdAppends(t);
  pages.release();
  await until("the new one is written", () => appends.count() > 0);
  assert.equal(await isSettled(closed), false);
  appends.release();
  assert.deepEqual(await Promise.all(calls), ["created", "replayed", plantOf(7)]);
  await closed;
  const { records, checksum } = await verifyLog(folder);
  assert.deepEqual([records, checksum], [PLANTS + 1, "matches"]);
});

test("a close does not wait for pages that nobody waits for, and leaves the snapshot", async (t) => {
  const folder = await makeStopped(t);
  await growTo(folder, PLANTS + 10);
  const before = fs.statSync(snapshotPath(logPath(folder))).ino;
  const warnings = collectWarnings(t, logPath(folder));
  for (let round = 0; round < 5; round++) {
    const store = await PlantStore.open(folder, ANY);
    await store.close();
    assert.deepEqual(openFilesIn(folder), []);
  }
  assert.deepEqual(warnings, []);
  assert.equal(fs.statSync(snapshotPath(logPath(folder))).ino, before);
  const store = await openStore(t, folder, NONE);
  assert.equal((await collect(store.list())).length, PLANTS + 10);
});

for (const [says, isClosed] of [
  ["is written once its pages are there", false],
  ["is not written where the store is closed before its pages are there", true],
] as const) {
  test(`a snapshot that is due at a start ${says}`, async (t) => {
    const folder = await makeStopped(t);
    await growTo(folder, 2 * PLANTS);
    const { ino } = fs.statSync(snapshotPath(logPath(folder)));
    const inode = () => fs.statSync(snapshotPath(logPath(folder)), { throwIfNoEntry: false })?.ino;
    const warnings = collectWarnings(t);
    const pages = holdPages(t);
    const store = await openStore(t, folder, ANY);
    const closed = isClosed ? store.close() : undefined;
    assert.equal(await isSettled(closed ?? new Promise(() => {})), false);
    pages.release();
    if (isClosed) {
      await closed;
      assert.equal(inode(), ino);
    } else {
      await until("it is there", () => ![undefined, ino].includes(inode()));
      await store.close();
    }
    assert.deepEqual(openFilesIn(folder), []);
    assert.deepEqual(warnings, []);
    const next = await openStore(t, folder, NONE);
    assert.equal((await collect(next.list())).length, 2 * PLANTS);
  });
}

test("what stands behind the snapshot is there after the next starts, and after a snapshot of its own", async (t) => {
  const folder = await makeStopped(t);
  const { ino } = fs.statSync(snapshotPath(logPath(folder)));
  for (const plants of [PLANTS + 50, PLANTS + 100]) await growTo(folder, plants);
  assert.equal(fs.statSync(snapshotPath(logPath(folder))).ino, ino);
  for (const options of [NONE, ANY, ANY]) {
    const store = await openStore(t, folder, options);
    for (let n = 0; n < PLANTS + 100; n += 89) {
      assert.equal(await store.create(plantOf(n)), "replayed");
    }
    assert.equal(store.size, PLANTS + 100);
    assert.equal((await collect(store.list())).length, PLANTS + 100);
    await store.close();
  }
  assert.notEqual(fs.statSync(snapshotPath(logPath(folder))).ino, ino);
});

test("a plant that an editor doubled behind the snapshot counts once, and the next snapshot holds it", async (t) => {
  const folder = await makeStopped(t);
  fs.appendFileSync(logPath(folder), lineOf(plantOf(3)) + lineOf({ id: 1n, name: "a" }));
  // The first start judges it; the next ones go by what stands on disk after a clean stop.
  for (const options of [NONE, NONE, ANY, ANY]) {
    const store = await openStore(t, folder, options);
    assert.equal(await store.create(plantOf(3)), "replayed");
    assert.equal((await collect(store.list())).length, PLANTS + 1);
    assert.equal(store.size, PLANTS + 1);
    await store.close();
  }
  const size = fs.statSync(logPath(folder)).size;
  const footer = fs.readFileSync(snapshotPath(logPath(folder)), "latin1").slice(-512);
  assert.equal(JSON.parse(footer.slice(0, -9)).end.bytes, size);
});

test("a damaged page is found beside the service: the log is read in its place, and the stop writes the snapshot anew", async (t) => {
  const folder = await makeStopped(t);
  await growTo(folder, PLANTS + 100);
  const path = snapshotPath(logPath(folder));
  damagePage(path, 0);
  const warnings = collectWarnings(t, path);
  const store = await openStore(t, folder, { snapshotBytesMin: 1024 * 1024 });
  assert.equal(await store.create({ id: 1n, name: "new" }), "created");
  assert.equal(warnings.length, 1);
  for (let n = 0; n < PLANTS + 100; n += 89) {
    assert.equal(await store.create(plantOf(n)), "replayed");
  }
  assert.equal(await store.get(2n), undefined);
  assert.equal(store.size, PLANTS + 101);
  await store.close();
  assert.deepEqual(openFilesIn(folder), []);
  const next = await openStore(t, folder, NONE);
  assert.equal((await collect(next.list())).length, PLANTS + 101);
  assert.equal(warnings.length, 1);
});

test("creates under way when a damaged page is found are stored once, whoever repeats them", async (t) => {
  const folder = await makeLong(t);
  const path = snapshotPath(logPath(folder));
  damagePage(path, HELD_PAGE);
  const pages = await holdPage(t, folder, HELD_PAGE);
  const warnings = collectWarnings(t, path);
  const store = await openStore(t, folder, NONE);
  const appends = holdAppends(t);
  const ids = Array.from({ length: 600 }, (_, n) => LONG + n);
  const create = () => ids.map((n) => store.create(shortPlantOf(n)));
  const first = create();
  await until("some are written", () => appends.count() > 0);
  assert.equal(pages.count(), 1);
  pages.release();
  await until("the damage is found", () => warnings.length > 0);
  const second = create();
  appends.release();
  assert.deepEqual(new Set(await Promise.all(first)), new Set(["created"]));
  assert.deepEqual(new Set(await Promise.all(second)), new Set(["replayed"]));
  assert.equal((await collect(store.list())).length, LONG + ids.length);
  await store.close();
  const { records, duplicates, damaged } = await verifyLog(folder);
  assert.deepEqual([records, duplicates, damaged], [LONG + ids.length, 0, 0]);
});

test("when the store fails, those who wait for pages that never come are told at once", async (t) => {
  const folder = await makeLong(t);
  const pages = await holdPage(t, folder, HELD_PAGE);
  const store = await openStore(t, folder, NONE);
  const cause = Object.assign(new Error("EIO: i/o error"), { code: "EIO" });
  t.mock.method(LogFile.prototype, "append", async () => ({ outcome: "unknown", cause }));
  const ids = Array.from({ length: 600 }, (_, n) => LONG + n);
  const results = await Promise.allSettled([
    ...ids.map((n) => store.create(shortPlantOf(n))),
    ...ids.map((n) => store.get(BigInt(n))),
    collect(store.list()),
  ]);
  const codes = results.map((result) =>
    result.status === "rejected" ? result.reason.code : result.value,
  );
  assert.deepEqual(new Set(codes), new Set(["store_failed", undefined]));
  assert.equal(codes.at(-1), "store_failed");
  assert.equal(pages.count(), 1);
  pages.release();
  await store.close();
  assert.deepEqual(openFilesIn(folder), []);
});

test("calls leave nothing behind on the promise of a failure, which may never come", async (t) => {
  const folder = await makeStopped(t);
  const pages = holdPages(t);
  const store = await openStore(t, folder, NONE);
  const then = t.mock.method(store.failed, "then");
  const calls = [store.create({ id: 1n, name: "new" }), store.get(2n), collect(store.list())];
  pages.release();
  await Promise.all(calls);
  await collect(store.list());
  assert.equal(then.mock.callCount(), 0);
});

test("a close ends a read of the log in the place of a damaged page, and who waits for it is told", async (t) => {
  const folder = await makeStopped(t);
  damagePage(snapshotPath(logPath(folder)), 0);
  const warnings = collectWarnings(t, snapshotPath(logPath(folder)));
  const store = await PlantStore.open(folder, NONE);
  const reads = holdReads(t);
  const { mock } = t.mock.method(LogScan.prototype, "run");
  const calls = [store.create({ id: 1n, name: "new" }), collect(store.list())];
  await until("the damage is found", () => warnings.length > 0);
  const closed = store.close();
  for (const call of calls) await assert.rejects(call, { code: "closed" });
  reads.release();
  await closed;
  assert.equal(mock.callCount(), 1);
  await assert.rejects(mock.calls[0]?.result as Promise<unknown>, { name: "AbortError" });
  assert.deepEqual(openFilesIn(folder), []);
});

test("a damaged page of a log that was damaged too fails the store", async (t) => {
  const folder = await makeStopped(t);
  const path = snapshotPath(logPath(folder));
  damagePage(path, 0);
  const { atime, mtime } = fs.statSync(logPath(folder));
  const fd = fs.openSync(logPath(folder), "r+");
  fs.writeSync(fd, "9", lineOf(plantOf(0)).length - 10);
  fs.futimesSync(fd, atime, mtime);
  fs.closeSync(fd);
  const store = await openStore(t, folder, NONE);
  await assert.rejects(store.create({ id: 1n, name: "new" }), { code: "store_failed" });
  assert.equal((await store.failed).code, "store_failed");
  await assert.rejects(store.get(plantOf(5).id), { code: "store_failed" });
  await assert.rejects(collect(store.list()), { code: "store_failed" });
  await store.close();
  assert.equal(fs.existsSync(path), false);
  await assert.rejects(PlantStore.open(folder, NONE), { code: "corruption" });
  assert.equal(readLog(folder).includes("new"), false);
});

test("a store can be closed while the log is read in the place of a damaged page", async (t) => {
  const folder = await makeStopped(t);
  damagePage(snapshotPath(logPath(folder)), 0);
  const warnings = collectWarnings(t, snapshotPath(logPath(folder)));
  const store = await PlantStore.open(folder, NONE);
  const reads = holdReads(t);
  await until("the damage is found", () => warnings.length > 0);
  const closed = store.close();
  reads.release();
  await closed;
  assert.deepEqual(openFilesIn(folder), []);
  assert.equal(fs.existsSync(snapshotPath(logPath(folder))), false);
  const next = await openStore(t, folder, NONE);
  assert.equal((await collect(next.list())).length, PLANTS);
  assert.equal(warnings.length, 1, "the next start did not find it damaged again");
});

test("a list that waits for the index is told of a close though the disk hangs", async (t) => {
  const folder = await makeLong(t);
  const page = await holdPage(t, folder, HELD_PAGE);
  const store = await PlantStore.open(folder, NONE);
  const list = collect(store.list());
  await until("the page is read", () => page.count() > 0);
  const closed = store.close();
  await assert.rejects(list, { code: "closed" });
  page.release();
  await closed;
  assert.deepEqual(openFilesIn(folder), []);
});
