/** A sample of `npm run crash -- --rivals 50`: two servers on one log, without the lock. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { BUILT, buildUnlockedProgram } from "./program.ts";
import { Random } from "./random.ts";
import { runRivals } from "./rival-rounds.ts";

const programs = { locked: BUILT, unlocked: await buildUnlockedProgram() };

for (const kind of ["both under load", "one is killed, and the next starts"]) {
  test(`two servers on one log lose nothing that either acknowledged: ${kind}`, {
    timeout: 120_000,
  }, async (t) => {
    const seed = Math.floor(Math.random() * 2 ** 32);
    t.diagnostic(`npm run crash -- --rivals 2 --only "${kind}" --seed ${seed}`);
    const options = { rounds: 2, random: new Random(seed), connections: 16 };
    const { totals, failures, refusals } = await runRivals(programs, kind, options);
    assert.deepEqual(totals.faults, []);
    assert.deepEqual([totals.lost, totals.duplicated], [0, 0]);
    t.diagnostic(`${totals.acknowledged} acknowledged; ${failures + refusals} servers noticed`);
  });
}
