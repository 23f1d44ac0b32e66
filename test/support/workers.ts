/** The program with a channel to this process, which is its parent, or its primary. */
import { type ChildProcess, fork } from "node:child_process";
import cluster, { type Worker } from "node:cluster";
import type { TestContext } from "node:test";
import { readyUrl } from "./messages.ts";
import { PROGRAM } from "./program.ts";
import { type Finished, finish } from "./run.ts";
import { until } from "./watch.ts";

export interface Program {
  readonly process: ChildProcess;
  readonly finished: Promise<Finished>;
  stdout(): string;
  stderr(): string;
}

function watch(t: TestContext, child: ChildProcess): Program {
  t.after(() => child.kill("SIGKILL"));
  let stdout = "";
  let stderr = "";
  child.stdout?.on("data", (text: string) => {
    stdout += text;
  });
  child.stderr?.on("data", (text: string) => {
    stderr += text;
  });
  return { process: child, finished: finish(child), stdout: () => stdout, stderr: () => stderr };
}

/** A program that listens for messages, so its channel stays open. */
export function forkCli(t: TestContext, args: readonly string[]): Program {
  const source = `process.on("message", () => {})`;
  const env = {
    ...process.env,
    NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(source)}`,
  };
  return watch(t, fork(PROGRAM, args, { execArgv: [], env, silent: true }));
}

/** Starts a worker; this process is its primary. */
export function forkWorker(
  t: TestContext,
  args: readonly string[],
): Program & { readonly worker: Worker } {
  cluster.setupPrimary({ exec: PROGRAM, execArgv: [], args: [...args], silent: true });
  const worker = cluster.fork();
  return { ...watch(t, worker.process), worker };
}

export function serveArgs(folder: string, ...more: readonly string[]): string[] {
  return ["serve", "--data", folder, "--port", "0", ...more];
}

/** Waits for the ready line, and returns the URL in it. */
export async function urlOf(program: Program): Promise<string> {
  const find = () => readyUrl(program.stdout());
  await until("it is ready", () => find() !== undefined);
  return find() ?? "";
}
