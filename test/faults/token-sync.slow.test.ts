/** A token log that an editor has changed is synced, and no request waits for that. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { createToken } from "../../src/index.ts";
import { makeFolder } from "../support/folders.ts";
import { TIMEOUT, until } from "../support/watch.ts";
import { canTrace, traced } from "./machine.ts";
import { Trial } from "./trial.ts";

test(
  "a sync of an edited token log that fails is a warning, and the edit is in force",
  TIMEOUT,
  async (t) => {
    if (!canTrace(t)) return;
    const folder = makeFolder(t);
    const token = await createToken(folder, { name: "gardener" });
    const path = join(folder, "tokens.jsonl");
    const inject = "inject=fsync:error=EIO";
    const { wrapper } = traced(t, ["-P", path, "-e", "trace=fsync", "-e", inject]);
    const trial = await Trial.start(t, { folder, reuseToken: token, wrapper });
    assert.equal(await trial.create(1), 200);
    writeFileSync(path, "");
    await until("the token is refused", async () => (await trial.create(2)) === 40102);
    const isSyncWarning = (message: string) => message.includes(path) && /\bEIO\b/.test(message);
    await until("a warning", () => trial.messages.some(isSyncWarning));
    assert.equal(await trial.create(2), 40102);
    assert.equal((await trial.stop()).status, 0);
  },
);
