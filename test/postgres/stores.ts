/** Shared by the tests of the database store: a server for each test file, and stores in it. */
import { chmodSync, symlinkSync } from "node:fs";
import type { Socket } from "node:net";
import { dirname, join } from "node:path";
import { after, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";
import { parseNewPlant } from "../../src/core/plant.ts";
import type { ListOptions } from "../../src/core/services.ts";
import {
  openPostgres,
  type PostgresOptions,
  type PostgresPlants,
  type PostgresStore,
} from "../../src/postgres/index.ts";
import { linesOf } from "../support/plants.ts";
import { bundleOptions } from "../support/program.ts";
import { type Cleanup, Cluster } from "./cluster.ts";

/** The driver; the compiler needs none. */
export async function loadDriver(): Promise<Driver> {
  const name: string = "pg";
  return (await import(name)).default;
}

export interface Driver {
  readonly Client: new (config: object) => Client;
  readonly defaults: Record<string, unknown>;
  readonly types: {
    getTypeParser(oid: number): (text: string) => unknown;
    setTypeParser(oid: number, parser: (text: string) => unknown): void;
  };
}

/** What the tests use of a client of the driver. */
export interface Client {
  readonly connection: { readonly stream: Socket };
  connect(): Promise<unknown>;
  // biome-ignore lint/suspicious/noExplicitAny: rows of any shape
  query(statement: unknown): Promise<any>;
  on(event: string, listener: (value: never) => void): unknown;
  end(): Promise<void>;
}

let databases = 0;

/** A server that the tests of a file share: started by the first, stopped after the last. */
export class SharedCluster {
  readonly #options: Parameters<typeof Cluster.start>[1];
  readonly #ends: (() => unknown)[] = [];
  #cluster: Promise<Cluster> | undefined;

  constructor(options: Parameters<typeof Cluster.start>[1] = {}) {
    this.#options = options;
    after(async () => {
      for (const end of this.#ends) await end();
    });
  }

  get(): Promise<Cluster> {
    this.#cluster ??= Cluster.start({ after: (end) => this.#ends.push(end) }, this.#options);
    return this.#cluster;
  }

  /** A database with the tables, and its URL for the role of the servers. */
  async createStore() {
    const cluster = await this.get();
    const database = `garden${++databases}`;
    await cluster.createStore(database);
    return { cluster, database, url: cluster.url(database, { user: "plant_store" }) };
  }

  /** A store in a database of its own. */
  async openStore(t: Cleanup, options: Partial<PostgresOptions> = {}) {
    const made = await this.createStore();
    return { ...made, ...(await openStore(t, { url: made.url, ...options })) };
  }
}

/** Opens a store that is closed when the test ends. */
export async function openStore(
  t: Cleanup,
  options: Partial<PostgresOptions> & Pick<PostgresOptions, "url">,
): Promise<PostgresStore> {
  const store = await openPostgres({ pg: await loadDriver(), ...options });
  t.after(() => store.close());
  return store;
}

export function succeeds(work: Promise<unknown>): Promise<boolean> {
  return work.then(
    () => true,
    () => false,
  );
}

/** In order of id. */
export async function listPlants(plants: PostgresPlants, options?: ListOptions) {
  const lines = await linesOf(plants.listLines(options));
  return lines.map((line) => parseNewPlant(Buffer.from(line)));
}

/** Of one server: 4 for creates, and 3 for probes, reads, and tokens and locked rows. */
export const SESSIONS_MAX = 4 + 3;

export interface Pair {
  readonly primary: Cluster;
  readonly standby: Cluster;
  /** Names both, for the role of the servers. */
  readonly url: string;
}

/** A primary with a store, and its standby, which commits wait for if it is among the `standbys`. */
export async function startPair(cleanup: Cleanup, { standbys = "standby" } = {}): Promise<Pair> {
  const primary = await Cluster.start(cleanup);
  await primary.createStore("garden");
  const standby = await Cluster.follow(cleanup, primary, "standby");
  await primary.streamTo(standbys);
  const hosts = `127.0.0.1:${primary.port},127.0.0.1:${standby.port}`;
  return { primary, standby, url: `postgresql://plant_store@${hosts}/garden` };
}

/** Inserts the rows 1 to `count`, named "held", in a transaction that stays open until `end`. */
export async function holdRows(t: TestContext, url: string, count: number) {
  const pg = await loadDriver();
  const holder = new pg.Client({ connectionString: url });
  await holder.connect();
  t.after(() => holder.end());
  const rows = `SELECT i, 'held', NULL, NULL, 0 FROM generate_series(1, ${count}) i`;
  await holder.query("BEGIN");
  await holder.query(`INSERT INTO plant_store.plants ${rows}`);
  return { end: (how: "COMMIT" | "ROLLBACK") => holder.query(how) };
}

/** Builds the program beside the driver, as `npm install plant-store pg` leaves it; returns its file. */
export function buildProgram(): string {
  const options = bundleOptions();
  buildSync(options);
  chmodSync(options.outfile, 0o755);
  const driver = fileURLToPath(new URL("../../node_modules", import.meta.url));
  symlinkSync(driver, join(dirname(options.outfile), "node_modules"));
  return options.outfile;
}

export { NEEDS_POSTGRES } from "./cluster.ts";

/** Runs work, and afterwards its cleanups, the newest first. */
export async function withCleanup<T>(work: (cleanup: Cleanup) => Promise<T>): Promise<T> {
  const ends: (() => unknown)[] = [];
  try {
    return await work({ after: (end) => ends.unshift(end) });
  } finally {
    for (const end of ends) await end();
  }
}
