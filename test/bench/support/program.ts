/**
 * A measured program in a process of its own: started, watched, stopped.
 *
 * Only processes that were started here are ever ended, and all of them are
 * when the bench ends.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import net from "node:net";
import { pinned } from "./machine.ts";

export interface ProgramOptions {
  /** The Node binary; default: the one that runs the bench. */
  readonly node?: string | undefined;
  /** Arguments of Node itself. */
  readonly nodeArgs?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Run under another program, such as strace. */
  readonly wrapper?: readonly string[];
  /** A descriptor to be its standard error; default: the bench's own. */
  readonly stderr?: number;
  /** The port of a program that does not report when it is ready. */
  readonly port?: number;
}

export interface Resident {
  readonly now: number;
  readonly peak: number;
}

/** What every program prints when it is ready. */
const READY = /listening on (http:\/\/[^\s,]+).*\n/;
const STOP_MS = 120_000;

export class Program {
  readonly port: number;
  readonly #child: ChildProcess;
  readonly #isWrapped: boolean;

  private constructor(child: ChildProcess, port: number, isWrapped: boolean) {
    this.#child = child;
    this.#isWrapped = isWrapped;
    this.port = port;
  }

  /** Starts a server and resolves once it accepts connections. */
  static async start(args: readonly string[], options: ProgramOptions = {}): Promise<Program> {
    const child = spawnNode(args, options);
    try {
      const port = options.port ?? (await readPort(child));
      if (options.port !== undefined) await accepts(port, child);
      return new Program(child, port, options.wrapper !== undefined);
    } catch (error) {
      child.kill("SIGKILL");
      throw error;
    }
  }

  /** Reads what programs/count-syncs counted. */
  async readCounts(): Promise<Readonly<Record<string, number>>> {
    const answer = once(this.#child, "message", { signal: AbortSignal.timeout(10_000) });
    this.#child.send("counts");
    return (await answer)[0] as Record<string, number>;
  }

  /** Sends a message, if the program still runs, to what is loaded into it (programs/hide-listeners). */
  send(word: string): void {
    if (this.#child.connected) this.#child.send(word);
  }

  /** The time its threads have spent on a processor so far, in microseconds. */
  cpuUs(): number {
    const tasks = `/proc/${this.#child.pid}/task`;
    let ns = 0;
    for (const task of fs.readdirSync(tasks)) {
      ns += Number(fs.readFileSync(`${tasks}/${task}/schedstat`, "utf8").split(" ")[0]);
    }
    return ns / 1000;
  }

  /** What it holds in memory, and the most it held since `forgetPeak`. */
  residentBytes(): Resident {
    const status = fs.readFileSync(`/proc/${this.#child.pid}/status`, "utf8");
    const bytes = (name: string) =>
      Number(new RegExp(`^${name}:\\s+([0-9]+) kB$`, "m").exec(status)?.[1]) * 1024;
    return { now: bytes("VmRSS"), peak: bytes("VmHWM") };
  }

  /** See proc_pid_clear_refs(5). */
  forgetPeak(): void {
    fs.writeFileSync(`/proc/${this.#child.pid}/clear_refs`, "5");
  }

  /** Ends it cleanly. The signal goes to the program itself, because `strace` passes none on. */
  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const closed = once(this.#child, "exit");
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), STOP_MS);
    process.kill(this.#isWrapped ? onlyChildOf(this.#child) : (this.#child.pid as number));
    await closed;
    clearTimeout(timer);
  }
}

function onlyChildOf({ pid }: ChildProcess): number {
  return Number(fs.readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ")[0]);
}

/** Runs a Node program to its end; returns what it printed. */
export async function runNode(
  args: readonly string[],
  options: ProgramOptions = {},
): Promise<string> {
  return runToEnd([...(options.wrapper ?? []), options.node ?? process.execPath, ...args]);
}

/** Runs any program to its end; returns what it printed. */
export async function runToEnd(words: readonly string[]): Promise<string> {
  const [program = "", ...rest] = words;
  const child = spawn(program, rest, { stdio: ["ignore", "pipe", "inherit"] });
  endWithBench(child);
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    text += chunk;
  });
  const [status, signal] = await once(child, "close");
  if (status !== 0)
    throw new Error(`${words.slice(0, 6).join(" ")} … ended with ${status ?? signal}: ${text}`);
  return text;
}

/** Reads a file to its end, so that the page cache has it; returns how many milliseconds that takes. */
export async function readWithDd(file: string): Promise<number> {
  const begin = performance.now();
  await runToEnd(["dd", "status=none", "bs=1M", "of=/dev/null", `if=${file}`]);
  return performance.now() - begin;
}

function spawnNode(args: readonly string[], options: ProgramOptions): ChildProcess {
  const { node = process.execPath, nodeArgs = [], env = {}, wrapper = [], stderr } = options;
  const [program = "", ...rest] = [...pinned(0), ...wrapper, node, ...nodeArgs, ...args];
  const child = spawn(program, rest, {
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", stderr ?? "inherit", "ipc"],
  });
  endWithBench(child);
  return child;
}

/** Ends everything that was started here when the bench ends, for any reason. */
export function endWithBench(child: ChildProcess): void {
  const end = () => child.kill("SIGKILL");
  process.once("exit", end);
  child.once("exit", () => process.off("exit", end));
}

/** The port that the ready line names. */
export async function readPort(child: ChildProcess): Promise<number> {
  let text = "";
  return new Promise((resolve, reject) => {
    child.stdout?.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
      const url = READY.exec(text)?.[1];
      if (url !== undefined) resolve(Number(new URL(url).port));
    });
    child.once("error", reject);
    child.once("exit", (status) => reject(new Error(`it ended with ${status} instead of serving`)));
  });
}

async function accepts(port: number, child: ChildProcess): Promise<void> {
  for (let tries = 0; tries < 200 && child.exitCode === null; tries++) {
    const socket = net.connect(port, "127.0.0.1");
    const isOpen = await new Promise<boolean>((resolve) => {
      socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
    });
    socket.destroy();
    if (isOpen) return;
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  throw new Error(`nothing listens on port ${port}`);
}
