/** The limit of a file's size (`ulimit -f`): real short writes, and the error after them. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { readLog } from "../support/stores.ts";
import { TIMEOUT } from "../support/watch.ts";
import { canRun, limit, statusField } from "./machine.ts";
import { assertLog, plant, Trial } from "./trial.ts";

const AT_ONCE = { concurrency: 3, ...TIMEOUT };

/** Bytes of the next record that still fit. */
const ROOM = 10;

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
});
