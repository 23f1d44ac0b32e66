import assert from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { PlantStore } from "../../src/index.ts";
import { disk } from "../../src/log/disk.ts";
import { makeFolder } from "../support/folders.ts";
import { snapshot } from "../support/snapshot.ts";
import { logPath, openFilesIn, openStore, readLog, writeLog } from "../support/stores.ts";

test("of many opens at once one succeeds, and every other is refused as locked", async (t) => {
  const folder = makeFolder(t);
  const settled = await Promise.allSettled(
    Array.from({ length: 8 }, () => PlantStore.open(folder)),
  );
  const stores = settled.flatMap((result) => (result.status === "fulfilled" ? result.value : []));
  for (const store of stores) t.after(() => store.close());
  assert.equal(stores.length, 1);
  for (const result of settled) {
    if (result.status === "rejected") assert.equal(result.reason.code, "locked");
  }
});

test("an open reports how much of the log is read, and at last all of it", async (t) => {
  const folder = makeFolder(t);
  const line = `{"id":1,"name":"${"x".repeat(1024 * 1024)}"}\n`;
  writeLog(folder, line + line.replace("1", "2"));
  const reports: [number, number][] = [];
  await openStore(t, folder, { onProgress: (...report) => reports.push(report) });
  assert.deepEqual(reports, [
    [line.length, 2 * line.length],
    [2 * line.length, 2 * line.length],
  ]);
});

test("an onProgress that throws aborts the open, which changes nothing and holds no lock and no file", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, '{"id":1,"name":"a"}\n{"id":2');
  const before = snapshot(folder);
  const enough = new Error("enough");
  const onProgress = () => {
    throw enough;
  };
  await assert.rejects(PlantStore.open(folder, { onProgress }), (error) => error === enough);
  assert.deepEqual(openFilesIn(folder), []);
  assert.deepEqual(snapshot(folder), before);
  assert.equal((await openStore(t, folder)).size, 1);
});

/** Options as a program without types might give them. */
const BAD_OPTIONS: readonly [name: string, value: unknown, error: "TypeError" | "RangeError"][] = [
  ["batchBytesMax", 1024 * 1024 + 1, "RangeError"],
  ["batchBytesMax", "1024", "TypeError"],
  ["queueBytesMax", Number.NaN, "RangeError"],
  ["command", 7, "TypeError"],
  ["onProgress", "loud", "TypeError"],
];

for (const [name, value, error] of BAD_OPTIONS) {
  test(`open refuses ${name} ${value} before it touches the disk`, async (t) => {
    const folder = join(makeFolder(t), "new");
    const opening = PlantStore.open(folder, { [name]: value });
    t.after(async () => (await opening.catch(() => undefined))?.close());
    await assert.rejects(opening, { name: error, message: new RegExp(`\\b${name}\\b`) });
    assert.equal(existsSync(folder), false);
  });
}

test("open refuses a directory that is not a string", async () => {
  for (const directory of [undefined, 7, ""]) {
    await assert.rejects(PlantStore.open(directory as string), /^(Type|Range)Error: directory: /);
  }
});

test("a create that does not fit in the queue is refused as overloaded, and can be sent again later", async (t) => {
  const folder = makeFolder(t);
  const line = '{"id":1,"name":"a"}\n';
  const store = await openStore(t, folder, { queueBytesMax: line.length });
  const first = store.create({ id: 1n, name: "a" });
  await assert.rejects(store.create({ id: 2n, name: "b" }), { code: "overloaded" });
  await first;
  assert.equal(readLog(folder), line);

  assert.equal(await store.create({ id: 2n, name: "b" }), "created");
  // A client that retries would send a record longer than the queue for ever.
  assert.equal(await store.create({ id: 3n, name: "longer" }), "created");
});

test("a file in place of the folder is an io_error that names the path", async (t) => {
  const file = join(makeFolder(t), "file");
  writeFileSync(file, "");
  await assert.rejects(PlantStore.open(file), (error: Error & { code?: string }) => {
    assert.equal(error.code, "io_error");
    assert.ok(error.message.includes(file));
    return true;
  });
});

test("a disk that cannot look for the log is an io_error (fake fault)", async (t) => {
  const folder = makeFolder(t);
  const { find } = disk;
  t.mock.method(disk, "find", (path: string) => {
    if (path === logPath(folder)) throw Object.assign(new Error("EIO: i/o error"), { code: "EIO" });
    return find(path);
  });
  await assert.rejects(PlantStore.open(folder), { code: "io_error" });
});
