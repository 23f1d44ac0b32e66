/**
 * Runs simulated lives in processes of their own, and adds up what they report.
 *
 * Invariants. The same seed gives the same lives. A batch that does not end, or ends its process, is a failure with
 * its seed. It knows neither the program nor the model.
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { WorldName } from "./plan.ts";
import type { Failure, Report, Task } from "./worker.ts";

export interface RunOptions extends Omit<Task, "number" | "step"> {
  readonly processes: number;
  /** The project, or a copy of it with a mistake. */
  readonly root?: string;
}

export interface RunResult extends Pick<Report, "lives" | "rounds"> {
  readonly counts: Record<string, number>;
  readonly failures: Failure[];
}

export const ROOT = fileURLToPath(new URL("../../", import.meta.url));
export const WORLDS: readonly WorldName[] = ["crash", "rot", "meddling"];
/** Some hundred times as long as a batch takes; more than it may take to shrink one. */
const LATE_MS = 120_000;

export async function simulate(options: RunOptions): Promise<RunResult> {
  const { processes, root = ROOT, ...task } = options;
  const result: RunResult = { lives: 0, rounds: 0, counts: {}, failures: [] };
  const fail = (failure: Failure) => {
    result.failures.push(failure);
    for (const worker of workers) worker.kill("SIGKILL");
  };
  const start = (number: number) => {
    const share: Task = { ...task, number, step: processes };
    const timeout = task.seconds * 1000 + LATE_MS;
    const execArgv = ["--import", "tsx"];
    const file = join(root, "test/simulation/worker.ts");
    return fork(file, [JSON.stringify(share)], { execArgv, timeout });
  };
  const workers = Array.from({ length: processes }, (_, number) => start(number));
  const ends = workers.map(async (worker) => {
    let last: Pick<Report, "world" | "seed"> = { world: "crash", seed: 0 };
    worker.on("message", (report: Report) => {
      last = report;
      if (worker.killed) return;
      result.lives += report.lives;
      result.rounds += report.rounds;
      for (const [rule, count] of Object.entries(report.counts)) {
        result.counts[rule] = (result.counts[rule] ?? 0) + count;
      }
      if (report.failure !== undefined) fail(report.failure);
    });
    const [status, signal] = await once(worker, "exit");
    if (status === 0 || signal === "SIGKILL") return;
    const { world, seed } = last;
    fail({ world, seed, kind: "process ended", message: `it ended with ${signal ?? status}` });
  });
  await Promise.all(ends);
  return result;
}
