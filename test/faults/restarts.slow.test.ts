/** Starts of a real server: the rewritten last batch changes no byte, and a changed byte is found. */
import assert from "node:assert/strict";
import { readFileSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { test } from "node:test";
import { makeFolder } from "../support/folders.ts";
import { logPath, readLog } from "../support/stores.ts";
import { TIMEOUT } from "../support/watch.ts";
import { assertKept, assertLog, plant, startRefused, Trial } from "./trial.ts";

const RESTARTS = 10;
const BURST = 20;

test(
  `a log is the same byte for byte after ${RESTARTS} starts that follow kill -9`,
  TIMEOUT,
  async (t) => {
    const folder = makeFolder(t);
    for (let id = 1; id <= RESTARTS; id++) {
      const trial = await Trial.start(t, { folder });
      assertLog(
        folder,
        Array.from({ length: id - 1 }, (_, at) => plant(at + 1)),
      );
      assert.equal(await trial.create(id), 200);
      await trial.stop("SIGKILL");
    }
  },
);

test(
  `a start after kill -9 in the middle of a batch changes no whole line, ${RESTARTS} times`,
  TIMEOUT,
  async (t) => {
    const folder = makeFolder(t);
    const acknowledged: string[] = [];
    let before = "";
    for (let start = 0; start < RESTARTS; start++) {
      const trial = await Trial.start(t, { folder });
      const lines = before.slice(0, before.lastIndexOf("\n") + 1);
      const log = readLog(folder);
      // A last record that lacks only its line feed is completed.
      assert.ok(log === lines || log === `${before}\n`, `start ${start}`);
      const ids = Array.from({ length: BURST }, (_, at) => start * BURST + at + 1);
      const first = trial.create(ids[0] ?? 0);
      const rest = ids.slice(1).map((id) => trial.create(id).catch(() => undefined)); // cut off by the kill
      assert.equal(await first, 200);
      await trial.stop("SIGKILL");
      await Promise.all(rest);
      acknowledged.push(...trial.acknowledged);
      before = readLog(folder);
      assertKept(folder, acknowledged);
    }
  },
);

test(
  "a byte of the log that changed at rest, with its times kept, makes the next start end with status 3",
  TIMEOUT,
  async (t) => {
    const trial = await Trial.start(t);
    await trial.createAll([1, 2, 3]);
    assert.equal((await trial.stop()).status, 0);
    const log = logPath(trial.folder);
    const { atime, mtime } = statSync(log);
    const bytes = readFileSync(log);
    bytes[bytes.indexOf("Plant 1")] = "Q".charCodeAt(0);
    writeFileSync(log, bytes);
    utimesSync(log, atime, mtime);
    const end = await startRefused(t, trial.folder);
    assert.equal(end.status, 3);
    assert.ok(end.messages.some((message) => message.includes(log)));
    assert.deepEqual(readFileSync(log), bytes, "left as found");
  },
);
