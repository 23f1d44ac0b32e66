/**
 * `node --import tsx test/postgres/failover.ts [--rounds N --only WORD]`: the faults of a primary and its standby, each tried N times
 * (20), and its control once: without one safeguard plants must be lost, or the trial proves nothing.
 */
import { parseArgs } from "node:util";
import { withCleanup } from "./cleanup.ts";
import { ANSWERED_MS, type Cost, FAULTS, type Fault, tryFault } from "./faults.ts";
import { NEEDS_POSTGRES } from "./stores.ts";

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

/** 50302: the only error that a client may see. */
const EXPECTED_CODE = "write_failed";

/** What is wrong, if anything. */
function judge({ isUnnoticed, limits }: Fault, cost: Cost): string[] {
  const { lost, changed, wrong, failed, codes, figures } = cost;
  const over = Object.entries({ longestMs: ANSWERED_MS, ...limits })
    .filter(([name, limit]) => !((figures[name] ?? Number.NaN) <= limit))
    .map(([name, limit]) => `${name} is above ${limit}`);
  const unexpected = codes.filter((code) => code !== EXPECTED_CODE);
  return [
    ...(lost + changed + wrong > 0 ? ["plants are not as they were answered"] : []),
    ...(isUnnoticed === true && failed > 0 ? ["clients saw errors"] : []),
    ...unexpected.map((code) => `unexpected ${code}`),
    ...over,
  ];
}

let isBroken = false;
const rounds = Number(values.rounds);
for (const [name, fault] of Object.entries(FAULTS)) {
  if (!name.includes(values.only)) continue;
  console.log(`\n${name}`);
  for (let round = 1; round <= rounds; round++) {
    const cost = await withCleanup((cleanup) => tryFault(cleanup, fault));
    const faults = judge(fault, cost);
    isBroken ||= faults.length > 0;
    const verdict = faults.length > 0 ? `  BROKEN: ${faults.join(", ")}` : "";
    console.log(`  ${round}: ${JSON.stringify(cost)}${verdict}`);
  }
  if (fault.control === undefined) continue;
  const { without, sabotage } = fault.control;
  const { lost } = await withCleanup((cleanup) => tryFault(cleanup, fault, { sabotage }));
  isBroken ||= lost === 0;
  console.log(
    `  without ${without}: ${lost} lost${lost === 0 ? "  BROKEN: the control must lose" : ""}`,
  );
}
process.exit(isBroken ? 1 : 0);
