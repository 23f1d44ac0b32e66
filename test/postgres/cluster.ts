/**
 * A PostgreSQL server for a test, in a temporary folder. It runs as a user without privileges, because it refuses to
 * be run by root.
 */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { printSchema } from "../../src/postgres/schema.ts";
import { freePort } from "../support/service.ts";
import { until } from "../support/watch.ts";

/** Where Debian installs the programs; the environment may name another place. */
const DEBIAN = "/usr/lib/postgresql";
const VERSIONS = fs.existsSync(DEBIAN) ? fs.readdirSync(DEBIAN).sort().reverse() : [];
const PROGRAMS = [
  process.env.TEST_POSTGRES ?? "",
  ...VERSIONS.map((each) => join(DEBIAN, each, "bin")),
].find((folder) => fs.existsSync(join(folder, "initdb")));

/** Options of a test that needs the server. */
export const NEEDS_POSTGRES: { readonly skip?: string } =
  PROGRAMS === undefined ? { skip: "needs PostgreSQL's initdb (Debian: postgresql)" } : {};

/** The user that runs the server if root runs the tests: nobody. */
const USER = process.geteuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : undefined;

/** What runs actions at its end. */
export type Cleanup = { after(end: () => unknown): void };

// biome-ignore lint/suspicious/noExplicitAny: the compiler needs no driver
export type Untyped = any;

export async function loadDriver(): Promise<Untyped> {
  const name: string = "pg";
  return (await import(name)).default;
}

const run = promisify(execFile);

/** Runs statements in a session of their own; returns the rows of the last one. */
export async function runSql(login: object, text: string): Promise<string[][]> {
  const types = { getTypeParser: () => String };
  const session = new (await loadDriver()).Client({ ...login, types });
  session.binary = false; // whatever the default is
  session.on("error", () => {}); // its server may be killed
  await session.connect();
  try {
    const results = await session.query({ text, rowMode: "array" });
    return [results].flat().at(-1).rows;
  } finally {
    await session.end();
  }
}

export class Cluster {
  readonly folder: string;
  readonly data: string;
  readonly port: number;
  #server: ChildProcess | undefined;

  private constructor(folder: string, port: number) {
    this.folder = folder;
    this.data = join(folder, "data");
    this.port = port;
  }

  /** Starts a new, empty server. @param access lines of `pg_hba.conf`; by default this machine is trusted. */
  static async start(cleanup: Cleanup, access?: readonly string[]): Promise<Cluster> {
    const cluster = await Cluster.#make(cleanup);
    const flags = `-U postgres -A trust -E UTF8 --locale=C --no-sync -D ${cluster.data}`;
    await run(`${PROGRAMS}/initdb`, flags.split(" "), { ...USER, cwd: cluster.folder });
    const lines = ["local all postgres trust", ...(access ?? []), ""];
    if (access) fs.writeFileSync(join(cluster.data, "pg_hba.conf"), lines.join("\n"));
    await cluster.start();
    return cluster;
  }

  /** Starts a copy of a server, which accepts writes, too, unless it is the standby of this name. */
  static async clone(cleanup: Cleanup, original: Cluster, standby?: string): Promise<Cluster> {
    const cluster = await Cluster.#make(cleanup);
    await original.stop();
    await run("cp", ["-a", `${original.data}/.`, cluster.data]);
    await original.start();
    if (standby !== undefined) {
      const at = `host=${original.folder} port=${original.port}`;
      const login = `${at} user=postgres application_name=${standby}`;
      cluster.configure("primary_conninfo", login);
      fs.writeFileSync(join(cluster.data, "standby.signal"), "");
    }
    await cluster.start();
    return cluster;
  }

  /** Changes a setting of a server that does not run. */
  configure(name: string, value: string): void {
    fs.appendFileSync(join(this.data, "postgresql.auto.conf"), `${name} = '${value}'\n`);
  }

