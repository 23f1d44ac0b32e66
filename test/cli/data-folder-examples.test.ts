/** Commands that root runs in a data directory of another user: examples of data-folder.slow.test.ts. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { chmodSync, readFileSync, renameSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { runCli, startServer } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { makeServiceFolder, NEEDS_ROOT, SERVICE } from "../support/other-user.ts";
import { postPlant } from "../support/post.ts";
import type { Finished } from "../support/run.ts";
import { TIMEOUT } from "../support/watch.ts";

const FERN = '{"id":1,"name":"Fern"}';

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

  test("in a folder of root that others may write to, no link is followed", async (t) => {
    const folder = makeFolder(t);
    chmodSync(folder, 0o775);
    const aim = join(makeFolder(t), "aim");
    writeFileSync(aim, "secret", { mode: 0o600 });
    symlinkSync(aim, join(folder, "tokens.jsonl"));
    symlinkSync(aim, join(folder, "plants.jsonl.checkpoint.new"));
    assert.equal((await run(folder, "token", "create", "gardener")).status, 1);
    assert.equal((await run(folder, "import", "/dev/null")).status, 0);
    assert.equal(readFileSync(aim, "utf8"), "secret");
  });

  test("below a folder of root fails, and answers 503, once its folder was moved", async (t) => {
    const folder = makeServiceFolder(t, 0o700);
    const token = (await run(folder, "token", "create", "gardener")).stdout.trim();
    const server = await startServer(t, ["--data", folder]);
    const ended = once(server.process, "close");
    renameSync(folder, `${folder}-2`);
    const { status } = await postPlant(server.url, token, FERN);
    assert.equal(status, 503);
    assert.deepEqual(await ended, [1, null]);
    assert.ok(server.stderr().includes(folder), server.stderr());
  });
});
