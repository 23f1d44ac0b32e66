/** Commands that root runs in a data directory of another user: examples of data-folder.slow.test.ts. */
import assert from "node:assert/strict";
import {
  chmodSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { runCli } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { makeServiceFolder, NEEDS_ROOT, SERVICE } from "../support/other-user.ts";
import type { Finished } from "../support/run.ts";
import { TIMEOUT } from "../support/watch.ts";

function run(folder: string, ...words: readonly string[]): Promise<Finished> {
  return runCli([...words, "--data", folder]);
}

describe("as root in a folder of another user", { ...NEEDS_ROOT, ...TIMEOUT }, () => {
  test("a missing folder is made by the owner of the nearest folder above it", async (t) => {
    const folder = join(makeServiceFolder(t), "new", "data");
    const { status, stderr } = await run(folder, "token", "create", "gardener");
    assert.equal(status, 0, stderr);
    assert.notEqual(stderr, "", "it reports the user it has become");
    for (const name of ["..", ".", "tokens.jsonl"]) {
      assert.equal(statSync(join(folder, name)).uid, SERVICE, name);
    }
  });

  test("a folder of root that others may write to is refused, and no link in it is followed", async (t) => {
    const folder = makeFolder(t);
    chmodSync(folder, 0o775);
    const aim = join(makeFolder(t), "aim");
    writeFileSync(aim, "secret", { mode: 0o600 });
    symlinkSync(aim, join(folder, "tokens.jsonl"));
    assert.equal((await run(folder, "token", "create", "gardener")).status, 2);
    assert.equal(readFileSync(aim, "utf8"), "secret");
  });

  test("a directory to which its owner has no path is refused", async (t) => {
    const folder = makeServiceFolder(t, 0o700);
    const { status, stdout, stderr } = await run(folder, "token", "create", "gardener");
    assert.deepEqual([status, stdout], [2, ""]);
    assert.ok(stderr.includes(folder), stderr);
    assert.deepEqual(readdirSync(folder), []);
  });
});
