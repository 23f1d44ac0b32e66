/** A disk that is really full, and then has room again. */
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { createToken } from "../../src/index.ts";
import { ask } from "../support/admin.ts";
import { runCli } from "../support/cli.ts";
import { messagesOf } from "../support/messages.ts";
import { freePort } from "../support/serve.ts";
import { logPath, readLog, writeLog } from "../support/stores.ts";
import { TIMEOUT, until } from "../support/watch.ts";
import { mountSmallDisk, remount } from "./machine.ts";
import { assertGoesOn, assertKept, assertLog, plant, startRefused, Trial } from "./trial.ts";

const AT_ONCE = { concurrency: 3, ...TIMEOUT };

/** Longer than a page, so that a few of them fill the disk. */
const LONG_NAME = "Fern".repeat(2500);
const ROUNDS_MAX = 50;

/** Fills the rest of the disk. */
function fill(folder: string): void {
  try {
    writeFileSync(join(folder, "filler"), Buffer.alloc(1024 * 1024));
    throw new Error("expected a small disk");
  } catch (error) {
    assert.equal((error as NodeJS.ErrnoException).code, "ENOSPC");
  }
}

describe("a full disk", AT_ONCE, () => {
  test("new plants are refused and repeats answered; when there is room again, the server continues without a restart", async (t) => {
    const folder = mountSmallDisk(t, "64k");
    if (folder === undefined) return;
    const admin = `127.0.0.1:${await freePort()}`;
    const trial = await Trial.start(t, { folder, args: ["--admin", admin] });
    const ready = async () => {
      const { status, text } = await ask(`http://${admin}`, "/readyz");
      return [status, JSON.parse(text).state];
    };
    assert.deepEqual(await ready(), [200, "ready"]);
    let id = 1;
    while (id < ROUNDS_MAX && (await trial.create(id, LONG_NAME)) === 200) id++;
    assert.ok(id > 1 && id < ROUNDS_MAX, `${id} plants`);
    assert.equal(await trial.create(id, LONG_NAME), 50302);
    assert.deepEqual(await ready(), [503, "out-of-disk"]);
    const lines = Array.from({ length: id - 1 }, (_, at) => plant(at + 1, LONG_NAME));
    assertLog(folder, lines);
    assert.equal(await trial.create(1, LONG_NAME), 200, "a replay needs no room");
    await until("the log reports it", () => trial.messages.length > 0);
    assert.equal(trial.messages.length, 1, trial.messages.join("\n"));

    remount(folder, "size=1m");
    assert.deepEqual(await trial.createAll([id, id + 1]), [200, 200]);
    assert.deepEqual(await ready(), [200, "ready"]);
    assert.equal(await trial.create(id, LONG_NAME), 40006, "the first plant of this id is kept");
    const end = await trial.stop();
    assert.equal(end.status, 0);
    assert.equal(end.messages.length, 2, end.messages.join("\n"));
    assert.match(end.messages[0] ?? "", /\bENOSPC\b/);
    assertKept(folder, trial.acknowledged);
    assert.equal(readLog(folder).split("\n").length - 1, id + 1);
  });

  test("without room for the quarantine file a start ends with status 1 and changes nothing", async (t) => {
    const folder = mountSmallDisk(t, "64k");
    if (folder === undefined) return;
    const token = await createToken(folder, { name: "gardener" });
    const torn = `{"id":2,"name":"${LONG_NAME}`;
    writeLog(folder, `${plant(1)}\n${torn}`);
    fill(folder);
    const end = await startRefused(t, folder);
    assert.deepEqual([end.status, end.messages.length], [1, 1], end.messages.join("\n"));
    assert.match(end.messages[0] ?? "", /plants\.jsonl\.quarantine-1".*\bENOSPC\b/);
    assert.equal(readLog(folder), `${plant(1)}\n${torn}`, "left alone");
    assert.equal(existsSync(join(folder, "plants.jsonl.quarantine-1")), false);

    rmSync(join(folder, "filler"));
    const trial = await Trial.start(t, { folder, reuseToken: token });
    assert.equal(await trial.create(1), 200);
    assert.equal(await trial.create(2), 200);
    assert.equal((await trial.stop()).status, 0);
    assertLog(folder, [plant(1), plant(2)]);
    assert.equal(readFileSync(join(folder, "plants.jsonl.quarantine-1"), "utf8"), torn);
  });
});

describe("a disk that has room but no free inode", AT_ONCE, () => {
  test("is named as such", async (t) => {
    const disk = mountSmallDisk(t, "1m,nr_inodes=1");
    if (disk === undefined) return;
    for (const words of [
      ["serve", "--port", "0"],
      ["token", "create", "gardener"],
    ]) {
      const { status, stderr } = await runCli([...words, "--data", disk]);
      const [message = "", ...others] = messagesOf(stderr);
      assert.match(message, /: no free inode left on device \(ENOSPC\)/);
      assert.deepEqual([status, others], [1, []]);
    }
  });

  test("is not taken for one without room for bytes", async (t) => {
    const folder = mountSmallDisk(t, "64k,nr_inodes=2");
    if (folder === undefined) return;
    fill(folder);
    const end = await startRefused(t, folder);
    assert.match(end.messages[0] ?? "", /: no space left on device \(ENOSPC\)/);
  });
});

describe("a read-only disk", AT_ONCE, () => {
  const WRITING: readonly (readonly string[])[] = [
    ["serve", "--port", "0"],
    ["token", "create", "gardener"],
    ["repair", "--yes"],
    ["import", "-"],
  ];
  const READING: readonly (readonly string[])[] = [["export"], ["verify"]];

  test("commands that write end with status 1 and one line; commands that read work", async (t) => {
    const folder = mountSmallDisk(t, "64k");
    if (folder === undefined) return;
    await createToken(folder, { name: "trial" });
    writeLog(folder, `${plant(1)}\n`);
    remount(folder, "ro");
    const names = readdirSync(folder);
    const run = (words: readonly string[]) => runCli([...words, "--data", folder]);

    for (const [at, end] of (await Promise.all(WRITING.map(run))).entries()) {
      assert.deepEqual([end.status, end.stdout], [1, ""], WRITING[at]?.join(" "));
      const [message = "", ...others] = messagesOf(end.stderr);
      assert.match(message, /\bEROFS\b/);
      assert.deepEqual(others, []);
      assert.ok(end.stderr.includes(folder), end.stderr);
    }
    for (const [at, end] of (await Promise.all(READING.map(run))).entries()) {
      assert.deepEqual([end.status, end.stderr], [0, ""], READING[at]?.join(" "));
    }
    assert.deepEqual(readdirSync(folder), names);
    assertLog(folder, [plant(1)]);
    remount(folder, "rw");
    await assertGoesOn(t, folder, [plant(1)]);
  });

  test("a data directory that cannot be created ends the start with status 1 and one line", async (t) => {
    const disk = mountSmallDisk(t, "64k");
    if (disk === undefined) return;
    remount(disk, "ro");
    const end = await startRefused(t, join(disk, "data"));
    assert.deepEqual([end.status, end.messages.length], [1, 1], end.messages.join("\n"));
    assert.ok(end.messages[0]?.includes(`"${join(disk, "data")}"`), end.messages[0]);
    assert.match(end.messages[0] ?? "", /\bEROFS\b/);
    assert.equal(existsSync(logPath(join(disk, "data"))), false);
  });
});
