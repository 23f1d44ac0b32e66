/** The short form of `npm run crash -- --rivals 50`: two servers on one log, past the lock. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { BUILT, buildUnlockedProgram } from "./program.ts";
import { Random } from "./random.ts";
import { KINDS_WITH_STRACE, RIVAL_KINDS, runRivalRounds } from "./rival-rounds.ts";
import { hasStrace } from "./strace.ts";

const programs = { locked: BUILT, unlocked: await buildUnlockedProgram() };

for (const [name, kind] of Object.entries(RIVAL_KINDS)) {
  test(`two servers on one log lose nothing that either acknowledged: ${name}`, {
    timeout: 120_000,
    skip: KINDS_WITH_STRACE.includes(name) && !hasStrace() ? "needs strace" : false,
  }, async (t) => {
    const seed = Math.floor(Math.random() * 2 ** 32);
    t.diagnostic(`npm run crash -- --rivals 2 --seed ${seed}`);
    const options = { rounds: 2, random: new Random(seed), connections: 16 };
    let acknowledged = 0;
    let noticed = 0;
    // In some rounds both servers fail before their first answer.
    for (let attempt = 0; attempt < 10 && (acknowledged === 0 || noticed === 0); attempt++) {
      const { totals, failures, refusals } = await runRivalRounds(programs, kind, options);
      assert.deepEqual(totals.faults, []);
      assert.deepEqual([totals.lost, totals.duplicated], [0, 0]);
      acknowledged += totals.acknowledged;
      noticed += failures + refusals;
      if (name === "a wrong checkpoint") break; // the second server refuses that by itself
    }
    assert.ok(acknowledged > 0, "the load was stored");
    t.diagnostic(`${acknowledged} acknowledged; ${noticed} servers noticed the other one`);
  });
}
