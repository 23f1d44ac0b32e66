/**
 * Faults of a primary and its synchronous standby, under the load of two stores, and the plants that each
 * fault loses. Most have a control: the same fault without one safeguard, which must lose plants.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { SESSION } from "../../src/postgres/connection.ts";
import type { PostgresOptions } from "../../src/postgres/index.ts";
import { CHECK_SERVER, STANDBYS } from "../../src/postgres/schema.ts";
import type { Cleanup } from "./cluster.ts";
import { Load } from "./load.ts";
import {
  listPlants,
  openStore,
  type Pair,
  type Sabotage,
  sabotageDriver,
  startPair,
} from "./stores.ts";

export interface Fault {
  /** What happens, by `STEPS`; afterwards one host accepts writes. A number: so many more creates succeed. */
  readonly steps: string;
  /** The same, before the load begins. */
  readonly before?: string;
  /** Whether no client may see an error. */
  readonly isUnnoticed?: boolean;
  /** Options of the first stores. */
  readonly options?: Partial<PostgresOptions>;
  /** A safeguard that the control has not. */
  readonly without?: { readonly what: string; readonly standbys?: string } & Sabotage;
}

const CANCEL =
  "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE usename = 'plant_store' AND wait_event = 'SyncRep'";
const HIDE =
  "ALTER ROLE plant_store SET client_min_messages = error; ALTER ROLE plant_store SET synchronous_commit = local";

type Trial = Pair & { readonly load: Load; reopen(stores: number): Promise<void> };

/** Each with the words after it. */
const STEPS: Readonly<Record<string, (trial: Trial, ...words: string[]) => unknown>> = {
  wait: (_, ms) => sleep(Number(ms)),
  kill: (trial, host) => hostOf(trial, host).stop("SIGKILL"),
  stop: (trial, host) => hostOf(trial, host).stop("SIGINT"),
  crash: (trial, host) => hostOf(trial, host).stop("SIGQUIT"),
  start: (trial, host) => hostOf(trial, host).start(),
  freeze: (trial, host) => hostOf(trial, host).freeze(),
  thaw: (trial, host) => hostOf(trial, host).freeze(false),
  promote: ({ standby }) => standby.promote(),
  cancel: ({ primary }) => primary.sql(CANCEL),
  hide: ({ primary }) => primary.sql(HIDE),
  terminate: ({ primary }) => primary.endSessions(),
  see: ({ primary }) => primary.sql("GRANT pg_read_all_stats TO plant_store"),
  pause: ({ primary }) => primary.pauseCheckpointer(),
  forget: ({ primary }) => primary.configure("synchronous_standby_names", ""),
  list: ({ primary }, names) => primary.setStandbys(names),
  reopen: (trial, count) => trial.reopen(Number(count)),
};

function hostOf({ primary, standby }: Trial, name = "") {
  return name === "primary" ? primary : standby;
}

/** Does the steps; returns how soon after a promotion a create has succeeded. */
async function act(trial: Trial, steps: string): Promise<number> {
  let firstMs = 0;
  for (const step of steps.split(", ")) {
    const [verb = "", ...words] = step.split(" ");
    if (/^\d+$/.test(verb)) await trial.load.more(Number(verb));
    else await STEPS[verb]?.(trial, ...words);
    if (verb !== "promote") continue;
    const promoted = performance.now();
    if (!steps.includes("reopen")) await trial.load.more(1);
    firstMs = performance.now() - promoted;
  }
  return firstMs;
}

/** Makes a repeat respond from a plain read. */
function replayFromSelect(sql: string): string {
  return sql.replace(
    /INSERT INTO plant_store\.plants AS p([\s\S]*)ON CONFLICT[\s\S]*/,
    (_, rows) => `, i AS (INSERT INTO plant_store.plants AS p${rows}
ON CONFLICT (id) DO NOTHING RETURNING id, name, tag, exact, batch)
SELECT * FROM i UNION ALL
SELECT p.id, p.name, p.tag, p.exact, batch FROM json_to_recordset($1::json) r (id bigint) JOIN plant_store.plants p USING (id)`,
  );
}

/** The session keeps the settings of its role, and seems to have those of its login. */
function withoutSettings(sql: string): string {
  if (sql !== CHECK_SERVER) return sql;
  const counted = sql.replace(/\(SELECT count[\s\S]*?\)\),/, `${SESSION.length},`);
  return counted.replace(/set_config[\s\S]*/, "0");
}

/** Creates are acknowledged, whatever the standbys have, and even if none is asked for any more. */
function withoutProof(sql: string): string {
  const proven = sql === STANDBYS ? sql.replace(/\(SELECT count[\s\S]*lsn\)\n/, "1000\n") : sql;
  return proven.replace("current_setting('synchronous_standby_names')", "'standby'");
}

