/**
 * Faults of a primary and its synchronous standby, under the load of two stores, and the plants that each
 * fault loses. Most have a control: the same fault without one safeguard, which must lose plants. The
 * tests run each fault once; `test/postgres/failover.ts` runs each many times, and its control.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { SESSION } from "../../src/postgres/connection.ts";
import type { PostgresOptions } from "../../src/postgres/index.ts";
import { CHECK_SERVER, STANDBYS } from "../../src/postgres/schema.ts";
import type { Cleanup } from "./cluster.ts";
import { compare, Load } from "./load.ts";
import { collect, type Driver, loadDriver, openStore, type Pair, startPair } from "./stores.ts";

/** Two hosts, and the load of two stores over them. */
export interface Trial extends Pair {
  readonly load: Load;
  /** The load goes on over so many new stores. */
  reopen(count: number): Promise<void>;
}

export interface Fault {
  /** Makes the fault happen; afterwards one host accepts writes. May return figures. */
  readonly happens: (trial: Trial) => Promise<Figures> | Promise<void>;
  /** What each figure may be. */
  readonly limits?: Figures;
  /** Prepares the hosts before the load begins. */
  readonly prepare?: (pair: Pair) => Promise<unknown>;
  /** Whether the stores require a synchronous standby; the role may then see how far standbys are. */
  readonly requireSync?: boolean;
  /** Whether the first stores probe. */
  readonly followsTokens?: boolean;
  /** Removes a safeguard. */
  readonly control?: { readonly without: string; readonly sabotage: Sabotage };
  /** Whether no client may see an error. */
  readonly isUnnoticed?: boolean;
}

type Figures = Readonly<Record<string, number>>;

interface Sabotage {
  readonly asynchronous?: boolean;
  /** Changes the statements that the driver receives. */
  readonly rewrite?: (sql: string) => string;
  readonly ignoreNotices?: boolean;
  /** Logs in without the settings of the session. */
  readonly plainLogin?: boolean;
}

const DEADLINE_MS = 10_000;
/** Every request is answered by then. */
export const ANSWERED_MS = DEADLINE_MS + 200;

const CANCEL =
  "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE usename = 'plant_store' AND wait_event = 'SyncRep'";

/** The primary runs alone for a moment and is lost with its data, and the standby takes over. */
async function loseCutOffPrimary({ primary, standby, load }: Trial): Promise<void> {
  await load.more(300);
  await standby.stop("kill");
  await sleep(300);
  await primary.stop("kill");
  await standby.start();
  await standby.promote();
  await load.more(300);
}

async function cancelWaits({ primary, standby, load }: Trial): Promise<void> {
  await load.more(200);
  await standby.stop("kill");
  for (let round = 0; round < 5; round++) {
    await sleep(200);
    await primary.sql(CANCEL);
  }
  await primary.stop("kill");
  await standby.start();
  await standby.promote();
  await load.more(200);
}

/** Makes a repeat be answered from a plain read. */
function replayFromSelect(sql: string): string {
  return sql.replace(
    /INSERT INTO plant_store\.plants AS p([\s\S]*)ON CONFLICT[\s\S]*/,
    (_, rows) => `, i AS (INSERT INTO plant_store.plants AS p${rows}
ON CONFLICT (id) DO NOTHING RETURNING id, name, tag, exact, batch)
SELECT * FROM i UNION ALL
SELECT id, name, tag, exact, batch FROM plant_store.plants WHERE id = ANY ($1::bigint[])`,
  );
}

/** The session keeps the settings of its role, and seems to have those of its login. */
function withoutSettings(sql: string): string {
  if (sql !== CHECK_SERVER) return sql;
  return sql
    .replace(/\(SELECT count[\s\S]*?\)\),/, `${SESSION.length},`)
    .replace(/set_config[\s\S]*/, "0");
}

const SEE_STANDBYS = "GRANT pg_read_all_stats TO plant_store";
/** Creates are acknowledged, whatever the standbys have. */
function withoutProof(sql: string): string {
  return sql === STANDBYS ? sql.replace(/\(SELECT count[\s\S]*lsn\)\n/, "1000\n") : sql;
}

