/**
 * The speed of the store over a database: against the file store, and against fastify over a pool of `pg`
 * with one INSERT for each request. All of them on this machine, PostgreSQL included.
 *
 *   npm run bench -- database                          about eight minutes
 *   npm run bench -- database --restarts 1             about half of that
 *
 * Runs take turns, so each figure is a ratio within a round (see support/compare). A run of creates
 * counts only if the table has grown by as many rows as were answered. `wrk` is needed.
 */
import fs from "node:fs";
import path from "node:path";
import { withCleanup } from "../postgres/cleanup.ts";
import { type Cleanup, Cluster } from "../postgres/cluster.ts";
import { loadDriver, NEEDS_POSTGRES } from "../postgres/stores.ts";
import { measure, repeatRefused, type Sample, WARM_SECONDS } from "./support/compare.ts";
import { type Ids, type LoadResult, type LookUp, load } from "./support/load.ts";
import { describeMachine, note, withFolder } from "./support/machine.ts";
import { formatSpread, median, spread } from "./support/numbers.ts";
import { positive, positives, readOptions } from "./support/options.ts";
import { Program, runNode } from "./support/program.ts";
import { readStream } from "./support/stream-reader.ts";
import { formatTable } from "./support/table.ts";
import {
  controlsOf,
  type Durable,
  ROOT,
  type Start,
  startServer,
  type Target,
  withNewData,
  withNewTargets,
} from "./support/targets.ts";

const options = readOptions({
  seconds: "whole seconds of a run (2)",
  restarts: "how often the servers are started; each time they warm up for 10 s (2)",
  runs: "rounds after each start (3)",
  connections: "numbers of connections that create (64,256,1024)",
  dir: "where to make the data directories (the system's temporary folder)",
});

const SECONDS = positive(options.seconds, 2);
const RUNS = positive(options.runs, 3);
const RESTARTS = positive(options.restarts, 2);
const CONNECTIONS = positives(options.connections, [64, 256, 1024]);
const HEAD = ["figure", "median (min-max)", "bar", "in the median"];
/** How many connections repeat and read. */
const READERS = 64;
const MIB = 2 ** 20;

/**
 * What is promised of a figure: at least so much for a rate, at most so much for a cost. Several
 * bars are those of 64, 256 and 1,024 connections.
 */
const BARS: Readonly<Record<string, readonly number[]>> = {
  "creates / file store": [0.65, 0.75, 0.75],
  "creates with a synchronous standby / file store": [0.5, 0.65, 0.8],
  "creates / fastify + pg": [2.7, 3.2, 3.2],
  "creates with --database-require-sync / without": [0.75, 0.9, 0.9],
  "processor time of a create / file store": [1.25, 1.25, 1.25],
  "repeats / fastify + pg": [2.5],
  "GET / fastify + pg": [2],
  "stream / file store": [0.25],
  "pages / file store": [0.6],
  "resident memory under load, MiB": [160],
};
const COSTS = ["processor time of a create / file store", "resident memory under load, MiB"];

/** The samples of each figure, by its name and number of connections. */
const figures = new Map<string, number[]>();

function record(name: string, value: number, connections?: number): void {
  const key = connections === undefined ? name : `${name} at ${connections}`;
  figures.set(key, [...(figures.get(key) ?? []), value]);
}

if (NEEDS_POSTGRES.skip !== undefined) throw new Error(NEEDS_POSTGRES.skip);

await withFolder(options.dir, (folder) =>
  withCleanup(async (cleanup) => {
    const machine = describeMachine(folder);
    const primary = await Cluster.start(cleanup);
    await primary.createStore("garden");
    await primary.sql(
      "CREATE TABLE public.peer_plants (id bigint PRIMARY KEY, name text NOT NULL, tag text)",
      "garden",
    );
    const [file, database, peer, proving] = startsOf(cleanup, folder, primary.url("garden"));
    for (let restart = 0; restart < RESTARTS; restart++) {
      const own = path.join(folder, `start ${restart}`);
      note(`start ${restart + 1} of ${RESTARTS}`);
      await withNewTargets(own, [file, database, peer], measureAlone);
    }
    // Only now: a standby that was stopped meanwhile would miss log that is gone.
    await Cluster.follow(cleanup, primary, "standby");
    await primary.streamTo("standby");
    note("with a synchronous standby");
    const targets = [file, database, proving];
    await withNewTargets(path.join(folder, "pair"), targets, measureWithStandby);
    process.stdout.write(`${machine}\n\n${formatTable(HEAD, [...figures].map(describe))}\n`);
  }),
);

function startsOf(cleanup: Cleanup, folder: string, url: string): [Start, Start, Start, Start] {
  const main = install(folder);
  let tokens = 0;
  const startDatabase = async (...more: readonly string[]): Promise<Target> => {
    const there = ["--database", url, ...more];
    const scopes = ["--scope", "write", "--scope", "read"];
    const token = await runNode([main, "token", "create", `bench${tokens++}`, ...scopes, ...there]);
    const words = [main, "serve", "--port", "0", "--log", "off", ...there];
    const durable = await openCounter(cleanup, url, "plant_store.plants");
    const program = await Program.start(words);
    return { name: "database", token: token.trim(), durable, ...controlsOf(program) };
  };
  const startPeer = async (): Promise<Target> => {
    const script = path.join(ROOT, "test/bench/programs/fastify-pg.mjs");
    const durable = await openCounter(cleanup, url, "peer_plants");
    const program = await Program.start([script, url]);
    return { name: "fastify + pg", token: "any", durable, ...controlsOf(program) };
  };
  const scopes = ["read", "write"];
  const file = withNewData((own) => startServer(own), { name: "file store", scopes });
  const startProving = () => startDatabase("--database-require-sync");
  return [file, () => startDatabase(), startPeer, startProving];
}

