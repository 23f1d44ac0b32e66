import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { PlantStoreError } from "../../src/core/errors.ts";
import { describeSystemError, ensureDirectory, ioError, LogFile } from "../../src/log/file.ts";
import { makeFolder } from "../support/folders.ts";
import { openLog } from "../support/logs.ts";

const OPENERS = {
  "LogFile.open()": LogFile.open,
  "LogFile.create()": LogFile.create,
};

for (const [name, open] of Object.entries(OPENERS)) {
  test(`${name} makes a missing file, empty and for its owner alone`, async (t) => {
    const filePath = path.join(makeFolder(t), "new.jsonl");
    const file = await open(filePath);
    assert.ok(file !== undefined);
    t.after(() => file.close());
    assert.equal(fs.statSync(filePath).mode & 0o777, 0o600);
    assert.equal(file.size(), 0);
    assert.equal(file.path, filePath);
    assert.deepEqual(await file.append(Buffer.from("a\n"), 0), { outcome: "durable" });
  });
}

// Only root can give a file away, and only a root's file needs it.
const isRoot = process.getuid?.() === 0;

for (const [name, open] of Object.entries(OPENERS)) {
  test(`${name} gives a new file to the owner of its folder`, { skip: !isRoot }, async (t) => {
    const folder = makeFolder(t);
    fs.chownSync(folder, 4321, 8765);
    const file = await open(path.join(folder, "new.jsonl"));
    t.after(() => file?.close());
    const { uid, gid } = fs.statSync(path.join(folder, "new.jsonl"));
    assert.deepEqual({ uid, gid }, { uid: 4321, gid: 8765 });
  });
}

test("LogFile.open() leaves the content and the mode of an existing file alone", async (t) => {
  const filePath = path.join(makeFolder(t), "old.jsonl");
  fs.writeFileSync(filePath, "one\n");
  fs.chmodSync(filePath, 0o640);
  const file = await LogFile.open(filePath);
  t.after(() => file.close());
  assert.equal(file.size(), 4);
  assert.equal(fs.readFileSync(filePath, "utf8"), "one\n");
  assert.equal(fs.statSync(filePath).mode & 0o777, 0o640);
});

test("LogFile.create() answers undefined where there is a file, and leaves it alone", async (t) => {
  const { path: filePath } = await openLog(t, "one\n");
  assert.equal(await LogFile.create(filePath), undefined);
  assert.equal(fs.readFileSync(filePath, "utf8"), "one\n");
});

test("LogFile.openForReading() answers undefined where there is no file, and makes none", async (t) => {
  const folder = makeFolder(t);
  assert.equal(await LogFile.openForReading(path.join(folder, "none.jsonl")), undefined);
  assert.deepEqual(fs.readdirSync(folder), []);
});

test("LogFile.openForReading() opens a file that can be read and not written", async (t) => {
  const { path: filePath } = await openLog(t, "one\n");
  const file = await LogFile.openForReading(filePath);
  assert.ok(file !== undefined);
  t.after(() => file.close());
  const bytes = Buffer.alloc(4);
  assert.equal(await file.read(bytes, 0), 4);
  assert.equal(bytes.toString(), "one\n");
  assert.notEqual((await file.append(Buffer.from("two\n"), 4)).outcome, "durable");
  assert.equal(fs.readFileSync(filePath, "utf8"), "one\n");
});

test("LogFile answers a path that cannot be opened with io_error and its cause", async (t) => {
  const folder = makeFolder(t);
  const { path: filePath } = await openLog(t);
  const attempts: readonly [attempt: () => Promise<unknown>, code: string][] = [
    [() => LogFile.open(folder), "EISDIR"],
    [() => LogFile.open(path.join(folder, "none", "a.jsonl")), "ENOENT"],
    [() => LogFile.create(path.join(folder, "none", "a.jsonl")), "ENOENT"],
    [() => LogFile.open(path.join(filePath, "a.jsonl")), "ENOTDIR"],
    [() => LogFile.create(path.join(filePath, "a.jsonl")), "ENOTDIR"],
    [() => LogFile.openForReading(path.join(filePath, "a.jsonl")), "ENOTDIR"],
  ];
  for (const [attempt, code] of attempts) {
    await assert.rejects(attempt, (error) => isIoError(error, code));
  }
});

