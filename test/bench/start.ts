/**
 * The time from spawn to the ready line, and to the first plant that is stored,
 * with long logs: with a warm page cache and, if the system permits to empty it,
 * with a cold one. An empty log shows the time that Node itself takes, and `dd`
 * the time to read the same bytes and discard them.
 *
 *   npm run bench -- start          1 M and 10 M lines
 *   npm run bench -- start --full   also 50 M
 *   npm run bench -- start --executable --lines 0   the executable, built for it, with an empty log
 *
 * The caches take turns, and each number is a median. Nothing is pinned: a start
 * serves no request yet, so it has the whole machine, and reads on one core while
 * it judges lines on another. A cold start also reads Node from the disk, so
 * compare it with the cold start of the empty log.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import { buildExecutable, installTools } from "../executable/build.ts";
import { generateStore } from "./generate.ts";
import { describeMachine, NOTHING_PINNED, note, withFolder } from "./support/machine.ts";
import { formatRound, formatSpread, spread } from "./support/numbers.ts";
import { positive, positives, readOptions } from "./support/options.ts";
import { readPort, readWithDd, runToEnd } from "./support/program.ts";
import { formatTable } from "./support/table.ts";
import { builtMain, createToken, ROOT } from "./support/targets.ts";

const options = readOptions({
  full: "switch: also 50 M lines",
  lines: "lengths of logs (0,1_000_000,10_000_000)",
  executable: "switch: start the single executable instead of the built script",
  runs: "starts of each case (5)",
  dir: "where to make the data directories (the system's temporary folder)",
});

const DROP_CACHES = "/proc/sys/vm/drop_caches";
type Cache = "warm" | "cold";

interface Start {
  readonly readyMs: number;
  readonly firstMs: number;
}

interface Sample extends Start {
  readonly ddMs: number;
}

const main = builtMain(ROOT);
const runs = positive(options.runs, 5);
const canDrop = canDropCaches();
let program: readonly string[] = [process.execPath, main];
let plants = 0;

await withFolder(options.dir, async (folder) => {
  process.stdout.write(`${describeMachine(folder, process.version, NOTHING_PINNED)}\n\n`);
  if (options.executable !== undefined) program = [await makeExecutable(folder)];
  const isEmptyOnly = options.lines === "0";
  const lengths = isEmptyOnly ? [] : positives(options.lines?.replace(/^0,/, ""), [1e6, 1e7]);
  if (options.full !== undefined && !lengths.includes(5e7)) lengths.push(5e7);
  const rows: string[][] = [];
  for (const lines of [0, ...lengths]) rows.push(...(await measureLength(folder, lines)));
  const head = ["log", "page cache", "ready s", "first plant s", "dd s"];
  process.stdout.write(`${formatTable(head, rows)}\n`);
  if (!canDrop) process.stdout.write("\nThe page cache cannot be emptied here: no cold starts.\n");
});

async function makeExecutable(folder: string): Promise<string> {
  note("building the executable");
  const output = path.join(folder, "plant-store");
  installTools(process.execPath);
  await buildExecutable({ node: process.execPath, output });
  return output;
}

async function measureLength(folder: string, lines: number): Promise<string[][]> {
  const data = path.join(folder, `lines-${lines}`);
  generateStore(data, lines);
  const token = await createToken(data, main);
  const log = path.join(data, "plants.jsonl");
  await start(data, token); // its stop leaves a checkpoint
  const caches: readonly Cache[] = canDrop ? ["warm", "cold"] : ["warm"];
  const samples: Record<Cache, Sample[]> = { warm: [], cold: [] };
  for (let round = 0; round < runs; round++) {
    note(`  round ${round + 1} of ${runs}`);
    for (const cache of caches) {
      await prepare(log, cache);
      const ddMs = await readWithDd(log);
      await prepare(log, cache);
      samples[cache].push({ ...(await start(data, token)), ddMs });
    }
  }
  fs.rmSync(data, { recursive: true });
  return caches.map((cache) => describe(lines, cache, samples[cache]));
}

function describe(lines: number, cache: Cache, samples: readonly Sample[]): string[] {
  const seconds = (value: (sample: Sample) => number) =>
    formatSpread(spread(samples.map((each) => value(each) / 1000)));
  const ready = seconds(({ readyMs }) => readyMs);
  const first = seconds(({ firstMs }) => firstMs);
  return [formatRound(lines), cache, ready, first, seconds(({ ddMs }) => ddMs)];
}

/** Puts the cache into the state that a start begins with. */
async function prepare(log: string, cache: Cache): Promise<void> {
  if (cache === "warm") {
    await readWithDd(log);
    return;
  }
  await runToEnd(["sync", "-f", log]);
  fs.writeFileSync(DROP_CACHES, "3");
}

function canDropCaches(): boolean {
  try {
    fs.writeFileSync(DROP_CACHES, "3");
    return true;
  } catch {
    return false;
  }
}

/** One start, one create, one clean stop. */
async function start(data: string, token: string): Promise<Start> {
  const words = [...program, "serve", "--port", "0", "--data", data];
  const [first = "", ...rest] = words;
  const begin = performance.now();
  const child = spawn(first, rest, { stdio: ["ignore", "pipe", "inherit"] });
  const kill = () => child.kill("SIGKILL");
  process.once("exit", kill);
  try {
    const port = await readPort(child);
    const readyMs = performance.now() - begin;
    await createPlant(port, token);
    const firstMs = performance.now() - begin;
    const ended = once(child, "exit");
    child.kill("SIGTERM");
    await ended;
    return { readyMs, firstMs };
  } finally {
    kill();
    process.off("exit", kill);
  }
}

async function createPlant(port: number, token: string): Promise<void> {
  const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
  const request = http.request({ port, path: "/plants", method: "POST", headers, agent: false });
  request.end(`{"id":${++plants},"name":"Fern"}`);
  const [response] = (await once(request, "response")) as [http.IncomingMessage];
  response.resume();
  if (response.statusCode !== 200) throw new Error(`the answer was ${response.statusCode}`);
}
