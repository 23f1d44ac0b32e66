/**
 * A log that another program takes away or changes while a server uses it: what a client and a supervisor
 * see. What is kept in all such cases is shown by test/simulation.
 */
import assert from "node:assert/strict";
import { appendFileSync, existsSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { makeFolder } from "../support/folders.ts";
import { logPath, readLog } from "../support/stores.ts";
import { TIMEOUT } from "../support/watch.ts";
import { assertGoesOn, plant, startRefused, Trial } from "./trial.ts";

const AT_ONCE = { concurrency: 3, ...TIMEOUT };

/** A server with a plant, which answers 50303 and ends with 1 after its log was changed. */
async function stopBy(t: TestContext, deed: (log: string) => void): Promise<Trial> {
  const trial = await Trial.start(t, { folder: join(makeFolder(t), "data") });
  assert.equal(await trial.create(1), 200);
  deed(logPath(trial.folder));
  assert.equal(await trial.create(2), 50303);
  const end = await trial.ended;
  assert.deepEqual([end.status, end.signal, end.messages.length], [1, null, 1]);
  assert.ok(end.messages[0]?.includes(trial.folder), end.messages[0]);
  return trial;
}

describe("a server stops (503, status 1)", AT_ONCE, () => {
  test("when its log is deleted, and the next start refuses because plants are missing", async (t) => {
    const { folder } = await stopBy(t, (log) => rmSync(log));
    const next = await startRefused(t, folder);
    assert.deepEqual([next.status, next.signal, next.messages.length], [3, null, 1]);
    assert.ok(next.messages[0]?.includes(logPath(folder)), next.messages[0]);
    assert.equal(existsSync(logPath(folder)), false);
  });

  test("when its log is appended to, and the next start serves", async (t) => {
    const trial = await stopBy(t, (log) => appendFileSync(log, `${plant(9)}\n`));
    assert.deepEqual(await assertGoesOn(t, trial.folder, trial.acknowledged), []);
  });

  test("when its data directory is moved, which can be served from its new place", async (t) => {
    const trial = await stopBy(t, (log) => renameSync(dirname(log), `${dirname(log)}.moved`));
    const moved = `${trial.folder}.moved`;
    assert.equal(readLog(moved), `${plant(1)}\n`);
    await assertGoesOn(t, moved, trial.acknowledged);
  });
});
