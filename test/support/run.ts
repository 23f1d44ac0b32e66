/** Runs programs, and reports how they end. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { HANG_MS } from "./watch.ts";

export interface Finished {
  readonly status: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  readonly cwd?: string;
  /** Default: the environment of this process. */
  readonly env?: NodeJS.ProcessEnv;
  /** After how many milliseconds it is killed; default: never. */
  readonly timeout?: number;
}

/** Runs a program to its end, with an empty standard input. */
export function runToEnd(words: readonly string[], options: RunOptions = {}): Promise<Finished> {
  const [program = "", ...args] = words;
  const stdio: ["ignore", "pipe", "pipe"] = ["ignore", "pipe", "pipe"];
  return finish(spawn(program, args, { ...options, stdio, killSignal: "SIGKILL" }));
}

/** Waits for the end of a program, and collects what it prints from now on. */
export async function finish(child: ChildProcess): Promise<Finished> {
  let stdout = "";
  let stderr = "";
  child.stdout?.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
  });
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  const [status, signal] = await once(child, "close");
  return { status, signal, stdout, stderr };
}

/** Runs the text of an ES module, which may import our sources, in a process of its own. */
export function runModule(text: string, args: readonly string[] = []): Promise<Finished> {
  const words = [process.execPath, ...moduleArgs(text), ...args];
  return runToEnd(words, { timeout: HANG_MS });
}

/** The arguments with which Node runs such a text. */
function moduleArgs(text: string): string[] {
  return ["--import", import.meta.resolve("tsx"), "--input-type=module", "-e", text];
}

/** Runs such a module and parses the JSON that it prints. @throws if its status is not 0. */
export async function readModule<Value>(text: string): Promise<Value> {
  const { status, signal, stdout, stderr } = await runModule(text);
  if (status === 0) return JSON.parse(stdout);
  throw new Error(`expected status 0, got ${status ?? signal}: ${stderr}`);
}
