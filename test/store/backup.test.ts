/** Copies of a data directory: what they hold, in which order they are made, and which of several are kept. */
import assert from "node:assert/strict";
import fs from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import {
  backup,
  backupInto,
  createToken,
  listTokens,
  PlantStore,
  restore,
  revokeToken,
} from "../../src/index.ts";
import { locks } from "../../src/log/lock.ts";
import { makeFolder } from "../support/folders.ts";
import { logPath, openFilesIn, readLog, snapshot, writeLog } from "../support/stores.ts";
import { collectWarnings } from "../support/watch.ts";
import { changesOf, failAt, watchDisk } from "../support/watched-disk.ts";

const A = '{"id":1,"name":"a"}\n';
const B = '{"id":2,"name":"b","tag":"t"}\n';
const OLD = "plants-20200101T000000Z";

/** A data directory with two plants and a token, the path of a copy, and a folder for backups. */
async function prepare(t: TestContext) {
  const data = makeFolder(t);
  writeLog(data, A + B);
  await createToken(data, { name: "a" });
  return { data, target: join(makeFolder(t), "copy"), folder: makeFolder(t) };
}

/** What is in a folder, except locks. */
function namesIn(folder: string): string[] {
  const names = fs.readdirSync(folder).filter((name) => !/lock\./.test(name));
  return names.sort();
}

test("a backup has the plants, the tokens and a checkpoint of its own, and restores to the same", async (t) => {
  const { data, target } = await prepare(t);
  await createToken(data, { name: "b" });
  await revokeToken(data, "b");
  fs.writeFileSync(`${logPath(data)}.quarantine`, "old");
  fs.writeFileSync(join(data, "export.jsonl"), A);
  assert.deepEqual(await backup(data, target), { plants: 2, bytes: 50 });
  assert.deepEqual(namesIn(target), ["plants.jsonl", "plants.jsonl.checkpoint", "tokens.jsonl"]);
  assert.equal(fs.statSync(target).mode & 0o777, 0o700);
  const restored = join(makeFolder(t), "data");
  assert.deepEqual(await restore(target, restored), { plants: 2, bytes: 50 });
  assert.deepEqual(snapshot(restored), snapshot(target));
  assert.deepEqual(await listTokens(restored), await listTokens(data));
});

for (const name of ["lock.7", "lost+found", ".gitignore", "plants.jsonl.new"]) {
  test(`a restore goes into a folder with "${name}"`, async (t) => {
    const { data, folder } = await prepare(t);
    fs.writeFileSync(join(folder, name), "");
    await restore(data, folder);
    assert.equal(readLog(folder), A + B);
  });
}

for (const name of ["mine", "plants.jsonl", "tokens.jsonl"]) {
  test(`a copy into a folder with "${name}", or in place of that file, is refused and changes nothing`, async (t) => {
    const { data, folder } = await prepare(t);
    fs.writeFileSync(join(folder, name), "mine");
    for (const copy of [backup, restore]) {
      for (const target of [folder, join(folder, name)]) {
        await assert.rejects(copy(data, target), { code: "io_error" });
        assert.deepEqual(snapshot(folder), { [name]: "mine" });
      }
    }
  });
}

test("a copy into a folder that another process uses is refused", async (t) => {
  const { data, folder } = await prepare(t);
  const lock = await locks.acquire(folder, { name: "lock", command: "other" });
  for (const copy of [backup, restore]) {
    await assert.rejects(copy(data, folder), { code: "locked" });
  }
  await lock.close();
  assert.deepEqual(namesIn(folder), []);
});

test("a copy that has lost its lock fails, and leaves another copy alone", async (t) => {
  const { data, target } = await prepare(t);
  const lose = (change: string) => {
    if (change !== `rename ${logPath(target)}.checkpoint`) return;
    fs.rmSync(join(target, "lock.1"));
    writeLog(target, A);
  };
  const restoring = watchDisk(lose, () => restore(data, target));
  await assert.rejects(restoring, { code: "locked" });
  assert.equal(readLog(target), A);
});

test("a backup can be made in a folder whose path is too long for a socket, and read there", async (t) => {
  const { data, folder } = await prepare(t);
  const target = join(folder, "x".repeat(120));
  await backup(data, target);
  await restore(target, join(makeFolder(t), "data"));
  await assert.rejects(restore(data, join(target, "data")), { code: "io_error" });
});

