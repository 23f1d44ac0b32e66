import assert from "node:assert/strict";
import { renameSync, unlinkSync } from "node:fs";
import { type TestContext, test } from "node:test";
import { LogFile } from "../../src/log/file.ts";
import { makeFolder } from "../support/folders.ts";
import { holdReads } from "../support/held-reads.ts";
import { logPath, openStore, writeLog } from "../support/stores.ts";

const LONG = "x".repeat(140_000);

/** Counts the most concurrent reads of logs, and the bytes that were read in all. */
function watchReads(t: TestContext) {
  const seen = { most: 0, bytes: 0 };
  const { read } = LogFile.prototype;
  let underWay = 0;
  t.mock.method(
    LogFile.prototype,
    "read",
    async function (this: LogFile, ...given: Parameters<typeof read>) {
      underWay++;
      seen.most = Math.max(seen.most, underWay);
      try {
        const bytes = await read.apply(this, given);
        seen.bytes += bytes;
        return bytes;
      } finally {
        underWay--;
      }
    },
  );
  return seen;
}

test("a thousand short creates with the id of a long plant make few concurrent reads, and all are answered", async (t) => {
  const store = await openStore(t, makeFolder(t));
  await store.create({ id: 1n, name: LONG });
  const seen = watchReads(t);
  const creates = Array.from({ length: 1000 }, () => store.create({ id: 1n, name: "x" }));
  const gets = Array.from({ length: 100 }, () => store.get(1n));
  const outcomes = await Promise.allSettled(creates);
  const codes = outcomes.map((each) => each.status === "rejected" && each.reason.code);
  assert.deepEqual(new Set(codes), new Set(["conflict"]));
  for (const plant of await Promise.all(gets)) assert.equal(plant?.name, LONG);
  assert.ok(seen.most > 1 && seen.most <= 8, `${seen.most} at once`);
});

test("reading a plant reads few bytes after it", async (t) => {
  const store = await openStore(t, makeFolder(t));
  for (const id of [1n, 2n, 3n, 4n, 5n]) await store.create({ id, name: LONG });
  const seen = watchReads(t);
  assert.equal((await store.get(1n))?.name, LONG);
  assert.ok(seen.bytes <= 2 * LONG.length + 70_000, `${seen.bytes} bytes`);
});

test("a repeat that waits to be read is not answered if the log is deleted meanwhile", async (t) => {
  const folder = makeFolder(t);
  const store = await openStore(t, folder);
  await store.create({ id: 1n, name: LONG });
  const replays = Array.from({ length: 100 }, () => store.create({ id: 1n, name: LONG }));
  unlinkSync(logPath(folder));
  const outcomes = await Promise.allSettled(replays);
  const codes = outcomes.map((each) => each.status === "rejected" && each.reason.code);
  assert.deepEqual(new Set(codes), new Set(["store_failed"]));
});

test("a repeat that is being read is not answered if the store fails meanwhile", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, '{"id":1,"name":"a"}\n');
  const store = await openStore(t, folder);
  const reads = holdReads(t);
  const replay = store.create({ id: 1n, name: "a" });
  const log = logPath(folder);
  try {
    renameSync(log, `${log}.away`);
    await assert.rejects(store.create({ id: 2n, name: "b" }), { code: "store_failed" });
    renameSync(`${log}.away`, log); // so that only the failure can reveal it
  } finally {
    reads.release();
  }
  await assert.rejects(replay, { code: "store_failed" });
});
