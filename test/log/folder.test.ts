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

/** The advice to the owner; and whether a user whom the folder lets in is warned. */
const MODES: readonly [mode: number, advice: string | undefined, warnsOthers: boolean][] = [
  [0o700, undefined, false],
  [0o500, undefined, false],
  [0o701, "chmod 700", true],
  [0o710, "chmod 700", false],
  [0o704, "chmod 700", true],
  [0o740, "chmod 700", false],
  [0o702, "chmod 700", true],
  [0o755, "chmod 700", true],
  [0o777, "chmod 700", true],
  [0o2770, undefined, false],
  [0o2775, "chmod o=", true],
];

for (const [mode, advice, warnsOthers] of MODES) {
  test(`prepareDirectory() ${advice === undefined ? "accepts" : "warns of"} a folder of mode 0${mode.toString(8)}, and leaves it so`, async (t) => {
    const folder = makeFolder(t);
    fs.chmodSync(folder, mode);
    const { uid } = fs.statSync(folder);
    const warnings = collectWarnings(t);
    const open = `"${folder}" is open to other users; `;
    const forOwner = advice && `${open}close it: ${advice} "${folder}"`;
    const forOthers = warnsOthers
      ? `${open}its owner (user ${uid}) or root can close it`
      : undefined;
    for (const [user, expected] of [
      [0, forOwner],
      [uid, forOwner],
      [uid + 1, forOthers],
    ] as const) {
      t.mock.method(process as { geteuid: () => number }, "geteuid", () => user);
      const known = warnings.length;
      await prepareDirectory(folder);
      const messages = warnings.slice(known).map(({ message }) => message);
      assert.deepEqual(messages, expected === undefined ? [] : [expected]);
      assert.equal(fs.statSync(folder).mode & 0o7777, mode);
    }
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
