/**
 * What is measured: the floor, the built server, its listener mounted in a plain
 * `node:http` server, and the peers. Each in a process and a folder of its own.
 */
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { freePort } from "../../support/serve.ts";
import { askAgain } from "./ask-again.ts";
import { openDrainedPipe } from "./drained-pipe.ts";
import { LineCounter } from "./line-counter.ts";
import type { Ids, LookUp } from "./load.ts";
import { note } from "./machine.ts";
import { Program, type ProgramOptions, type Resident, runNode } from "./program.ts";

/** What a target has stored since it was started. */
export interface Durable {
  readonly records: number;
  readonly syncs: number;
  /** How much its file grew and how much of that was synced, if it has a plain file. */
  readonly bytes?: number;
  readonly syncedBytes?: number;
}

export interface Target {
  readonly name: string;
  readonly port: number;
  readonly token: string;
  /** `undefined` for the floor, which stores nothing. */
  readonly durable: (() => Promise<Durable>) | undefined;
  /** See `Program.send`. */
  send(word: string): void;
  /** See `Program.cpuUs`. */
  cpuUs(): number;
  /** The bytes in its array buffers; in our own server that is the index of ids and little else. */
  readonly arrayBufferBytes?: () => Promise<number>;
  /** See `Program.residentBytes`. */
  residentBytes(): Resident;
  /** See `Program.forgetPeak`. */
  forgetPeak(): void;
  stop(): Promise<void>;
  /** The plants of each run of creates so far. */
  readonly created: Ids[];
  /** Which of those plants are repeated or read; absent: this target creates. */
  readonly lookUp?: () => LookUp;
}

/** Starts a server; what it has to keep for a while goes into this folder. */
export type Start = (folder: string) => Promise<Target>;

export interface TargetOptions extends ProgramOptions {
  readonly name: string;
  /** The data directory; made if it is missing. */
  readonly folder: string;
  /** The scopes of its token, if it has tokens; default: `write` only. */
  readonly scopes?: readonly string[];
}

export const ROOT = fileURLToPath(new URL("../../../", import.meta.url));
/** Far more often than Prometheus by default, which is once a minute. */
const SCRAPE_INTERVAL_MS = 1000;
const FLOOR = local("../floor.mjs");
const COUNT_SYNCS = new URL("../programs/count-syncs.mjs", import.meta.url).href;
const MOUNTED = local("../programs/mounted.mjs");
export const PEERS = local("../peers");

function local(relative: string): string {
  return fileURLToPath(new URL(relative, import.meta.url));
}

/** The built command line of a checkout. */
export function builtMain(root: string): string {
  const main = path.resolve(root, "dist/cli/main.js");
  if (!fs.existsSync(main)) throw new Error(`there is no "${main}": run npm run build there`);
  return main;
}

/**
 * Calls `use` with a list for the targets that it starts, and afterwards stops every target in the
 * list, also if `use` fails or another target does not stop.
 *
 * @throws the error of `use`, or else that of a stop.
 */
export async function withTargets<T>(use: (targets: Target[]) => Promise<T>): Promise<T> {
  const targets: Target[] = [];
  const used = use(targets);
  await Promise.allSettled([used]);
  const stopped = await Promise.allSettled(targets.map((target) => target.stop()));
  const failed = stopped.filter((each) => each.status === "rejected");
  for (const { reason } of failed) note(`a server did not stop well: ${(reason as Error).message}`);
  const result = await used;
  if (failed[0] !== undefined) throw failed[0].reason;
  return result;
}

/** A start with a data directory that is new each time. */
export function withNewData(
  start: (options: TargetOptions) => Promise<Target>,
  options: Omit<TargetOptions, "folder">,
): Start {
  return (parent) => start({ ...options, folder: path.join(parent, options.name) });
}

/** Plants that are certainly in the memory of a server that has just created them. */
const NEWEST_PLANTS = 40_000;

/** Repeats and reads, and the plants that they draw. */
const LOOK_UPS: Readonly<Record<string, (created: readonly Ids[]) => LookUp>> = {
  "repeats of new plants": (created) => {
    const { firstId, count } = created.at(-1) as Ids;
    const newest = Math.min(NEWEST_PLANTS, count);
    return { kind: "repeat", firstId: firstId + count - newest, count: newest };
  },
  "repeats of old plants": ([warming]) => ({ kind: "repeat", ...firstHalf(warming as Ids) }),
  "reads of old plants": ([warming]) => ({ kind: "get", ...firstHalf(warming as Ids) }),
};

export const LOOK_UP_NAMES = Object.keys(LOOK_UPS);

function firstHalf({ firstId, count }: Ids): Ids {
  return { firstId, count: Math.ceil(count / 2) };
}

/** A server, and one more target in that same server for each kind of look-up. */
export function withLookUps(start: Start): Start[] {
  let server: Target;
  const starting: Start = async (folder) => {
    server = await start(folder);
    return server;
  };
  const others = Object.entries(LOOK_UPS).map(([name, choose]): Start => {
    return async () => {
      const { created } = server;
      return { ...server, name, lookUp: () => choose(created), stop: async () => {} };
    };
  });
  return [starting, ...others];
}

/** Starts new processes of the same servers, in a new folder that is removed after they have stopped. */
export async function withNewTargets<T>(
  folder: string,
  starts: readonly Start[],
  use: (targets: readonly Target[]) => Promise<T>,
): Promise<T> {
  try {
    fs.mkdirSync(folder, { recursive: true });
    return await withTargets(async (targets) => {
      for (const start of starts) targets.push(await start(folder));
      return use(targets);
    });
  } finally {
    fs.rmSync(folder, { recursive: true, force: true });
  }
}

