import assert from "node:assert/strict";
import fs from "node:fs";
import { dirname, join } from "node:path";
import { type TestContext, test } from "node:test";
import { subscribe } from "../../src/index.ts";
import { disk } from "../../src/log/disk.ts";
import { locks } from "../../src/log/lock.ts";
import { type BackupIntoOptions, backupInto, isSound, verifyLog } from "../../src/tools.ts";
import { makeFolder } from "../support/folders.ts";
import { snapshot } from "../support/snapshot.ts";
import { logPath, openFilesIn, openStore, readLog, writeLog } from "../support/stores.ts";

const A = '{"id":1,"name":"a"}\n';
const B = '{"id":2,"name":"b","tag":"t"}\n';

/** A data directory with two plants, and a folder with what an earlier time has left there. */
function prepare(t: TestContext, ...names: readonly string[]) {
  const [data, folder] = [makeFolder(t), makeFolder(t)];
  writeLog(data, A + B);
  for (const name of names) makeOld(folder, name);
  const into = (options?: BackupIntoOptions) => backupInto(data, folder, options);
  return { data, folder, into, names: () => namesIn(folder) };
}

function makeOld(folder: string, name: string): void {
  fs.mkdirSync(join(folder, name));
  fs.writeFileSync(join(folder, name, "plants.jsonl"), "old");
}

/** What is in a folder, except the lock. */
function namesIn(folder: string): string[] {
  return fs.readdirSync(folder).filter((name) => !name.startsWith("lock."));
}

/** The names, with `*` for the date of one that was made now. */
function numbersOf(names: readonly string[]): string[] {
  return names.map((name) => /^plants-(\d{6,})-\d{8}T\d{6}Z$/.exec(name)?.[1] ?? name).sort();
}

function watchWarnings(t: TestContext): string[] {
  const messages: string[] = [];
  t.after(subscribe("plant-store:warning", ({ message }) => messages.push(message)));
  return messages;
}

test("the first backup in a folder has the number 1, and every further one the next", async (t) => {
  const { data, folder, into, names } = prepare(t);
  t.mock.timers.enable({ apis: ["Date"], now: Date.UTC(2026, 10, 27, 10, 15) });
  const first = await into();
  assert.deepEqual(first, {
    plants: 2,
    bytes: 50,
    name: "plants-000001-20261127T101500Z",
    removed: [],
  });
  t.mock.timers.tick(1000);
  assert.equal((await into()).name, "plants-000002-20261127T101501Z");
  assert.deepEqual(numbersOf(names()), ["000001", "000002"]);
  for (const name of names()) {
    assert.equal(isSound(await verifyLog(join(folder, name))), true);
    assert.equal(readLog(join(folder, name)), readLog(data));
  }
});

test("a folder that is missing is made", async (t) => {
  const { data, folder } = prepare(t);
  const { name } = await backupInto(data, join(folder, "new", "backups"));
  assert.equal(readLog(join(folder, "new", "backups", name)), A + B);
});

/** Dates at which a clock may be, in the order in which backups are made. */
const CLOCKS: readonly [says: string, years: readonly number[]][] = [
  ["goes backwards", [2030, 2029, 2028, 1970]],
  ["jumps back and forth", [2026, 1970, 2090, 2025]],
  ["shows five digits of a year", [12_026, 2026, 12_027, 2025]],
  ["stands still", [2026, 2026, 2026, 2026]],
];

for (const [says, years] of CLOCKS) {
  test(`with a clock that ${says} the newest backups are kept`, async (t) => {
    const { into, names } = prepare(t);
    const made: string[] = [];
    for (const year of years) {
      t.mock.timers.reset();
      t.mock.timers.enable({ apis: ["Date"], now: Date.UTC(year, 0) });
      const { name, removed } = await into({ keep: 2 });
      made.push(name);
      assert.deepEqual(removed, made.length > 2 ? [made.at(-3)] : []);
      assert.deepEqual(names().sort(), made.slice(-2).sort());
    }
    assert.deepEqual(numbersOf(made), ["000001", "000002", "000003", "000004"]);
  });
}

