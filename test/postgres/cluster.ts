/**
 * A PostgreSQL server for a test, in a temporary folder. It runs as a user without privileges, because it
 * refuses to be run by root.
 */
import { type ChildProcess, execFile, execFileSync, spawn } from "node:child_process";
import {
  appendFileSync,
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { printSchema } from "../../src/postgres/schema.ts";
import { freePort } from "../support/serve.ts";
import { until } from "../support/watch.ts";

/** Where Debian installs the programs; the environment may name another place for those of the server. */
const FOLDERS = [process.env.TEST_POSTGRES ?? "", ...listVersions("/usr/lib/postgresql")];
const PROGRAMS = FOLDERS.find((folder) => existsSync(join(folder, "initdb")));
/** Some packages have only the server. */
const PSQL = join(FOLDERS.find((folder) => existsSync(join(folder, "psql"))) ?? "", "psql");

function listVersions(folder: string): string[] {
  if (!existsSync(folder)) return [];
  const versions = readdirSync(folder).sort((a, b) => Number(b) - Number(a));
  return versions.map((version) => join(folder, version, "bin"));
}

/** Options of a test that needs the server. */
export const NEEDS_POSTGRES: { readonly skip?: string } =
  PROGRAMS === undefined ? { skip: "needs PostgreSQL's initdb (Debian: postgresql)" } : {};

/** The user that runs the server if root runs the tests. */
const USER = process.geteuid?.() === 0 ? (idsOf("postgres") ?? idsOf("nobody")) : undefined;

function idsOf(name: string): { readonly uid: number; readonly gid: number } | undefined {
  try {
    const [uid, gid] = ["-u", "-g"].map((flag) => execFileSync("id", [flag, name]));
    return { uid: Number(uid), gid: Number(gid) };
  } catch {
    return undefined;
  }
}

function own(path: string): void {
  if (USER !== undefined) chownSync(path, USER.uid, USER.gid);
}

/** Runs actions at its end, as a test context does. */
export interface Cleanup {
  after(end: () => unknown): void;
}

const run = promisify(execFile);

export class Cluster {
  readonly folder: string;
  readonly data: string;
  readonly port: number;
  #server: ChildProcess | undefined;
  #paused: number | undefined;

  private constructor(folder: string, port: number) {
    this.folder = folder;
    this.data = join(folder, "data");
    this.port = port;
  }

  /** Starts a new, empty server. @param access lines of `pg_hba.conf`; by default this machine is trusted. */
  static async start(
    cleanup: Cleanup,
    { access }: { readonly access?: readonly string[] } = {},
  ): Promise<Cluster> {
    const cluster = await Cluster.#make(cleanup);
    await cluster.#run(
      `initdb -U postgres -A trust -E UTF8 --locale=C --no-sync -D ${cluster.data}`,
    );
    if (access !== undefined) {
      const lines = ["local all postgres trust", ...access, ""];
      writeFileSync(join(cluster.data, "pg_hba.conf"), lines.join("\n"));
    }
    await cluster.start();
    return cluster;
  }

  /** Starts a streaming standby of a primary; `name` is its name in `synchronous_standby_names`. */
  static follow(cleanup: Cleanup, primary: Cluster, name: string): Promise<Cluster> {
    return Cluster.#copy(cleanup, primary, "-R", name);
  }

  /** Starts a copy of a server, which accepts writes, too. */
  static clone(cleanup: Cleanup, original: Cluster): Promise<Cluster> {
    return Cluster.#copy(cleanup, original, "", "clone");
  }

  static async #copy(cleanup: Cleanup, { folder, port }: Cluster, flag: string, name: string) {
    const cluster = await Cluster.#make(cleanup);
    const source = `postgresql://postgres@/?host=${folder}&port=${port}&application_name=${name}`;
    await cluster.#run(
      `pg_basebackup ${flag} -X stream -c fast --no-sync -D ${cluster.data} -d ${source}`,
    );
    await cluster.start();
    return cluster;
  }

  static async #make(cleanup: Cleanup): Promise<Cluster> {
    const folder = mkdtempSync(join(tmpdir(), "plant-pg-"));
    chmodSync(folder, 0o755);
    const cluster = new Cluster(folder, await freePort());
    mkdirSync(cluster.data, { mode: 0o700 });
    for (const path of [folder, cluster.data]) own(path);
    cleanup.after(async () => {
      await cluster.stop("immediate");
      rmSync(folder, { recursive: true, force: true });
    });
    return cluster;
  }

  /** The URL of a database over TCP. */
  url(database: string, { user = "postgres", query = "" } = {}): string {
    return `postgresql://${user}@127.0.0.1:${this.port}/${database}${query}`;
  }

  async start(): Promise<void> {
    await until("the server answers", () => {
      // A server that starts while sessions of a killed one still end exits at once.
      if (this.#server === undefined) this.#spawn();
      const isUp = (lines: string[]) => lines.length > 0;
      return this.sql("SELECT 1").then(isUp, () => false);
    });
  }

  #spawn(): void {
    const settings = {
      port: this.port,
      listen_addresses: "127.0.0.1",
      unix_socket_directories: this.folder,
      shared_buffers: "32MB",
      max_wal_size: "256MB",
      wal_retrieve_retry_interval: "200ms", // a standby returns at once, not after 5 s
    };
    const flags = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
    const options = { ...USER, cwd: this.folder, stdio: "ignore" } as const;
    const server = spawn(join(PROGRAMS ?? "", "postgres"), ["-D", this.data, ...flags], options);
    this.#server = server;
    server.once("exit", () => {
      if (this.#server === server) this.#server = undefined;
    });
  }

  /** Stops the server as an operator does (`fast`) or as a crash does (`immediate`), or kills it. */
  async stop(how: "fast" | "immediate" | "kill" = "fast"): Promise<void> {
    const server = this.#server;
    if (server === undefined) return;
    const exited = new Promise((resolve) => server.once("exit", resolve));
    server.kill(({ fast: "SIGINT", immediate: "SIGQUIT", kill: "SIGKILL" } as const)[how]);
    server.kill("SIGCONT");
    if (this.#paused !== undefined) process.kill(this.#paused, "SIGCONT");
    this.#paused = undefined;
    await exited;
  }

  /** Stops (SIGSTOP) the server and its sessions, as if the machine were unreachable. */
  freeze(): Promise<void> {
    return this.#signal("SIGSTOP");
  }

  thaw(): Promise<void> {
    return this.#signal("SIGCONT");
  }

  async #signal(signal: NodeJS.Signals): Promise<void> {
    const server = this.#server?.pid;
    if (server === undefined) return;
    const { stdout } = await run("ps", ["-o", "pid=", "--ppid", String(server)]);
    for (const pid of [server, ...(stdout.match(/\d+/g) ?? []).map(Number)]) {
      try {
        process.kill(pid, signal);
      } catch {} // a session may have ended by itself
    }
  }

  /** Stops the process that brings a changed list of standbys into force, until the server ends. */
  async pauseCheckpointer(): Promise<void> {
    const text = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'";
    this.#paused = Number((await this.sql(text))[0]);
    process.kill(this.#paused, "SIGSTOP");
  }

  /** Removes the list of standbys of a server that does not run. */
  forgetStandbys(): void {
    const file = join(this.data, "postgresql.auto.conf");
    appendFileSync(file, "synchronous_standby_names = ''\n");
  }

  async promote(): Promise<void> {
    await this.#run(`pg_ctl promote -w -D ${this.data}`);
  }

  /** Runs statements as the superuser; returns the lines of the last result. */
  async sql(text: string, database = "postgres"): Promise<string[]> {
    const login = ["-h", this.folder, "-p", String(this.port), "-U", "postgres", "-d", database];
    const args = ["-XqAt", "-v", "ON_ERROR_STOP=1", ...login, "-c", text];
    const env = { ...process.env, PGOPTIONS: "-c search_path=plant_store,public" };
    const { stdout } = await run(PSQL, args, { env });
    return stdout.split("\n").filter((line) => line !== "");
  }

  /** How many sessions the servers have; the superuser's do not count. */
  async countSessions(condition = "true"): Promise<number> {
    const text = `SELECT count(*) FROM pg_stat_activity WHERE usename <> 'postgres' AND ${condition}`;
    return Number((await this.sql(text))[0]);
  }

  /** Commits wait for one of these standbys soon; without a name they wait for none. */
  async setStandbys(names = ""): Promise<void> {
    await this.sql(`ALTER SYSTEM SET synchronous_standby_names = '${names}'`);
    await this.sql("SELECT pg_reload_conf()");
    const show = () => this.sql("SHOW synchronous_standby_names");
    await until("new sessions have it", async () => ((await show())[0] ?? "") === names);
  }

  /** Makes commits wait for one of these standbys; resolves when the only standby streams. */
  async streamTo(standbys: string): Promise<void> {
    await this.setStandbys(standbys);
    const text = "SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'";
    const state = standbys === "" ? "async" : "sync";
    await until("the standby streams", async () => (await this.sql(text))[0] === state);
  }

  /** Ends the sessions of all servers. */
  async endSessions(): Promise<void> {
    await this.sql(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'plant_store'",
    );
  }

  /** A new database with the tables of the store, and the role `plant_store` for its servers. */
  async createStore(database: string): Promise<void> {
    await this.sql(`CREATE DATABASE "${database}"`);
    const roles = await this.sql("SELECT 1 FROM pg_roles WHERE rolname = 'plant_store'");
    if (roles.length === 0) await this.sql("CREATE ROLE plant_store LOGIN PASSWORD 'secret'");
    await this.sql(printSchema(), database);
  }

  async #run(command: string): Promise<void> {
    const [program = "", ...args] = command.split(/ +/);
    await run(join(PROGRAMS ?? "", program), args, { ...USER, cwd: this.folder });
  }
}
