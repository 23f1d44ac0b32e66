/** One file: what an append promises, what is undone, and how a file is replaced. Failures are fakes of a write. */
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { PlantStoreError } from "../../src/core/errors.ts";
import { LogFile, replaceFile } from "../../src/log/file.ts";
import { type End, endSyncs, endWrites } from "../support/failing-writes.ts";
import { makeFolder } from "../support/folders.ts";
import { MEDDLING, openLog, snapshot } from "../support/stores.ts";
import { changesOf, failAt } from "../support/watched-disk.ts";

const read = (filePath: string) => fs.readFileSync(filePath, "utf8");

test("a path that cannot be opened is an io_error; a missing file is none when it is only read", async (t) => {
  const folder = makeFolder(t);
  const { path: filePath } = await openLog(t);
  for (const open of [
    () => LogFile.open(folder),
    () => LogFile.open(path.join(folder, "none", "a.jsonl")),
    () => LogFile.open(path.join(filePath, "a.jsonl")),
    () => LogFile.openForReading(path.join(filePath, "a.jsonl")),
  ]) {
    await assert.rejects(open, { code: "io_error" });
  }
  assert.equal(await LogFile.openForReading(path.join(folder, "none")), undefined);
});

test("an append that is written in parts is continued", async (t) => {
  const file = await openLog(t, "old\n");
  await endWrites(t, { written: 1 }, { written: 3 }, { code: "EIO" }); // a third would be too many
  await file.append(Buffer.from("one\n"));
  assert.deepEqual([read(file.path), file.end], ["old\none\n", 8]);
});

const FAILURES: readonly [what: string, code: string, ...ends: End[]][] = [
  ["no room for anything", "write_failed", { code: "ENOSPC" }],
  ["a full quota", "write_failed", { code: "EDQUOT" }],
  ["a limit of file size", "write_failed", { written: 2 }, { code: "EFBIG" }],
  ["room for a part", "write_failed", { written: 2 }, { code: "ENOSPC" }],
  // The call reports no byte, although all have reached the file.
  ["a sync that fails", "store_failed", { written: 4, code: "EIO" }],
  ["a sync without room", "store_failed", { written: 4, code: "ENOSPC" }],
  ["a write that fails", "store_failed", { code: "EIO" }],
  ["a write of nothing", "store_failed", { written: 0 }],
];

for (const [what, code, ...ends] of FAILURES) {
  test(`with ${what} an append is ${code}, and the file ends where it did`, async (t) => {
    const file = await openLog(t, "old\n");
    await endWrites(t, ...ends);
    await assert.rejects(file.append(Buffer.from("one\n")), { code });
    assert.deepEqual([read(file.path), file.end], ["old\n", 4]);
  });
}

test("a write that can be neither synced nor truncated is unsynced", async (t) => {
  const file = await openLog(t, "old\n");
  await endWrites(t, { written: 4, code: "EIO" });
  await endSyncs(t, { code: "EIO" });
  await assert.rejects(file.append(Buffer.from("one\n")), { code: "unsynced" });
});

test("a truncation whose sync fails is unsynced", async (t) => {
  const file = await openLog(t, "old\nhal");
  await endSyncs(t, { code: "EIO" });
  await assert.rejects(file.cut(4), { code: "unsynced" });
});

for (const [what, meddle] of Object.entries(MEDDLING)) {
  test(`a file that another process has ${what} is never truncated`, async (t) => {
    const file = await openLog(t, "one\ntwo\n");
    meddle(file.path);
    const before = read(file.path);
    await assert.rejects(file.cut(4), { code: "locked" });
    await endWrites(t, { code: "ENOSPC" });
    const code = before.length === 8 ? "locked" : "unsynced"; // an end of another length may be ours
    await assert.rejects(file.append(Buffer.from("x\n")), { code });
    assert.equal(read(file.path), before);
  });

  test(`a file that was ${what} while a write without room is cut is no refusal`, async (t) => {
    const file = await openLog(t, "one\ntwo\n");
    await endWrites(t, { written: 1 }, { code: "ENOSPC" });
    await endSyncs(t, { after: () => meddle(file.path) });
    await assert.rejects(file.append(Buffer.from("x\n")), { code: "locked" });
  });
}

test("after its lock is lost a file acknowledges nothing and truncates nothing", async (t) => {
  const { path: filePath } = await openLog(t, "old\n");
  const lost = new PlantStoreError("locked", "lost");
  let isLost = false;
  const assertHeld = () => {
    if (isLost) throw lost;
  };
  const file = await LogFile.open(filePath, { assertHeld });
  t.after(() => file.close());
  await file.append(Buffer.from("one\n"));
  isLost = true;
  await assert.rejects(file.append(Buffer.from("two\n")), lost);
  await assert.rejects(file.cut(4), lost);
  assert.equal(read(filePath), "old\none\ntwo\n");
});

test("a sync that fails for want of room, after the lock is lost, is unsynced", async (t) => {
  const { path: filePath } = await openLog(t, "old\n");
  const assertHeld = () => {
    throw new PlantStoreError("locked", "lost");
  };
  const file = await LogFile.open(filePath, { assertHeld });
  t.after(() => file.close());
  await endWrites(t, { written: 4, code: "ENOSPC" });
  await assert.rejects(file.append(Buffer.from("one\n")), { code: "unsynced" });
});

test("a length is checked exactly, or within bounds", async (t) => {
  const file = await openLog(t, "12345");
  file.assertUnchanged();
  file.assertUnchanged(3, Number.POSITIVE_INFINITY);
  assert.throws(() => file.assertUnchanged(4), { code: "locked" });
  assert.throws(() => file.assertUnchanged(6, 9), { code: "locked" });
  fs.unlinkSync(file.path);
  assert.throws(() => file.assertUnchanged(), { code: "locked" });
});

const write = (file: LogFile) => file.append(Buffer.from("new"));

/** A folder with a file, and what a killed process left of a replacement. */
function prepare(t: TestContext): [folder: string, filePath: string] {
  const folder = makeFolder(t);
  const filePath = path.join(folder, "a");
  fs.writeFileSync(filePath, "old");
  fs.writeFileSync(`${filePath}.new`, "left");
  return [folder, filePath];
}

test("a file is replaced durably, in this order, even over the leftovers of a killed process", async (t) => {
  const [folder, filePath] = prepare(t);
  assert.deepEqual(await changesOf(folder, () => replaceFile(filePath, write)), [
    "unlink DIR/a.new",
    "open DIR/a.new",
    "append DIR/a.new",
    "rename DIR/a",
    "syncFolder DIR",
  ]);
  assert.deepEqual(snapshot(folder), { a: "new" });
});

for (const failing of ["open DIR/a.new", "append DIR/a.new", "rename DIR/a"]) {
  test(`a replacement whose "${failing}" fails leaves the old file, and nothing else`, async (t) => {
    const [folder, filePath] = prepare(t);
    const replacing = failAt(folder, failing, () => replaceFile(filePath, write));
    await assert.rejects(replacing, { code: "io_error" });
    assert.deepEqual(snapshot(folder), { a: "old" });
  });
}

test("a file is not replaced if its lock is lost meanwhile", async (t) => {
  const [folder, filePath] = prepare(t);
  const lost = new PlantStoreError("locked", "lost");
  const assertHeld = () => {
    throw lost;
  };
  await assert.rejects(replaceFile(filePath, write, { assertHeld }), lost);
  assert.deepEqual(snapshot(folder), { a: "old" });
});
