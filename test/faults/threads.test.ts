/** Limits of processes (`ulimit -u`) and of the address space (`ulimit -v`): no thread can be started. */
import assert from "node:assert/strict";
import { chownSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { makeFolder } from "../support/folders.ts";
import { AS_SERVICE, makeServiceFolder, NEEDS_ROOT, SERVICE } from "../support/other-user.ts";
import { logPath, writeLog } from "../support/stores.ts";
import { TIMEOUT } from "../support/watch.ts";
import { canRun } from "./machine.ts";
import { plant, Trial } from "./trial.ts";

const COUNT = 20_000;

function writePlants(folder: string): void {
  writeLog(folder, `${Array.from({ length: COUNT }, (_, id) => plant(id)).join("\n")}\n`);
}

/** Repeats older plants from all over the log, and creates one. */
async function useLog(trial: Trial): Promise<void> {
  const ids = Array.from({ length: 200 }, (_, at) => 100 * at);
  assert.deepEqual(new Set(await trial.createAll(ids)), new Set([200]));
  assert.equal(await trial.create(COUNT), 200);
  assert.equal((await trial.stop()).status, 0);
}

test("repeats of many older plants are answered, although the thread for them cannot be started", {
  ...NEEDS_ROOT,
  ...TIMEOUT,
}, async (t) => {
  const folder = makeServiceFolder(t);
  writePlants(folder);
  chownSync(logPath(folder), SERVICE, SERVICE);
  const trial = await Trial.start(t, { folder }); // root's limits do not count, but it becomes the owner
  const [setpriv = "", ...asOwner] = AS_SERVICE;
  const limit = ["prlimit", "--pid", String(trial.pid), "--nproc=1"];
  if (!canRun(t, setpriv, ...asOwner, ...limit)) return;
  await useLog(trial);
});

test("repeats of many older plants are answered in a limited address space", TIMEOUT, async (t) => {
  const folder = makeFolder(t);
  writePlants(folder);
  const trial = await Trial.start(t, { folder });
  const status = readFileSync(`/proc/${trial.pid}/status`, "utf8");
  const used = Number(/^VmSize:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024;
  // V8 would end the process if a thread could not reserve its 128 MiB for code.
  if (!canRun(t, "prlimit", "--pid", String(trial.pid), `--as=${used + 100 * 2 ** 20}`)) return;
  await useLog(trial);
});