const KEPT: readonly {
  readonly says: string;
  readonly before: readonly string[];
  readonly keep: number;
  readonly removed: readonly string[];
  readonly number: string;
}[] = [
  {
    says: "one is kept",
    before: ["plants-000001-20260102T000000Z", "plants-000002-20260101T000000Z"],
    keep: 1,
    removed: ["plants-000001-20260102T000000Z", "plants-000002-20260101T000000Z"],
    number: "000003",
  },
  {
    says: "numbers have gaps",
    before: [
      "plants-000001-20260101T000000Z",
      "plants-000007-20240101T000000Z",
      "plants-000030-20230101T000000Z",
    ],
    keep: 2,
    removed: ["plants-000001-20260101T000000Z", "plants-000007-20240101T000000Z"],
    number: "000031",
  },
  {
    says: "numbers have seven digits",
    before: ["plants-999999-20260101T000000Z", "plants-1000000-20250101T000000Z"],
    keep: 2,
    removed: ["plants-999999-20260101T000000Z"],
    number: "1000001",
  },
  {
    says: "there are fewer than are kept",
    before: ["plants-000005-20260101T000000Z"],
    keep: 14,
    removed: [],
    number: "000006",
  },
];

for (const { says, before, keep, removed, number } of KEPT) {
  test(`the backups with the lowest numbers are removed if ${says}`, async (t) => {
    const { into, names } = prepare(t, ...before);
    const report = await into({ keep });
    assert.deepEqual(numbersOf([report.name]), [number]);
    assert.deepEqual(report.removed, removed);
    const left = before.filter((name) => !removed.includes(name));
    assert.deepEqual(names().sort(), [...left, report.name].sort());
  });
}

test("without a number 14 backups are kept", async (t) => {
  const before = Array.from({ length: 20 }, (_, at) => `plants-0000${at + 10}-20260101T000000Z`);
  const { into, names } = prepare(t, ...before);
  assert.deepEqual((await into()).removed, before.slice(0, 7));
  assert.equal(names().length, 14);
});

test("nothing else is removed: other names, files and links, and what links lead to", async (t) => {
  const others = [
    "other",
    "plants",
    "plants-2026-07-01",
    "plants-1-20260101T000000Z",
    "plants-000001-20260101T000000Z.old",
    "plants-000001-20260101T000000Z.unfinished-",
    "plants-20260101T000000Z",
    "x-plants-000001-20260101T000000Z.unfinished-0",
    "plants-2026-07-01.unfinished-0",
    "plants-000001-20260101T000000Z.partial-0a1b2c3d", // of a `backup` that may still run
  ];
  const { folder, into, names } = prepare(t, ...others);
  const elsewhere = makeFolder(t);
  makeOld(elsewhere, "mine");
  const links = ["plants-000001-20260101T000000Z", "plants-000002-20260101T000000Z.unfinished-01"];
  for (const name of links) fs.symlinkSync(join(elsewhere, "mine"), join(folder, name));
  fs.writeFileSync(join(folder, "plants-000004-20260101T000000Z"), "a file");
  const before = names();
  makeOld(folder, "plants-000003-20260101T000000Z");
  const { name, removed } = await into({ keep: 1 });
  assert.deepEqual(removed, ["plants-000003-20260101T000000Z"]);
  assert.deepEqual(names().sort(), [...before, name].sort());
  assert.deepEqual(numbersOf([name]), ["000005"], "also links and files have a number");
  assert.deepEqual(fs.readdirSync(elsewhere), ["mine"]);
  assert.deepEqual(fs.readdirSync(join(elsewhere, "mine")), ["plants.jsonl"]);
});

test("what a killed backup left is removed by the next one, also if that fails", async (t) => {
  const left = [
    "plants-000002-20260101T000000Z.unfinished-0a1b2c3d",
    "plants-000001-20260101T000000Z.unfinished-00000000",
  ];
  const first = "plants-000001-20260101T000000Z";
  const { data, folder, into, names } = prepare(t, first, ...left);
  const { name } = await into();
  assert.deepEqual(numbersOf([name]), ["000002"], "its number was not used");
  assert.deepEqual(names().sort(), [first, name].sort());
  for (const each of left) makeOld(folder, each);
  fs.appendFileSync(logPath(data), "x\n");
  await assert.rejects(into(), { code: "corruption" });
  assert.deepEqual(names().sort(), [first, name].sort());
});