/** Nor is it noticed that no standby is asked for any more. */
function withoutProofAndCheck(sql: string): string {
  return withoutProof(sql).replace("current_setting('synchronous_standby_names')", "'standby'");
}

/** All servers seem to be one. */
function withoutTimelines(sql: string): string {
  if (sql !== CHECK_SERVER) return sql;
  return sql
    .replace(/THEN pg_walfile_name.*/, "THEN '00000001' END,")
    .replace(/date_part.*text/, "0");
}

/** Kills the primary, and goes on over its standby, which has no standby of its own. */
async function loseToStandby({ primary, standby, load, reopen }: Trial): Promise<void> {
  await primary.stop("kill");
  await standby.thaw();
  await standby.start();
  await standby.promote();
  await reopen(1);
  await load.more(200);
}

export const FAULTS: Readonly<Record<string, Fault>> = {
  "the list of standbys is emptied while commits wait, and the primary is killed": {
    requireSync: true,
    prepare: ({ primary }) => primary.sql(SEE_STANDBYS),
    happens: async (trial) => {
      const { primary, standby, load } = trial;
      await load.more(300);
      await standby.freeze();
      await sleep(300);
      await primary.setStandbys("");
      await sleep(3000);
      await loseToStandby(trial);
    },
    control: {
      without: "the proof by standbys, and the check of the list",
      sabotage: { rewrite: withoutProofAndCheck },
    },
  },
  "the list of standbys is filled, but not in force yet, and the primary is killed": {
    requireSync: true,
    followsTokens: false, // no probe is proven
    prepare: async ({ primary, standby }) => {
      await primary.sql(SEE_STANDBYS);
      await primary.setStandbys("");
      await standby.stop("kill");
      await primary.pauseCheckpointer();
      await primary.setStandbys("standby");
    },
    happens: async (trial) => {
      await sleep(3000);
      await loseToStandby(trial);
    },
    control: { without: "the proof by standbys", sabotage: { rewrite: withoutProof } },
  },
  "a primary that was replaced returns, and commits without a standby": {
    happens: async ({ primary, standby, load, reopen }) => {
      await load.more(300);
      await primary.stop("kill");
      await standby.promote();
      await load.more(300);
      primary.forgetStandbys();
      await primary.start();
      // Stores that start now see two hosts, and those that run must not go back.
      await reopen(6);
      await load.more(300);
      await standby.stop("fast");
      await sleep(500);
      await standby.start();
      await load.more(300);
      await primary.stop("kill");
    },
    control: { without: "timelines", sabotage: { rewrite: withoutTimelines } },
  },
  "a standby is promoted beside its primary, which goes on": {
    happens: async ({ primary, standby, load }) => {
      await load.more(300);
      await standby.promote();
      const promoted = performance.now();
      await load.more(1);
      const firstMs = performance.now() - promoted;
      await load.more(300);
      await primary.stop("kill");
      return { firstMs };
    },
    limits: { firstMs: 5000 },
  },
  "a primary is killed, and its standby promoted": {
    isUnnoticed: true,
    happens: async ({ primary, standby, load }) => {
      await load.more(500);
      await primary.stop("kill");
      await standby.promote();
      const promoted = performance.now();
      await load.more(1);
      const answered = performance.now();
      await load.more(500);
      return { firstMs: answered - promoted };
    },
    limits: { firstMs: 500 },
  },
  "a primary that is cut off from its standby is killed, and the standby promoted": {
    happens: loseCutOffPrimary,
    control: { without: "a synchronous standby", sabotage: { asynchronous: true } },
  },
  "waits for the standby are cancelled, and the primary is killed": {
    happens: cancelWaits,
    control: { without: "heeding the server's notice", sabotage: { ignoreNotices: true } },
  },
  "the standby is cut off, and the primary crashes, returns and is killed": {
    happens: async ({ primary, standby, load }) => {
      await load.more(200);
      await standby.stop("kill");
      await sleep(500);
      // The crash ends the waits, and what they waited for becomes visible.
      await primary.stop("immediate");
      await primary.start();
      await sleep(1500);
      await primary.stop("kill");
      await standby.start();
      await standby.promote();
      await load.more(200);
    },
    control: { without: "a write for every repeat", sabotage: { rewrite: replayFromSelect } },
  },
  "the role has settings that hide notices and wait for no standby, and waits are cancelled": {
    prepare: ({ primary }) =>
      primary.sql(
        "ALTER ROLE plant_store SET client_min_messages = error; ALTER ROLE plant_store SET synchronous_commit = local",
      ),
    happens: cancelWaits,
    control: {
      without: "settings in the login",
      sabotage: { rewrite: withoutSettings, plainLogin: true },
    },
  },
  "a primary stops, its standby is promoted, and the old primary returns": {
    happens: async ({ primary, standby, load }) => {
      await load.more(300);
      await primary.freeze();
      await standby.promote();
      await load.more(300);
      await primary.thaw();
      await sleep(1000);
      await load.more(300);
      await primary.stop("kill");
    },
  },
  "sessions are terminated, and a primary restarts in every way": {
    isUnnoticed: true,
    happens: async ({ primary, load }) => {
      await load.more(200);
      for (let round = 0; round < 5; round++) {
        await primary.endSessions();
        await load.more(50);
      }
      for (const how of ["fast", "immediate", "kill"] as const) {
        await primary.stop(how);
        await primary.start();
        await load.all(); // else one create could meet every restart, and its deadline
      }
    },
  },
};

