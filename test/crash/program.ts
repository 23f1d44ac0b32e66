/** Processes of the program under test; a deadline kills each that does not end by itself. */
import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { bundleOptions, PROGRAM } from "../support/program.ts";
import { removeAtExit } from "./leftovers.ts";

export interface Program {
  /** The file that Node runs. */
  readonly main: string;
}

export const BUILT: Program = { main: PROGRAM };

/** The same program, with a lock that every process acquires (see no-lock). */
export async function buildUnlockedProgram(): Promise<Program> {
  const options = bundleOptions();
  let isReplaced = false;
  await build({
    ...options,
    plugins: [
      {
        name: "no lock",
        setup: ({ onResolve }) =>
          onResolve({ filter: /\/lock\.ts$/ }, () => {
            isReplaced = true;
            return { path: fileURLToPath(new URL("./no-lock.ts", import.meta.url)) };
          }),
      },
    ],
  });
  if (!isReplaced) throw new Error("src/log/lock.ts is missing: name the file of the lock here");
  return { main: options.outfile };
}

/** How a process ended. */
export interface Ended {
  readonly status: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
  /** Whether it did not end before its deadline. */
  readonly isLate: boolean;
}

/** A program under which a process runs, such as strace, and its environment. */
export interface Surroundings {
  readonly wrapper?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** Nothing takes longer than this, even under strace on a busy machine. */
const DEADLINE_MS = 60_000;

/** One run of the program. */
export class Run {
  readonly ended: Promise<Ended>;
  readonly #child: ChildProcess;
  readonly #isWrapped: boolean;
  #stdout = "";
  #stderr = "";
  #isLate = false;

  constructor(program: Program, args: readonly string[], surroundings: Surroundings = {}) {
    const { wrapper = [], env = {} } = surroundings;
    const words = [...wrapper, process.execPath, program.main, ...args];
    const [command = "", ...rest] = words;
    this.#isWrapped = wrapper.length > 0;
    this.#child = spawn(command, rest, {
      env: { ...process.env, ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      this.#stdout += text;
    });
    this.#child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.#stderr += text;
    });
    this.ended = this.#watch();
  }

  get stdout(): string {
    return this.#stdout;
  }

  get stderr(): string {
    return this.#stderr;
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  get isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** Sends a signal to the program itself, not to strace. */
  kill(signal: NodeJS.Signals): void {
    if (!this.isRunning) return;
    if (!this.#isWrapped) {
      this.#child.kill(signal);
      return;
    }
    const wrapped = childOf(this.pid);
    if (wrapped !== undefined) signalProcess(wrapped, signal);
    else if (signal === "SIGKILL") this.#child.kill(signal);
  }

  /** Standard output once it matches; `undefined` if the process ended before. */
  async output(pattern: RegExp): Promise<RegExpExecArray | undefined> {
    const shown = new Promise<RegExpExecArray>((resolve) => {
      const look = () => {
        const match = pattern.exec(this.#stdout);
        if (match !== null) resolve(match);
      };
      this.#child.stdout?.on("data", look);
      look();
    });
    return Promise.race([shown, this.ended.then(() => undefined)]);
  }

  async #watch(): Promise<Ended> {
    const killNow = removeAtExit(() => this.kill("SIGKILL"));
    const deadline = setTimeout(() => {
      this.#isLate = true;
      killNow();
    }, DEADLINE_MS);
    const [status, signal] = await new Promise<[number | null, NodeJS.Signals | null]>(
      (resolve, reject) => {
        this.#child.once("error", reject);
        this.#child.once("close", (...end) => resolve(end));
      },
    ).finally(() => {
      clearTimeout(deadline);
      killNow(); // the process has ended: this only removes the action for the exit
    });
    const { stdout, stderr } = this;
    return { status, signal, stdout, stderr, isLate: this.#isLate };
  }
}

/** Runs a command of the program to its end. */
export function runProgram(program: Program, args: readonly string[]): Promise<Ended> {
  return new Run(program, args).ended;
}

/** The only child of a process; `undefined` if it has none, or has one no longer. */
function childOf(pid: number): number | undefined {
  try {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim();
    return children === "" ? undefined : Number(children.split(" ")[0]);
  } catch {
    return undefined;
  }
}

function signalProcess(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {} // it has just ended
}
