/** The limit of a file's size (`ulimit -f`): real short writes, and the error after them. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { makeFolder } from "../support/folders.ts";
import { logPath, readLog, writeLog } from "../support/stores.ts";
import { TIMEOUT } from "../support/watch.ts";
import { canRun, chattr, limit, statusField } from "./machine.ts";
import { assertGoesOn, assertLog, plant, startRefused, Trial } from "./trial.ts";

const AT_ONCE = { concurrency: 3, ...TIMEOUT };

/** Bytes of the next record that still fit. */
const ROOM = 10;

/** Makes the log longer than a checkpoint, so that the limit does not affect checkpoints. */
const NAME = "Fern".repeat(50);

const SIGXFSZ = 25;

describe("a log that has reached the limit of a file's size", AT_ONCE, () => {
  test("a record that fits only in part is refused and cut off, and stored once the limit is raised", async (t) => {
    if (!canRun(t, "prlimit", "--version")) return;
    const trial = await Trial.start(t);
    assert.deepEqual(await trial.createAll([1]), [200]);
    const ignored = BigInt(`0x${statusField(trial.pid, "SigIgn")}`);
    assert.equal((ignored >> BigInt(SIGXFSZ - 1)) & 1n, 1n, "the signal does not end the server");

    limit(trial.pid, `--fsize=${readLog(trial.folder).length + ROOM}:`);
    for (const id of [2, 3]) {
      assert.equal(await trial.create(id), 50302);
      assertLog(trial.folder, [plant(1)]);
    }
    limit(trial.pid, "--fsize=unlimited:");
    for (const id of [2, 3]) assert.equal(await trial.create(id), 200);

    const end = await trial.stop();
    assert.equal(end.status, 0);
    assert.equal(end.messages.length, 2, end.messages.join("\n"));
    assert.match(end.messages[0] ?? "", /\bEFBIG\b/);
    assertLog(
      trial.folder,
      [1, 2, 3].map((id) => plant(id)),
    );
  });

  test("if it cannot be cut off the store stops, and the next start moves the torn record to quarantine", async (t) => {
    const folder = makeFolder(t);
    writeLog(folder, "");
    if (!canRun(t, "prlimit", "--version")) return;
    if (!canRun(t, "chattr", "-a", logPath(folder))) return;
    const trial = await Trial.start(t, { folder });
    assert.equal(await trial.create(1, NAME), 200);
    limit(trial.pid, `--fsize=${readLog(folder).length + ROOM}:`);
    chattr("+a", logPath(folder)); // an open descriptor can still append, but nobody can cut the file
    try {
      assert.equal(await trial.create(2), 50303);
      const end = await trial.ended;
      assert.deepEqual([end.status, end.signal], [1, null]);
      assert.equal(end.messages.length, 1, end.messages.join("\n"));
      assert.match(end.messages[0] ?? "", /\bEFBIG\b.*\bEPERM\b/);
    } finally {
      chattr("-a", logPath(folder));
    }
    const torn = plant(2).slice(0, ROOM);
    assert.equal(readLog(folder), `${plant(1, NAME)}\n${torn}`, "the write was short");

    const warnings = await assertGoesOn(t, folder, trial.acknowledged);
    assert.equal(warnings.length, 1, warnings.join("\n"));
    assert.equal(readFileSync(join(folder, "plants.jsonl.quarantine-1"), "utf8"), torn);
  });

  test("a start that cannot rewrite the last batch ends with status 1 and changes nothing", async (t) => {
    const folder = makeFolder(t);
    const log = [1, 2, 3].map((id) => `${plant(id)}\n`).join("");
    writeLog(folder, log);
    if (!canRun(t, "prlimit", "--version")) return;
    const end = await startRefused(t, folder, {
      wrapper: ["prlimit", "--fsize=30"],
      env: { TSX_DISABLE_CACHE: "1" }, // the loader writes files too
    });
    assert.deepEqual([end.status, end.signal], [1, null]);
    assert.match(end.messages.at(-1) ?? "", /\bEFBIG\b/);
    assert.ok(end.messages.at(-1)?.includes(logPath(folder)), end.messages.join("\n"));
    assert.equal(readLog(folder), log);
  });
});
