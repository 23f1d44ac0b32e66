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
import { linesOf } from "../support/stores.ts";
import { TIMEOUT } from "../support/watch.ts";
import { type Cleanup, Cluster, loadDriver, NEEDS_POSTGRES, type Untyped } from "./cluster.ts";

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

/** What a driver does not do, or does in another way. */
export interface Sabotage {
  /** Changes a statement. */
  readonly rewrite?: (sql: string) => string;
  /** Sends a statement. */
  readonly send?: (client: Untyped, sql: string, send: () => Promise<unknown>) => unknown;
  readonly ignoreNotices?: boolean;
  /** Logs in without the settings of the session. */
  readonly plainLogin?: boolean;
}

export async function sabotageDriver(sabotage: Sabotage): Promise<PgModule> {
  const { rewrite = (sql) => sql, send = (_client, _sql, now) => now(), ignoreNotices } = sabotage;
  class Sabotaged extends (await loadDriver()).Client {
    constructor(config: object) {
      super(sabotage.plainLogin ? { ...config, options: undefined } : config);
    }
    on(event: string, listener: (value: never) => void): unknown {
      return ignoreNotices && event === "notice" ? this : super.on(event, listener);
    }
    async query(statement: { readonly text: string }) {
      const text = rewrite(statement.text);
      return send(this, text, () => super.query({ ...statement, text }));
    }
  }
  return { Client: Sabotaged };
}

export async function succeeds(work: Promise<unknown>): Promise<boolean> {
  const [{ status }] = await Promise.allSettled([work]);
  return status === "fulfilled";
}

/** In order of id. */
export async function listPlants(plants: PostgresPlants, options?: ListOptions) {
  const lines = await linesOf(plants.listLines(options));
  return lines.map((line) => parseNewPlant(Buffer.from(line)));
}

export type Pair = Awaited<ReturnType<typeof startPair>>;

/** A primary with a store, and its standby, which commits wait for if it is among the `standbys`. The URL names both. */
export async function startPair(cleanup: Cleanup, { standbys = "standby" } = {}) {
  const primary = await Cluster.start(cleanup);
  await primary.createStore("garden");
  const standby = await Cluster.clone(cleanup, primary, "standby");
  await primary.streamTo(standbys);
  const hosts = `127.0.0.1:${primary.port},127.0.0.1:${standby.port}`;
  return { primary, standby, url: `postgresql://plant_store@${hosts}/garden` };
}

export { loadDriver, NEEDS_POSTGRES } from "./cluster.ts";
