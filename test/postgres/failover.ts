/**
 * `node --import tsx test/postgres/failover.ts [--rounds N --only WORD]`: the faults of a primary and its standby, each
 * tried N times (20), and its control once: without one safeguard plants must be lost, or the trial proves nothing.
 */
import { parseArgs } from "node:util";
import { FAULTS, type Fault, tryFault } from "./faults.ts";
import type { Cost } from "./load.ts";
import { NEEDS_POSTGRES, withCleanup } from "./stores.ts";

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "20" },
    only: { type: "string", default: "" },
  },
});
if (NEEDS_POSTGRES.skip !== undefined) {
  console.error(NEEDS_POSTGRES.skip);
  process.exit(1);
}

/** What is wrong, if anything. 50302 is the only error that a client may see. */
function findProblems(cost: Cost, { isUnnoticed = false, firstMsMax = Infinity }: Fault): string[] {
  const { lost, changed, wrong, failed, codes, firstMs, longestMs } = cost;
  const problems = {
    "plants are not as they were acknowledged": lost + changed + wrong > 0,
    "clients saw errors": isUnnoticed && failed > 0,
    "unexpected errors": codes.some((code) => code !== "write_failed"),
    "a call was longer than its deadline": longestMs > 10_200,
    "the first create was late": firstMs > firstMsMax,
  };
  return Object.entries(problems).flatMap(([problem, isSo]) => (isSo ? [problem] : []));
}

let isBroken = false;
for (const [name, fault] of Object.entries(FAULTS)) {
  if (!name.includes(values.only)) continue;
  console.log(`\n${name}`);
  for (let round = 1; round <= Number(values.rounds); round++) {
    const cost = await withCleanup((cleanup) => tryFault(cleanup, fault));
    const problems = findProblems(cost, fault);
    isBroken ||= problems.length > 0;
    console.log(`  ${round}: ${JSON.stringify(cost)} ${problems.map((each) => `BROKEN: ${each}`)}`);
  }
  if (fault.without === undefined) continue;
  const { what, ...sabotage } = fault.without;
  const { lost } = await withCleanup((cleanup) => tryFault(cleanup, fault, { sabotage }));
  isBroken ||= lost === 0;
  console.log(`  without ${what}: ${lost} lost${lost === 0 ? "  BROKEN: it must lose" : ""}`);
}
process.exit(isBroken ? 1 : 0);
