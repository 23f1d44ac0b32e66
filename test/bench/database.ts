/**
 * Creates per second over a database against the file store, and against fastify over a pool of
 * `pg` with one INSERT for each request. All of them on this machine, PostgreSQL included.
 *
 *   npm run bench:database -- --restarts 1 --runs 5
 *
 * A run counts only if the table has grown by as many rows as were answered.
 */
import fs from "node:fs";
import path from "node:path";
import type { Scope } from "../postgres/cluster.ts";
import { loadDriver, NEEDS_POSTGRES, startPair } from "../postgres/stores.ts";
import { compare } from "./support/compare.ts";
import { describeMachine, withFolder } from "./support/machine.ts";
import { positive, positives, readOptions } from "./support/options.ts";
import { Program, runNode } from "./support/program.ts";
import { formatRows } from "./support/report.ts";
import { type Durable, ROOT, startServer, type Target, withNewData } from "./support/targets.ts";

const options = readOptions({
  seconds: "whole seconds of a run (2)",
  restarts: "how often the servers are started; each time they warm up for 10 s (3)",
  runs: "rounds after each start (5)",
  connections: "numbers of connections (64,256,1024)",
  dir: "where to make the data directories (the system's folder for such)",
});

if (NEEDS_POSTGRES.skip !== undefined) throw new Error(NEEDS_POSTGRES.skip);
const ends: (() => unknown)[] = [];
const scope: Scope = { after: (end) => ends.unshift(end) };

/** The program beside the driver, as `npm install plant-store pg` leaves it. */
function install(folder: string): string {
  fs.cpSync(path.join(ROOT, "dist"), path.join(folder, "dist"), { recursive: true });
  fs.writeFileSync(path.join(folder, "package.json"), '{"type":"module"}');
  fs.symlinkSync(path.join(ROOT, "test/postgres/node_modules"), path.join(folder, "node_modules"));
  return path.join(folder, "dist/cli/main.js");
}

async function openCounter(url: string, table: string): Promise<() => Promise<Durable>> {
  const session = new (await loadDriver()).Client({ connectionString: url });
  await session.connect();
  scope.after(() => session.end());
  return async () => {
    const text = `SELECT count(*)::int AS records, (SELECT wal_sync::int FROM pg_stat_wal) AS syncs FROM ${table}`;
    const { rows } = await session.query(text);
    return rows[0] as Durable;
  };
}

function access(name: string, token: string, program: Program, durable: Target["durable"]): Target {
  return {
    name,
    token,
    durable,
    created: [],
    port: program.port,
    tell: (word) => program.tell(word),
    cpuUs: () => program.cpuUs(),
    residentBytes: () => program.residentBytes(),
    forgetPeak: () => program.forgetPeak(),
    stop: () => program.stop(),
  };
}

await withFolder(options.dir, async (folder) => {
  const { primary, standby } = await startPair(scope, { standbys: "" });
  await standby.stop();
  await primary.sql(
    "CREATE TABLE peer_plants (id bigint PRIMARY KEY, name text NOT NULL, tag text)",
    "garden",
  );
  const url = primary.url("garden");
  const main = install(folder);
  let tokens = 0;
  const startDatabase = async (): Promise<Target> => {
    const database = ["--database", url];
    const token = await runNode([main, "token", "create", `bench${tokens++}`, ...database]);
    const program = await Program.start([
      main,
      "serve",
      "--port",
      "0",
      "--log",
      "off",
      ...database,
    ]);
    return access("database", token.trim(), program, await openCounter(url, "plants"));
  };
  const startPeer = async (): Promise<Target> => {
    const script = path.join(ROOT, "test/bench/programs/fastify-pg.mjs");
    const program = await Program.start([script, url]);
    return access("fastify + pg", "any", program, await openCounter(url, "peer_plants"));
  };
  const file = withNewData((own) => startServer(own), { name: "file store" });
  const rows = await compare([file, startDatabase, startPeer], {
    folder,
    connections: positives(options.connections, [64, 256, 1024]),
    restarts: positive(options.restarts, 3),
    runs: positive(options.runs, 5),
    seconds: positive(options.seconds, 2),
  });
  process.stdout.write(`${describeMachine(folder)}\n\n${formatRows(rows, "database")}\n`);
}).finally(async () => {
  for (const end of ends) await end();
});
