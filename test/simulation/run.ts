/**
 * `npm run simulate`: runs simulated lives from a seed, for as long as is asked.
 *
 * Invariant. A failure tells all that is needed to repeat it: seed, commit, version of Node, command.
 */
import { execFileSync } from "node:child_process";
import { randomInt } from "node:crypto";
import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { RULE_NAMES } from "./rules.ts";
import { type RunResult, simulate } from "./runner.ts";
import type { Failure } from "./worker.ts";

const HELP = `Usage: npm run simulate -- [options]

  --minutes N, --seconds N  how long (1 minute)
  --seed S                  the first seed (one by chance); may be given several times: each gets its share
  --only SEED [--plan JSON] runs this life only, by another plan if it is given
  --processes N             how many at once (one a processor)
  --go-on                   counts failures instead of stopping at the first one; does not shorten them
`;
/** In a shorter run a rare rule may not fire. */
const EVERY_RULE_ROUNDS = 20_000;

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "1" },
    seconds: { type: "string" },
    seed: { type: "string", multiple: true },
    only: { type: "string" },
    plan: { type: "string" },
    processes: { type: "string", default: String(availableParallelism()) },
    "go-on": { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});

const print = (line: string) => process.stdout.write(`${line}\n`);

function describeSource(): string {
  const git = (...args: string[]) =>
    execFileSync("git", args, { encoding: "utf8", stdio: "pipe" }).trim();
  try {
    return `commit ${git("rev-parse", "--short", "HEAD")}${git("status", "--porcelain") && " (changed)"}`;
  } catch {
    return "no commit";
  }
}

function printFailure({ seed, kind, message, plan }: Failure): void {
  print(`\nseed ${seed}: ${kind}\n${message}`);
  print(`${describeSource()}, Node ${process.version}; to repeat it:`);
  print(`  npm run simulate -- --only ${seed}`);
  if (plan !== undefined)
    print(`or, shortened:\n  ... --only ${seed} --plan '${JSON.stringify(plan)}'`);
}

/** Returns whether nothing failed, and every rule fired that had to. */
function printResult({ lives, rounds, lifeMs, counts, failures }: RunResult): boolean {
  const speed = Math.round((rounds * 1000) / Math.max(1, lifeMs));
  const fired = Object.entries(counts).sort(([one], [other]) => (one < other ? -1 : 1));
  print(`\n${fired.map(([rule, n]) => `${n} ${rule}`).join("\n")}`);
  print(`\n${lives} lives, ${rounds} rounds, ${speed} rounds a second on one core`);
  for (const kind of new Set(failures.map((failure) => failure.kind))) {
    const seeds = failures.filter((failure) => failure.kind === kind).map(({ seed }) => seed);
    print(`${seeds.length} x ${kind}: ${seeds.slice(0, 3).join(" ")}`);
  }
  if (failures.length === 0) print("No failure.");
  const missed = RULE_NAMES.filter((rule) => counts[rule] === undefined);
  if (missed.length > 0 && lives > 1) print(`Never fired: ${missed.join(", ")}`);
  return failures.length === 0 && (missed.length === 0 || rounds < EVERY_RULE_ROUNDS);
}

async function main(): Promise<boolean> {
  const { only, plan, seed, "go-on": goesOn } = values;
  const processes = Number(values.processes);
  const wanted = Number(values.seconds ?? Number(values.minutes) * 60);
  const common = { processes, onFailure: printFailure, isShortened: !goesOn };
  if (only !== undefined) {
    const given = plan === undefined ? {} : { plan: JSON.parse(plan) };
    const once = { seeds: [only], first: "none", seconds: 0, processes: 1 };
    return printResult(await simulate({ ...common, ...once, ...given }));
  }
  const seeds = seed ?? [String(randomInt(1_000_000_000))];
  let isGood = true;
  for (const first of seeds) {
    print(`First seed: ${first}`);
    const isEnough = () => !goesOn;
    const result = await simulate({ ...common, first, seconds: wanted / seeds.length, isEnough });
    isGood = printResult(result) && isGood;
    if (!isGood && !goesOn) break;
  }
  return isGood;
}

if (values.help) print(HELP);
else process.exitCode = (await main()) ? 0 : 1;