/** All servers seem to be one. */
function withoutTimelines(sql: string): string {
  if (sql !== CHECK_SERVER) return sql;
  return sql.replace(/THEN left.*/, "THEN '00000001' END,").replace(/date_part.*text/, "0");
}

const CANCELLED = "200, kill standby, wait 200, cancel, wait 200, cancel, wait 200, cancel";
const LOSE = "kill primary, start standby, promote";
/** Goes on over the standby, which has no standby of its own. */
const LOSE_FOR_GOOD = "kill primary, thaw standby, start standby, promote, reopen 1, 200";
const REQUIRED = { requireSync: true, databaseDeadlineMs: 10_000 };

export const FAULTS: Readonly<Record<string, Fault>> = {
  "the list of standbys is emptied while commits wait, and the primary is killed": {
    options: REQUIRED,
    before: "see",
    steps: `300, freeze standby, wait 300, list, wait 3000, ${LOSE_FOR_GOOD}`,
    without: { what: "the proof, and the check of the list", rewrite: withoutProof },
  },
  "the list of standbys is filled, but not in force yet, and the primary is killed": {
    options: { ...REQUIRED, followsTokens: false }, // no probe is proven
    before: "see, list, kill standby, pause, list standby",
    steps: `wait 3000, ${LOSE_FOR_GOOD}`,
    without: { what: "the proof", rewrite: withoutProof },
  },
  "a primary that was replaced returns, and commits without a standby": {
    // Stores that start then see two hosts, and those that run must not go back.
    steps:
      "300, kill primary, promote, 300, forget, start primary, reopen 6, 300, stop standby, wait 500, " +
      "start standby, 300, kill primary",
    without: { what: "timelines", rewrite: withoutTimelines },
  },
  "a standby is promoted beside its primary, which goes on": {
    steps: "300, promote, 300, kill primary",
  },
  "a primary is killed, and its standby promoted": {
    steps: "500, kill primary, promote, 500",
    isUnnoticed: true,
  },
  "a primary that is cut off from its standby is killed, and the standby promoted": {
    steps: `300, kill standby, wait 300, ${LOSE}, 300`,
    without: { what: "a synchronous standby", standbys: "" },
  },
  "waits for the standby are cancelled, and the primary is killed": {
    steps: `${CANCELLED}, ${LOSE}, 200`,
    without: { what: "heeding the server's notice", ignoreNotices: true },
  },
  "the standby is cut off, and the primary crashes, returns and is killed": {
    // The crash ends the waits, and what they waited for becomes visible.
    steps: `200, kill standby, wait 500, crash primary, start primary, wait 1500, ${LOSE}, 200`,
    without: { what: "a write for every repeat", rewrite: replayFromSelect },
  },
  "the role has settings that hide notices and wait for no standby, and waits are cancelled": {
    before: "hide",
    steps: `${CANCELLED}, ${LOSE}, 200`,
    without: { what: "settings in the login", rewrite: withoutSettings, plainLogin: true },
  },
  "a primary stops, its standby is promoted, and the old primary returns": {
    steps: "300, freeze primary, promote, 300, thaw primary, wait 1000, 300, kill primary",
  },
  "sessions are terminated, and a primary restarts in every way": {
    isUnnoticed: true,
    steps:
      "200, terminate, 50, terminate, 50, terminate, 50, stop primary, start primary, 200, " +
      "crash primary, start primary, 200, kill primary, start primary, 200",
  },
};

/** Makes a fault happen to a new pair of hosts. */
export async function tryFault(
  cleanup: Cleanup,
  { before = "wait 0", steps, options = {} }: Fault,
  {
    clients = 48,
    sabotage = {} as Sabotage & { standbys?: string },
    databaseDeadlineMs = 10_000,
  } = {},
) {
  const pair = await startPair(cleanup, sabotage);
  const { url } = pair;
  const pg = await sabotageDriver(sabotage);
  const open = async (more: Partial<PostgresOptions> = {}) =>
    (await openStore(cleanup, { pg, url, databaseDeadlineMs, ...more })).plants;
  const load = new Load();
  const reopen = async (count: number) => {
    load.stores = await Promise.all(Array.from({ length: count }, () => open()));
  };
  const trial = { ...pair, load, reopen };
  await act(trial, before);
  load.start(clients, await open(options), await open(options));
  const firstMs = Math.round(await act(trial, steps));
  const list = async () => listPlants((await openStore(cleanup, { url })).plants);
  return { ...(await load.stop(list)), firstMs };
}