test("LogFile.append() writes at the position it is given", async (t) => {
  const file = await openLog(t, "one\n");
  assert.deepEqual(await file.append(Buffer.from("two\nthree\n"), 4), { outcome: "durable" });
  assert.deepEqual(await file.append(Buffer.from("TWO\n"), 4), { outcome: "durable" });
  assert.equal(file.size(), 14);
  assert.equal(fs.readFileSync(file.path, "utf8"), "one\nTWO\nthree\n");
});

test("LogFile.append() calls a full disk refused", {
  skip: !fs.existsSync("/dev/full"),
}, async (t) => {
  const file = await LogFile.open("/dev/full"); // every write to it fails with ENOSPC
  t.after(() => file.close());
  const result = await file.append(Buffer.from("one\n"), 0);
  assert.equal(result.outcome, "refused");
  assert.equal(codeOf(result.outcome === "refused" && result.cause), "ENOSPC");
});

test("LogFile.append() calls any other failure unknown, and never rejects", async (t) => {
  const file = await openLog(t, "one\n");
  await file.close();
  const result = await file.append(Buffer.from("two\n"), 4);
  assert.equal(result.outcome, "unknown");
  assert.equal(codeOf(result.outcome === "unknown" && result.cause), "EBADF");
});

test("LogFile.truncate() and sync() cut what stands behind a length", async (t) => {
  const file = await openLog(t, "one\ntwo\nthr");
  await file.truncate(8);
  await file.sync();
  assert.equal(file.size(), 8);
  assert.equal(fs.readFileSync(file.path, "utf8"), "one\ntwo\n");
});

test("LogFile.read() fills the buffer, with fewer bytes only at the end of the file", async (t) => {
  const file = await openLog(t, "0123456789");
  const cases: readonly [position: number, bytes: number, expected: string][] = [
    [0, 10, "0123456789"],
    [3, 4, "3456"],
    [8, 4, "89"],
    [10, 4, ""],
    [99, 4, ""],
    [5, 0, ""],
  ];
  for (const [position, bytes, expected] of cases) {
    const buffer = Buffer.alloc(bytes);
    const got = await file.read(buffer, position);
    assert.equal(buffer.toString("latin1", 0, got), expected, `${bytes} bytes at ${position}`);
  }
});

/** What befalls the file of a path, each of another kind. */
const DISPLACEMENTS: Readonly<Record<string, (filePath: string) => void>> = {
  deleted: (filePath) => fs.rmSync(filePath),
  replaced: (filePath) => {
    // With the same bytes: it is another file all the same.
    fs.copyFileSync(filePath, `${filePath}.new`);
    fs.renameSync(`${filePath}.new`, filePath);
  },
  grown: (filePath) => fs.appendFileSync(filePath, "x"),
  "out of reach": (filePath) => {
    fs.rmSync(filePath);
    fs.symlinkSync(filePath, filePath); // a path that leads round in a circle
  },
};

test("LogFile.displacement() finds nothing while the path names this file at its size", async (t) => {
  const file = await openLog(t, "one\n");
  assert.equal(file.displacement(4), undefined);
  await file.append(Buffer.from("two\n"), 4);
  assert.equal(file.displacement(8), undefined);
});

test("LogFile.displacement() tells each kind of displacement from the others", async (t) => {
  const found = new Set<string | undefined>();
  for (const displace of Object.values(DISPLACEMENTS)) {
    const file = await openLog(t, "one\n");
    displace(file.path);
    found.add(file.displacement(4));
  }
  assert.equal(found.has(undefined), false);
  assert.equal(found.size, Object.keys(DISPLACEMENTS).length);
});

