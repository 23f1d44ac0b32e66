/** Commands that root runs in a folder of another user: those that write there are refused. */
import assert from "node:assert/strict";
import { chownSync, existsSync } from "node:fs";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { runCli } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { snapshot, writeLog } from "../support/stores.ts";

/** A user without a name, a home or a group of its own. */
const SERVICE = 54_321;
const NEEDS_ROOT = { skip: process.geteuid?.() === 0 ? false : "only root can give files away" };

/** A data directory of that user. */
function makeServiceFolder(t: TestContext): string {
  const folder = makeFolder(t);
  chownSync(folder, SERVICE, SERVICE);
  return folder;
}

const A = '{"id":1,"name":"a"}\n';

describe("root in a data directory of another user", { concurrency: 2, ...NEEDS_ROOT }, () => {
  const COMMANDS: readonly [words: string, status: number][] = [
    ["serve --host 192.0.2.1", 2],
    ["token create t", 2],
    ["token revoke t", 2],
    ["token import /dev/null", 2],
    ["import -", 2],
    ["restore .", 2],
    ["repair --yes", 2],
    ["verify", 0],
    ["export", 0],
    ["get 1", 0],
    ["token list", 0],
  ];
  for (const [words, expected] of COMMANDS) {
    test(`${words} ${expected === 0 ? "only reads" : "is refused, and says how to run it"}`, async (t) => {
      const folder = makeServiceFolder(t);
      writeLog(folder, A);
      const before = snapshot(folder);
      const { status, stderr } = await runCli([...words.split(" "), "--data", folder]);
      assert.equal(status, expected, stderr);
      assert.deepEqual(snapshot(folder), before);
      if (expected === 0) return;
      const owner = `"${folder}" belongs to the user ${SERVICE}: `;
      const run = `setpriv --reuid ${SERVICE} --regid ${SERVICE} --clear-groups plant-store …`;
      for (const text of [owner, run, `docker run --user ${SERVICE}:${SERVICE} …`]) {
        assert.ok(stderr.includes(text), stderr);
      }
      assert.match(stderr, /^plant-store: [^\n]+\n$/, "for people, whatever the format of the log");
    });
  }

  test("a user with a name is named", async (t) => {
    const folder = makeServiceFolder(t);
    chownSync(folder, 65_534, 65_534);
    const { stderr } = await runCli(["repair", "--data", folder]);
    assert.match(stderr, /belongs to the user nobody: .*runuser -u nobody -- plant-store …/);
  });

  test("a backup may go into a folder of root's, and not into one of that user", async (t) => {
    const folder = makeServiceFolder(t);
    writeLog(folder, A);
    const target = join(makeFolder(t), "copy");
    assert.equal((await runCli(["backup", target, "--data", folder])).status, 0);
    for (const words of [[join(folder, "copy")], ["--into", join(folder, "new", "backups")]]) {
      assert.equal((await runCli(["backup", ...words, "--data", target])).status, 2);
    }
    assert.equal(existsSync(join(folder, "copy")), false);
  });
});
