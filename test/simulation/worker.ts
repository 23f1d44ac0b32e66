/**
 * A process that runs simulated lives, one after another, and reports each to the process that started it.
 *
 * Invariants. A life is named before it runs, so that one which never ends is known. Nothing but the life runs
 * while it runs. A failure is shortened here, and told once.
 */
import { subscribe } from "../../src/core/channels.ts";
import { guarded, realMs } from "./guard.ts";
import { type LifePlan, type LifeResult, runLife } from "./life.ts";
import { Shrinker } from "./shrink.ts";

/** What to run. */
export interface Task {
  /** Lives to run first. */
  readonly seeds?: readonly string[];
  /** Instead of the plan that each of these seeds gives. */
  readonly plan?: LifePlan;
  /** After the seeds: more, named by this and a number. */
  readonly first: string;
  /** No more of them begin later. */
  readonly seconds: number;
  /** Which of the lives to run: from this one on each `step`th. */
  readonly number: number;
  readonly step: number;
  /** Whether to shorten the plan of a life that fails; by default it is. */
  readonly isShortened?: boolean;
}

export interface Failure {
  readonly seed: string;
  readonly kind: string;
  readonly message: string;
  /** As short as it could be made. */
  readonly plan?: LifePlan;
}

/** What this process sends: when a life begins, before a failure is shortened, and when the life has ended. */
export interface Report {
  readonly seed: string;
  readonly failure?: Failure;
  readonly life?: Pick<LifeResult, "rounds" | "counts"> & { readonly ms: number };
}

/** One life in so many is run twice, and its traces are compared. */
const TWICE_ONE_IN = 20;
const SHORTEN_MS = 60_000;

/** Settles when the report has left. */
function send(report: Report): Promise<unknown> {
  return new Promise((resolve) => process.send?.(report, resolve));
}

subscribe("plant-store:warning", () => {}); // without a subscriber each is printed, with its stack

let unhandled: unknown;
process.on("unhandledRejection", (cause) => {
  unhandled ??= cause;
});

/** What an error leaves of a result. */
type Run = Omit<LifeResult, "plan"> & { readonly plan?: LifePlan };

/** A life that ends by an error is a failure like others. */
async function run(seed: string, plan?: LifePlan): Promise<Run> {
  unhandled = undefined;
  let result: Run = { rounds: 0, trace: "", counts: {} };
  try {
    result = await guarded(() => runLife(seed, plan));
  } catch (cause) {
    unhandled ??= cause;
  }
  if (unhandled === undefined) return result;
  const message = unhandled instanceof Error ? (unhandled.stack ?? "") : `${unhandled}`;
  return { ...result, violation: { kind: `error: ${message.split("\n", 1)[0]}`, message } };
}

/** Returns how the life fails, with its plan as short as that could be made. */
async function judge(seed: string, result: Run, task: Task, isTwice: boolean) {
  const { violation, plan } = result;
  if (violation === undefined) {
    if (!isTwice || task.plan !== undefined) return undefined;
    const { trace } = await run(seed);
    if (trace === result.trace) return undefined;
    const message = `its trace was ${result.trace}, then ${trace}`;
    return { seed, kind: "not repeatable", message };
  }
  const failure = { seed, ...violation };
  await send({ seed, failure });
  if (task.isShortened === false || plan === undefined) return failure;
  const endMs = realMs() + SHORTEN_MS;
  const fails = async (shorter: LifePlan) =>
    (await run(seed, shorter)).violation?.kind === violation.kind;
  if (!(await fails(plan))) return failure;
  const shortest = await new Shrinker(plan, fails, () => realMs() > endMs).run();
  return { ...failure, ...(await run(seed, shortest)).violation, plan: shortest };
}

async function work(task: Task): Promise<void> {
  const { seeds = [], first, number, step, seconds } = task;
  const endMs = realMs() + seconds * 1000;
  for (let at = number; at < seeds.length || realMs() < endMs; at += step) {
    const seed = seeds[at] ?? `${first}.${at}`;
    await send({ seed });
    const begun = realMs();
    const result = await run(seed, task.plan);
    const { rounds, counts } = result;
    const life = { ms: realMs() - begun, rounds, counts };
    const failure = await judge(seed, result, task, at % TWICE_ONE_IN === 0);
    await send({ seed, life, ...(failure && { failure }) });
  }
}

process.once("disconnect", () => process.exit());
await work(JSON.parse(process.argv[2] ?? ""));
process.exit(0);
