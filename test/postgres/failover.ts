/**
 * `npm run failover [-- --rounds N --only WORD]`: the faults of a primary and its standby, each tried N times
 * (20), and its control once: without one safeguard plants must be lost, or the trial proves nothing.
 */
import { parseArgs } from "node:util";
import { withCleanup } from "./cleanup.ts";
import { FAULTS, tryFault } from "./faults.ts";
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

/** From the promotion of a standby to the first create that is answered. */
const FIRST_MS_MAX = 500;

let isBroken = false;
for (const [name, fault] of Object.entries(FAULTS)) {
  if (!name.includes(values.only)) continue;
  console.log(`\n${name}`);
  for (let round = 1; round <= Number(values.rounds); round++) {
    const cost = await withCleanup((cleanup) => tryFault(cleanup, fault));
    const isBad = cost.lost + cost.changed + cost.wrong > 0;
    const { failed, firstMs = 0 } = cost;
    const isSeen = (fault.isUnnoticed === true && failed > 0) || firstMs > FIRST_MS_MAX;
    isBroken ||= isBad || isSeen;
    console.log(`  ${round}: ${JSON.stringify(cost)}${isBad || isSeen ? "  BROKEN" : ""}`);
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