test("a backup that fails its verification removes none, and leaves nothing", async (t) => {
  const before = ["plants-000001-20260101T000000Z", "plants-000002-20260101T000000Z"];
  const { data, folder, into, names } = prepare(t, ...before);
  writeLog(data, `${A}x\n${B}`);
  await assert.rejects(into({ keep: 1 }), { code: "corruption" });
  assert.deepEqual(names(), before);
  assert.deepEqual(snapshot(join(folder, before[0] ?? "")), { "plants.jsonl": "old" });
  assert.deepEqual([...openFilesIn(folder), ...openFilesIn(data)], []);
});

/** What others put into a backup, so that it is left whole. */
const FOREIGN: readonly [what: string, name: string, put: (found: string) => void][] = [
  ["a folder", "notes", makeNotes],
  ["a file of another name", "README", (found) => fs.writeFileSync(found, "mine")],
  ["a link", "link", (found) => fs.symlinkSync("/", found)],
  [
    "a link with the name of a log of tokens",
    "tokens.jsonl",
    (found) => fs.symlinkSync("/", found),
  ],
  ["a folder with the name of a log of tokens", "tokens.jsonl", makeNotes],
  ["the lock of a server", "lock.1", (found) => fs.writeFileSync(found, "")],
  ["the lock of the tokens", "tokens-lock.1", (found) => fs.writeFileSync(found, "")],
];

function makeNotes(found: string): void {
  fs.mkdirSync(found);
  fs.writeFileSync(join(found, "mine"), "mine");
}

for (const [what, name, put] of FOREIGN) {
  for (const suffix of ["", ".unfinished-01"]) {
    const kind = suffix === "" ? "an old backup" : "an unfinished backup";
    test(`${kind} that holds ${what} is left whole with a warning, until that is removed`, async (t) => {
      const old = `plants-000001-20260101T000000Z${suffix}`;
      const { folder, into, names } = prepare(t, old, "plants-000002-20260101T000000Z");
      put(join(folder, old, name));
      const before = snapshot(join(folder, old));
      const warnings = watchWarnings(t);
      const made = await into({ keep: 1 });
      assert.deepEqual(made.removed, ["plants-000002-20260101T000000Z"]);
      assert.deepEqual(snapshot(join(folder, old)), before);
      assert.deepEqual(names().sort(), [old, made.name].sort());
      assert.equal(warnings.length, 1);
      for (const each of [join(folder, old), `"${name}"`]) assert.ok(warnings[0]?.includes(each));
      fs.rmSync(join(folder, old, name), { recursive: true });
      const { name: next } = await into({ keep: 1 });
      assert.equal(warnings.length, 1);
      assert.deepEqual(names(), [next]);
    });
  }
}

test("a backup that is served keeps what was acknowledged, also after the server has stopped", async (t) => {
  const { folder, into } = prepare(t);
  const { name: served } = await into();
  const store = await openStore(t, join(folder, served));
  await store.create({ id: 3n, name: "c" });
  const { removed } = await into({ keep: 1 });
  await store.create({ id: 4n, name: "d" });
  await store.close();
  const after = await into({ keep: 1 });
  assert.deepEqual([removed.length, after.removed.length], [0, 1]);
  assert.equal((await verifyLog(join(folder, served))).records, 4);
});

test("a backup that is left whole counts while it is among the newest, and then stays in addition", async (t) => {
  const { folder, into, names } = prepare(t, "plants-000001-20260101T000000Z");
  const { name: served } = await into({ keep: 2 });
  await (await openStore(t, join(folder, served))).close();
  assert.deepEqual((await into({ keep: 2 })).removed, ["plants-000001-20260101T000000Z"]);
  for (const removed of [0, 1]) {
    assert.equal((await into({ keep: 2 })).removed.length, removed);
    assert.equal(names().length, 3);
    assert.ok(names().includes(served));
  }
});

