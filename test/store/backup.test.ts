import assert from "node:assert/strict";
import fs from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { clock, replaceClock } from "../../src/clock.ts";
import {
  createToken,
  listTokens,
  type NewPlant,
  PlantStoreError,
  revokeToken,
  TokenRegistry,
} from "../../src/index.ts";
import { disk, replaceDisk } from "../../src/log/disk.ts";
import { LogFile } from "../../src/log/file.ts";
import { locks, replaceLocks } from "../../src/log/lock.ts";
import { backup, isSound, restore, verifyLog } from "../../src/tools.ts";
import { SimulatedClock } from "../simulation/clock.ts";
import { Platter } from "../simulation/platter.ts";
import { Random } from "../simulation/random.ts";
import { RULE_NAMES, RuleBook } from "../simulation/rules.ts";
import { World } from "../simulation/world.ts";
import { makeFolder } from "../support/folders.ts";
import { snapshot } from "../support/snapshot.ts";
import { collect, logPath, openStore, readLog, writeLog } from "../support/stores.ts";
import { judge, readTokenLog, tokenLogPath } from "../support/token-logs.ts";

const A = '{"id":1,"name":"a"}\n';
const B = '{"id":2,"name":"b","tag":"t"}\n';

test("a backup has the plants, the tokens and a checkpoint of its own, and a store opens it", async (t) => {
  const folder = makeFolder(t);
  const target = join(makeFolder(t), "copy");
  const store = await openStore(t, folder);
  const plants: NewPlant[] = Array.from({ length: 100 }, (_, n) => ({ id: BigInt(n), name: "x" }));
  for (const plant of plants) await store.create(plant);
  const token = await createToken(folder, { name: "a" });
  await createToken(folder, { name: "b" });
  await revokeToken(folder, "b");
  await store.close();
  const before = snapshot(folder);

  const report = await backup(folder, target);
  assert.deepEqual(report, { plants: 100, bytes: readLog(folder).length });
  assert.deepEqual(snapshot(folder), before, "the source is only read");
  assert.deepEqual(snapshot(target), before, "a checkpoint of the same bytes is the same");
  const verified = await verifyLog(target);
  assert.deepEqual([isSound(verified), verified.checksum], [true, "matches"]);
  assert.equal(verified.checkpointBytes, report.bytes);

  const copy = await openStore(t, target);
  assert.deepEqual(await collect(copy.list()), plants);
  assert.equal(await copy.create({ id: 1000n, name: "new" }), "created");
  const registry = await TokenRegistry.open(target);
  t.after(() => registry.close());
  assert.equal(judge(registry, token)?.name, "a");
  assert.deepEqual(await listTokens(target), await listTokens(folder));
});

test("a backup can be read by its owner only, no matter which modes its source has", {
  skip: process.platform === "win32" ? "modes mean nothing here" : false,
}, async (t) => {
  const folder = makeFolder(t);
  const target = join(makeFolder(t), "copy");
  writeLog(folder, A);
  await createToken(folder, { name: "a" });
  fs.chmodSync(logPath(folder), 0o644);
  fs.chmodSync(tokenLogPath(folder), 0o644);
  fs.chmodSync(folder, 0o755);
  await backup(folder, target);
  assert.equal(fs.statSync(target).mode & 0o777, 0o700);
  for (const name of ["plants.jsonl", "plants.jsonl.checkpoint", "tokens.jsonl"]) {
    assert.equal(fs.statSync(join(target, name)).mode & 0o777, 0o600, name);
  }
});

test("a backup does not copy quarantines, old logs, locks or other files", async (t) => {
  const folder = makeFolder(t);
  const target = join(makeFolder(t), "copy");
  writeLog(folder, `${A}torn`);
  await (await openStore(t, folder)).close();
  fs.writeFileSync(`${logPath(folder)}.before-repair-1`, "old");
  fs.writeFileSync(join(folder, "export.jsonl"), A);
  await backup(folder, target);
  assert.deepEqual(fs.readdirSync(target).sort(), ["plants.jsonl", "plants.jsonl.checkpoint"]);
});

const OBSTACLES: readonly [says: string, make: (target: string) => void][] = [
  ["a folder", (target) => fs.mkdirSync(target)],
  ["a file", (target) => fs.writeFileSync(target, "mine")],
  ["a link that leads nowhere", (target) => fs.symlinkSync("nowhere", target)],
];

