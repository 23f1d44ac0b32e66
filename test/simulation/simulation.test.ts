import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { randomInt } from "node:crypto";
import { test } from "node:test";
import { FIXED_FAULTS } from "../mutants/simulated.ts";
import { simulate } from "./runner.ts";

/**
 * The seeds of lives that always run, by the fault that each has found: it fails if the fix is taken out. When
 * lives are drawn in another way, `npm run mutants -- --only simulation` prints others.
 */
const SEEDS: Readonly<Record<string, string>> = {
  "an empty file is renamed to a checkpoint": "mutant-1.18",
  "an error of the system leaves a function of the store": "mutant-1.10",
  "a restore that fails leaves what it has placed": "mutant-1.34",
  "a backup whose name is not durable stays": "mutant-1.214",
  "tokens are listed that only the page cache has": "q.365",
  "a log that was replaced is closed twice": "mutant-1.18",
  "a start that cannot read closes a log amid its sync": "fa.4868",
  "a revoked token is live if a line creates it once more": "ja.10047",
};
/** And some that found nothing. */
const MORE = Array.from({ length: 40 }, (_, at) => `always.${at}`);

test("no simulated crash loses, changes or invents a plant or a token", async (t) => {
  const first = String(randomInt(1_000_000_000));
  t.diagnostic(`first seed: ${first}`);
  const { rounds, failures } = await simulate({
    seeds: [...new Set([...Object.values(SEEDS), ...MORE])],
    first,
    seconds: 4,
    processes: 1,
  });
  assert.deepEqual(failures, []);
  t.diagnostic(`${rounds} rounds`);
});

test("each life that always runs has found a fault that was fixed", () => {
  const faults = FIXED_FAULTS.map(({ name }) => name);
  for (const fault of Object.keys(SEEDS)) assert.ok(faults.includes(fault), fault);
});

test("a simulated life that asks the real world for time, chance, files or sockets fails", () => {
  const program = `
    import { guarded } from "./test/simulation/guard.ts";
    import { clock, replaceClock } from "./src/clock.ts";
    import { disk } from "./src/log/disk.ts";
    import { randomBytes } from "node:crypto";
    import { readFileSync } from "node:fs";
    import { connect } from "node:net";
    import os from "node:os";
    const asked = [
      () => clock.steadyMs(),
      () => clock.randomBytes(1),
      () => Date.now(),
      () => new Date(),
      () => performance.now(),
      () => process.hrtime.bigint(),
      () => Math.random(),
      () => crypto.randomUUID(),
      () => crypto.getRandomValues(new Uint8Array(1)),
      () => randomBytes(1),
      () => setTimeout(() => {}, 1),
      () => setImmediate(() => {}),
      () => readFileSync("package.json"),
      () => disk.find("package.json"),
      () => connect(1),
      () => os.freemem(),
    ];
    for (const ask of asked) {
      const outcome = await guarded(async () => ask()).catch((error) => error.message);
      if (!/asked the real world/.test(outcome)) console.log("not forbidden: " + ask);
      if (/asked the real world/.test(await ask())) console.log("forbidden for ever: " + ask);
    }
    replaceClock({ ...clock, wallMs: () => 7 });
    const dates = await guarded(async () => [Date.now(), +new Date(), +new Date(5)]);
    console.log(dates.join(" "), Date.now() > 7, new Date() instanceof Date);
    process.exit();
  `;
  const args = ["--import", "tsx", "--input-type=module", "--eval", program];
  assert.equal(execFileSync(process.execPath, args, { encoding: "utf8" }), "7 7 5 true true\n");
});
