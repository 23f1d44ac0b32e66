import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { randomInt } from "node:crypto";
import { test } from "node:test";
import { SEEDS } from "../mutants/simulated.ts";
import { simulate } from "./runner.ts";

/** Lives that found nothing. */
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
