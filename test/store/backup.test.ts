/** Copies of a data directory: what they hold, what a kill leaves of them, and which of several are kept. */
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
  PlantStoreError,
  restore,
  revokeToken,
  verifyLog,
} from "../../src/index.ts";
import { makeFolder } from "../support/folders.ts";
import { snapshot } from "../support/snapshot.ts";
import { collect, logPath, openFilesIn, openStore, readLog, writeLog } from "../support/stores.ts";
import { collectWarnings } from "../support/watch.ts";
import { changesOf, killAhead, watchDisk } from "../support/watched-disk.ts";

const A = '{"id":1,"name":"a"}\n';
const B = '{"id":2,"name":"b","tag":"t"}\n';

/** A data directory with two plants and a token, and the path of a copy. */
async function prepare(t: TestContext): Promise<{ data: string; target: string }> {
  const data = makeFolder(t);
  writeLog(data, A + B);
  await createToken(data, { name: "a" });
  return { data, target: join(makeFolder(t), "copy") };
}

/** What is in a folder, except locks. */
function namesIn(folder: string): string[] {
  return fs.readdirSync(folder).filter((name) => !/lock\./.test(name));
}

test("a backup has the plants, the tokens and a checkpoint of its own, and restores to the same", async (t) => {
  const { data, target } = await prepare(t);
  await createToken(data, { name: "b" });
  await revokeToken(data, "b");
  fs.writeFileSync(`${logPath(data)}.quarantine`, "old");
  fs.writeFileSync(join(data, "export.jsonl"), A);
  const before = snapshot(data);
  assert.deepEqual(await backup(data, target), { plants: 2, bytes: 50 });
  assert.deepEqual(snapshot(data), before, "the source is only read");
  assert.deepEqual(namesIn(target), ["plants.jsonl", "plants.jsonl.checkpoint", "tokens.jsonl"]);
  assert.equal(fs.statSync(target).mode & 0o777, 0o700);
  const restored = join(makeFolder(t), "data");
  assert.deepEqual(await restore(target, restored), { plants: 2, bytes: 50 });
  assert.deepEqual(snapshot(restored), snapshot(target));
  assert.deepEqual(await listTokens(restored), await listTokens(data));
  const store = await openStore(t, restored);
  assert.deepEqual(
    (await collect(store.list())).map(({ id }) => id),
    [1n, 2n],
  );
  assert.equal(await store.create({ id: 3n, name: "new" }), "created");
});

const EMPTY: readonly [says: string, make: (folder: string) => void][] = [
  ["is missing", (folder) => fs.rmdirSync(folder)],
  ["is empty", () => {}],
  ["is that of a clone", (folder) => fs.writeFileSync(join(folder, ".gitignore"), "*\n")],
  ["is the root of a file system", (folder) => fs.mkdirSync(join(folder, "lost+found"))],
  ["has locks of dead processes", (folder) => fs.writeFileSync(join(folder, "lock.7"), "")],
  ["has what a kill left", (folder) => fs.writeFileSync(`${logPath(folder)}.new`, "half")],
];

for (const [says, make] of EMPTY) {
  test(`a restore works into a folder that ${says}`, async (t) => {
    const { data } = await prepare(t);
    const folder = makeFolder(t);
    make(folder);
    await restore(data, folder);
    const store = await PlantStore.open(folder);
    assert.equal(store.status().plants, 2);
    await store.close();
    assert.equal((await listTokens(folder)).length, 1);
  });
}

for (const name of ["mine", "plants.jsonl", "tokens.jsonl"]) {
  test(`a backup and a restore into a folder with ${name} are refused, and change nothing`, async (t) => {
    const { data } = await prepare(t);
    for (const copy of [backup, restore]) {
      const folder = makeFolder(t);
      fs.writeFileSync(join(folder, name), "mine");
      await assert.rejects(copy(data, folder), { code: "io_error" });
      assert.deepEqual(snapshot(folder), { [name]: "mine" });
      await assert.rejects(copy(data, join(folder, name)), { code: "io_error" });
      assert.deepEqual(snapshot(folder), { [name]: "mine" });
    }
  });
}

