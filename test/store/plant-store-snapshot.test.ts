/** Starts from a snapshot of the index, and what is found afterwards in what they did not read. */
import assert from "node:assert/strict";
import fs from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import {
  backup,
  isSound,
  PlantStore,
  type PlantStoreError,
  repairLog,
  verifyLog,
} from "../../src/index.ts";
import { checkpointPath } from "../../src/log/checkpoint.ts";
import { LogFile } from "../../src/log/file.ts";
import { snapshotPath } from "../../src/store/index-snapshot.ts";
import { makeFolder } from "../support/folders.ts";
import { holdReads } from "../support/held-reads.ts";
import { snapshot } from "../support/snapshot.ts";
import { ANY, lineOf, makeStopped, PLANTS, plantOf } from "../support/stopped-store.ts";
import { collect, logPath, openFilesIn, openStore, readLog, writeLog } from "../support/stores.ts";
import { collectWarnings, until } from "../support/watch.ts";

const MIB = 1024 * 1024;

/** Opens the folder, and tells what of the log was read for that. */
async function openWatched(
  t: TestContext,
  folder: string,
): Promise<{ store: PlantStore; bytes: number; first: number }> {
  const { read } = LogFile.prototype;
  let bytes = 0;
  let first = Number.POSITIVE_INFINITY;
  const mock = t.mock.method(
    LogFile.prototype,
    "read",
    async function (this: LogFile, buffer: Buffer, position: number) {
      first = Math.min(first, position);
      const got = await read.call(this, buffer, position);
      bytes += got;
      return got;
    },
  );
  try {
    return { store: await openStore(t, folder, ANY), bytes, first };
  } finally {
    mock.mock.restore();
  }
}

async function readsAll(t: TestContext, folder: string): Promise<boolean> {
  const { store, first } = await openWatched(t, folder);
  await store.close();
  return first === 0;
}

/** As a disk does it: in its place, and without a trace in the time of the last change. */
function overwrite(folder: string, position: number, text: string): void {
  const { atime, mtime } = fs.statSync(logPath(folder));
  const fd = fs.openSync(logPath(folder), "r+");
  fs.writeSync(fd, text, position);
  fs.futimesSync(fd, atime, mtime);
  fs.closeSync(fd);
}

/** Puts another byte where a start with a snapshot does not look. */
function damageEarly(folder: string): void {
  overwrite(folder, lineOf(plantOf(0)).length - 10, "9");
}

test("a start with a snapshot reads the last MiB in front of it and what came after, and has every plant", async (t) => {
  const folder = await makeStopped(t);
  const size = fs.statSync(logPath(folder)).size;
  const { store, bytes, first } = await openWatched(t, folder);
  assert.ok(first >= size - 2 * MIB && first > 0, `from byte ${first} of ${size}`);
  assert.ok(bytes <= 5 * MIB);
  assert.equal(store.size, PLANTS);
  for (let n = 0; n < PLANTS; n += 97) assert.deepEqual(await store.get(plantOf(n).id), plantOf(n));
  assert.equal(await store.get(1n), undefined);
  assert.equal(await store.create(plantOf(5)), "replayed");
  await assert.rejects(store.create({ id: 7919n, name: "other" }), { code: "conflict" });
  assert.equal(await store.create({ id: 1n, name: "new" }), "created");
  assert.equal((await collect(store.list())).length, PLANTS + 1);
});

test("what was created after the snapshot is there after the next starts, and so on", async (t) => {
  const folder = await makeStopped(t);
  let plants = PLANTS;
  for (let round = 0; round < 4; round++) {
    const { store, first } = await openWatched(t, folder);
    assert.ok(first > 0);
    assert.equal(store.size, plants);
    const created = Array.from({ length: 100 }, () => store.create(plantOf(plants++)));
    assert.deepEqual(new Set(await Promise.all(created)), new Set(["created"]));
    await store.close();
  }
  const { records, duplicates, checksum } = await verifyLog(folder);
  assert.deepEqual([records, duplicates, checksum], [plants, 0, "matches"]);
});

test("a snapshot is refreshed while the store grows", async (t) => {
  const folder = makeFolder(t);
  const store = await openStore(t, folder, { snapshotBytesMin: 1000 });
  const path = snapshotPath(logPath(folder));
  let n = 0;
  await until("there is one", async () => {
    await store.create(plantOf(n++));
    return fs.existsSync(path);
  });
  const { ino } = fs.statSync(path);
  await until("there is another one", async () => {
    await store.create(plantOf(n++));
    return fs.existsSync(path) && fs.statSync(path).ino !== ino;
  });
  await store.close();
  const next = await openStore(t, folder, ANY);
  assert.equal(next.size, n);
  for (let at = 0; at < n; at++) assert.equal(await next.create(plantOf(at)), "replayed");
});

