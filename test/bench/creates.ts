/**
 * Durable creates per second, compared with the floor: a bare `node:http` server
 * that reads the body and answers a constant (floor.mjs). Then repeats and reads in
 * the same server, and how fast a file is imported again.
 *
 *   npm run bench -- creates --restarts 3 --runs 5
 *   npm run bench -- creates --mounted
 *   npm run bench -- creates --watched
 *   npm run bench -- creates --against ../other-checkout   (built there before)
 *   npm run bench -- creates --node /path/to/another/node
 *   npm run bench -- creates --profile DIRECTORY           (a .cpuprofile of each of its processes)
 *
 * How runs alternate, and which of them count: support/compare.
 */
import path from "node:path";
import { compare } from "./support/compare.ts";
import { measureImports } from "./support/imports.ts";
import { loadName } from "./support/load.ts";
import { describeMachine, withFolder } from "./support/machine.ts";
import { positive, positives, readOptions } from "./support/options.ts";
import { runNode } from "./support/program.ts";
import { formatRows, writePlot } from "./support/report.ts";
import { checkSyncs } from "./support/strace-check.ts";
import {
  LOOK_UP_NAMES,
  type Start,
  startFloor,
  startMounted,
  startServer,
  startWatchedServer,
  type TargetOptions,
  withLookUps,
  withNewData,
} from "./support/targets.ts";

const options = readOptions({
  seconds: "whole seconds of a run (2)",
  restarts: "how often the servers are started; each time they warm up for 10 s (3)",
  runs: "rounds after each start (5)",
  connections: "numbers of connections (16,64,256,1024)",
  node: "another Node binary to measure with",
  mounted: "switch: the listener in a plain node:http server instead of ours",
  watched: "switch: beside it, the same server with its log read and its metrics scraped",
  against: "another built checkout, measured beside this one",
  profile: "a folder for CPU profiles of the server",
  svg: "a file for the plot",
  dir: "where to make the data directories (the system's temporary folder)",
});

const start = options.mounted === undefined ? startServer : startMounted;
const name = options.mounted === undefined ? "plant store" : "plant store, mounted";
const node = options.node;

await withFolder(options.dir, async (folder) => {
  const version = node === undefined ? process.version : (await runNode(["-v"], { node })).trim();
  const machine = describeMachine(folder, version);
  const checkFolder = path.join(folder, "check");
  const checked = await checkSyncs(checkFolder, "plants.jsonl", (wrapper) =>
    start({ name, folder: checkFolder, node, wrapper }),
  );
  const rows = await compare(starts(), {
    folder,
    connections: positives(options.connections, [16, 64, 256, 1024]),
    restarts: positive(options.restarts, 3),
    runs: positive(options.runs, 5),
    seconds: positive(options.seconds, 2),
  });
  const head = `${machine}\nload: ${loadName}\nunder strace, 64 connections: ${checked}`;
  process.stdout.write(`${head}\n\n${formatRows(rows, "plant store")}\n`);
  const creates = rows.filter((row) => !LOOK_UP_NAMES.includes(row.name));
  if (options.svg !== undefined) writePlot(options.svg, creates, machine);
  if (options.mounted === undefined) process.stdout.write(`\n${await measureImports(folder)}\n`);
});

function starts(): Start[] {
  const nodeArgs = profileFlags(options.profile);
  const server = withNewData(start, { name, node, nodeArgs, scopes: ["write", "read"] });
  const own = options.mounted === undefined ? withLookUps(server) : [server];
  const all = [() => startFloor({ node }), ...own];
  if (options.watched !== undefined) {
    all.push(withNewData(startWatchedServer, { name: "watched", node }));
  }
  if (options.against !== undefined) {
    const startOther = (other: TargetOptions) => start(other, options.against);
    all.push(withNewData(startOther, { name: "the other", node }));
  }
  return all;
}

function profileFlags(directory: string | undefined): string[] {
  return directory === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${path.resolve(directory)}`];
}
