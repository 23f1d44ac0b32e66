import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { PlantStoreError } from "../../src/core/errors.ts";
import { LogFile } from "../../src/log/file.ts";
import { makeFolder } from "../support/folders.ts";
import { MEDDLING, openLog } from "../support/logs.ts";
import { collectWarnings } from "../support/watch.ts";

test("LogFile.open() makes a missing file, empty and with mode 0600", async (t) => {
  const filePath = path.join(makeFolder(t), "new.jsonl");
  const file = await LogFile.open(filePath);
  t.after(() => file.close());
  assert.equal(fs.statSync(filePath).mode & 0o777, 0o600);
  assert.equal(file.size(), 0);
  assert.equal(file.path, filePath);
  assert.deepEqual(await file.append(Buffer.from("a\n")), { outcome: "durable" });
});

for (const [what, link] of [
  ["has another name", fs.linkSync],
  ["is a symbolic link", fs.symlinkSync],
] as const) {
  test(`LogFile.open() opens a file that ${what}, with one warning`, async (t) => {
    const { path: filePath } = await openLog(t, "one\n");
    const other = `${filePath}-2`;
    link(filePath, other);
    const warnings = collectWarnings(t, other);
    const file = await LogFile.open(other);
    t.after(() => file.close());
    assert.equal(file.size(), 4);
    assert.equal(warnings.length, 1);
  });
}

test("LogFile refuses a FIFO, which it would wait for", async (t) => {
  const filePath = path.join(makeFolder(t), "fifo");
  execFileSync("mkfifo", [filePath]);
  await assert.rejects(LogFile.open(filePath), { code: "io_error" });
  await assert.rejects(LogFile.openForReading(filePath), { code: "io_error" });
});

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

test("LogFile.openForReading() opens a file that can be read and not written", async (t) => {
  const { path: filePath } = await openLog(t, "one\n");
  const file = await LogFile.openForReading(filePath);
  assert.ok(file !== undefined);
  t.after(() => file.close());
  const bytes = Buffer.alloc(4);
  assert.equal(await file.read(bytes, 0), 4);
  assert.equal(bytes.toString(), "one\n");
  assert.notEqual((await file.append(Buffer.from("two\n"))).outcome, "durable");
  assert.equal(fs.readFileSync(filePath, "utf8"), "one\n");
});

test("LogFile throws io_error with its cause for a path that cannot be opened", async (t) => {
  const folder = makeFolder(t);
  const { path: filePath } = await openLog(t);
  const attempts: readonly [attempt: () => Promise<unknown>, code: string][] = [
    [() => LogFile.open(folder), "EISDIR"],
    [() => LogFile.open(path.join(folder, "none", "a.jsonl")), "ENOENT"],
    [() => LogFile.open(path.join(filePath, "a.jsonl")), "ENOTDIR"],
    [() => LogFile.openForReading(path.join(filePath, "a.jsonl")), "ENOTDIR"],
  ];
  for (const [attempt, code] of attempts) {
    await assert.rejects(attempt, (error) => isIoError(error, code));
  }
});

test("LogFile.append() adds to the end of the file and moves it", async (t) => {
  const file = await openLog(t, "one\n");
  assert.deepEqual(await file.append(Buffer.from("two\nthree\n")), { outcome: "durable" });
  assert.equal(file.end, 14);
  assert.deepEqual(await file.append(Buffer.from("four\n")), { outcome: "durable" });
  assert.equal(file.end, 19);
  assert.equal(fs.readFileSync(file.path, "utf8"), "one\ntwo\nthree\nfour\n");
});

test("LogFile.append() never overwrites what another process appended, and does not report its own bytes as durable", async (t) => {
  const one = await openLog(t, "old\n");
  const other = await LogFile.open(one.path);
  t.after(() => other.close());
  assert.deepEqual(await one.append(Buffer.from("one\n")), { outcome: "durable" });
  const result = await other.append(Buffer.from("two\n"));
  assert.equal(result.outcome, "unknown");
  assert.equal(codeOf(result.outcome === "unknown" && result.cause), "locked");
  assert.equal(fs.readFileSync(one.path, "utf8"), "old\none\ntwo\n");
  assert.equal(other.end, 4);
});

