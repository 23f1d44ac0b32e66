import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { disk } from "../../src/log/disk.ts";
import { ensureDirectory, prepareDirectory } from "../../src/log/folder.ts";
import { makeFolder } from "../support/folders.ts";
import { openLog } from "../support/logs.ts";
import { collectWarnings } from "../support/watch.ts";

test("ensureDirectory() makes a missing folder and its parents durably, with mode 0700", async (t) => {
  const root = makeFolder(t);
  const parent = path.join(root, "a");
  const folder = path.join(parent, "b");
  const { mock } = t.mock.method(disk, "syncFolder");
  await ensureDirectory(folder);
  assert.equal(fs.statSync(folder).mode & 0o777, 0o700);
  assert.equal(fs.statSync(parent).mode & 0o777, 0o700);
  assert.deepEqual(
    mock.calls.map(({ arguments: [synced] }) => synced),
    [root, parent],
  );
});

const MODES: readonly [mode: number, isOpen: boolean][] = [
  [0o700, false],
  [0o500, false],
  [0o701, true],
  [0o710, true],
  [0o704, true],
  [0o740, true],
  [0o702, true],
  [0o755, true],
  [0o777, true],
];

for (const [mode, isOpen] of MODES) {
  test(`prepareDirectory() ${isOpen ? "warns of" : "accepts"} a folder of mode 0${mode.toString(8)}, and leaves it so`, async (t) => {
    const folder = makeFolder(t);
    fs.chmodSync(folder, mode);
    const warnings = collectWarnings(t);
    await prepareDirectory(folder);
    assert.equal(warnings.length, isOpen ? 1 : 0);
    assert.equal(fs.statSync(folder).mode & 0o777, mode);
  });
}

test("ensureDirectory() throws io_error for a path that cannot be a folder", async (t) => {
  const { path: filePath } = await openLog(t);
  await assert.rejects(ensureDirectory(filePath), { code: "io_error" });
  await assert.rejects(ensureDirectory(path.join(filePath, "a")), { code: "io_error" });
  const link = path.join(makeFolder(t), "link");
  fs.symlinkSync("nowhere", link);
  for (const folder of [link, path.join(link, "a")]) {
    await assert.rejects(ensureDirectory(folder), { code: "io_error" });
  }
});