  static async #make(cleanup: Cleanup): Promise<Cluster> {
    const folder = fs.mkdtempSync(join(tmpdir(), "plant-pg-"));
    fs.chmodSync(folder, 0o755);
    const cluster = new Cluster(folder, await freePort());
    fs.mkdirSync(cluster.data, { mode: 0o700 });
    for (const path of [folder, cluster.data]) if (USER) fs.chownSync(path, USER.uid, USER.gid);
    cleanup.after(async () => {
      await cluster.stop("SIGQUIT");
      fs.rmSync(folder, { recursive: true, force: true });
    });
    return cluster;
  }

  /** The URL of a database over TCP. */
  url(database: string, user = "postgres", query = ""): string {
    return `postgresql://${user}@127.0.0.1:${this.port}/${database}${query}`;
  }

  async start(): Promise<void> {
    await until("the server answers", () => {
      // A server that starts while sessions of a killed one still end exits at once.
      if (this.#server === undefined) this.#spawn();
      return this.sql("SELECT 1").then(Boolean, () => false);
    });
  }

  #spawn(): void {
    const place = `-D ${this.data} -p ${this.port} -h 127.0.0.1 -k ${this.folder} -c shared_buffers=32MB`;
    // A standby returns at once, not after 5 s.
    const flags = `${place} -c max_wal_size=256MB -c wal_retrieve_retry_interval=200ms`;
    const options = { ...USER, cwd: this.folder, stdio: "ignore" } as const;
    const server = spawn(`${PROGRAMS}/postgres`, flags.split(" "), options);
    this.#server = server;
    server.once("exit", () => {
      if (this.#server === server) this.#server = undefined;
    });
  }

  /** Stops the server as an operator does, or as a crash does (SIGQUIT), or kills it. */
  async stop(how: "SIGINT" | "SIGQUIT" | "SIGKILL" = "SIGINT"): Promise<void> {
    if (this.#server === undefined) return;
    const exited = once(this.#server, "exit");
    const frozen = this.#processes();
    this.#server.kill(how);
    signal("SIGCONT", frozen);
    await exited;
  }

  /** Stops (SIGSTOP) the server and its sessions, as if the machine were unreachable, or lets them go on. */
  freeze(isFrozen = true): void {
    signal(isFrozen ? "SIGSTOP" : "SIGCONT", this.#processes());
  }

  #processes(): number[] {
    const pid = this.#server?.pid;
    if (pid === undefined) return [];
    const children = fs.readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8");
    return [pid, ...children.trim().split(" ").map(Number)];
  }

  async promote(): Promise<void> {
    await this.sql("SELECT pg_promote()");
  }

  /** Stops the process that brings a changed list of standbys into force, until the server ends. */
  async pauseCheckpointer(): Promise<void> {
    const text = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'";
    signal("SIGSTOP", (await this.sql(text)).map(Number));
  }

  /** Runs statements as the superuser; returns the first column of the last result. */
  async sql(text: string, database = "postgres"): Promise<string[]> {
    const options = "-c search_path=plant_store,public";
    const login = { host: this.folder, port: this.port, user: "postgres", database, options };
    return (await runSql(login, text)).map(([first = ""]) => first);
  }

  /** How many sessions the servers have; the superuser's do not count. */
  async countSessions(condition = "true"): Promise<number> {
    const text = `SELECT count(*) FROM pg_stat_activity WHERE usename <> 'postgres' AND ${condition}`;
    return Number((await this.sql(text))[0]);
  }

  /** Changes a setting of the server, for new sessions. */
  async set(name: string, value: string): Promise<void> {
    await this.sql(`ALTER SYSTEM SET ${name} = '${value}'`);
    await this.sql("SELECT pg_reload_conf()");
    await until("new sessions have it", async () => (await this.sql(`SHOW ${name}`))[0] === value);
  }

  /** Commits wait for one of these standbys soon; without a name they wait for none. */
  setStandbys(names = ""): Promise<void> {
    return this.set("synchronous_standby_names", names);
  }

  /** Makes commits wait for one of these standbys; resolves when the only standby streams. */
  async streamTo(standbys: string): Promise<void> {
    await this.setStandbys(standbys);
    const text = "SELECT sync_state = 'async' FROM pg_stat_replication WHERE state = 'streaming'";
    const isAsync = String(standbys === "")[0];
    await until("the standby streams", async () => (await this.sql(text))[0] === isAsync);
  }

  /** Ends the sessions of all servers. */
  async endSessions(): Promise<void> {
    const condition = "usename = 'plant_store'";
    const end = "pg_terminate_backend(pid, 60000)"; // waits until each has ended
    await this.sql(`SELECT ${end} FROM pg_stat_activity WHERE ${condition}`);
  }

  /** A new database with the tables of the store, and the role `plant_store` for its servers. */
  async createStore(database: string): Promise<void> {
    await this.sql(`CREATE DATABASE "${database}"`);
    await this.sql("CREATE ROLE plant_store LOGIN PASSWORD 'secret'").catch(() => {}); // it is there
    await this.sql(printSchema(), database);
  }
}

function signal(name: NodeJS.Signals, pids: readonly number[]): void {
  for (const pid of pids) {
    try {
      process.kill(pid, name);
    } catch {} // a session may have ended by itself
  }
}
