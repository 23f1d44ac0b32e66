/** A limit of processes (`ulimit -u`): no thread can be started. */
import assert from "node:assert/strict";
import { chownSync } from "node:fs";
import { test } from "node:test";
import { AS_SERVICE, makeServiceFolder, NEEDS_ROOT, SERVICE } from "../support/other-user.ts";
import { logPath, writeLog } from "../support/stores.ts";
import { TIMEOUT } from "../support/watch.ts";
import { canRun } from "./machine.ts";
import { plant, Trial } from "./trial.ts";

test("repeats of many older plants are answered, although the thread for them cannot be started", {
  ...NEEDS_ROOT,
  ...TIMEOUT,
}, async (t) => {
  const folder = makeServiceFolder(t);
  const lines = Array.from({ length: 20_000 }, (_, id) => plant(id));
  writeLog(folder, `${lines.join("\n")}\n`);
  chownSync(logPath(folder), SERVICE, SERVICE);
  const trial = await Trial.start(t, { folder }); // root's limits do not count, but it becomes the owner
  const [setpriv = "", ...asOwner] = AS_SERVICE;
  const limit = ["prlimit", "--pid", String(trial.pid), "--nproc=1"];
  if (!canRun(t, setpriv, ...asOwner, ...limit)) return;
  const ids = Array.from({ length: 200 }, (_, at) => 100 * at);
  assert.deepEqual(new Set(await trial.createAll(ids)), new Set([200]));
  assert.equal(await trial.create(20_000), 200);
  assert.equal((await trial.stop()).status, 0);
});