for (const [says, make] of OBSTACLES) {
  test(`a backup to a path with ${says} is refused, and changes nothing there`, async (t) => {
    const folder = makeFolder(t);
    const parent = makeFolder(t);
    writeLog(folder, A);
    make(join(parent, "copy"));
    const before = fs.lstatSync(join(parent, "copy"));
    await assert.rejects(backup(folder, join(parent, "copy")), { code: "io_error" });
    assert.deepEqual(fs.readdirSync(parent), ["copy"]);
    const after = fs.lstatSync(join(parent, "copy"));
    assert.deepEqual([after.ino, after.mtimeMs], [before.ino, before.mtimeMs]);
  });
}

test("a backup to a path at which no folder can be made is an io_error", async (t) => {
  const folder = makeFolder(t);
  const parent = makeFolder(t);
  writeLog(folder, A);
  fs.writeFileSync(join(parent, "file"), "");
  await assert.rejects(backup(folder, join(parent, "file", "copy")), { code: "io_error" });
  assert.deepEqual(fs.readdirSync(parent), ["file"]);
});

test("a backup keeps a revocation that lacks only its line feed, because it is in force in the source, too", async (t) => {
  const folder = makeFolder(t);
  const target = join(makeFolder(t), "copy");
  writeLog(folder, A);
  const token = await createToken(folder, { name: "a" });
  fs.appendFileSync(
    tokenLogPath(folder),
    '{"event":"revoked","name":"a","revokedAt":"2026-01-01T00:00:00.000Z"}',
  );
  await backup(folder, target);
  assert.ok(readTokenLog(target).includes('"created"'));
  const registry = await TokenRegistry.open(target);
  t.after(() => registry.close());
  assert.equal(judge(registry, token), undefined);
});

test("a backup of a log that gets shorter while it is copied is refused (fake size)", async (t) => {
  const folder = makeFolder(t);
  const parent = makeFolder(t);
  writeLog(folder, A);
  await createToken(folder, { name: "a" });
  const size = LogFile.prototype.size;
  t.mock.method(LogFile.prototype, "size", function (this: LogFile) {
    return size.call(this) + (this.path === tokenLogPath(folder) ? 1 : 0);
  });
  await assert.rejects(backup(folder, join(parent, "copy")), { code: "io_error" });
  assert.deepEqual(fs.readdirSync(parent), []);
});

test("a backup reports the progress of its check of the copy", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, A + B);
  const reported: [number, number][] = [];
  await backup(folder, join(makeFolder(t), "copy"), (bytes, total) =>
    reported.push([bytes, total]),
  );
  assert.deepEqual(reported, [[50, 50]]);
});

/** A source with two plants and a token, and a path for what is restored. */
async function prepareRestore(t: TestContext) {
  const [source, parent] = [makeFolder(t), makeFolder(t)];
  writeLog(source, A + B);
  await createToken(source, { name: "a" });
  const folder = join(parent, "data");
  /** What is in the folder, but for its locks, which are there once a process was. */
  const contents = () => fs.readdirSync(folder).filter((name) => !/lock\.\d+$/.test(name));
  return { source, folder, contents };
}

for (const [says, prepare] of [
  ["missing", () => {}],
  ["empty", (folder: string) => fs.mkdirSync(folder, 0o755)],
  [
    "empty but for lost+found, an old lock and what a killed restore has left",
    (folder: string) => {
      fs.mkdirSync(join(folder, "lost+found"), { recursive: true });
      fs.writeFileSync(join(folder, "lock.7"), "");
      fs.mkdirSync(join(folder, "restore.partial"));
      fs.writeFileSync(join(folder, "restore.partial", "plants.jsonl"), "half");
    },
  ],
] as const) {
  test(`a restore into a directory that is ${says} makes it one that can be started from`, async (t) => {
    const { source, folder, contents } = await prepareRestore(t);
    await prepare(folder);
    const others = fs.existsSync(join(folder, "lost+found")) ? ["lost+found"] : [];
    assert.deepEqual(await restore(source, folder), { plants: 2, bytes: 50 });
    const files = ["plants.jsonl", "plants.jsonl.checkpoint", "tokens.jsonl"];
    assert.deepEqual(contents().sort(), [...others, ...files]);
    for (const name of files) assert.equal(fs.statSync(join(folder, name)).mode & 0o777, 0o600);
    assert.equal((await verifyLog(folder)).checksum, "matches");
    const store = await openStore(t, folder);
    assert.equal(store.size, 2);
    assert.deepEqual(await listTokens(folder), await listTokens(source));
  });
}

test("a restore into a directory that holds anything is refused, and changes nothing", async (t) => {
  const { source, folder } = await prepareRestore(t);
  for (const name of ["plants.jsonl", "tokens.jsonl", "plants.jsonl.checkpoint", "notes"]) {
    fs.mkdirSync(folder);
    fs.writeFileSync(join(folder, name), "mine");
    await assert.rejects(restore(source, folder), { code: "io_error" });
    assert.equal(fs.readFileSync(join(folder, name), "utf8"), "mine");
    assert.equal(fs.existsSync(join(folder, "restore.partial")), false);
    fs.rmSync(folder, { recursive: true });
  }
});