test("a copy into a folder into which another one is made is refused, and the other is whole", async (t) => {
  const { data } = await prepare(t);
  for (const copy of [backup, restore]) {
    for (const other of [backup, restore]) {
      const target = join(makeFolder(t), "copy");
      const rivals: Promise<unknown>[] = [];
      const begin = (change: string) => {
        if (change === `append ${logPath(target)}.new`) {
          rivals.push(assert.rejects(other(data, target), { code: "locked" }));
        }
      };
      await watchDisk(begin, () => copy(data, target));
      assert.equal(rivals.length, 1);
      await Promise.all(rivals);
      assert.equal(readLog(target), A + B);
    }
  }
});

test("a copy that has lost its lock fails, and removes nothing of another one", async (t) => {
  const { data, target } = await prepare(t);
  let isLost = false;
  const lose = (change: string) => {
    if (isLost || change !== `rename ${logPath(target)}.checkpoint`) return;
    isLost = true;
    fs.rmSync(join(target, "lock.1"));
    writeLog(target, A);
  };
  await assert.rejects(
    watchDisk(lose, () => restore(data, target)),
    { code: "locked" },
  );
  assert.equal(readLog(target), A);
});

test("a backup goes into a folder whose path is too long for a socket, and is read there", async (t) => {
  const { data } = await prepare(t);
  const target = join(makeFolder(t), "x".repeat(120));
  await backup(data, target);
  assert.deepEqual(await verifyLog(target), await verifyLog(data));
  await restore(target, join(makeFolder(t), "data"));
  await assert.rejects(restore(data, join(target, "data")), { code: "io_error" });
});

for (const copy of [backup, restore]) {
  test(`a ${copy.name} that is killed at any step is whole, or a start refuses it`, async (t) => {
    const { data } = await prepare(t);
    for (let change = 0, isKilled = true; isKilled; change++) {
      const target = join(makeFolder(t), "copy");
      isKilled = await killAhead(change, () => copy(data, target));
      const hasBegun = fs.existsSync(target) && namesIn(target).length > 0;
      const isWhole = fs.existsSync(logPath(target));
      if (!hasBegun && isKilled) continue;
      const store = await PlantStore.open(target).catch((error) => {
        assert.ok(error instanceof PlantStoreError && error.code === "corruption", String(error));
        assert.equal(isWhole, false);
      });
      if (store === undefined) continue;
      await store.close();
      assert.equal(readLog(target), A + B, `${change}`);
      assert.equal((await listTokens(target)).length, 1);
    }
  });
}

test("a backup that fails leaves no folder, and a restore leaves it empty", async (t) => {
  const { data } = await prepare(t);
  for (const [copy, left] of [
    [backup, undefined],
    [restore, []],
  ] as const) {
    for (const step of ["append LOG.new", "rename LOG", "syncFolder DIR", "syncFolder DIR/.."]) {
      const target = join(makeFolder(t), "copy");
      const fail = (change: string) => {
        if (step.startsWith("sync") && !fs.existsSync(logPath(target))) return;
        const what = change.replace(logPath(target), "LOG").replace(target, "DIR");
        if (what === step) throw new Error("EIO");
      };
      await assert.rejects(
        watchDisk(fail, () => copy(data, target)),
        /EIO/,
      );
      assert.deepEqual(fs.existsSync(target) ? namesIn(target) : undefined, left, step);
      assert.deepEqual(openFilesIn(target), []);
    }
  }
});

test("the log of a copy gets its name last, and all is synced", async (t) => {
  const { data, target } = await prepare(t);
  const changes = await changesOf(() => backup(data, target));
  const steps = changes.map((each) => each.replace(target, "TARGET"));
  const renames = ["tokens.jsonl", "plants.jsonl.checkpoint", "plants.jsonl"];
  assert.deepEqual(
    steps.filter((step) => /^(rename|syncFolder TARGET)/.test(step)),
    [
      ...renames.flatMap((name) => [`rename TARGET/${name}`, "syncFolder TARGET"]),
      ...["syncFolder TARGET", "syncFolder TARGET/.."],
    ],
  );
  assert.deepEqual(steps.slice(-2), ["syncFolder TARGET/..", "unlink TARGET/lock.1"]);
});

