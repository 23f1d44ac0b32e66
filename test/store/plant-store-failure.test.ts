import assert from "node:assert/strict";
import {
  appendFileSync,
  copyFileSync,
  existsSync,
  renameSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { PlantStore } from "../../src/index.ts";
import { LogFile } from "../../src/log/file.ts";
import { IdIndex } from "../../src/store/id-index.ts";
import { makeFolder } from "../support/folders.ts";
import { collect, logPath, openStore } from "../support/stores.ts";

/** What may happen to the log while a store has it open. */
const DISPLACEMENTS: readonly [says: string, displace: (log: string) => void][] = [
  ["is deleted", (log) => unlinkSync(log)],
  ["is renamed", (log) => renameSync(log, `${log}.old`)],
  [
    "is replaced by a copy",
    (log) => {
      copyFileSync(log, `${log}.copy`);
      renameSync(`${log}.copy`, log);
    },
  ],
  [
    "is out of reach",
    (log) => {
      unlinkSync(log);
      symlinkSync(log, log); // to itself
    },
  ],
  ["is appended to by another program", (log) => appendFileSync(log, " ".repeat(1000))],
  // As long as the next record of the store, so that the length alone does not reveal it.
  ["gets a line from an editor", (log) => appendFileSync(log, '{"id":2,"name":"?"}\n')],
  ["is emptied", (log) => truncateSync(log)],
  ["loses its lock", (log) => unlinkSync(lockOf(log))],
];

function lockOf(log: string): string {
  return join(dirname(log), "lock.1");
}

for (const [says, displace] of DISPLACEMENTS) {
  test(`a store whose log ${says} fails for good and acknowledges nothing more`, async (t) => {
    const folder = makeFolder(t);
    const store = await openStore(t, folder);
    await store.create({ id: 1n, name: "a" });
    displace(logPath(folder));

    await assert.rejects(store.create({ id: 2n, name: "b" }), { code: "store_failed" });

    assert.equal((await store.failed).code, "store_failed");
    // The message reaches clients; the reason is for the operator only.
    assert.ok((await store.failed).cause instanceof Error);
    assert.equal((await store.failed).message.includes(folder), false);
    await assert.rejects(store.create({ id: 3n, name: "c" }), { code: "store_failed" });
    await assert.rejects(store.create({ id: 1n, name: "a" }), { code: "store_failed" });
    await assert.rejects(store.get(1n), { code: "store_failed" });
    await assert.rejects(collect(store.list()), { code: "store_failed" });
  });
}

test("a store whose lock is lost while a batch is written acknowledges nothing, and writes no checkpoint", async (t) => {
  const folder = makeFolder(t);
  const store = await PlantStore.open(folder);
  const creating = store.create({ id: 1n, name: "a" });
  await new Promise(setImmediate); // the batch is handed over at the end of this turn
  unlinkSync(lockOf(logPath(folder)));
  await assert.rejects(creating, { code: "store_failed" });
  await store.close();
  assert.equal(existsSync(`${logPath(folder)}.checkpoint`), false);
});

test("a store whose log cannot be closed releases the directory (fake close failure)", async (t) => {
  const folder = makeFolder(t);
  const store = await PlantStore.open(folder);
  await store.create({ id: 1n, name: "a" });
  const close = LogFile.prototype.close;
  const closing = t.mock.method(LogFile.prototype, "close", async function (this: LogFile) {
    await close.call(this);
    throw new Error("i/o error");
  });
  await assert.rejects(store.close(), /i\/o error/);
  closing.mock.restore();
  assert.equal((await openStore(t, folder)).size, 1);
});

test("a closed store that never failed leaves its failed promise pending", async (t) => {
  const store = await openStore(t, makeFolder(t));
  await store.create({ id: 1n, name: "a" });
  await store.close();
  const pending = Symbol("pending");
  const turn = new Promise((resolve) => setImmediate(() => resolve(pending)));
  assert.equal(await Promise.race([store.failed, turn]), pending);
});

test("a plant is neither repeated nor read once the lock is lost", async (t) => {
  for (const lookUp of ["create", "get"] as const) {
    const folder = makeFolder(t);
    const store = await openStore(t, folder);
    await store.create({ id: 1n, name: "a" });
    unlinkSync(lockOf(logPath(folder)));
    const answer = lookUp === "get" ? store.get(1n) : store.create({ id: 1n, name: "a" });
    await assert.rejects(answer, { code: "store_failed" });
  }
});

test("calls leave no callbacks on the promise `failed`, which may never settle", async (t) => {
  const store = await openStore(t, makeFolder(t));
  const then = t.mock.method(store.failed, "then");
  await Promise.all([store.create({ id: 1n, name: "a" }), store.get(2n), collect(store.list())]);
  await collect(store.list());
  assert.equal(then.mock.callCount(), 0);
});

test("a store without memory for its index fails, so that no id is stored twice (fake failure)", async (t) => {
  const folder = makeFolder(t);
  const store = await openStore(t, folder);
  t.mock.method(IdIndex.prototype, "add", () => {
    throw new RangeError("Array buffer allocation failed");
  });
  const refused = { code: "store_failed" };
  await assert.rejects(store.create({ id: 1n, name: "a" }), refused);
  await assert.rejects(store.create({ id: 1n, name: "another" }), refused);
  t.mock.reset();
  await store.close();
  const again = await openStore(t, folder);
  assert.equal(await again.create({ id: 1n, name: "a" }), "replayed");
});

test("an id that is not an int64 throws a RangeError, and the store continues", async (t) => {
  const store = await openStore(t, makeFolder(t));
  await store.create({ id: 7n, name: "a" });
  await assert.rejects(store.get(2n ** 64n + 7n), RangeError);
  await assert.rejects(store.get(7 as unknown as bigint), TypeError);
  assert.deepEqual(await store.get(7n), { id: 7n, name: "a" });
});
