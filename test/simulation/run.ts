/**
 * `npm run simulate`: runs simulated lives from a seed, for as long as is asked.
 *
 * Invariant. A failure tells all that is needed to repeat it: seed, commit, version of Node, command.
 */
import { execFileSync } from "node:child_process";
import { randomInt } from "node:crypto";
import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { tryMutants } from "./mutants.ts";
import { RULE_NAMES } from "./rules.ts";
import { type RunResult, simulate } from "./runner.ts";
import type { Failure } from "./worker.ts";

const HELP = `Usage: npm run simulate -- [options]

  --minutes N, --seconds N  how long (1 minute)
  --seed S                  the first seed (one by chance); may be given several times: each gets its share
  --only SEED [--plan JSON] runs this life only, by another plan if it is given
  --processes N             how many at once (one a processor)
  --go-on                   counts failures instead of stopping at the first one; does not shorten them
  --mutants [--only NAME]   breaks the source in known ways, one after another, and looks for each as long
`;
/** In a shorter run a rare rule may not fire. */
const EVERY_RULE_ROUNDS = 20_000;

const { values } = parseArgs({
  options: {
    minutes: { type: "string" },
    seconds: { type: "string" },
    seed: { type: "string", multiple: true },
    only: { type: "string" },
    plan: { type: "string" },
    processes: { type: "string" },
    "go-on": { type: "boolean" },
    mutants: { type: "boolean" },
    help: { type: "boolean" },
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

function count(items: readonly string[]): string[] {
  const counts = new Map<string, number>();
  for (const item of items) counts.set(item, (counts.get(item) ?? 0) + 1);
  return [...counts].sort(([, one], [, other]) => other - one).map(([item, n]) => `${n} x ${item}`);
}

/** @returns the rules that never fired */
function printResult({ lives, rounds, lifeMs, counts, failures }: RunResult): string[] {
  const speed = Math.round((rounds * 1000) / Math.max(1, lifeMs));
  const fired = Object.entries(counts).sort(([one], [other]) => (one < other ? -1 : 1));
  print(`\n${fired.map(([rule, n]) => `${n} ${rule}`).join("\n")}`);
  print(`\n${lives} lives, ${rounds} rounds, ${speed} rounds a second on one core`);
  print(failures.length === 0 ? "No failure." : count(failures.map(({ kind }) => kind)).join("\n"));
  const missed = RULE_NAMES.filter((rule) => counts[rule] === undefined);
  if (missed.length > 0 && lives > 1) print(`Never fired: ${missed.join(", ")}`);
  return missed;
}

async function main(): Promise<number> {
  if (values.help === true) {
    process.stdout.write(HELP);
    return 0;
  }
  const processes = Number(values.processes ?? availableParallelism());
  const wanted = Number(values.seconds ?? Number(values.minutes ?? 1) * 60);
  if (values.mutants === true) {
    return (await tryMutants({ processes, seconds: wanted, only: values.only })) ? 0 : 1;
  }
  const goesOn = values["go-on"] === true;
  const common = { processes, goesOn, isShortened: !goesOn, onFailure: printFailure };
  if (values.only !== undefined) {
    const plan = values.plan === undefined ? {} : { plan: JSON.parse(values.plan) };
    const once = { seeds: [values.only], first: "none", seconds: 0, processes: 1 };
    const result = await simulate({ ...common, ...once, ...plan });
    printResult(result);
    return result.failures.length === 0 ? 0 : 1;
  }
  const seeds = values.seed ?? [String(randomInt(1_000_000_000))];
  const seconds = wanted / seeds.length;
  let status = 0;
  for (const first of seeds) {
    print(`First seed: ${first}`);
    const result = await simulate({ ...common, first, seconds });
    const missed = printResult(result);
    const isRuleMissed = missed.length > 0 && result.rounds >= EVERY_RULE_ROUNDS;
    if (result.failures.length > 0 || isRuleMissed) status = 1;
    if (status !== 0 && !goesOn) break;
  }
  return status;
}

process.exitCode = await main();