test("a log that is short, or a store that wants none, gets no snapshot", async (t) => {
  for (const options of [{}, { snapshotBytesMin: 2 ** 40 }]) {
    const folder = makeFolder(t);
    const store = await openStore(t, folder, options);
    await store.create(plantOf(1));
    await store.close();
    const names = fs.readdirSync(folder);
    assert.deepEqual(
      names.filter((name) => name.includes("index")),
      [],
    );
  }
});

/** What a start makes of a log that somebody appended to: the same with a snapshot and without. */
const TAILS: readonly [says: string, tail: string][] = [
  ["nothing", ""],
  ["a plant", lineOf({ id: 1n, name: "a" })],
  ["a plant that is there already", lineOf(plantOf(3))],
  ["a conflict", lineOf({ ...plantOf(3), name: "other" })],
  ["a line that is no plant", "damage\n"],
  ["blank lines and a plant", `\n  \r\n${lineOf({ id: 1n, name: "a" })}`],
  ["a torn record", '{"id":1,"na'],
  ["a record without its line feed", lineOf({ id: 1n, name: "a" }).trimEnd()],
  ["zeros", "\0".repeat(2000)],
  [
    "a line that lost its pages",
    `{"id":1,"name":"${"\0".repeat(3000)}"}\n${lineOf({ id: 2n, name: "b" })}`,
  ],
];

for (const [says, tail] of TAILS) {
  test(`a start makes the same of ${says} behind the log, with a snapshot and without`, async (t) => {
    const folder = await makeStopped(t);
    const { size } = fs.statSync(logPath(folder));
    fs.appendFileSync(logPath(folder), tail);
    const paths = [logPath, (of: string) => checkpointPath(logPath(of))].map((path) =>
      path(folder),
    );
    const before = paths.map((path) => fs.readFileSync(path));
    const results = [];
    for (const isThere of [true, false]) {
      if (!isThere) {
        // Over the same file: another one would not be the snapshot's.
        for (const [at, path] of paths.entries()) fs.writeFileSync(path, before[at] as Buffer);
        fs.rmSync(snapshotPath(logPath(folder)), { force: true });
      }
      const warnings = collectWarnings(t, logPath(folder));
      const seen = { code: "", size: 0 };
      try {
        const { store, first } = await openWatched(t, folder);
        assert.equal(first > 0, isThere);
        seen.size = store.size;
        for (const n of [0, 3, PLANTS - 1]) {
          assert.equal(await store.create(plantOf(n)), "replayed");
        }
        await store.close();
      } catch (error) {
        seen.code = (error as { code?: string }).code ?? String(error);
      }
      const messages = warnings.map(({ message }) => message.replaceAll(/quarantine-\d/g, ""));
      results.push({ ...seen, messages, log: readLog(folder).slice(size) });
    }
    assert.deepEqual(results[0], results[1]);
  });
}

test("a snapshot without a checkpoint decides nothing, and the stop writes both anew", async (t) => {
  const folder = await makeStopped(t);
  fs.rmSync(checkpointPath(logPath(folder)));
  assert.equal(await readsAll(t, folder), true);
  assert.equal(await readsAll(t, folder), false);
});

test("a snapshot that the checkpoint contradicts is left aside, and the log decides", async (t) => {
  const folder = await makeStopped(t);
  const path = snapshotPath(logPath(folder));
  const content = fs.readFileSync(path);
  damageEarly(folder);
  await repairLog(folder, { confirm: async () => true });
  assert.equal(fs.existsSync(path), false);
  fs.writeFileSync(path, content); // as a repair would leave it that knows of none
  const { store, first } = await openWatched(t, folder);
  assert.equal(first, 0);
  assert.equal(store.size, PLANTS);
});

test("a checkpoint with another checksum refuses the start, with a snapshot too", async (t) => {
  const folder = await makeStopped(t);
  overwrite(folder, readLog(folder).length - 10, "7"); // in what a start looks at
  await assert.rejects(PlantStore.open(folder, ANY), { code: "corruption" });
});

/** Waits for it: the check in the background keeps no process alive. */
async function failureOf(store: PlantStore): Promise<PlantStoreError> {
  let failure: PlantStoreError | undefined;
  void store.failed.then((error) => {
    failure = error;
  });
  await until("the store fails", () => failure !== undefined);
  return store.failed;
}