for (const [copy, left] of [
  [backup, undefined],
  [restore, []],
] as const) {
  test(`a ${copy.name} that fails leaves ${left ? "an empty" : "no"} folder`, async (t) => {
    const { data } = await prepare(t);
    for (const step of ["append LOG.new", "rename LOG", "syncFolder DIR/.."]) {
      const target = join(makeFolder(t), "copy");
      const copying = failAt(target, step, () => copy(data, target));
      await assert.rejects(copying, /EIO/);
      assert.deepEqual(fs.existsSync(target) ? namesIn(target) : undefined, left, step);
      assert.deepEqual(openFilesIn(target), []);
    }
  });
}

test("the log of a copy gets its name last; once all is synced, an old backup loses its log first", async (t) => {
  const { data, folder } = await prepare(t);
  await backup(data, join(folder, OLD));
  const changes = await changesOf(folder, () => backupInto(data, folder, 1));
  const steps = changes.map((change) => change.replace(OLD, "OLD").replace(/plants-\d\S+Z/, "NEW"));
  assert.deepEqual(
    steps.filter((step) => /^(rename|syncFolder) DIR\/NEW|OLD|lock/.test(step)),
    [
      "syncFolder DIR/NEW", // with the first name of its log
      "rename DIR/NEW/tokens.jsonl",
      "syncFolder DIR/NEW",
      "rename DIR/NEW/plants.jsonl.checkpoint",
      "syncFolder DIR/NEW",
      "rename DIR/NEW/plants.jsonl",
      "syncFolder DIR/NEW",
      "syncFolder DIR/NEW",
      "syncFolder DIR/NEW/..",
      "unlink DIR/NEW/lock.1",
      "unlink DIR/OLD/plants.jsonl",
      "unlink DIR/OLD/plants.jsonl.checkpoint",
      "unlink DIR/OLD/tokens.jsonl",
      "removeFolder DIR/OLD",
    ],
  );
});

for (const [says, years, left] of [
  ["goes on", [2026, 2027, 2028], [2027, 2028]],
  ["was set back, the one that was just made is kept, too", [2028, 2029, 2026], [2026, 2029]],
] as const) {
  test(`backups are named by the time, and the newest are kept; if the clock ${says}`, async (t) => {
    const { data, folder } = await prepare(t);
    t.mock.timers.enable({ apis: ["Date"] });
    for (const year of years) {
      t.mock.timers.setTime(Date.UTC(year, 10, 27, 10, 15));
      const { name } = await backupInto(data, join(folder, "new"), 2);
      assert.equal(readLog(join(folder, "new", name)), A + B);
    }
    const names = left.map((year) => `plants-${year}1127T101500Z`);
    assert.deepEqual(namesIn(join(folder, "new")), names);
  });
}

test("without a number 14 backups are kept, and the names of the others are returned", async (t) => {
  const { data, folder } = await prepare(t);
  const old = Array.from({ length: 15 }, (_, n) => `plants-20200101T0000${n + 10}Z`);
  for (const name of old) await backup(data, join(folder, name));
  await assert.rejects(backupInto(data, folder, 0), RangeError);
  const { name, removed, plants } = await backupInto(data, folder);
  assert.deepEqual([removed, plants], [old.slice(0, 2), 2]);
  assert.deepEqual(namesIn(folder), [...old.slice(2), name]);
});

test("only whole backups count and are removed, and none if the new one fails", async (t) => {
  const { data, folder } = await prepare(t);
  await backup(data, join(folder, OLD));
  fs.mkdirSync(join(folder, "plants-20210101T000000Z")); // whose log has no name yet
  for (const other of ["plants-2020", `${OLD}.old`, "other"]) {
    fs.cpSync(join(folder, OLD), join(folder, other), { recursive: true });
  }
  const names = namesIn(folder);
  const { name } = await backupInto(data, folder, 2);
  assert.deepEqual(namesIn(folder), [...names, name].sort());
  writeLog(data, `${A}x\n`);
  t.mock.timers.enable({ apis: ["Date"], now: Date.UTC(2090, 0) });
  await assert.rejects(backupInto(data, folder, 1), { code: "corruption" });
  assert.deepEqual(namesIn(folder), [...names, name].sort());
});

test("an old backup in which other files were put stays whole, with a warning", async (t) => {
  const { data, folder } = await prepare(t);
  const old = join(folder, OLD);
  await backup(data, old);
  await (await PlantStore.open(old)).close(); // which leaves a lock
  const before = snapshot(old);
  const warnings = collectWarnings(t, old);
  const { removed } = await backupInto(data, folder, 1);
  assert.deepEqual([removed, snapshot(old)], [[], before]);
  assert.equal(warnings.length, 1);
});
