/**
 * `npm run simulate`: runs simulated lives from a seed. A failure shows all that is needed to repeat it.
 *
 *   --minutes N    how long (1)
 *   --seed S       of the first batch of lives (one by chance)
 *   --world NAME   crash, rot or meddling (all)
 *   --path P       runs one life of the batch of this seed and world
 */
import { randomInt } from "node:crypto";
import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import type { WorldName } from "./plan.ts";
import { RULE_NAMES } from "./rules.ts";
import { simulate, WORLDS } from "./runner.ts";

/** In a shorter run a rare rule may not fire. */
const EVERY_RULE_ROUNDS = 20_000;

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "1" },
    seed: { type: "string", default: String(randomInt(1_000_000_000)) },
    world: { type: "string" },
    path: { type: "string" },
  },
});

const print = (line: string) => process.stdout.write(`${line}\n`);

/** Returns whether nothing failed, and every rule fired that had to. */
async function main(): Promise<boolean> {
  const { path, world } = values;
  print(`First seed: ${values.seed}`);
  const { lives, rounds, counts, failures } = await simulate({
    worlds: world === undefined ? WORLDS : [world as WorldName],
    seed: Number(values.seed),
    seconds: path === undefined ? Number(values.minutes) * 60 : 0,
    processes: path === undefined ? availableParallelism() : 1,
    isShrunk: path === undefined,
    path,
  });
  print(RULE_NAMES.map((rule) => `${counts[rule] ?? 0} ${rule}`).join("\n"));
  for (const failure of failures) {
    const which = failure.path === undefined ? "" : ` --path ${failure.path}`;
    print(`\n${failure.kind}: ${failure.message}\nNode ${process.version}; to repeat it:`);
    print(`  npm run simulate -- --world ${failure.world} --seed ${failure.seed}${which}`);
    print(JSON.stringify(failure.life));
  }
  print(`\n${lives} lives, ${rounds} rounds`);
  print(failures.length === 0 ? "No violation." : `${failures.length} violations.`);
  if (failures.length > 0 || world !== undefined || rounds < EVERY_RULE_ROUNDS) {
    return failures.length === 0;
  }
  const missed = RULE_NAMES.filter((rule) => counts[rule] === undefined);
  if (missed.length > 0) print(`Never fired: ${missed.join(", ")}`);
  return missed.length === 0;
}

process.exitCode = (await main()) ? 0 : 1;
