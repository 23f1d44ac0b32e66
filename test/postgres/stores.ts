/** Shared by the tests of the database store: a server for each test file, and stores in it. */
import { after } from "node:test";
import { parseNewPlant } from "../../src/core/plant.ts";
import type { ListOptions } from "../../src/core/services.ts";
import {
  openPostgres,
  type PgModule,
  type PostgresOptions,
  type PostgresPlants,
  type PostgresStore,
} from "../../src/postgres/index.ts";
import { linesOf } from "../support/plants.ts";
import { TIMEOUT } from "../support/watch.ts";
import { type Cleanup, type Client, Cluster, loadDriver, NEEDS_POSTGRES } from "./cluster.ts";

/** Of a test that needs the server. */
export const OPTIONS = { ...NEEDS_POSTGRES, ...TIMEOUT };

let databases = 0;

/** A server that the tests of a file share: started by the first, stopped after the last. */
export class SharedCluster {
  readonly #access: readonly string[] | undefined;
  readonly #ends: (() => unknown)[] = [];
  #cluster: Promise<Cluster> | undefined;

  constructor(access?: readonly string[]) {
    this.#access = access;
    after(async () => {
      for (const end of this.#ends) await end();
    });
  }

  get(): Promise<Cluster> {
    this.#cluster ??= Cluster.start({ after: (end) => this.#ends.push(end) }, this.#access);
    return this.#cluster;
  }

  /** A database with the tables, and its URL for the role of the servers. */
  async createStore() {
    const cluster = await this.get();
    const database = `garden${++databases}`;
    await cluster.createStore(database);
    return { cluster, database, url: cluster.url(database, "plant_store") };
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

/** The driver, with another way to send a statement. */
export async function wrapDriver(
  query: (client: Client, statement: { text: string }, send: () => Promise<unknown>) => unknown,
): Promise<PgModule> {
  class WrappedClient extends (await loadDriver()).Client {
    override async query(statement: { readonly text: string }) {
      return query(this, statement, () => super.query(statement));
    }
  }
  return { Client: WrappedClient };
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

export { loadDriver, NEEDS_POSTGRES } from "./cluster.ts";
