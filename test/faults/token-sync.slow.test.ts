/** A token log that an editor has changed is synced, and no request waits for that. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { TIMEOUT, until } from "../support/watch.ts";
import { injectInto } from "./machine.ts";
import { Trial } from "./trial.ts";

test(
  "a sync of an edited token log that fails is a warning, and the edit is in force",
  TIMEOUT,
  async (t) => {
    const trial = await Trial.start(t);
    const path = join(trial.folder, "tokens.jsonl");
    assert.equal(await trial.create(1), 200);
    // Only now: the start syncs this file, too.
    if ((await injectInto(t, trial.pid, path, "fsync:error=EIO")) === undefined) return;
    writeFileSync(path, "");
    await until("the token is refused", async () => (await trial.create(2)) === 40102);
    const isSyncWarning = (message: string) => message.includes(path) && /\bEIO\b/.test(message);
    await until("a warning", () => trial.messages.some(isSyncWarning));
    assert.equal(await trial.create(2), 40102);
    assert.equal((await trial.stop()).status, 0);
  },
);
