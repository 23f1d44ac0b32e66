/** Errors of the call that writes and syncs, as the system reports them: what a client and an operator see. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { makeFolder } from "../support/folders.ts";
import { logLinesOf } from "../support/messages.ts";
import { TIMEOUT, until } from "../support/watch.ts";
import { canTrace, faulty } from "./machine.ts";
import { assertGoesOn, assertLog, plant, Trial } from "./trial.ts";

/** A trial mostly waits for its process to start, so several run at once. */
const AT_ONCE = { concurrency: 3, ...TIMEOUT };

/** A start syncs the log before and after it was read. */
const START = ["fsync", "fsync"];

/** The names of the calls on the log, with `!` after those that were made to fail. */
function callsIn(trace: string): string[] {
  return trace.split("\n").flatMap((line) => {
    const [, name, result = ""] = /^\d+ +(\w+)\(.*\) += (.*)$/.exec(line) ?? [];
    return name === undefined ? [] : [name + (result.includes("INJECTED") ? "!" : "")];
  });
}

describe(
  "a refused write is answered 503 and undone, and the server continues by itself",
  AT_ONCE,
  () => {
    test("ENOSPC, twice in a row", async (t) => {
      if (!canTrace(t)) return;
      const folder = makeFolder(t);
      const { read, ...under } = faulty(t, folder, "write:error=ENOSPC:when=2..3");
      const trial = await Trial.start(t, { folder, ...under });
      const outcomes: number[] = [];
      for (const id of [1, 2, 3, 2, 4]) outcomes.push(await trial.create(id));
      assert.deepEqual(outcomes, [200, 50302, 50302, 200, 200]);
      assertLog(
        folder,
        [1, 2, 4].map((id) => plant(id)),
      );

      const end = await trial.stop();
      assert.equal(end.status, 0);
      // One warning with the reason when it begins, and one when it is over.
      assert.equal(end.messages.length, 2, end.messages.join("\n"));
      assert.match(end.messages[0] ?? "", /\bENOSPC\b/);
      assert.deepEqual(callsIn(read()), [...START, "write", "write!", "write!", "write", "write"]);
      assertLog(folder, trial.acknowledged);
    });
  },
);

describe(
  "after a write whose outcome is unknown nothing more is acknowledged: 503, status 1",
  AT_ONCE,
  () => {
    test("EIO", async (t) => {
      if (!canTrace(t)) return;
      const folder = makeFolder(t);
      const { read, ...under } = faulty(t, folder, "write:delay_enter=300000:error=EIO:when=2");
      const trial = await Trial.start(t, { folder, ...under });
      assert.equal(await trial.create(1), 200);
      // Some are in the batch that fails, the others wait for it, one of them with the same id.
      assert.deepEqual(await trial.createAll([2, 3, 4, 5, 6, 2]), Array(6).fill(50303));
      const end = await trial.ended;
      assert.deepEqual([end.status, end.signal], [1, null]);
      assert.equal(end.messages.length, 1, end.messages.join("\n"));
      assert.match(end.messages[0] ?? "", /\bEIO\b/);
      // The log is never written, cut or synced again.
      assert.deepEqual(callsIn(read()), [...START, "write", "write!"]);
      assertLog(folder, [plant(1)]);
      assert.deepEqual(await assertGoesOn(t, folder, [plant(1)]), []);
    });

    test("also during a stop", async (t) => {
      if (!canTrace(t)) return;
      const folder = makeFolder(t);
      const { read, ...under } = faulty(t, folder, "write:error=EIO:when=2");
      const args = ["--drain-timeout-ms=600000"];
      const trial = await Trial.start(t, { folder, args, ...under });
      assert.equal(await trial.create(1), 200);
      const held = await trial.hold(2);
      const stopped = trial.stop();
      await until("it drains", () => trial.server.stderr().includes('"event":"draining"'));
      assert.equal(await held.finish(), 50303);
      const end = await stopped;
      assert.deepEqual([end.status, end.signal], [1, null]);
      assert.equal(end.messages.length, 1, end.messages.join("\n"));
      assert.match(end.messages[0] ?? "", /\bEIO\b/);
      const events = logLinesOf(trial.server.stderr()).map(({ event }) => event);
      assert.deepEqual(
        events.filter((event) => event !== "request"),
        ["listening", "draining", "failed", "stopped"],
      );
      assert.deepEqual(callsIn(read()), [...START, "write", "write!"]);
    });
  },
);
