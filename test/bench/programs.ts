/**
 * What is measured, each in a process and a folder of its own. All processes that are started here are ended when the
 * bench ends.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { createToken } from "../../src/index.ts";
import { freePort } from "../support/serve.ts";

const HERE = fileURLToPath(new URL("./", import.meta.url));
export const ROOT = path.join(HERE, "../..");
const PEER = path.join(HERE, "peer");

export interface Server {
  readonly port: number;
  readonly token: string;
  /** The file that gets a line for each create, if it has one. */
  readonly log?: string;
  /** What its threads have used of the processors so far, in microseconds. */
  cpuUs(): number;
  stop(): Promise<void>;
}

/** Starts a server on an empty folder. */
export type Start = (folder: string) => Promise<Server>;

/** The built command line of a checkout. */
export function builtMain(root = ROOT): string {
  const main = path.resolve(root, "dist/cli/main.js");
  if (!fs.existsSync(main)) throw new Error(`there is no "${main}": run npm run build there`);
  return main;
}

export const startFloor: Start = async () => {
  const port = await freePort();
  return start([path.join(HERE, "floor.mjs"), String(port)], { token: "none", port });
};

/** The server of the command line, of this checkout or another, with a token in its own form. */
export const startStore =
  (root = ROOT): Start =>
  async (folder) => {
    const { createToken } = await import(path.resolve(root, "dist/index.js"));
    const token = await createToken(folder, { name: "bench", scopes: ["write", "read"] });
    const args = [builtMain(root), "serve", "--port", "0", "--data", folder, "--log", "off"];
    return start(args, { token, log: path.join(folder, "plants.jsonl") });
  };

/** The listener as an embedder mounts it. */
export const startMounted: Start = async (folder) => {
  const token = await createToken(folder, { name: "bench" });
  const args = [path.join(HERE, "mounted.mjs"), path.join(ROOT, "dist"), folder];
  return start(args, { token, log: path.join(folder, "plants.jsonl") });
};

export const startPeer: Start = async (folder) => {
  if (!fs.existsSync(path.join(PEER, "node_modules"))) installPeer();
  return start([path.join(PEER, "fastify-sqlite.mjs"), folder], { token: "any" });
};

function installPeer(): void {
  note("installing the peer; better-sqlite3 is compiled, which takes some minutes");
  const env = { ...process.env, npm_config_build_from_source: "true" };
  const { status } = spawnSync("npm", ["ci", "--silent"], { cwd: PEER, stdio: "inherit", env });
  if (status === 0) return;
  fs.rmSync(path.join(PEER, "node_modules"), { recursive: true, force: true });
  throw new Error("the peer cannot be installed; python3, make and g++ are needed");
}

interface Known {
  readonly token: string;
  readonly log?: string;
  /** Of a program that does not report it. */
  readonly port?: number;
}

async function start(args: readonly string[], { token, log, port }: Known): Promise<Server> {
  const [program = "", ...rest] = [...pinned(0), process.execPath, ...args];
  const child = spawn(program, rest, { stdio: ["ignore", "pipe", "pipe"] });
  endWithBench(child);
  const stop = async () => {
    const closed = once(child, "exit");
    child.kill();
    await closed;
  };
  const cpuUs = () => {
    const tasks = `/proc/${child.pid}/task`;
    const times = fs.readdirSync(tasks).map((task) => {
      return Number(fs.readFileSync(`${tasks}/${task}/schedstat`, "utf8").split(" ")[0]);
    });
    return times.reduce((sum, ns) => sum + ns, 0) / 1000;
  };
  if (port !== undefined) await accepts(port);
  const common = { port: port ?? (await readPort(child)), token, cpuUs, stop };
  return log === undefined ? common : { ...common, log };
}

async function accepts(port: number): Promise<void> {
  const isOpen = () =>
    fetch(`http://127.0.0.1:${port}`).then(
      () => true,
      () => false,
    );
  while (!(await isOpen())) await new Promise((resolve) => setTimeout(resolve, 20));
}

/** The port that the program names when it is ready, on either of its outputs. */
export function readPort({ stdout, stderr }: ChildProcess): Promise<number> {
  let text = "";
  return new Promise((resolve, reject) => {
    for (const stream of [stdout, stderr]) {
      stream?.setEncoding("utf8").on("data", (chunk: string) => {
        text += chunk;
        const port = /http:\/\/[^\s",]+:(\d+)/.exec(text)?.[1];
        if (port !== undefined) resolve(Number(port));
      });
      stream?.once("close", () => reject(new Error(`it ended instead of serving: ${text}`)));
    }
  });
}

/** Ends a process when the bench ends, for any reason. */
export function endWithBench(child: ChildProcess): void {
  const end = () => child.kill("SIGKILL");
  process.once("exit", end);
  child.once("exit", () => process.off("exit", end));
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
  if (status !== 0) throw new Error(`${program} ended with ${status ?? signal}: ${text}`);
  return text;
}

export function isInstalled(program: string, args: readonly string[] = ["--version"]): boolean {
  return spawnSync(program, args, { stdio: "ignore" }).error === undefined;
}

const canPin = isInstalled("taskset") && os.availableParallelism() > 1;

/** The words that pin a program to a core: the first for servers, the second for load. */
export function pinned(role: 0 | 1): string[] {
  if (!canPin) return [];
  const allowed = /Cpus_allowed_list:\s*(\S+)/.exec(fs.readFileSync("/proc/self/status", "utf8"));
  const cores = (allowed?.[1] ?? "").split(",").flatMap((range) => {
    const [first = 0, last = first] = range.split("-").map(Number);
    return Array.from({ length: last - first + 1 }, (_, at) => first + at);
  });
  return ["taskset", "-c", String(cores[role])];
}

/** Calls `use` with a new folder, and removes the folder afterwards. */
export async function withFolder<T>(use: (folder: string) => Promise<T>): Promise<T> {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "plant-bench-"));
  const remove = () => fs.rmSync(folder, { recursive: true, force: true });
  const end = () => process.exit(1);
  process.once("exit", remove).once("SIGINT", end).once("SIGTERM", end);
  try {
    return await use(folder);
  } finally {
    remove();
    process.off("exit", remove).off("SIGINT", end).off("SIGTERM", end);
  }
}

/** Prints a line of progress on standard error. */
export function note(text: string): void {
  process.stderr.write(`${text}\n`);
}
