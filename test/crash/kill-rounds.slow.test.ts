/** The short form of `npm run crash`: a few rounds of SIGKILL at random moments. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { runKillRounds } from "./kill-rounds.ts";
import { BUILT } from "./program.ts";

test("a server killed at random moments under load loses nothing that it acknowledged", {
  timeout: 120_000,
}, async (t) => {
  const seed = Math.floor(Math.random() * 2 ** 32);
  t.diagnostic(`npm run crash -- --rounds 3 --seed ${seed}`);
  const totals = await runKillRounds(BUILT, { rounds: 3, seed, connections: 64 });
  const { lost, duplicated, unknownLines, failedStarts, faults } = totals;
  assert.deepEqual(faults, []);
  assert.deepEqual([lost, duplicated, unknownLines, failedStarts], [0, 0, 0, 0]);
  assert.equal(totals.kills, 3);
  assert.ok(totals.acknowledged > 0, "the load was stored");
});
