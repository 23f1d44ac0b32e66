/** A start of a real server finds a byte that has changed. */
import assert from "node:assert/strict";
import { readFileSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { test } from "node:test";
import { logPath } from "../support/stores.ts";
import { TIMEOUT } from "../support/watch.ts";
import { startRefused, Trial } from "./trial.ts";

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
