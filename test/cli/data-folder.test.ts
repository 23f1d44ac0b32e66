/** Commands that root runs in a folder of another user: those that write there are refused. */
import assert from "node:assert/strict";
import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { PlantStore } from "../../src/index.ts";
import { runCli, startServer } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { logLinesOf } from "../support/messages.ts";
import { makeServiceFolder, NEEDS_ROOT, SERVICE } from "../support/other-user.ts";
import { snapshot } from "../support/snapshot.ts";
import { writeLog } from "../support/stores.ts";

const A = '{"id":1,"name":"a"}\n';
const AT_ONCE = { concurrency: 2, ...NEEDS_ROOT };

describe("root in a data directory of another user", AT_ONCE, () => {
  const WRITERS: readonly (readonly string[])[] = [
    ["serve", "--port", "0"],
    ["token", "create", "t"],
    ["token", "revoke", "t"],
    ["token", "import", "/dev/null"],
    ["import", "-"],
    ["restore", "."],
    ["repair", "--yes"],
  ];
  for (const words of WRITERS) {
    test(`is refused ${words[0]} ${words[1]}, and told how to run it`, async (t) => {
      const folder = makeServiceFolder(t);
      writeLog(folder, `${A}x\n`);
      const before = snapshot(folder);
      const { status, stdout, stderr } = await runCli([...words, "--data", folder]);
      assert.deepEqual([status, stdout], [2, ""], stderr);
      for (const text of [folder, `${SERVICE}`, "runuser", "docker run --user"]) {
        assert.ok(stderr.includes(text), stderr);
      }
      assert.deepEqual(snapshot(folder), before);
    });
  }

  const READERS: readonly [words: readonly string[], status: number][] = [
    [["verify"], 0],
    [["export"], 0],
    [["get", "1"], 0],
    [["token", "list"], 0],
  ];
  for (const [words, expected] of READERS) {
    test(`may ${words.join(" ")}, which only reads`, async (t) => {
      const folder = makeServiceFolder(t);
      writeLog(folder, A);
      const before = snapshot(folder);
      const { status, stderr } = await runCli([...words, "--data", folder]);
      assert.equal(status, expected, stderr);
      assert.deepEqual(snapshot(folder), before);
    });
  }

  test("may back it up into a folder of its own, and not into one of that user", async (t) => {
    const folder = makeServiceFolder(t);
    writeLog(folder, A);
    const target = join(makeFolder(t), "copy");
    assert.equal((await runCli(["backup", target, "--data", folder])).status, 0);
    for (const words of [
      ["backup", join(folder, "copy")],
      ["backup", "--into", folder],
    ]) {
      const { status, stderr } = await runCli([...words, "--data", target]);
      assert.equal(status, 2);
      assert.ok(stderr.includes("runuser"), stderr);
    }
    assert.equal(existsSync(join(folder, "copy")), false);
  });

  test("is refused a folder that is missing below one of that user", async (t) => {
    const folder = join(makeServiceFolder(t), "new", "data");
    const { status } = await runCli(["import", "-", "--data", folder], { stdin: A });
    assert.equal(status, 2);
  });
});

test("root works in a folder of its own, also if others may write there", NEEDS_ROOT, async (t) => {
  const folder = join(makeFolder(t), "data");
  mkdirSync(folder, { mode: 0o777 });
  const { status, stderr } = await runCli(["import", "-", "--data", folder], { stdin: A });
  assert.equal(status, 0, stderr);
  const store = await PlantStore.open(folder);
  assert.equal(store.status().plants, 1);
  await store.close();
});

test("a log that another user replaced by a link is not followed", NEEDS_ROOT, async (t) => {
  const folder = makeServiceFolder(t);
  const secret = join(makeFolder(t), "secret");
  writeFileSync(secret, A);
  chownSync(folder, 0, 0);
  symlinkSync(secret, join(folder, "plants.jsonl"));
  for (const words of [["export"], ["serve", "--port", "0"], ["backup", join(folder, "copy")]]) {
    const { status, stdout, stderr } = await runCli([...words, "--data", folder]);
    assert.deepEqual([status, stdout], [1, ""], stderr);
    assert.match(stderr, /symbolic link/);
  }
});

const SHARED_MEMORY = "/dev/shm"; // a tmpfs on every Linux

test("a server in a folder that is lost with the machine's memory warns of it", {
  skip: existsSync(SHARED_MEMORY) ? false : `there is no ${SHARED_MEMORY}`,
}, async (t) => {
  const folder = mkdtempSync(join(SHARED_MEMORY, "plant-store-test-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const server = await startServer(t, ["--data", folder]);
  const { stderr } = await server.stop();
  const [warning] = logLinesOf(stderr).filter(({ event }) => event === "warning");
  assert.match(`${warning?.message}`, /" is on tmpfs, /);
});