for (const [says, years, left] of [
  ["goes on", [2026, 2027, 2028], [2027, 2028]],
  ["was set back, the one that was just made is kept, too", [2028, 2029, 2026], [2026, 2029]],
] as const) {
  test(`backups in a folder are named by the time, and the newest are kept; if the clock ${says}`, async (t) => {
    const { data } = await prepare(t);
    const folder = join(makeFolder(t), "new", "backups");
    t.mock.timers.enable({ apis: ["Date"] });
    for (const year of years) {
      t.mock.timers.setTime(Date.UTC(year, 10, 27, 10, 15));
      const { name } = await backupInto(data, folder, 2);
      assert.equal(readLog(join(folder, name)), A + B);
    }
    assert.deepEqual(
      namesIn(folder).sort(),
      left.map((year) => `plants-${year}1127T101500Z`),
    );
  });
}

test("without a number 14 backups are kept, and the names of the others are returned", async (t) => {
  const { data } = await prepare(t);
  const folder = makeFolder(t);
  const old = Array.from({ length: 15 }, (_, n) => `plants-20200101T0000${n + 10}Z`);
  for (const name of old) await backup(data, join(folder, name));
  const { name, removed, plants } = await backupInto(data, folder);
  assert.deepEqual([removed, plants], [old.slice(0, 2), 2]);
  assert.deepEqual(namesIn(folder).sort(), [...old.slice(2), name]);
});

test("only whole backups count, and nothing else is removed", async (t) => {
  const { data } = await prepare(t);
  const folder = makeFolder(t);
  const [good, unfinished] = ["plants-20200101T000000Z", "plants-20210101T000000Z"];
  await backup(data, join(folder, good));
  fs.mkdirSync(join(folder, unfinished));
  fs.writeFileSync(join(folder, unfinished, "plants.jsonl.checkpoint"), "");
  for (const other of ["plants-2020", "plants-20200101T000000Z.old", "other"]) {
    fs.cpSync(join(folder, good), join(folder, other), { recursive: true });
  }
  const names = namesIn(folder);
  const { name } = await backupInto(data, folder, 2);
  assert.deepEqual(namesIn(folder).sort(), [...names, name].sort());
});

test("a backup that fails removes none, and leaves nothing", async (t) => {
  const { data } = await prepare(t);
  const folder = makeFolder(t);
  await backupInto(data, folder);
  const names = namesIn(folder);
  writeLog(data, `${A}x\n`);
  t.mock.timers.enable({ apis: ["Date"], now: Date.UTC(2090, 0) });
  await assert.rejects(backupInto(data, folder, 1), { code: "corruption" });
  assert.deepEqual(namesIn(folder), names);
});

test("an old backup in which other files were put stays whole, with a warning", async (t) => {
  const { data } = await prepare(t);
  const folder = makeFolder(t);
  const old = join(folder, "plants-20200101T000000Z");
  await backup(data, old);
  await (await PlantStore.open(old)).close(); // which leaves a lock
  const before = snapshot(old);
  const warnings = collectWarnings(t, old);
  const { removed } = await backupInto(data, folder, 1);
  assert.deepEqual([removed, snapshot(old)], [[], before]);
  assert.equal(warnings.length, 1);
});

test("a removal that is killed has taken the log first, so what is left is no backup", async (t) => {
  const { data } = await prepare(t);
  const folder = makeFolder(t);
  const old = join(folder, "plants-20200101T000000Z");
  await backup(data, old);
  const changes = await changesOf(() => backupInto(data, folder, 1));
  assert.equal(
    changes.find((each) => each.includes(old)),
    `unlink ${logPath(old)}`,
  );
  assert.equal(fs.existsSync(old), false);
});

for (const keep of [0, -1, 1.5, 10_001, Number.NaN]) {
  test(`keep: ${keep} is refused before anything is touched`, async (t) => {
    const { data, target } = await prepare(t);
    await assert.rejects(backupInto(data, target, keep), RangeError);
    assert.equal(fs.existsSync(target), false);
  });
}
