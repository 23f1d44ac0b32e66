/**
 * The comparison of `npm run bench -- creates` for a machine that is too restless for it:
 * hundreds of slices of a fraction of a second, by turns, each compared with the
 * slice of the first server next to it. The processes are started anew (see
 * support/compare), and each start is one sample: the median of the ratios of its
 * slices.
 *
 *   npm run bench -- slices --watched --connections 64,256
 *   npm run bench -- slices --against ../other-checkout
 *
 * The load is a client in Node on open connections that pauses between slices, so
 * there are fewer requests per second than with wrk, and ratios may be nearer to
 * 1; small differences show. Every answer must be a 200 and a record, and every
 * byte synced, as in support/compare. The work that a server does by itself, such
 * as answering a scrape, may fall into the slice of another server.
 */
import path from "node:path";
import { fileURLToPath } from "node:url";
import { checkStored, settled, WARM_SECONDS } from "./support/compare.ts";
import { nextFirstId } from "./support/load.ts";
import { describeMachine, note, pinned, withFolder } from "./support/machine.ts";
import { formatCount, formatSpread, median, spread } from "./support/numbers.ts";
import { positive, positives, readOptions } from "./support/options.ts";
import { runToEnd } from "./support/program.ts";
import { formatTable } from "./support/table.ts";
import {
  type Start,
  startFloor,
  startLoggingServer,
  startMounted,
  startServer,
  startWatchedServer,
  type Target,
  type TargetOptions,
  withNewData,
  withNewTargets,
} from "./support/targets.ts";

const options = readOptions({
  restarts: "how often the servers are started (10)",
  rounds: "slices of each server that count at each number of connections (40)",
  ms: "milliseconds of a slice (100; more for very many connections)",
  connections: "numbers of connections (64,256)",
  node: "another Node binary to measure with",
  mounted: "switch: beside it, the listener in a plain node:http server",
  logged: "switch: beside it, the same server with its log read",
  watched: "switch: beside it, the same server with its log read and its metrics scraped",
  against: "beside it, another built checkout",
  floor: "switch: beside it, the floor",
  dir: "where to make the data directories (the system's temporary folder)",
});

/** What the client reports about a server. */
interface Result {
  readonly requests: number;
  readonly failures: number;
  /** Of each slice. */
  readonly perSecond: readonly number[];
}

/** The slices of one server after one start. */
interface Sample {
  readonly connections: number;
  readonly name: string;
  /** Medians of the slices. */
  readonly perSecond: number;
  readonly ratio: number;
}

const CLIENT = fileURLToPath(new URL("load/slices.mjs", import.meta.url));
/** Slices that do not count, while effects of the load before pass. */
const PASSING_ROUNDS = 5;

const connectionCounts = positives(options.connections, [64, 256]);
const restarts = positive(options.restarts, 10);
const rounds = positive(options.rounds, 40);
const ms = positive(options.ms, 100);

await withFolder(options.dir, async (folder) => {
  process.stdout.write(`${describeMachine(folder)}\n\n`);
  const samples: Sample[] = [];
  for (let restart = 1; restart <= restarts; restart++) {
    note(`start ${restart} of ${restarts}`);
    const own = path.join(folder, String(restart));
    samples.push(...(await withNewTargets(own, starts(), measureStart)));
  }
  const ratio = "/ plant store, median of starts (min-max)";
  const head = ["connections", "server", "requests/s", ratio, "starts", "slices a start"];
  const rows = connectionCounts.flatMap((connections) => describe(samples, connections));
  process.stdout.write(`${formatTable(head, rows)}\n`);
});

async function measureStart(targets: readonly Target[]): Promise<Sample[]> {
  await load(targets, Math.max(...connectionCounts), Math.ceil((WARM_SECONDS * 1000) / ms));
  const samples: Sample[] = [];
  for (const connections of connectionCounts)
    samples.push(...(await measure(targets, connections)));
  return samples;
}

function starts(): Start[] {
  const { node, against } = options;
  const startOther = (other: TargetOptions) => startServer(other, against);
  const all = [withNewData(startServer, { name: "plant store", node })];
  if (options.logged !== undefined) {
    all.push(withNewData(startLoggingServer, { name: "logged", node }));
  }
  if (options.watched !== undefined) {
    all.push(withNewData(startWatchedServer, { name: "watched", node }));
  }
  if (options.mounted !== undefined) all.push(withNewData(startMounted, { name: "mounted", node }));
  if (against !== undefined) all.push(withNewData(startOther, { name: "the other", node }));
  if (options.floor !== undefined) all.push(() => startFloor({ node }));
  return all;
}

async function measure(targets: readonly Target[], connections: number): Promise<Sample[]> {
  const before = await Promise.all(targets.map(settled));
  const results = await load(targets, connections, PASSING_ROUNDS + rounds);
  for (const [index, target] of targets.entries()) {
    const { requests, failures } = results[index] as Result;
    if (failures > 0) throw new Error(`${failures} requests to ${target.name} failed`);
    checkStored({ requests, inFlightMax: 0 }, before[index], await settled(target));
  }
  const rates = results.map(({ perSecond }) => perSecond.slice(PASSING_ROUNDS));
  const base = rates[0] as readonly number[];
  return rates.map((own, index) => ({
    connections,
    name: (targets[index] as Target).name,
    perSecond: median(own),
    ratio: median(own.map((rate, slice) => rate / (base[slice] as number))),
  }));
}

/** A row for each server. */
function describe(samples: readonly Sample[], connections: number): string[][] {
  const here = samples.filter((sample) => sample.connections === connections);
  const names = new Set(here.map(({ name }) => name));
  return Array.from(names, (name) => {
    const own = here.filter((sample) => sample.name === name);
    const perSecond = formatCount(median(own.map((sample) => sample.perSecond)));
    const ratio = formatSpread(spread(own.map((sample) => sample.ratio)), 3);
    return [String(connections), name, perSecond, ratio, String(own.length), String(rounds)];
  });
}

async function load(
  targets: readonly Target[],
  connections: number,
  slices: number,
): Promise<Result[]> {
  const words = JSON.stringify({
    servers: targets.map(({ port, token }) => ({ port, token, firstId: nextFirstId() })),
    connections,
    rounds: slices,
    ms,
  });
  return JSON.parse(await runToEnd([...pinned(1), process.execPath, CLIENT, words])) as Result[];
}
