/** What is measured, each in a process and a folder of its own, which are gone when the bench ends. */
import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { createToken } from "../../src/index.ts";
import { freePort } from "../support/service.ts";

const HERE = fileURLToPath(new URL("./", import.meta.url));
const ROOT = path.join(HERE, "../..");
const PEER = path.join(HERE, "peer");

export interface Server {
  readonly port: number;
  readonly token: string;
  /** The file that gets a line for each create, if it has one. */
  readonly log?: string;
  stop(): Promise<void>;
}

/** Starts a server on an empty folder. */
export type Start = (folder: string) => Promise<Server>;

export const startFloor: Start = async () => {
  const port = await freePort();
  const server = await start([path.join(HERE, "floor.mjs"), `${port}`], { token: "none", port });
  const isOpen = () => fetch(`http://127.0.0.1:${port}`).then(Boolean, () => false);
  while (!(await isOpen())) await new Promise((resolve) => setTimeout(resolve, 20));
  return server;
};

/** The built server of the command line. */
export const startStore: Start = async (folder) => {
  return serve(folder, await createToken(folder, { name: "bench", scopes: ["write", "read"] }));
};

/** The same on a folder that has a token. */
export function serve(folder: string, token: string): Promise<Server> {
  const main = path.join(ROOT, "dist/cli/main.js");
  const args = [main, "serve", "--port", "0", "--data", folder, "--log", "off"];
  return start(args, { token, log: path.join(folder, "plants.jsonl") });
}

/** The listener as an embedder mounts it. */
export const startMounted: Start = async (folder) => {
  const token = await createToken(folder, { name: "bench" });
  const args = [path.join(HERE, "mounted.mjs"), path.join(ROOT, "dist"), folder];
  return start(args, { token, log: path.join(folder, "plants.jsonl") });
};

/** The first time it is compiled, which takes some minutes. */
export const startPeer: Start = async (folder) => {
  if (!fs.existsSync(path.join(PEER, "node_modules"))) {
    const env = { ...process.env, npm_config_build_from_source: "true" };
    const { status } = spawnSync("npm", ["ci", "--silent"], { cwd: PEER, stdio: "inherit", env });
    if (status !== 0) throw new Error("the peer needs python3, make and g++ to be installed");
  }
  return start([path.join(PEER, "fastify-sqlite.mjs"), folder], { token: "any" });
};

/** @param known its port, if it does not report it. */
async function start(args: readonly string[], known: Partial<Server> & Pick<Server, "token">) {
  const child = spawnHere(0, [process.execPath, ...args]);
  const port = known.port ?? (await readPort(child));
  const stop = async () => {
    const ended = once(child, "exit");
    child.kill();
    await ended;
  };
  return { port, stop, ...known };
}

/** The port that the program names when it is ready, on either of its outputs. */
function readPort({ stdout, stderr }: ChildProcess): Promise<number> {
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

/** Runs any program to its end on the core of the load; returns what it printed. */
export async function runToEnd(words: readonly string[]): Promise<string> {
  const child = spawnHere(1, words);
  let text = "";
  child.stdout?.setEncoding("utf8").on("data", (chunk: string) => {
    text += chunk;
  });
  const [status, signal] = await once(child, "close");
  if (status !== 0) throw new Error(`${words[0]} ended with ${status ?? signal}: ${text}`);
  return text;
}

/** What is left to remove or to end. */
const ends = new Set<() => void>();
process.once("exit", () => {
  for (const end of ends) end();
});
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));

const CORES = os.availableParallelism() > 1 ? ["0", "1"] : ["0", "0"];

/** Makes each sync of what is started from now on take so much longer; needs `cc`. */
export function slowDownSyncs(ms: number): void {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "plant-bench-"));
  ends.add(() => fs.rmSync(folder, { recursive: true, force: true }));
  const library = path.join(folder, "slow-sync.so");
  execFileSync("cc", ["-shared", "-fPIC", "-o", library, path.join(HERE, "slow-sync.c")]);
  Object.assign(process.env, { LD_PRELOAD: library, SYNC_DELAY_MS: `${ms}` });
}

/** Starts a program on a core: the first for servers, the second for load. */
function spawnHere(core: 0 | 1, words: readonly string[]): ChildProcess {
  const args = ["-c", CORES[core] ?? "", ...words];
  const child = spawn("taskset", args, {
    stdio: ["ignore", "pipe", core === 0 ? "pipe" : "inherit"],
  });
  const end = () => child.kill("SIGKILL");
  ends.add(end);
  child.once("exit", () => ends.delete(end));
  return child;
}

/** Calls `use` with a new folder, and removes the folder afterwards. */
export async function withFolder<T>(use: (folder: string) => Promise<T>): Promise<T> {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "plant-bench-"));
  const remove = () => fs.rmSync(folder, { recursive: true, force: true });
  ends.add(remove);
  try {
    return await use(folder);
  } finally {
    remove();
    ends.delete(remove);
  }
}