/** Copies the program beside the driver, as `npm install plant-store pg` leaves it; returns its file. */
function install(folder: string): string {
  fs.cpSync(path.join(ROOT, "dist"), path.join(folder, "dist"), { recursive: true });
  fs.writeFileSync(path.join(folder, "package.json"), '{"type":"module"}');
  fs.symlinkSync(path.join(ROOT, "node_modules"), path.join(folder, "node_modules"));
  return path.join(folder, "dist/cli/main.js");
}

async function openCounter(
  cleanup: Cleanup,
  url: string,
  table: string,
): Promise<() => Promise<Durable>> {
  const session = new (await loadDriver()).Client({ connectionString: url });
  await session.connect();
  cleanup.after(() => session.end());
  return async () => {
    const text = `SELECT count(*)::int AS records, (SELECT wal_sync::int FROM pg_stat_wal) AS syncs FROM ${table}`;
    const { rows } = await session.query(text);
    return rows[0] as Durable;
  };
}

/** Runs each target once, in an order that is rotated by `shift`. */
async function inTurn<T>(
  targets: readonly Target[],
  shift: number,
  run: (target: Target) => Promise<T>,
): Promise<T[]> {
  const results: T[] = [];
  for (let turn = 0; turn < targets.length; turn++) {
    const index = (turn + shift) % targets.length;
    const target = targets[index] as Target;
    results[index] = await repeatRefused(target.name, () => run(target));
  }
  return results;
}

async function measureAlone(targets: readonly Target[]): Promise<void> {
  const [file, database, peer] = targets as [Target, Target, Target];
  for (const target of targets) await measure(target, Math.max(...CONNECTIONS), WARM_SECONDS);
  for (let run = 0; run < RUNS; run++) {
    note(`round ${run + 1} of ${RUNS}`);
    for (const connections of CONNECTIONS) {
      const [ofFile, ofDatabase, ofPeer] = (await inTurn(targets, run, (target) =>
        measure(target, connections, SECONDS),
      )) as [Sample, Sample, Sample];
      record("creates / file store", ofDatabase.perSecond / ofFile.perSecond, connections);
      record("creates / fastify + pg", ofDatabase.perSecond / ofPeer.perSecond, connections);
      record(
        "processor time of a create / file store",
        ofDatabase.cpuUs / ofFile.cpuUs,
        connections,
      );
    }
    await inTurn(targets, run, (target) => measure(target, READERS, 1)); // plants to look up
    const read = async (name: string, kind: LookUp["kind"], other: Target) => {
      const [ofOther, ofDatabase] = (await inTurn([other, database], run, (target) =>
        lookUpNewest(target, kind),
      )) as [LoadResult, LoadResult];
      record(name, ofDatabase.perSecond / ofOther.perSecond);
    };
    await read("repeats / fastify + pg", "repeat", peer);
    await read("GET / fastify + pg", "get", peer);
    await read("pages / file store", "page", file);
    const streams = await inTurn([file, database], run, readStream);
    const [ofFile = 0, ofDatabase = 0] = streams.map(({ bytes, ms }) => bytes / ms);
    record("stream / file store", ofDatabase / ofFile);
  }
  record("resident memory under load, MiB", database.residentBytes().peak / MIB);
}

async function measureWithStandby(targets: readonly Target[]): Promise<void> {
  for (const target of targets) await measure(target, Math.max(...CONNECTIONS), WARM_SECONDS);
  for (let run = 0; run < RUNS; run++) {
    for (const connections of CONNECTIONS) {
      const [ofFile, ofDatabase, ofProving] = (await inTurn(targets, run, (target) =>
        measure(target, connections, SECONDS),
      )) as [Sample, Sample, Sample];
      const ratio = ofDatabase.perSecond / ofFile.perSecond;
      record("creates with a synchronous standby / file store", ratio, connections);
      const proven = ofProving.perSecond / ofDatabase.perSecond;
      record("creates with --database-require-sync / without", proven, connections);
    }
  }
}

/** Requests of a kind for the plants of the last creates. */
function lookUpNewest({ port, token, created }: Target, kind: LookUp["kind"]): Promise<LoadResult> {
  const lookUp = { kind, ...(created.at(-1) as Ids) };
  return load({ port, token, connections: READERS, seconds: SECONDS, lookUp });
}

function describe([key, samples]: readonly [string, readonly number[]]): string[] {
  const [name = "", connections] = key.split(" at ");
  const at = connections === undefined ? 0 : [64, 256, 1024].indexOf(Number(connections));
  const bar = BARS[name]?.[at] ?? Number.NaN;
  const isCost = COSTS.includes(name);
  const isKept = isCost ? median(samples) <= bar : median(samples) >= bar;
  const bound = `at ${isCost ? "most" : "least"} ${bar}`;
  return [key, formatSpread(spread(samples)), bound, isKept ? "kept" : "MISSED"];
}
