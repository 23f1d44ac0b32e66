/**
 * A process that runs simulated lives, one after another, and reports each to the process that started it.
 *
 * Invariants. A life is named before it runs, so that one which never ends is known. Nothing but the life runs
 * while it runs. A failure is shortened here, and told once.
 */
import { guarded, realMs } from "./guard.ts";
import { type LifePlan, type LifeResult, runLife } from "./life.ts";
import { Shrinker } from "./shrink.ts";

/** What to run. */
export interface Task {
  readonly seeds: readonly string[];
  /** Instead of the plan that each of these seeds gives. */
  readonly plan?: LifePlan;
  /** After the seeds: more, named by this and a number, until the time is over. */
  readonly first: string;
  readonly number: number;
  readonly step: number;
  /** At the seeds, too. */
  readonly untilMs: number;
  readonly isShortened: boolean;
}

export interface Failure {
  readonly seed: string;
  readonly kind: string;
  readonly message: string;
  /** As short as it could be made. */
  readonly plan?: LifePlan;
}

/** What this process sends. */
export type Report =
  | { readonly begun: string }
  /** Sent before it is shortened, which may not end. */
  | { readonly found: Failure }
  | { readonly life: LifeReport }
  | { readonly isDone: true };

export interface LifeReport {
  readonly seed: string;
  readonly ms: number;
  readonly rounds: number;
  readonly counts: Record<string, number>;
  readonly failure?: Failure;
}

/** One life in so many is run twice, and its traces are compared. */
const TWICE_ONE_IN = 20;
const SHORTEN_MS = 60_000;

const send = (message: Report) => process.send?.(message);

let unhandled: unknown;
process.on("unhandledRejection", (cause) => {
  unhandled ??= cause;
});

/** What an error leaves of a result. */
type Run = Omit<LifeResult, "plan"> & { readonly plan?: LifePlan };

/** A life that ends by an error is a failure like others. */
async function run(seed: string, plan?: LifePlan): Promise<Run> {
  unhandled = undefined;
  let result: LifeResult | undefined;
  try {
    result = await guarded(() => runLife(seed, plan));
  } catch (cause) {
    unhandled ??= cause;
  }
  if (unhandled === undefined && result !== undefined) return result;
  const message =
    unhandled instanceof Error ? (unhandled.stack ?? unhandled.message) : `${unhandled}`;
  const kind = `error: ${message.split("\n", 1)[0]}`;
  return { rounds: 0, trace: "", counts: {}, ...result, violation: { kind, message } };
}

async function findViolation(seed: string, result: Run, isTwice: boolean) {
  if (result.violation !== undefined || !isTwice) return result.violation;
  const { trace } = await run(seed);
  if (trace === result.trace) return undefined;
  return { kind: "not repeatable", message: `its trace was ${result.trace}, then ${trace}` };
}

async function shorten(seed: string, plan: LifePlan, kind: string): Promise<LifePlan> {
  const endMs = realMs() + SHORTEN_MS;
  const fails = async (shorter: LifePlan) => (await run(seed, shorter)).violation?.kind === kind;
  if (!(await fails(plan))) return plan;
  return new Shrinker(plan, fails, () => realMs() > endMs).run();
}

async function report(seed: string, isTwice: boolean, task: Task): Promise<LifeReport> {
  const begun = realMs();
  const result = await run(seed, task.plan);
  const ms = realMs() - begun;
  const { rounds, counts } = result;
  const violation = await findViolation(seed, result, isTwice && task.plan === undefined);
  if (violation === undefined) return { seed, ms, rounds, counts };
  const found = { seed, ...violation };
  send({ found });
  if (!task.isShortened || result.plan === undefined || found.kind === "not repeatable") {
    return { seed, ms, rounds, counts, failure: found };
  }
  const plan = await shorten(seed, result.plan, found.kind);
  const { violation: shorter = violation } = await run(seed, plan);
  return { seed, ms, rounds, counts, failure: { seed, ...shorter, plan } };
}

async function work(task: Task): Promise<void> {
  const { seeds, first, number, step, untilMs } = task;
  const endMs = realMs() + untilMs;
  for (let at = number; seeds[at] !== undefined || realMs() < endMs; at += step) {
    const seed = seeds[at] ?? `${first}.${at}`;
    send({ begun: seed });
    send({ life: await report(seed, at % TWICE_ONE_IN === 0, task) });
    // Lets the reports leave.
    await new Promise((resolve) => setImmediate(resolve));
  }
  send({ isDone: true });
}

process.on("message", (task: Task) => void work(task));
process.once("disconnect", () => process.exit());
