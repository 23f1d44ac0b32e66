/**
 * A process that runs simulated lives, and reports to the process that started it.
 *
 * Invariants. A batch of lives is reported before it runs, so that one which never ends is known. Nothing but the
 * life runs while it runs. fast-check draws the lives of a batch from its seed, and shrinks the first that fails.
 */
import fc from "fast-check";
import { subscribe } from "../../src/core/channels.ts";
import { LifeRun } from "./life.ts";
import { type Life, lives, type WorldName } from "./plan.ts";
import { Violation } from "./process.ts";

export interface Task {
  /** Each batch takes the next one. */
  readonly worlds: readonly WorldName[];
  /** Of the first batch; each one has the next number. */
  readonly seed: number;
  readonly seconds: number;
  /** Which batches to run: from this one on each `step`th. */
  readonly number: number;
  readonly step: number;
  readonly isShrunk: boolean;
  /** Of the life in the first batch to run alone. */
  readonly path?: string | undefined;
}

export interface Failure extends Pick<Report, "world" | "seed"> {
  readonly kind: string;
  readonly message: string;
  /** Of the life in its batch, as short as it could be made; absent if the process did not survive it. */
  readonly path?: string;
  readonly life?: Life;
}

/** What this process sends when a batch begins, and when it has ended. */
export interface Report {
  readonly world: WorldName;
  readonly seed: number;
  lives: number;
  rounds: number;
  counts: Record<string, number>;
  failure?: Failure;
}

const BATCH_LIVES = 40;
/** One life in so many is run twice, and its traces are compared. */
const TWICE_ONE_IN = 20;
const SHRINK_MS = 60_000;

subscribe("plant-store:warning", () => {}); // without a subscriber each is printed, with its stack

let unhandled: unknown;
process.on("unhandledRejection", (cause) => {
  unhandled ??= cause;
});

/** @throws Violation for every failure, whatever it is. */
async function run(plan: Life): Promise<LifeRun> {
  unhandled = undefined;
  try {
    const life = new LifeRun(plan);
    await life.run();
    if (unhandled === undefined) return life;
  } catch (error) {
    unhandled ??= error;
  }
  if (unhandled instanceof Violation) throw unhandled;
  const message = unhandled instanceof Error ? (unhandled.stack ?? "") : `${unhandled}`;
  throw new Violation(`error: ${message.split("\n", 1)[0]}`, message);
}

async function runBatch(begun: Report, { isShrunk, path }: Task): Promise<Report> {
  const report: Report = { ...begun };
  const { world, seed } = begun;
  let violation: Violation | undefined;
  let shrinkEndMs = Number.POSITIVE_INFINITY;
  const judge = async (plan: Life) => {
    if (performance.now() > shrinkEndMs) return;
    try {
      const life = await run(plan);
      if (violation !== undefined) return; // it is a shorter life
      report.rounds += life.rounds;
      report.lives++;
      for (const [rule, times] of Object.entries(life.rules.counts)) {
        report.counts[rule] = (report.counts[rule] ?? 0) + times;
      }
      if (report.lives % TWICE_ONE_IN !== 0 || (await run(plan)).trace === life.trace) return;
      throw new Violation("not repeatable", "a second run of this life had another trace");
    } catch (error) {
      const { kind } = error as Violation;
      if (violation === undefined) shrinkEndMs = performance.now() + SHRINK_MS;
      else if (violation.kind !== kind) return; // another one
      violation = error as Violation;
      throw error;
    }
  };
  const property = fc.asyncProperty(lives(world), judge);
  const options = { seed, numRuns: BATCH_LIVES, endOnFailure: !isShrunk };
  const result = await fc.check(property, path === undefined ? options : { ...options, path });
  if (!result.failed) return report;
  const { kind, message } = violation ?? new Violation("error", String(result.errorInstance));
  const [life] = result.counterexample as [Life];
  const at = result.counterexamplePath ?? "";
  return { ...report, failure: { world, seed, kind, message, path: at, life } };
}

const send = (report: Report) => new Promise((resolve) => process.send?.(report, resolve));

const task: Task = JSON.parse(process.argv[2] ?? "");
const endMs = performance.now() + task.seconds * 1000;
process.once("disconnect", () => process.exit());
for (let at = task.number; at === task.number || performance.now() < endMs; at += task.step) {
  const world = task.worlds[at % task.worlds.length] ?? "crash";
  const seed = (task.seed + at) | 0;
  const report = { world, seed, lives: 0, rounds: 0, counts: {} };
  await send(report);
  await send(await runBatch(report, task));
}
process.exit(0);