test("a change far in front of the snapshot is found beside the service: the store fails, the next start refuses", async (t) => {
  const folder = await makeStopped(t);
  damageEarly(folder);
  const { store, first } = await openWatched(t, folder);
  assert.ok(first > 0);
  const wasThere = store.failed.then(() => fs.existsSync(snapshotPath(logPath(folder))));
  const failure = await failureOf(store);
  assert.equal(await wasThere, false, "whoever hears of it may start again at once");
  assert.equal(failure.code, "store_failed");
  assert.equal(failure.message.includes(folder), false, "clients read it");
  assert.ok((failure.cause as Error).message.includes(logPath(folder)));
  assert.equal(fs.existsSync(snapshotPath(logPath(folder))), false);
  await assert.rejects(store.create({ id: 1n, name: "a" }), { code: "store_failed" });
  await store.close();
  assert.equal(fs.existsSync(snapshotPath(logPath(folder))), false);

  for (let start = 0; start < 2; start++) {
    await assert.rejects(PlantStore.open(folder, ANY), { code: "corruption" });
  }
  assert.equal((await repairLog(folder, { confirm: async () => true })).action, "accept");
  assert.equal((await openWatched(t, folder)).first, 0);
});

test("the same where the checkpoint has grown beyond the snapshot meanwhile", async (t) => {
  const folder = await makeStopped(t);
  const store = await openStore(t, folder, { snapshotBytesMin: 10 * MIB });
  await store.create({ id: 1n, name: "a" });
  await store.close();
  damageEarly(folder);
  const again = await openWatched(t, folder);
  assert.ok(again.first > 0);
  await failureOf(again.store);
  await again.store.close();
  await assert.rejects(PlantStore.open(folder, ANY), { code: "corruption" });
});

test("a close ends the check at once and finds nothing; the next start begins it anew", async (t) => {
  const folder = await makeStopped(t);
  damageEarly(folder);
  const failures: PlantStoreError[] = [];
  for (let round = 0; round < 3; round++) {
    const { store, first } = await openWatched(t, folder);
    assert.ok(first > 0);
    void store.failed.then((failure) => failures.push(failure));
    const reads = holdReads(t);
    await until("the check reads", () => reads.count() > 0);
    await store.close();
    reads.release(); // of a file that is closed
  }
  // By then a check that had gone on would have failed the store.
  assert.equal(isSound(await verifyLog(folder)), false);
  assert.deepEqual(failures, []);
});

test("a record that is another one than the index says fails the store, and the snapshot goes", async (t) => {
  const folder = await makeStopped(t);
  const [two, three] = [lineOf(plantOf(2)), lineOf(plantOf(3))];
  assert.equal(two.length, three.length);
  overwrite(folder, readLog(folder).indexOf(two), three + two);
  const { store } = await openWatched(t, folder);
  await assert.rejects(store.get(plantOf(2).id), { code: "store_failed" });
  await store.close();
  assert.equal(fs.existsSync(snapshotPath(logPath(folder))), false);
  await assert.rejects(PlantStore.open(folder), { code: "corruption" });
});

test("an edit by hand is refused by the start itself, because the log is newer than its checkpoint", async (t) => {
  const folder = await makeStopped(t);
  const log = readLog(folder);
  fs.writeFileSync(logPath(folder), log.replace('"id":7919,', '"id":9999,'));
  assert.equal(readLog(folder).length, log.length);
  await assert.rejects(PlantStore.open(folder, ANY), { code: "corruption" });
});

/** What makes a log newer than its checkpoint that holds what it held. */
const TOUCHES: readonly [says: string, touch: (path: string) => void][] = [
  ["was touched", (path) => fs.utimesSync(path, new Date(), new Date())],
  ["had a torn end", (path) => fs.appendFileSync(path, '{"id":1,"na')],
  [
    "was copied back",
    (path) => {
      fs.copyFileSync(path, `${path}.copy`);
      fs.renameSync(`${path}.copy`, path);
    },
  ],
];

for (const [says, touch] of TOUCHES) {
  test(`a log that ${says} is read whole no more once a start found it right`, async (t) => {
    const folder = await makeStopped(t);
    touch(logPath(folder));
    const starts = [];
    for (let start = 0; start < 3; start++) starts.push(await readsAll(t, folder));
    assert.deepEqual(starts.slice(-1), [false]);
    assert.equal(starts.filter((isWhole) => isWhole).length, 1);
  });
}

