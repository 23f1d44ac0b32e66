/** The real command line in a process of its own, and what it writes to standard error. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import type { TestContext } from "node:test";
import { atEnd } from "./folders.ts";
import { PROGRAM } from "./program.ts";
import { type Finished, finish } from "./run.ts";

interface CliOptions {
  readonly env?: Record<string, string>;
  readonly cwd?: string;
  readonly stdin?: string;
  /** An executable; default: Node runs the bundle of the sources. */
  readonly program?: string | undefined;
  /** The words of another program that it runs under (strace). */
  readonly wrapper?: readonly string[];
}

/** Runs a command to its end. */
export async function runCli(args: readonly string[], options: CliOptions = {}): Promise<Finished> {
  const child = spawnCli(args, options);
  child.stdin?.on("error", () => {}); // a command may end without reading it
  child.stdin?.end(options.stdin ?? "");
  return finish(child);
}

export interface RunningServer {
  readonly process: ChildProcess;
  /** What clients call `{base_url}`. */
  readonly url: string;
  readonly port: number;
  /** Standard output so far. */
  stdout(): string;
  stderr(): string;
  /** Resolves when it has ended. */
  readonly ended: Promise<Finished>;
  /** Sends a signal and waits for the end. */
  stop(signal?: NodeJS.Signals): Promise<Finished>;
}

/** Starts `plant-store serve` on a free port and waits until it is ready. The end of the test kills it. */
export async function startServer(
  t: TestContext,
  args: readonly string[],
  options: CliOptions = {},
): Promise<RunningServer> {
  const child = spawnCli(["serve", "--port", "0", ...args], options);
  atEnd(t, () => child.kill("SIGKILL"));
  const ended = finish(child);
  const texts = { stdout: "", stderr: "" };
  const url = await new Promise<string>((resolve, reject) => {
    for (const name of ["stdout", "stderr"] as const) {
      child[name]?.on("data", (text: string) => {
        texts[name] += text;
        const ready = readyUrl(texts.stderr);
        if (ready !== undefined) resolve(ready);
      });
    }
    const fail = ({ stderr }: Finished) =>
      reject(new Error(`it ended before it served: ${stderr}`));
    ended.then(fail, reject);
  });
  return {
    process: child,
    url,
    port: Number(new URL(url).port),
    stdout: () => texts.stdout,
    stderr: () => texts.stderr,
    ended,
    stop: (signal = "SIGTERM") => {
      child.kill(signal);
      return ended;
    },
  };
}

function spawnCli(args: readonly string[], options: CliOptions): ChildProcess {
  const { env = {}, cwd, program: executable, wrapper = [] } = options;
  const started = executable === undefined ? [process.execPath, PROGRAM] : [executable];
  const [program = "", ...rest] = [...wrapper, ...started, ...args];
  return spawn(program, rest, { env: { ...process.env, ...env }, cwd });
}

/** The lines of a log in JSON; throws if a line is not JSON. */
export function logLinesOf(stderr: string): (Record<string, unknown> & { time: string })[] {
  const lines = stderr.split("\n");
  if (lines.pop() !== "") throw new Error(`expected whole lines, got ${stderr}`);
  return lines.map((line) => JSON.parse(line));
}

/** The messages of warnings and failures in a log of JSON; every other line as it is. */
export function messagesOf(stderr: string): string[] {
  const lines = stderr.split("\n").filter((line) => line !== "");
  return lines.flatMap((line) => {
    const { level, message } = line.startsWith("{") ? JSON.parse(line) : { message: line };
    return level === "info" ? [] : [String(message)];
  });
}

/** The URL of a server that is ready, by the line of its log in either format. */
function readyUrl(stderr: string): string | undefined {
  return /^.*\blistening on (http[^\s",;]+).*\n/m.exec(stderr)?.[1];
}

const hasScript = spawnSync("script", ["-qec", "true", "/dev/null"]).status === 0;

export const NEEDS_TERMINAL = { skip: hasScript ? false : "needs script, from util-linux" };

/** The arguments of `script` that run the command line at a terminal. */
export function terminalArgs(args: readonly string[]): string[] {
  const quote = (word: string) => `'${word.replaceAll("'", "'\\''")}'`;
  const words = [process.execPath, PROGRAM, ...args].map(quote);
  // Without `exec`, Ctrl-C would also end the shell, and the shell's status would be reported.
  return ["-qec", `exec ${words.join(" ")}`, "/dev/null"];
}
