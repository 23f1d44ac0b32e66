/**
 * Runs simulated lives in processes of their own, and adds up what they report.
 *
 * Invariants. A run begins with a first seed and tells it: the same first seed gives the same lives. A life that
 * does not end, or ends its process, is a failure with its seed. It knows neither the program nor the model.
 */
import { type ChildProcess, fork } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Failure, Report, Task } from "./worker.ts";

export interface RunOptions {
  /** Lives to run first. */
  readonly seeds?: readonly string[];
  /** Instead of the plan that each of these seeds gives. */
  readonly plan?: Task["plan"];
  /** Names the lives after these. */
  readonly first: string;
  /** No life begins later. */
  readonly seconds: number;
  readonly processes: number;
  /** Whether to go on after a failure. */
  readonly goesOn?: boolean;
  /** Whether to shorten the plan of a life that fails; by default it is. */
  readonly isShortened?: boolean;
  readonly onFailure?: (failure: Failure) => void;
  /** The project, or a copy of it with a mistake. */
  readonly root?: string;
}

export interface RunResult {
  lives: number;
  rounds: number;
  /** What the lives took together, without shortening. */
  lifeMs: number;
  /** How often each rule of the model fired. */
  counts: Record<string, number>;
  failures: Failure[];
}

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
/** Each start takes megabytes of buffers, for which the garbage collector runs: half as many rounds a second. */
const FEWER_COLLECTIONS = ["--heap-growing-percent=900"];
/** Some thousand times as long as a life takes; less than it may take to shorten one. */
const SILENT_MS_MAX = 90_000;

export async function simulate(options: RunOptions): Promise<RunResult> {
  const result: RunResult = { lives: 0, rounds: 0, lifeMs: 0, counts: {}, failures: [] };
  const workers: ChildProcess[] = [];
  const fail = (failure: Failure) => {
    result.failures.push(failure);
    options.onFailure?.(failure);
    if (options.goesOn !== true) for (const worker of workers) worker.kill("SIGKILL");
  };
  const path = join(options.root ?? ROOT, "test/simulation/worker.ts");
  const ends = Array.from({ length: options.processes }, (_, number) => {
    const { seeds = [], plan, first, seconds, processes, isShortened = true } = options;
    const worker = fork(path, { execArgv: [...FEWER_COLLECTIONS, "--import", "tsx"] });
    workers.push(worker);
    worker.send({
      seeds,
      first,
      number,
      step: processes,
      untilMs: seconds * 1000,
      isShortened,
      ...(plan && { plan }),
    } satisfies Task);
    return follow(worker, result, fail);
  });
  await Promise.all(ends);
  return result;
}

/** Settles when the process has ended. */
async function follow(worker: ChildProcess, result: RunResult, fail: (failure: Failure) => void) {
  let current = "";
  let found: Failure | undefined;
  let isDone = false;
  const watchdog = setTimeout(() => {
    fail(found ?? { seed: current, kind: "hang", message: "the life does not end" });
    worker.kill("SIGKILL");
  }, SILENT_MS_MAX);
  worker.on("message", (report: Report) => {
    watchdog.refresh();
    if ("begun" in report) current = report.begun;
    if ("found" in report) found = report.found;
    if ("isDone" in report) {
      isDone = true;
      worker.disconnect();
    }
    if (!("life" in report) || worker.killed) return;
    const { ms, rounds, counts, failure } = report.life;
    result.lives++;
    result.rounds += rounds;
    result.lifeMs += ms;
    for (const [rule, count] of Object.entries(counts)) {
      result.counts[rule] = (result.counts[rule] ?? 0) + count;
    }
    if (failure !== undefined) fail(failure);
  });
  const [status, signal] = await new Promise<[number | null, string | null]>((resolve) => {
    worker.once("exit", (...how) => resolve(how));
  });
  clearTimeout(watchdog);
  if (isDone || worker.killed) return;
  const message = `the process ended with ${signal ?? status}`;
  fail({ seed: current, kind: "process ended", message });
}
