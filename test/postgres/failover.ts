/**
 * `node --import tsx test/postgres/failover.ts [--rounds N --only WORD]`: the faults of a primary and its standby, each
 * tried N times (20), and its control once: without one safeguard plants must be lost, or the trial proves nothing.
 */
import { parseArgs } from "node:util";
import type { Cleanup } from "./cluster.ts";
import { FAULTS, type Fault, type Sabotage, tryFault } from "./faults.ts";
import type { Cost } from "./load.ts";

const { values } = parseArgs({
  options: { rounds: { type: "string", default: "20" }, only: { type: "string", default: "" } },
});

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

async function run(fault: Fault, sabotage: Sabotage = {}): Promise<Cost> {
  const ends: (() => unknown)[] = [];
  const cleanup: Cleanup = { after: (end) => ends.unshift(end) };
  return tryFault(cleanup, fault, { sabotage }).finally(async () => {
    for (const end of ends) await end();
  });
}

for (const [name, fault] of Object.entries(FAULTS)) {
  if (!name.includes(values.only)) continue;
  console.log(`\n${name}`);
  for (let round = 1; round <= Number(values.rounds); round++) {
    const cost = await run(fault);
    const problems = findProblems(cost, fault);
    if (problems.length > 0) process.exitCode = 1;
    console.log(`  ${round}: ${JSON.stringify(cost)} ${problems.map((each) => `BROKEN: ${each}`)}`);
  }
  if (fault.without === undefined) continue;
  const { lost } = await run(fault, fault.without);
  if (lost === 0) process.exitCode = 1;
  console.log(`  control: ${lost} lost${lost === 0 ? "  BROKEN: it must lose" : ""}`);
}