test("LogFile.displacement() takes a renamed file for deleted, and a shorter one for changed", async (t) => {
  const renamed = await openLog(t, "one\n");
  fs.renameSync(renamed.path, `${renamed.path}.old`);
  assert.notEqual(renamed.displacement(4), undefined);
  fs.renameSync(`${renamed.path}.old`, renamed.path);
  assert.equal(renamed.displacement(4), undefined);
  fs.truncateSync(renamed.path, 3);
  assert.notEqual(renamed.displacement(4), undefined);
});

test("ensureDirectory() makes a missing folder, with its parents, for its owner alone", async (t) => {
  const parent = path.join(makeFolder(t), "a");
  const folder = path.join(parent, "b");
  assert.deepEqual(await ensureDirectory(folder), { isOpenToOthers: false });
  assert.equal(fs.statSync(folder).mode & 0o777, 0o700);
  assert.equal(fs.statSync(parent).mode & 0o777, 0o700);
});

for (const mode of [0o700, 0o500]) {
  test(`ensureDirectory() finds a folder of mode 0${mode.toString(8)} closed`, async (t) => {
    const folder = makeFolder(t);
    fs.chmodSync(folder, mode);
    assert.deepEqual(await ensureDirectory(folder), { isOpenToOthers: false });
  });
}

for (const mode of [0o701, 0o710, 0o704, 0o740, 0o702, 0o755, 0o777]) {
  test(`ensureDirectory() finds a folder of mode 0${mode.toString(8)} open, and leaves it so`, async (t) => {
    const folder = makeFolder(t);
    fs.chmodSync(folder, mode);
    assert.deepEqual(await ensureDirectory(folder), { isOpenToOthers: true });
    assert.equal(fs.statSync(folder).mode & 0o777, mode);
  });
}

test("ensureDirectory() answers a path that cannot be a folder with io_error", async (t) => {
  const { path: filePath } = await openLog(t);
  await assert.rejects(ensureDirectory(filePath), { code: "io_error" });
  await assert.rejects(ensureDirectory(path.join(filePath, "a")), { code: "io_error" });
  const link = path.join(makeFolder(t), "link");
  fs.symlinkSync("nowhere", link);
  for (const folder of [link, path.join(link, "a")]) {
    await assert.rejects(ensureDirectory(folder), { code: "io_error" });
  }
});

test("describeSystemError() says what happened without the call and the path", (t) => {
  const missing = path.join(makeFolder(t), "none");
  const error = failureOf(() => fs.readFileSync(missing));
  const text = describeSystemError(error);
  assert.match(text, /\(ENOENT\)$/);
  assert.equal(text.includes(missing) || text.includes("open"), false);
});

test("describeSystemError() names a full quota, for which libuv has no name", () => {
  const error = Object.assign(new Error("Unknown system error -122, write"), { errno: -122 });
  assert.match(describeSystemError(error), /EDQUOT/);
});

test("describeSystemError() repeats the message of an error that is not the system's", () => {
  assert.equal(describeSystemError(new Error("short write")), "short write");
  assert.equal(describeSystemError("a string"), "a string");
  assert.equal(describeSystemError(undefined), "undefined");
});

test("ioError() keeps what was tried, the words of the system and the cause", (t) => {
  const cause = failureOf(() => fs.readdirSync(path.join(makeFolder(t), "none")));
  const error = ioError("Cannot look", cause);
  assert.equal(error.code, "io_error");
  assert.equal(error.cause, cause);
  assert.ok(error.message.startsWith("Cannot look: "));
  assert.ok(error.message.endsWith(describeSystemError(cause)));
});

function isIoError(error: unknown, code: string): boolean {
  assert.ok(error instanceof PlantStoreError);
  assert.equal(error.code, "io_error");
  assert.equal(codeOf(error.cause), code);
  return true;
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
}

function failureOf(action: () => unknown): unknown {
  try {
    action();
  } catch (error) {
    return error;
  }
  throw new Error("expected a failure");
}
