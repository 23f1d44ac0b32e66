import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { describeSystemError, disk, ioError } from "../../src/log/disk.ts";
import { makeFolder } from "../support/folders.ts";

test("describeSystemError() describes the error without the call and the path", (t) => {
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

test("describeSystemError() names a disk without a free inode only where a file was to be made", (t) => {
  const full = Object.assign(new Error("ENOSPC: no space left on device, open"), {
    code: "ENOSPC",
    errno: -28,
  });
  const words = "no space left on device (ENOSPC)";
  const disks: readonly [bavail: number, files: number, ffree: number, isMeant: boolean][] = [
    [1, 3, 0, true],
    [0, 3, 0, false],
    [1, 3, 1, false],
    [1, 0, 0, false], // Btrfs
  ];
  // One mock: the first of several on a method is what the end of the test puts back.
  const fileSystem = t.mock.method(disk, "fileSystem");
  for (const [bavail, files, ffree, isMeant] of disks) {
    fileSystem.mock.mockImplementation(() => ({ type: 1, bavail, files, ffree }));
    for (const place of [{ path: "/a/b" }, { address: "/a/b" }]) {
      const text = describeSystemError(Object.assign(new Error(full.message), full, place));
      assert.equal(text.startsWith("no free inode left on device (ENOSPC)"), isMeant, text);
      if (!isMeant) assert.equal(text, words);
    }
    assert.equal(describeSystemError(full), words);
  }
});

test("describeSystemError() repeats the message of an error that is not the system's", () => {
  assert.equal(describeSystemError(new Error("short write")), "short write");
  assert.equal(describeSystemError("a string"), "a string");
  assert.equal(describeSystemError(undefined), "undefined");
});

test("ioError() has the action, the words of the system and the cause", (t) => {
  const cause = failureOf(() => fs.readdirSync(path.join(makeFolder(t), "none")));
  const error = ioError("Cannot look", cause);
  assert.equal(error.code, "io_error");
  assert.equal(error.cause, cause);
  assert.ok(error.message.startsWith("Cannot look: "));
  assert.ok(error.message.endsWith(describeSystemError(cause)));
});

function failureOf(action: () => unknown): unknown {
  try {
    action();
  } catch (error) {
    return error;
  }
  throw new Error("expected a failure");
}

test("no test of this file leaves a mock behind", () => {
  assert.equal("mock" in disk.fileSystem, false);
});
