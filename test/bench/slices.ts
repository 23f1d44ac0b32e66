/**
 * The same comparison as `npm run bench` where the machine is too restless for
 * it: hundreds of slices of a fraction of a second, by turns, each compared
 * with the first server's beside it. Two processes of the same program differ by some percent
 * for as long as they live, so they are started anew again and again.
 *
 *   npm run bench:slices -- --watched --connections 64,256
 *   npm run bench:slices -- --against ../other-checkout
 *
 * The load is a client in Node on open connections, and some of it stands
 * between two slices, so the requests per second are lower than wrk's and
 * ratios may come out nearer to 1; small differences show. Every answer must
 * be a 200 and a record, and every byte synced, as in support/compare. What a server
 * does by itself, such as to be scraped, may fall into a neighbour's slice.
 */
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { checkStored, settled } from "./support/compare.ts";
import { nextFirstId } from "./support/load.ts";
import { describeMachine, note, pinned, withFolder } from "./support/machine.ts";
import { formatCount, median, quartiles } from "./support/numbers.ts";
import { positive, positives, readOptions } from "./support/options.ts";
import { runToEnd } from "./support/program.ts";
import { formatTable } from "./support/table.ts";
import {
  startFloor,
  startMounted,
  startServer,
  startWatchedServer,
  type Target,
} from "./support/targets.ts";

const options = readOptions({
  restarts: "how often the servers are started (10)",
  rounds: "slices of each server that count after a start; twenty more warm up (40)",
  ms: "milliseconds of a slice (100; more for very many connections)",
  connections: "numbers of connections (64,256)",
  node: "another Node binary to measure with",
  mounted: "switch: beside it, the listener in a plain node:http server",
  watched: "switch: beside it, the same server with its log read and its metrics scraped",
  against: "beside it, another built checkout",
  floor: "switch: beside it, the floor",
  dir: "where to make the data directories (the system's folder for such)",
});

interface Result {
  readonly requests: number;
  readonly failures: number;
  /** Of each slice. */
  readonly perSecond: readonly number[];
}

const CLIENT = fileURLToPath(new URL("load/slices.mjs", import.meta.url));
const WARM_ROUNDS = 20;

const places = positives(options.connections, [64, 256]);
const restarts = positive(options.restarts, 10);
const rounds = WARM_ROUNDS + positive(options.rounds, 40);
const ms = positive(options.ms, 100);
/** By number of connections, then by server: what its slices answered a second. */
const rates = new Map<number, Map<string, number[]>>(places.map((place) => [place, new Map()]));

await withFolder(options.dir, async (folder) => {
  process.stdout.write(`${describeMachine(folder)}\n\n`);
  for (let restart = 1; restart <= restarts; restart++) {
    note(`start ${restart} of ${restarts}`);
    await measureProcesses(path.join(folder, String(restart)));
  }
  const head = ["connections", "server", "requests/s", "/ plant store (quartiles)", "slices"];
  process.stdout.write(`${formatTable(head, places.flatMap(describe))}\n`);
});

/** The same servers as new processes. */
async function measureProcesses(folder: string): Promise<void> {
  const targets: Target[] = [];
  try {
    for (const start of starts(folder)) targets.push(await start());
    for (const connections of places) await measure(targets, connections);
  } finally {
    for (const target of targets) await target.stop();
    fs.rmSync(folder, { recursive: true, force: true });
  }
}

function starts(folder: string): (() => Promise<Target>)[] {
  const { node, against } = options;
  const own = (name: string) => ({ name, folder: path.join(folder, name), node });
  const all = [() => startServer(own("plant store"))];
  if (options.watched !== undefined) all.push(() => startWatchedServer(own("watched")));
  if (options.mounted !== undefined) all.push(() => startMounted(own("mounted")));
  if (against !== undefined) all.push(() => startServer(own("the other"), against));
  if (options.floor !== undefined) all.push(() => startFloor({ node }));
  return all;
}

async function measure(targets: readonly Target[], connections: number): Promise<void> {
  const before = await Promise.all(targets.map(settled));
  const results = await load(targets, connections);
  for (const [index, target] of targets.entries()) {
    const { requests, failures, perSecond } = results[index] as Result;
    if (failures > 0) throw new Error(`${failures} requests to ${target.name} failed`);
    checkStored({ requests, inFlightMax: 0 }, before[index], await settled(target));
    const byName = rates.get(connections);
    const known = byName?.get(target.name) ?? [];
    byName?.set(target.name, [...known, ...perSecond.slice(WARM_ROUNDS)]);
  }
}

function describe(connections: number): string[][] {
  const byName = rates.get(connections) ?? new Map<string, number[]>();
  const [base = []] = byName.values();
  return [...byName].map(([name, perSecond]) => {
    const ratios = perSecond.map((rate, slice) => rate / (base[slice] as number));
    const [lower, upper] = quartiles(ratios).map((ratio) => ratio.toFixed(2));
    const ratio = `${median(ratios).toFixed(3)} (${lower}-${upper})`;
    return [String(connections), name, formatCount(median(perSecond)), ratio, `${ratios.length}`];
  });
}

async function load(targets: readonly Target[], connections: number): Promise<Result[]> {
  const words = JSON.stringify({
    servers: targets.map(({ port, token }) => ({ port, token, firstId: nextFirstId() })),
    connections,
    rounds,
    ms,
  });
  return JSON.parse(await runToEnd([...pinned(1), process.execPath, CLIENT, words])) as Result[];
}