test("a restore into a directory that is in use is refused", async (t) => {
  const { source, folder, contents } = await prepareRestore(t);
  fs.mkdirSync(folder);
  const lock = await locks.acquire(folder, { name: "lock", command: "other" });
  await assert.rejects(restore(source, folder), { code: "locked" });
  await lock.close();
  assert.deepEqual(contents(), []);
});

test("a token that is created during a restore is not replaced", async (t) => {
  const { source, folder, contents } = await prepareRestore(t);
  const late = () => fs.writeFileSync(tokenLogPath(folder), "late");
  await assert.rejects(restore(source, folder, late), { code: "io_error" });
  assert.deepEqual(contents(), ["tokens.jsonl"]);
  assert.equal(readTokenLog(folder), "late");
});

test("a backup that fails, and cannot remove what it has made, reports why it failed (fake faults)", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, A);
  t.mock.method(disk, "syncFolder", async () => {
    throw Object.assign(new Error("EIO: i/o error, fsync"), { code: "EIO" });
  });
  t.mock.method(disk, "unlink", () => {
    throw Object.assign(new Error("EROFS: read-only file system, rm"), { code: "EROFS" });
  });
  await assert.rejects(backup(folder, join(makeFolder(t), "copy")), (error: Error) => {
    assert.ok(error instanceof PlantStoreError);
    assert.equal(error.code, "io_error");
    assert.match(error.message, /EIO/);
    return true;
  });
});

test("a restore removes a link in place of what a killed one left, and nothing behind it", async (t) => {
  const source = makeFolder(t);
  writeLog(source, A);
  const folder = makeFolder(t);
  const other = makeFolder(t);
  fs.writeFileSync(join(other, "kept"), "");
  fs.symlinkSync(other, join(folder, "restore.partial"));
  await restore(source, folder);
  assert.deepEqual(fs.readdirSync(other), ["kept"]);
  assert.equal(readLog(folder), A);
});

for (const isDone of [false, true]) {
  test(`a restore whose last step ${isDone ? "is done and " : ""}fails leaves the folder empty (fake fault)`, async (t) => {
    const source = makeFolder(t);
    writeLog(source, A);
    const folder = makeFolder(t);
    const { rename } = disk;
    t.mock.method(disk, "rename", (from: string, to: string) => {
      const isLast = to === logPath(folder);
      if (!isLast || isDone) rename(from, to);
      if (isLast) throw Object.assign(new Error("EIO: i/o error"), { code: "EIO" });
    });
    await assert.rejects(restore(source, folder), { code: "io_error" });
    assert.deepEqual(
      fs.readdirSync(folder).filter((name) => !name.startsWith("lock.")),
      [],
    );
  });
}

test("a backup whose name cannot be made durable is removed (fake fault)", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, A);
  const parent = makeFolder(t);
  const { syncFolder } = disk;
  t.mock.method(disk, "syncFolder", async (at: string) => {
    if (fs.existsSync(join(parent, "copy"))) throw Object.assign(new Error("EIO"), { code: "EIO" });
    return syncFolder(at);
  });
  await assert.rejects(backup(folder, join(parent, "copy")), { code: "io_error" });
  assert.deepEqual(fs.readdirSync(parent), []);
});

test("a restore into a folder that another program has just made is there after a power cut", async (t) => {
  const random = new Random("a");
  const simulated = new SimulatedClock(random);
  const none = Object.fromEntries(RULE_NAMES.map((name) => [name, 0]));
  const rules = new RuleBook({ ...none, "names: any subset": 1 });
  const platter = new Platter(simulated, rules);
  const log = platter.create("/source", "folder") && platter.create("/source/plants.jsonl", "file");
  assert.ok(log.kind === "file");
  platter.write(log, Buffer.from(A), 0);
  platter.commitAll();
  platter.create("/target", "folder"); // by a program that does not sync
  const before = { clock, disk, locks };
  t.after(() => {
    replaceClock(before.clock);
    replaceDisk(before.disk);
    replaceLocks(before.locks);
  });
  const world = new World({ clock: simulated, platter, rules, random, number: 0 });
  replaceClock(simulated);
  replaceDisk(world.disk);
  world.useLocks();
  await world.run(async () => {
    assert.deepEqual(await restore("/source", "/target"), { plants: 1, bytes: A.length });
  });
  assert.equal(world.failure, undefined);
  const found = platter.crash("cut", random, "nothing").find("/target/plants.jsonl");
  assert.equal(found?.kind === "file" && found.bytes.toString(), A);
});