/** FAKE: the next writes of files end as given in `ends`, in order; later writes are real. */
async function fakeWrites(
  t: TestContext,
  path: string,
  ends: readonly {
    readonly written?: number;
    readonly code?: string;
    readonly then?: () => void;
  }[],
): Promise<void> {
  const handle = await fs.promises.open(path);
  const prototype = Object.getPrototypeOf(handle);
  await handle.close();
  const write = prototype.write;
  const spy = t.mock.method(prototype, "write", async function (this: unknown, ...args: unknown[]) {
    const end = ends[spy.mock.callCount()];
    if (end === undefined) return write.apply(this, args);
    const [bytes, offset, length, position] = args as [Buffer, number, number, number | null];
    const written = Math.min(end.written ?? 0, length);
    if (written > 0) await write.call(this, bytes, offset, written, position);
    end.then?.();
    if (end.code === undefined) return { bytesWritten: written, buffer: bytes };
    throw Object.assign(new Error(end.code), {
      code: end.code,
      errno: -(os.constants.errno[end.code as "EIO"] ?? 0),
    });
  });
}

/** What another process did between the short write of "on" and the refusal of the rest. */
const RIVALS: Readonly<Record<string, (path: string) => void>> = {
  "appended a record": (path) => fs.appendFileSync(path, "rival\n"),
  "appended as much": (path) => fs.appendFileSync(path, "on"),
  "cut the file": (path) => fs.truncateSync(path, 4),
  "cut the file and appended as much": (path) => {
    fs.truncateSync(path, 4);
    fs.appendFileSync(path, "ri");
  },
  "replaced the file": (path) => {
    fs.copyFileSync(path, `${path}.new`);
    fs.renameSync(`${path}.new`, path);
  },
};

for (const [what, meddle] of Object.entries(RIVALS)) {
  test(`LogFile.append() does not cut a file if another process has ${what} (fake short write)`, async (t) => {
    const file = await openLog(t, "old\n");
    let before = "";
    const then = () => {
      meddle(file.path);
      before = fs.readFileSync(file.path, "utf8");
    };
    await fakeWrites(t, file.path, [{ written: 2 }, { code: "ENOSPC", then }]);
    assert.equal((await file.append(Buffer.from("one\n"))).outcome, "unknown");
    assert.equal(fs.readFileSync(file.path, "utf8"), before);
  });
}

test("LogFile.append() does not write the rest of a short write if another process has appended in between (fake short write)", async (t) => {
  const file = await openLog(t, "old\n");
  const then = () => fs.appendFileSync(file.path, "rival\n");
  await fakeWrites(t, file.path, [{ written: 2, then }]);
  assert.equal((await file.append(Buffer.from("one\n"))).outcome, "unknown");
  assert.equal(fs.readFileSync(file.path, "utf8"), "old\nonrival\n");
});

// A thin volume may have no room for what the file system has room for.
for (const code of ["EIO", "ENOSPC"]) {
  test(`LogFile.append() cuts away the bytes of a write whose sync failed with ${code} (fake failure)`, async (t) => {
    const file = await openLog(t, "old\n");
    // The call reports no byte, although all have reached the file.
    await fakeWrites(t, file.path, [{ written: 4, code }]);
    assert.equal((await file.append(Buffer.from("one\n"))).outcome, "unknown");
    assert.equal(fs.readFileSync(file.path, "utf8"), "old\n");
  });
}

for (const [what, meddle] of Object.entries(MEDDLING)) {
  test(`LogFile changes nothing in place once the file was ${what} by another process`, async (t) => {
    const file = await openLog(t, "one\ntwo\n");
    meddle(file.path);
    const before = fs.readFileSync(file.path, "utf8");
    await assert.rejects(file.truncate(4), { code: "locked" });
    await assert.rejects(file.overwrite(Buffer.from("ONE"), 0), { code: "locked" });
    assert.equal(fs.readFileSync(file.path, "utf8"), before);
  });
}

test("LogFile.append() reports a full disk as refused", {
  skip: !fs.existsSync("/dev/full"),
}, async (t) => {
  const file = await LogFile.open("/dev/full"); // every write to it fails with ENOSPC
  t.after(() => file.close());
  const result = await file.append(Buffer.from("one\n"));
  assert.equal(result.outcome, "refused");
  assert.equal(codeOf(result.outcome === "refused" && result.cause), "ENOSPC");
});

test("LogFile.append() reports any other failure as unknown, and never rejects", async (t) => {
  const file = await openLog(t, "one\n");
  await file.close();
  const result = await file.append(Buffer.from("two\n"));
  assert.equal(result.outcome, "unknown");
  assert.equal(codeOf(result.outcome === "unknown" && result.cause.cause), "EBADF");
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

function isIoError(error: unknown, code?: string): boolean {
  assert.ok(error instanceof PlantStoreError);
  assert.equal(error.code, "io_error");
  if (code !== undefined) assert.equal(codeOf(error.cause), code);
  return true;
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
}
