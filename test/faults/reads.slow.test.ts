/** Reads of older plants in a limited address space. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { TIMEOUT } from "../support/watch.ts";
import { canRun, limit, statusField } from "./machine.ts";
import { startWith } from "./readable-trial.ts";
import { plant, type Trial } from "./trial.ts";

test("repeats of many older plants are answered in a limited address space", TIMEOUT, async (t) => {
  const lines = Array.from({ length: 20_000 }, (_, id) => plant(id));
  const trial = await startWith(t, lines);
  if (!canRun(t, "prlimit", "--version")) return;
  limit(trial.pid, `--as=${addressSpace(trial) + 100 * 2 ** 20}:`);
  const ids = Array.from({ length: 200 }, (_, at) => 100 * at);
  assert.deepEqual(new Set(await trial.createAll(ids)), new Set([200]));
  assert.equal(await trial.create(20_000), 200);
  assert.equal((await trial.stop()).status, 0);
});

/** In bytes. */
function addressSpace({ pid }: Trial): number {
  return Number.parseInt(statusField(pid, "VmSize"), 10) * 1024;
}