test("a server that starts just before an old backup loses its name keeps the folder whole", async (t) => {
  const old = "plants-000001-20260101T000000Z";
  const { folder, into, names } = prepare(t, old);
  const warnings = watchWarnings(t);
  const rename = fs.renameSync;
  t.mock.method(disk, "rename", (from: string, to: string) => {
    if (from === join(folder, old)) fs.writeFileSync(join(from, "lock.1"), "");
    rename(from, to);
  });
  const { name, removed } = await into({ keep: 1 });
  assert.deepEqual(removed, []);
  const [rest = ""] = names().filter((each) => each !== name);
  assert.deepEqual(fs.readdirSync(join(folder, rest)), ["lock.1", "plants.jsonl"]);
  assert.ok(warnings[0]?.includes(join(folder, rest)), warnings[0]);
});

test("the new backup is on disk before an older one loses its name, and that before it is removed", async (t) => {
  const old = "plants-000001-20260101T000000Z";
  const { folder, into } = prepare(t, old);
  const steps: string[] = [];
  const { rename, unlink, syncFolder } = disk;
  t.mock.method(disk, "rename", (from: string, to: string) => {
    rename(from, to);
    if (dirname(to) === folder)
      steps.push(from.endsWith(old) ? "old loses its name" : "new has its name");
  });
  t.mock.method(disk, "syncFolder", async (at: string) => {
    await syncFolder(at);
    if (at === folder && steps.at(-1) !== "sync") steps.push("sync");
  });
  t.mock.method(disk, "unlink", (at: string) => {
    if (at.includes(old)) steps.push("old is removed");
    unlink(at);
  });
  await into({ keep: 1 });
  assert.deepEqual(
    steps.slice(steps.indexOf("new has its name"), steps.indexOf("old is removed")),
    [...["new has its name", "sync", "old loses its name", "sync"]],
  );
});

test("a second backup into a folder is refused while one is made, and touches nothing of it", async (t) => {
  const { data, folder, into, names } = prepare(t, "plants-000001-20260101T000000Z");
  const others: Promise<unknown>[] = [];
  const onProgress = () => {
    const before = names();
    assert.ok(before.some((name) => name.includes(".unfinished-")));
    const other = backupInto(data, folder, { keep: 1 });
    others.push(assert.rejects(other, { code: "locked" }).then(() => before));
  };
  const { name, removed } = await into({ keep: 1, onProgress });
  assert.equal(others.length, 1);
  await Promise.all(others);
  assert.deepEqual([names(), removed], [[name], ["plants-000001-20260101T000000Z"]]);
  assert.equal(isSound(await verifyLog(join(folder, name))), true);
});

test("a folder that another process uses is left alone", async (t) => {
  const left = ["plants-000001-20260101T000000Z", "plants-000002-20260101T000000Z.unfinished-01"];
  const { folder, into, names } = prepare(t, ...left);
  const lock = await locks.acquire(folder, { name: "lock", command: "backup" });
  await assert.rejects(into({ keep: 1 }), { code: "locked" });
  assert.deepEqual(names(), left);
  await lock.close();
  assert.equal((await into({ keep: 1 })).removed.length, 1);
});

test("a backup into a folder works beside the store, and holds what it has acknowledged", async (t) => {
  const { data, folder } = prepare(t);
  const store = await openStore(t, data);
  await store.create({ id: 3n, name: "c" });
  const { name, plants } = await backupInto(data, folder);
  assert.equal(plants, 3);
  assert.equal(isSound(await verifyLog(join(folder, name))), true);
});

for (const keep of [0, -1, 1.5, 10_001, Number.NaN]) {
  test(`keep: ${keep} is refused before anything is touched`, async (t) => {
    const { into, names } = prepare(t, "plants-000001-20260101T000000Z.unfinished-01");
    await assert.rejects(into({ keep }), RangeError);
    assert.equal(names().length, 1);
  });
}