export async function startFloor(options: ProgramOptions = {}): Promise<Target> {
  const port = await freePort();
  const program = await Program.start([FLOOR, String(port)], { ...options, port });
  return { name: "floor", token: "none", durable: undefined, ...controlsOf(program) };
}

/** The server of the command line without its log, of this checkout or another. */
export async function startServer(options: TargetOptions, root = ROOT): Promise<Target> {
  return startServe(options, ["--log", "off"], root);
}

export interface LoggingTarget extends Target {
  /** The number of lines in its log; known when it has stopped. */
  readonly lines: Promise<number>;
}

/** The server with a log, which is read, of one line for each request. */
export async function startLoggingServer(
  options: TargetOptions,
  words: readonly string[] = [],
): Promise<LoggingTarget> {
  const pipe = await openDrainedPipe(`${options.folder}.log`);
  const withLog = { ...options, stderr: pipe.fd };
  const starting = startServe(withLog, ["--log", "json", ...words], ROOT);
  const target = await starting.finally(() => fs.closeSync(pipe.fd));
  const stop = async () => {
    const durable = await Promise.resolve(target.durable?.()).finally(() => target.stop());
    note(`${target.name}: ${await pipe.lines} lines logged of ${durable?.records ?? 0} creates`);
  };
  return { ...target, lines: pipe.lines, stop };
}

/** The server as an operator watches it: its log is read and its metrics are scraped. */
export async function startWatchedServer(options: TargetOptions): Promise<LoggingTarget> {
  const port = await freePort();
  const target = await startLoggingServer(options, ["--admin", `127.0.0.1:${port}`]);
  const scraping = askAgain({ host: "127.0.0.1", port, path: "/metrics" }, 200, SCRAPE_INTERVAL_MS);
  const stop = async () => {
    const scrapes = await scraping.stop().finally(() => target.stop());
    note(`${target.name}: ${scrapes.length} scrapes answered`);
  };
  return { ...target, stop };
}

async function startServe(
  options: TargetOptions,
  words: readonly string[],
  root: string,
): Promise<Target> {
  const main = builtMain(root);
  const token = await createToken(options.folder, main, options.scopes);
  const args = [main, "serve", "--port", "0", "--data", options.folder, ...words];
  return startLogged(args, token, options);
}

/** The listener as an embedder mounts it. */
export async function startMounted(options: TargetOptions, root = ROOT): Promise<Target> {
  const token = await createToken(options.folder, builtMain(root));
  return startLogged([MOUNTED, path.resolve(root, "dist"), options.folder], token, options);
}

export async function startGroupCommit(options: TargetOptions): Promise<Target> {
  fs.mkdirSync(options.folder, { recursive: true });
  return startLogged([path.join(PEERS, "group-commit.mjs"), options.folder], "any", options);
}

export async function startSqlite(
  options: TargetOptions,
  transaction: "turn" | "request",
): Promise<Target> {
  fs.mkdirSync(options.folder, { recursive: true });
  const args = [path.join(PEERS, "fastify-sqlite.mjs"), options.folder, transaction];
  const program = await Program.start(args, options);
  const durable = async (): Promise<Durable> => {
    const { records = 0, syncs = 0 } = await program.readCounts();
    return { records, syncs };
  };
  return { name: options.name, token: "any", durable, ...controlsOf(program) };
}

/** A program whose store is the file `plants.jsonl` of its folder. */
async function startLogged(
  args: readonly string[],
  token: string,
  options: TargetOptions,
): Promise<Target> {
  const log = path.join(options.folder, "plants.jsonl");
  const env = { ...options.env, BENCH_LOG: log };
  const counter = new LineCounter(log);
  const start = counter.bytes;
  const program = await Program.start(["--import", COUNT_SYNCS, ...args], { ...options, env });
  const { syncs: startSyncs = 0, syncedBytes: startSynced = 0 } = await program.readCounts();
  const durable = async (): Promise<Durable> => {
    counter.look();
    const { syncs = 0, syncedBytes = 0 } = await program.readCounts();
    return {
      records: counter.lines,
      syncs: syncs - startSyncs,
      bytes: counter.bytes - start,
      syncedBytes: syncedBytes - startSynced,
    };
  };
  const arrayBufferBytes = async () => (await program.readCounts()).arrayBufferBytes ?? 0;
  return { name: options.name, token, durable, arrayBufferBytes, ...controlsOf(program) };
}

/** What a target has of the program that it measures. */
export function controlsOf(
  program: Program,
): Pick<Target, "port" | "created" | "send" | "cpuUs" | "residentBytes" | "forgetPeak" | "stop"> {
  return {
    port: program.port,
    created: [],
    send: (word) => program.send(word),
    cpuUs: () => program.cpuUs(),
    residentBytes: () => program.residentBytes(),
    forgetPeak: () => program.forgetPeak(),
    stop: () => program.stop(),
  };
}

/** A token for a data directory, made by the command line. */
export async function createToken(
  folder: string,
  main: string,
  scopes: readonly string[] = ["write"],
): Promise<string> {
  const name = `bench-${process.pid}-${performance.now().toFixed(0)}`;
  const flags = ["--data", folder, "--scope", scopes.join()];
  const text = await runNode([main, "token", "create", name, ...flags]);
  const token = /\bpst_[A-Za-z0-9_-]+/.exec(text)?.[0];
  if (token === undefined) throw new Error(`no token in "${text}"`);
  return token;
}