test("a log that is newer than its checkpoint and was not changed serves", async (t) => {
  const folder = await makeStopped(t);
  fs.utimesSync(logPath(folder), new Date(), new Date());
  const { size } = fs.statSync(logPath(folder));
  const store = await openStore(t, folder, ANY);
  assert.equal(store.status().checkpointBytes, size); // it is there, and right
  await store.create({ id: 1n, name: "new" });
  assert.ok(fs.statSync(logPath(folder)).size > size);
});

test("a cut of what was never acknowledged hides no edit: the next start reads the whole log (fake disk)", async (t) => {
  const folder = await makeStopped(t);
  const store = await openStore(t, folder, ANY);
  const log = readLog(folder);
  fs.writeFileSync(logPath(folder), log.replace('"id":7919,', '"id":9999,'));
  const cause = Object.assign(new Error("ENOSPC: no space left on device"), { code: "ENOSPC" });
  const disk = t.mock.method(LogFile.prototype, "append", async () => {
    fs.appendFileSync(logPath(folder), '{"id":1'); // a short write
    fs.truncateSync(logPath(folder), log.length); // which is undone
    return { outcome: "refused", cause };
  });
  await assert.rejects(store.create({ id: 1n, name: "new" }), { code: "write_failed" });
  disk.mock.restore();
  await store.close();
  assert.equal(readLog(folder).length, log.length);
  await assert.rejects(PlantStore.open(folder, ANY), { code: "corruption" });
});

test("an open tells how much of the log its snapshot stands for while that is read, then goes on from there", async (t) => {
  const folder = await makeStopped(t);
  const known = fs.statSync(logPath(folder)).size;
  fs.appendFileSync(logPath(folder), lineOf({ id: 1n, name: "x".repeat(2 * MIB) }));
  const { size } = fs.statSync(logPath(folder));
  const told: [number, number][] = [];
  await openStore(t, folder, { ...ANY, onProgress: (...numbers) => told.push(numbers) });
  assert.deepEqual(told, [
    [known, size],
    [size, size],
  ]);
});

for (const [where, times] of [
  ["its snapshot", 1],
  ["what came after its snapshot", 2],
] as const) {
  test(`an open that is given up while it reads ${where} leaves the snapshot, and does not begin anew`, async (t) => {
    const folder = await makeStopped(t);
    fs.appendFileSync(logPath(folder), lineOf({ id: 1n, name: "x".repeat(2 * MIB) }));
    const before = snapshot(folder);
    const warnings = collectWarnings(t, logPath(folder));
    const enough = new Error("enough");
    let told = 0;
    const onProgress = () => {
      if (++told === times) throw enough;
    };
    await assert.rejects(
      PlantStore.open(folder, { ...ANY, onProgress }),
      (error) => error === enough,
    );
    assert.equal(told, times);
    assert.deepEqual(openFilesIn(folder), []);
    assert.deepEqual(snapshot(folder), before);
    assert.deepEqual(warnings, []);
    const { store, first } = await openWatched(t, folder);
    assert.ok(first > 0);
    assert.equal(store.size, PLANTS + 1);
  });
}

test("an edit that moves what stands behind it is refused by the start itself", async (t) => {
  const folder = await makeStopped(t);
  const lines = readLog(folder).split("\n");
  writeLog(folder, lines.toSpliced(5, 1).join("\n"));
  fs.appendFileSync(logPath(folder), lineOf({ id: 1n, name: "x".repeat(200) }));
  await assert.rejects(PlantStore.open(folder, ANY), { code: "corruption" });
});

test("a snapshot is in no backup, and no command that reads the log goes by it", async (t) => {
  const folder = await makeStopped(t);
  const target = join(makeFolder(t), "backup");
  await backup(folder, target);
  assert.deepEqual(fs.readdirSync(target).sort(), ["plants.jsonl", "plants.jsonl.checkpoint"]);
  damageEarly(folder);
  assert.equal(isSound(await verifyLog(folder)), false);
  await assert.rejects(backup(folder, `${target}-2`), { code: "corruption" });
});

test("a snapshot belongs to the owner of its folder", {
  skip: process.getuid?.() === 0 ? false : "only root can give files away",
}, async (t) => {
  const folder = makeFolder(t);
  fs.chownSync(folder, 12_345, 12_345);
  const store = await openStore(t, folder, ANY);
  await store.create(plantOf(1));
  await store.close();
  const { uid, gid, mode } = fs.statSync(snapshotPath(logPath(folder)));
  assert.deepEqual([uid, gid, mode & 0o777], [12_345, 12_345, 0o600]);
});
