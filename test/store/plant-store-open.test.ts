import assert from "node:assert/strict";
import { chmodSync, existsSync, mkdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { PlantStore } from "../../src/index.ts";
import { disk } from "../../src/log/disk.ts";
import { makeFolder } from "../support/folders.ts";
import { snapshot } from "../support/snapshot.ts";
import { collect, logPath, openFilesIn, openStore, readLog, writeLog } from "../support/stores.ts";
import { collectWarnings } from "../support/watch.ts";

const NOT_WINDOWS = process.platform === "win32" ? "modes mean nothing here" : false;

test("a second open of the same folder is refused, and the first store continues", async (t) => {
  const folder = makeFolder(t);
  const store = await openStore(t, folder, { command: "water the plants" });
  await assert.rejects(PlantStore.open(folder), (error: Error & { code?: string }) => {
    assert.equal(error.code, "locked");
    // The error names the holder.
    assert.ok(error.message.includes("water the plants"));
    assert.ok(error.message.includes(String(process.pid)));
    return true;
  });
  assert.equal(await store.create({ id: 1n, name: "a" }), "created");
});

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

test("a closed store releases the folder", async (t) => {
  const folder = makeFolder(t);
  const first = await openStore(t, folder);
  await first.create({ id: 1n, name: "a" });
  await first.close();
  const second = await openStore(t, folder);
  assert.deepEqual(await second.get(1n), { id: 1n, name: "a" });
});

test("two folders are two stores", async (t) => {
  const one = await openStore(t, makeFolder(t));
  const two = await openStore(t, makeFolder(t));
  await one.create({ id: 1n, name: "a" });
  await two.create({ id: 1n, name: "b" });
  assert.deepEqual(await collect(one.list()), [{ id: 1n, name: "a" }]);
  assert.deepEqual(await collect(two.list()), [{ id: 1n, name: "b" }]);
});

test("an open that was refused holds neither the lock nor a file", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, "damage\n");
  await assert.rejects(PlantStore.open(folder), { code: "corruption" });
  assert.deepEqual(openFilesIn(folder), []);

  writeLog(folder, "");
  await openStore(t, folder);
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
  ["batchBytesMax", 0, "RangeError"],
  ["batchBytesMax", -1, "RangeError"],
  ["batchBytesMax", 1024 * 1024 + 1, "RangeError"],
  ["batchBytesMax", Number.NaN, "RangeError"],
  ["batchBytesMax", Number.POSITIVE_INFINITY, "RangeError"],
  ["batchBytesMax", "1024", "TypeError"],
  ["queueBytesMax", Number.NaN, "RangeError"],
  ["queueBytesMax", -1, "RangeError"],
  ["queueBytesMax", null, "TypeError"],
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

for (const batchBytesMax of [1, 100, 1024 * 1024]) {
  test(`plants are stored in order with batchBytesMax ${batchBytesMax}`, async (t) => {
    const store = await openStore(t, makeFolder(t), { batchBytesMax });
    const plants = Array.from({ length: 30 }, (_, n) => ({ id: BigInt(n), name: "x".repeat(40) }));
    await Promise.all(plants.map((plant) => store.create(plant)));
    assert.deepEqual(await collect(store.list()), plants);
  });
}

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

test("a new folder, its new parents and the log can be read by their owner only", {
  skip: NOT_WINDOWS,
}, async (t) => {
  const warnings = collectWarnings(t);
  const folder = join(makeFolder(t), "a", "b");
  const store = await openStore(t, folder);
  await store.create({ id: 1n, name: "a" });
  assert.equal(modeOf(folder), 0o700);
  assert.equal(modeOf(join(folder, "..")), 0o700);
  assert.equal(modeOf(logPath(folder)), 0o600);
  assert.deepEqual(warnings, []);
});

for (const mode of [0o750, 0o705, 0o710, 0o777]) {
  test(`open warns about a folder of mode ${mode.toString(8)}, and leaves it`, {
    skip: NOT_WINDOWS,
  }, async (t) => {
    const folder = makeFolder(t);
    chmodSync(folder, mode);
    const warnings = collectWarnings(t);
    await openStore(t, folder);
    assert.equal(warnings.length, 1);
    assert.ok(warnings[0]?.message.includes(folder));
    assert.equal(modeOf(folder), mode);
    assert.equal(modeOf(logPath(folder)), 0o600);
  });
}

test("a file in place of the folder is an io_error that names the path", async (t) => {
  const file = join(makeFolder(t), "file");
  writeFileSync(file, "");
  await assert.rejects(PlantStore.open(file), (error: Error & { code?: string }) => {
    assert.equal(error.code, "io_error");
    assert.ok(error.message.includes(file));
    return true;
  });
});

test("a folder in place of the log is an io_error", async (t) => {
  const folder = makeFolder(t);
  mkdirSync(logPath(folder));
  await assert.rejects(PlantStore.open(folder), { code: "io_error" });
});

function modeOf(path: string): number {
  return statSync(path).mode & 0o777;
}

test("a disk that cannot look for the log is an io_error (fake fault)", async (t) => {
  const folder = makeFolder(t);
  const { find } = disk;
  t.mock.method(disk, "find", (path: string) => {
    if (path === logPath(folder)) throw Object.assign(new Error("EIO: i/o error"), { code: "EIO" });
    return find(path);
  });
  await assert.rejects(PlantStore.open(folder), { code: "io_error" });
});
