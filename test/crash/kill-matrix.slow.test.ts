/** A sample of `npm run crash -- --matrix`: SIGKILL at one call of each kind that changes files. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { TIMEOUT } from "../support/watch.ts";
import { runMatrix } from "./matrix.ts";
import { BUILT } from "./program.ts";
import { Random } from "./random.ts";
import { SCENARIOS } from "./scenarios.ts";
import { CHANGING_CALLS, hasStrace } from "./strace.ts";

const CASES: Readonly<Record<string, { readonly kills: readonly string[] }>> = {
  "start, create, stop: torn tail, no checkpoint": {
    kills: ["openat", "write", "fsync", "ftruncate", "rename", "link", "unlink"],
  },
  "start, create, stop: long log": {
    kills: ["openat", "write", "rename", "unlink"],
  },
  "token create: two tokens": { kills: ["openat", "write", "link", "unlink"] },
};

for (const [name, { kills }] of Object.entries(CASES)) {
  const scenario = SCENARIOS.find((one) => one.name === name);

  test(`a process killed at a call of each kind that changes files loses nothing acknowledged: ${name}`, {
    skip: hasStrace() ? false : "needs strace",
    ...TIMEOUT,
  }, async (t) => {
    assert.ok(scenario !== undefined);
    const seed = Math.floor(Math.random() * 2 ** 32);
    t.diagnostic(`seed ${seed}; all calls: npm run crash -- --matrix --only "${name}"`);
    const report = await runMatrix(BUILT, scenario, {
      calls: CHANGING_CALLS,
      untilSurvived: false,
      jobs: 2,
      sample: new Random(seed),
    });
    const { lost, duplicated, unknownLines, failedStarts, faults } = report.totals;
    assert.deepEqual(faults, []);
    assert.deepEqual([lost, duplicated, unknownLines, failedStarts], [0, 0, 0, 0]);
    assert.ok(report.totals.acknowledged > 0, "some kills came after an acknowledgement");
    for (const call of kills)
      assert.ok(report.killsByCall.has(call), `there was a kill at ${call}`);
  });
}
