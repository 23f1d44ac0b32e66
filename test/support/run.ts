/** Runs programs, and reports how they end. */
import { type ChildProcess, type SpawnOptions, spawn } from "node:child_process";
import { once } from "node:events";
import { HANG_MS } from "./watch.ts";

export interface Finished {
  readonly status: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Where a program runs, with which environment (default: that of this process), and how long at most (in ms). */
export type RunOptions = Pick<SpawnOptions, "cwd" | "env" | "timeout">;

/** Runs a program to its end, with an empty standard input. */
export function runToEnd(words: readonly string[], options: RunOptions = {}): Promise<Finished> {
  const [program = "", ...args] = words;
  const stdio = ["ignore", "pipe", "pipe"] as const;
  return finish(spawn(program, args, { ...options, stdio: [...stdio], killSignal: "SIGKILL" }));
}

/** Waits for the end of a program, and collects what it prints from now on. */
export async function finish(child: ChildProcess): Promise<Finished> {
  const texts = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const) {
    child[name]?.setEncoding("utf8").on("data", (text: string) => {
      texts[name] += text;
    });
  }
  const [status, signal] = await once(child, "close");
  return { status, signal, ...texts };
}

/** Runs the text of an ES module, which may import our sources, in a process of its own. */
export function runModule(text: string, args: readonly string[] = []): Promise<Finished> {
  const module = ["--import", import.meta.resolve("tsx"), "--input-type=module", "-e", text];
  return runToEnd([process.execPath, ...module, ...args], { timeout: HANG_MS });
}
