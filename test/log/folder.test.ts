/** How a data directory is made, and made durable. */
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { ensureFolder, syncFolderAndName } from "../../src/log/folder.ts";
import { makeFolder } from "../support/folders.ts";
import { openLog } from "../support/stores.ts";
import { collectWarnings } from "../support/watch.ts";
import { changesOf, failAt } from "../support/watched-disk.ts";

test("a missing folder and those above it are made durably, for their owner alone", async (t) => {
  const root = makeFolder(t);
  const folder = path.join(root, "a", "b");
  const changes = await changesOf(root, () => ensureFolder(folder));
  assert.deepEqual(changes, [
    "makeFolder DIR/a",
    ...["syncFolder DIR", "syncFolder DIR/.."],
    "makeFolder DIR/a/b",
    ...["syncFolder DIR/a", "syncFolder DIR/a/.."],
  ]);
  for (const made of [folder, path.dirname(folder)]) {
    assert.equal(fs.statSync(made).mode & 0o777, 0o700);
  }
});

for (const [mode, isWarned] of [
  [0o700, false],
  [0o750, false],
  [0o2770, false],
  [0o701, true],
  [0o704, true],
  [0o777, true],
] as const) {
  const what = isWarned ? "with a warning" : "silently";
  test(`a folder of mode 0${mode.toString(8)} is used ${what}, and left so`, async (t) => {
    const folder = makeFolder(t);
    fs.chmodSync(folder, mode);
    const warnings = collectWarnings(t, folder);
    await ensureFolder(folder);
    assert.equal(warnings.length, isWarned ? 1 : 0);
    assert.equal(fs.statSync(folder).mode & 0o7777, mode);
  });
}

test("a path that cannot be a folder is an io_error", async (t) => {
  const { path: file } = await openLog(t);
  const link = path.join(makeFolder(t), "link");
  fs.symlinkSync("nowhere", link);
  for (const folder of [file, path.join(file, "a"), link, path.join(link, "a")]) {
    await assert.rejects(ensureFolder(folder), { code: "io_error" });
  }
});

test("a folder is synced, then its parent, even behind a symbolic link", async (t) => {
  const link = path.join(makeFolder(t), "link");
  fs.symlinkSync(makeFolder(t), link);
  const changes = await changesOf(link, () => syncFolderAndName(link));
  assert.deepEqual(changes, ["syncFolder DIR", "syncFolder DIR/.."]);
});

test("a sync that the folder above refuses is ignored, and any other failure of it is thrown", async (t) => {
  const folder = makeFolder(t);
  const syncing = (code: string) =>
    failAt(folder, "syncFolder DIR/..", () => syncFolderAndName(folder), code);
  await syncing("EACCES");
  await syncing("EROFS");
  await assert.rejects(syncing("EIO"), { code: "EIO" });
});
