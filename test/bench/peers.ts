/**
 * Durable creates per second, compared with common alternatives: fastify 5 over
 * better-sqlite3, with one transaction for all requests of a turn of the event
 * loop or one per request, and a plain group commit of `fs.write` then
 * `fs.fdatasync`. The last column is the rate of the plant store divided by that
 * of each peer.
 *
 *   npm run bench -- peers --restarts 3 --runs 5
 *
 * The peers have a package file and a lock file of their own in `peers`. Their
 * packages are installed there, and only there, if they are missing.
 * better-sqlite3 is compiled from the source in its package (python3, make and g++
 * are needed), never downloaded as a binary.
 */
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { compare } from "./support/compare.ts";
import { loadName } from "./support/load.ts";
import { describeMachine, note, withFolder } from "./support/machine.ts";
import { positive, positives, readOptions } from "./support/options.ts";
import { formatRows, writePlot } from "./support/report.ts";
import { checkSyncs } from "./support/strace-check.ts";
import {
  PEERS,
  startFloor,
  startGroupCommit,
  startServer,
  startSqlite,
  type Target,
  type TargetOptions,
  withNewData,
} from "./support/targets.ts";

const options = readOptions({
  seconds: "whole seconds of a run (2)",
  restarts: "how often the servers are started; each time they warm up for 10 s (3)",
  runs: "rounds after each start (5)",
  connections: "numbers of connections (16,64,256,1024)",
  svg: "a file for the plot",
  dir: "where to make the data directories (the system's temporary folder)",
});

/** The plant store first: the last column compares with it. */
const PROGRAMS: readonly {
  readonly name: string;
  /** What it writes before it answers. */
  readonly file: string;
  readonly start: (options: TargetOptions) => Promise<Target>;
}[] = [
  { name: "plant store", file: "plants.jsonl", start: (own) => startServer(own) },
  {
    name: "sqlite, per turn",
    file: "plants.db-wal",
    start: (peer) => startSqlite(peer, "turn"),
  },
  {
    name: "sqlite, per request",
    file: "plants.db-wal",
    start: (peer) => startSqlite(peer, "request"),
  },
  { name: "group commit", file: "plants.jsonl", start: startGroupCommit },
];

install();
await withFolder(options.dir, async (folder) => {
  const machine = describeMachine(folder);
  const checks: string[] = [];
  for (const { name, file, start } of PROGRAMS) {
    const checkFolder = path.join(folder, `check ${name}`);
    const checked = await checkSyncs(checkFolder, file, (wrapper) =>
      start({ name, folder: checkFolder, wrapper }),
    );
    checks.push(`under strace, 64 connections, ${name}: ${checked}`);
  }
  const programs = PROGRAMS.map(({ name, start }) => withNewData(start, { name }));
  const rows = await compare([() => startFloor(), ...programs], {
    folder,
    connections: positives(options.connections, [16, 64, 256, 1024]),
    restarts: positive(options.restarts, 3),
    runs: positive(options.runs, 5),
    seconds: positive(options.seconds, 2),
  });
  const head = [machine, `load: ${loadName}`, ...checks].join("\n");
  process.stdout.write(`${head}\n\n${formatRows(rows, "plant store")}\n`);
  if (options.svg !== undefined) writePlot(options.svg, rows, machine);
});

function install(): void {
  if (fs.existsSync(path.join(PEERS, "node_modules"))) return;
  note("installing the peers; better-sqlite3 is compiled, which takes some minutes");
  const { status } = spawnSync("npm", ["ci", "--loglevel=error"], {
    cwd: PEERS,
    stdio: ["ignore", "ignore", "inherit"],
    env: { ...process.env, npm_config_build_from_source: "true" },
  });
  if (status === 0) return;
  fs.rmSync(path.join(PEERS, "node_modules"), { recursive: true, force: true });
  throw new Error("the peers cannot be installed; python3, make and g++ are needed");
}