export interface Cost {
  readonly acknowledged: number;
  readonly lost: number;
  readonly changed: number;
  readonly wrong: number;
  /** Calls that ended with an error and were repeated. */
  readonly failed: number;
  /** The codes of their errors. */
  readonly codes: readonly string[];
  /** The longest call, and what the fault has measured, in whole units. */
  readonly figures: Figures;
}

/** Makes a fault happen to a new pair of hosts. */
export async function tryFault(
  cleanup: Cleanup,
  { prepare, happens, requireSync = false, followsTokens = true }: Fault,
  { clients = 48, sabotage = {} as Sabotage, databaseDeadlineMs = DEADLINE_MS } = {},
): Promise<Cost> {
  const pair = await startPair(cleanup, sabotage.asynchronous ? { standbys: "" } : {});
  await prepare?.(pair);
  const { url } = pair;
  const pg = sabotageDriver(await loadDriver(), sabotage);
  // Stores whose required standby does not return answer at their deadline.
  const deadline = { databaseDeadlineMs: requireSync ? DEADLINE_MS : databaseDeadlineMs };
  const open = async (options: Partial<PostgresOptions> = {}) =>
    (await openStore(cleanup, { pg, url, ...deadline, ...options })).plants;
  const first = { requireSync, followsTokens };
  const load = new Load([await open(first), await open(first)], clients);
  const reopen = async (count: number) =>
    load.use(await Promise.all(Array.from({ length: count }, () => open())));
  const measured = await happens({ ...pair, load, reopen });
  const report = await load.stop();
  const found = await collect((await openStore(cleanup, { url })).plants.list());
  const { acknowledged, failed, codes, longestMs } = report;
  const figures = Object.entries({ longestMs, ...measured });
  return {
    acknowledged: acknowledged.size,
    ...compare(report, found),
    failed,
    codes,
    figures: Object.fromEntries(figures.map(([name, figure]) => [name, Math.round(figure)])),
  };
}

function sabotageDriver(pg: Driver, sabotage: Sabotage): Driver {
  class Client extends pg.Client {
    constructor(config: object) {
      super(sabotage.plainLogin ? { ...config, options: undefined } : config);
    }
    override on(event: string, listener: (value: never) => void): unknown {
      return sabotage.ignoreNotices && event === "notice" ? this : super.on(event, listener);
    }
    // biome-ignore lint/suspicious/noExplicitAny: as the driver's
    override query(statement: { readonly text: string }): Promise<any> {
      const { rewrite = (sql: string) => sql } = sabotage;
      return super.query({ ...statement, text: rewrite(statement.text) });
    }
  }
  return { ...pg, Client, types: pg.types };
}
