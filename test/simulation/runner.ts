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

export interface RunOptions extends Omit<Task, "number" | "step"> {
  readonly processes: number;
  /** Whether to end the run after this failure; by default after any. */
  readonly isEnough?: (failure: Failure) => boolean;
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

export const ROOT = fileURLToPath(new URL("../../", import.meta.url));
/** Each start takes megabytes of buffers, for which the garbage collector runs: half as many rounds a second. */
const FEWER_COLLECTIONS = ["--heap-growing-percent=900"];
/** Some thousand times as long as a life takes; less than it may take to shorten one. */
const SILENT_MS_MAX = 90_000;

export async function simulate(options: RunOptions): Promise<RunResult> {
  const { processes, isEnough = () => true, onFailure, root = ROOT, ...task } = options;
  const result: RunResult = { lives: 0, rounds: 0, lifeMs: 0, counts: {}, failures: [] };
  const fail = (failure: Failure) => {
    result.failures.push(failure);
    onFailure?.(failure);
    if (isEnough(failure)) for (const worker of workers) worker.kill("SIGKILL");
  };
  const path = join(root, "test/simulation/worker.ts");
  const workers = Array.from({ length: processes }, (_, number) => {
    const share: Task = { ...task, number, step: processes };
    const execArgv = [...FEWER_COLLECTIONS, "--import", "tsx"];
    return fork(path, [JSON.stringify(share)], { execArgv });
  });
  await Promise.all(workers.map((worker) => follow(worker, result, fail)));
  return result;
}

/** Settles when the process has ended. */
async function follow(worker: ChildProcess, result: RunResult, fail: (failure: Failure) => void) {
  let last: Report = { seed: "" };
  const watchdog = setTimeout(() => {
    worker.kill("SIGKILL");
    fail(last.failure ?? { seed: last.seed, kind: "hang", message: "the life does not end" });
  }, SILENT_MS_MAX);
  worker.on("message", (report: Report) => {
    watchdog.refresh();
    last = report;
    if (report.life === undefined || worker.killed) return;
    const { ms, rounds, counts } = report.life;
    result.lives++;
    result.rounds += rounds;
    result.lifeMs += ms;
    for (const [rule, count] of Object.entries(counts)) {
      result.counts[rule] = (result.counts[rule] ?? 0) + count;
    }
    if (report.failure !== undefined) fail(report.failure);
  });
  const how = await new Promise<number | string | null>((resolve) => {
    worker.once("exit", (status, signal) => resolve(signal ?? status));
  });
  clearTimeout(watchdog);
  if (how === 0 || worker.killed) return;
  fail({ seed: last.seed, kind: "process ended", message: `the process ended with ${how}` });
}
