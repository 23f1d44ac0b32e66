/**
 * The tables, the statements, and how a plant is written in a row.
 *
 * Invariants. Every name is qualified by its schema, and no statement depends on a setting of its
 * session: a pooler shares sessions, and a role may have settings of its own. A string that `text`
 * cannot hold (NUL, a lone surrogate) is kept exactly in `exact`, the record as JSON; `name` and
 * `tag` are then for people only.
 */
import { randomBytes } from "node:crypto";
import { encodeNewPlant, type NewPlant, parseNewPlant } from "../core/plant.ts";
import type { Connection, Rows } from "./connection.ts";

const SCHEMA_VERSION = 1;

export type DatabaseEngine = "postgresql" | "citus";

/**
 * The statements that create the tables. A person runs them once: servers that start at the same
 * time would race.
 *
 * @param role the role that the servers log in as.
 */
export function printSchema(engine: DatabaseEngine = "postgresql", role = "plant_store"): string {
  const name = `"${role.replaceAll('"', '""')}"`;
  return `-- Tables of plant-store, version ${SCHEMA_VERSION}. Run once, by their owner; ${name} is the servers' role.
BEGIN;
CREATE SCHEMA plant_store;
CREATE TABLE plant_store.plants (
  id bigint PRIMARY KEY,
  name text NOT NULL,
  tag text,
  exact text,
  batch bigint NOT NULL
) WITH (fillfactor = 90);

CREATE TABLE plant_store.plant_tokens (
  hash text PRIMARY KEY,
  name text NOT NULL,
  scopes text NOT NULL,
  created_at bigint NOT NULL,
  expires_at bigint,
  revoked_at bigint
);
-- A server that can still write here is asking the primary.
CREATE TABLE plant_store.plant_leases (slot integer PRIMARY KEY, beat bigint NOT NULL) WITH (fillfactor = 50);

-- One row. Every change of the tokens gives tokens_version another random number.
CREATE TABLE plant_store.plant_schema (
  version integer NOT NULL,
  store uuid NOT NULL,
  tokens_version bigint NOT NULL
);
INSERT INTO plant_store.plant_schema VALUES (${SCHEMA_VERSION}, gen_random_uuid(), 0);

GRANT USAGE ON SCHEMA plant_store TO ${name};
GRANT SELECT, INSERT, UPDATE (batch) ON plant_store.plants TO ${name};
GRANT SELECT, INSERT, UPDATE ON plant_store.plant_leases TO ${name};
-- Without the right to change tokens: the commands \`token create\` and \`token revoke\` log in as the owner.
GRANT SELECT ON plant_store.plant_tokens, plant_store.plant_schema TO ${name};
-- A table's lock is waited for before a statement's own settings count.
ALTER ROLE ${name} SET lock_timeout = '1s';
COMMIT;
${engine === "citus" ? CITUS : ""}`;
}

const CITUS = `
SELECT create_distributed_table('plant_store.plants', 'id');
-- On the coordinator and on every worker, because settings of a statement do not reach workers:
--   ALTER SYSTEM SET synchronous_commit = 'on'; SELECT pg_reload_conf();
`;

/** 63 random bits in decimal: no two changes share one. @internal */
export function randomNumber(): string {
  return (randomBytes(8).readBigUInt64LE() >> 1n).toString();
}

/**
 * The settings of a write, for its own transaction alone: the commit waits for the standby, a
 * warning that this wait was cut short arrives, and the wait for a row's lock is bounded.
 *
 * @param lockTimeout an SQL expression.
 * @internal
 */
export function writeSettings(lockTimeout: string): string {
  return `s AS MATERIALIZED (SELECT
  set_config('synchronous_commit',
    CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END,
    true),
  set_config('client_min_messages', 'warning', true),
  set_config('lock_timeout', ${lockTimeout}, true))`;
}

/**
 * Stores new plants, and returns every id with the content that it has in the table. A row that
 * exists is written again as it is, so that this commit covers it: one that is only read may still
 * wait for the standby, and be lost. Parameters: the columns, sorted by id, each id once; the number
 * of the batch; how long to wait for a lock.
 *
 * @internal
 */
export const CREATE = `WITH ${writeSettings("$6")}
INSERT INTO plant_store.plants AS p (id, name, tag, exact, batch)
SELECT u.*, $5::bigint FROM s, unnest($1::bigint[], $2::text[], $3::text[], $4::text[]) u
ON CONFLICT (id) DO UPDATE SET batch = p.batch
RETURNING id, name, tag, exact, batch`;

/** @internal */
export const GET =
  "SELECT id, name, tag, exact FROM plant_store.plants WHERE id = ANY ($1::bigint[])";

/**
 * Plants from an id on, at most so many and about so many bytes of them, but at least one: otherwise
 * rows of a megabyte would come by the thousand.
 *
 * @internal
 */
export const PAGE = `SELECT id, name, tag, exact FROM (
  SELECT q.*, sum(bytes) OVER (ORDER BY id) - bytes AS earlier FROM (
    SELECT id, name, tag, exact,
      octet_length(name) + coalesce(octet_length(tag), 0) + coalesce(octet_length(exact), 0) AS bytes
    FROM plant_store.plants WHERE id >= $1::bigint ORDER BY id LIMIT $2::integer) q) r
WHERE earlier < $3::bigint ORDER BY id`;

/** The parameters of `CREATE`. @internal */
export function createValues(
  plants: readonly NewPlant[],
  batch: string,
  lockTimeoutMs: number,
): string[] {
  const rows = plants.map(encodeRow);
  const columns = [0, 1, 2, 3].map((at) => `{${rows.map((row) => row[at]).join()}}`);
  return [...columns, batch, `${lockTimeoutMs}ms`];
}

/** The elements of the arrays for `id, name, tag, exact`. */
function encodeRow(plant: NewPlant): readonly string[] {
  const { id, name, tag } = plant;
  const isText = fitsText(name) && (tag === undefined || fitsText(tag));
  return [
    String(id),
    encodeElement(name),
    tag === undefined ? "NULL" : encodeElement(tag),
    isText ? "NULL" : encodeElement(encodeNewPlant(plant)),
  ];
}

/** The plant of a row that begins with `id, name, tag, exact`. @internal */
export function decodeRow(row: Rows[number]): NewPlant {
  const [id, name, tag, exact] = row as readonly [string, string, string | null, string | null];
  if (exact !== null) return parseNewPlant(Buffer.from(exact));
  return tag === null ? { id: BigInt(id), name } : { id: BigInt(id), name, tag };
}

/** Whether a row has the content of a plant; both have the same id. @internal */
export function isPlantOfRow(plant: NewPlant, row: Rows[number]): boolean {
  const [, name, tag, exact] = row;
  if (exact !== null) return exact === encodeNewPlant(plant);
  return name === plant.name && tag === (plant.tag ?? null);
}

/** Not NUL, which the database refuses, nor half a surrogate pair, which it changes. */
function fitsText(text: string): boolean {
  return !text.includes("\0") && text.isWellFormed();
}

/**
 * An element of an array, as the server reads it; without what `text` cannot hold. With the literals
 * that the driver makes of arrays an import took 1.13 to 1.27 times as long.
 */
function encodeElement(text: string): string {
  const fit = fitsText(text) ? text : text.replaceAll("\0", "\uFFFD").toWellFormed();
  return `"${NEEDS_ESCAPE.test(fit) ? fit.replace(/["\\]/g, "\\$&") : fit}"`;
}

const NEEDS_ESCAPE = /["\\]/;

function alterSystem(why: string, change: string): string {
  return `${why}; run: ALTER SYSTEM ${change}; SELECT pg_reload_conf();`;
}

function checksOf(table: string): Record<string, string> {
  const read = (column: string) =>
    `(SELECT t.${column} FROM pg_catalog.pg_class t WHERE t.oid = '${table}'::regclass)`;
  return {
    [`${read("relpersistence")} <> 'p'`]:
      `${table} is not logged, so a crash empties it, and no standby has its rows; run: ` +
      `ALTER TABLE ${table} SET LOGGED;`,
    [read("relrowsecurity")]:
      `${table} has row security, which hides rows; run: ALTER TABLE ${table} DISABLE ROW LEVEL SECURITY;`,
  };
}

/** Conditions in SQL that make a database unfit for plants, each with what is wrong and what to do. */
const REFUSED: Readonly<Record<string, string>> = {
  [`s.version <> ${SCHEMA_VERSION}`]: `its tables are not of version ${SCHEMA_VERSION}: use the release that fits them`,
  "current_setting('server_encoding') <> 'UTF8'":
    "its encoding is not UTF8: create the database with ENCODING 'UTF8'",
  // Not transaction_read_only, which is on for a moment after a promotion.
  "current_setting('default_transaction_read_only', true) = 'on'":
    "it is read-only; if nobody needs that, run: BEGIN READ WRITE; " +
    "ALTER ROLE … IN DATABASE … SET default_transaction_read_only = off; COMMIT;",
  "current_setting('fsync', true) = 'off'": alterSystem(
    "fsync is off, so a crash loses plants",
    "SET fsync = on",
  ),
  // The statements write NULL in arrays, which then would be a text.
  "current_setting('array_nulls', true) = 'off'":
    "array_nulls is off; run: ALTER ROLE … SET array_nulls = on;",
  "c.relkind <> 'r'":
    "plant_store.plants is a view, partitioned or foreign; make the table that `plant-store print schema` prints",
  ...checksOf("plant_store.plants"),
  ...checksOf("plant_store.plant_tokens"),
  ...checksOf("plant_store.plant_leases"),
  ...checksOf("plant_store.plant_schema"),
  [`EXISTS (SELECT FROM pg_catalog.pg_trigger t WHERE t.tgrelid = c.oid
    AND NOT t.tgisinternal AND t.tgtype & 1 = 1 AND t.tgenabled <> 'D')`]:
    "plant_store.plants has row triggers; run: ALTER TABLE plant_store.plants DISABLE TRIGGER USER;",
  "EXISTS (SELECT FROM pg_catalog.pg_rewrite r WHERE r.ev_class = c.oid)":
    "plant_store.plants has rules; remove them with DROP RULE",
  "EXISTS (SELECT FROM pg_catalog.pg_inherits i WHERE c.oid IN (i.inhrelid, i.inhparent))":
    "plant_store.plants inherits or is inherited; run: ALTER TABLE … NO INHERIT plant_store.plants;",
};

/** A database is not used while this holds if a standby is required; otherwise only a warning. */
const UNSYNCHRONIZED = {
  "current_setting('synchronous_standby_names', true) = ''": alterSystem(
    "synchronous_standby_names is empty, so a failover may lose the newest plants",
    "SET synchronous_standby_names = 'ANY 1 (…)'",
  ),
};

/** Conditions that only cause a warning. */
const DOUBTFUL = {
  "current_setting('full_page_writes', true) = 'off'": alterSystem(
    "full_page_writes is off",
    "SET full_page_writes = on",
  ),
  "current_setting('transaction_isolation') <> 'read committed'":
    "transactions are not read committed, so many are sent twice; " +
    "run: ALTER ROLE … SET default_transaction_isolation = 'read committed';",
  "(SELECT a.state IS DISTINCT FROM 'active' FROM pg_catalog.pg_stat_activity a WHERE a.pid = pg_backend_pid())":
    "its role cannot see what its own sessions do, so connections that a firewall forgets are not " +
    "replaced; run: ALTER ROLE … RESET role; ALTER ROLE … RESET track_activities; " +
    "ALTER SYSTEM RESET track_activities; SELECT pg_reload_conf();",
};

const CHECKS = Object.entries({ ...REFUSED, ...UNSYNCHRONIZED, ...DOUBTFUL });

/**
 * Whether a statement of this role has been under way for more than a second. A statement counts
 * if it runs, or waits for anything except its client: for a standby, a lock, the disk. Where Citus is
 * installed, a wait for the client counts, too, if the session has a snapshot or a transaction id,
 * because Citus waits for its workers in the same way (read in the source of Citus, not tried). A session
 * whose state is hidden counts: it may wait although its client is gone.
 */
const HAS_LONG_STATEMENT = `EXISTS (SELECT FROM pg_catalog.pg_stat_activity a
    WHERE a.datname = current_database() AND a.usename = session_user
    AND coalesce(a.backend_type, 'client backend') = 'client backend'
    AND coalesce(a.state, 'disabled') IN ('active', 'disabled')
    AND a.wait_event IS DISTINCT FROM 'ClientWrite'
    AND (a.wait_event IS DISTINCT FROM 'ClientRead' OR coalesce(a.backend_xmin, a.backend_xid) IS NOT NULL
      AND EXISTS (SELECT FROM pg_catalog.pg_extension e WHERE e.extname = 'citus'))
    AND coalesce(a.query_start, '-infinity') < now() - interval '1 second')`;

/** Asked of every connection, and twice a second. @internal */
export const INSPECT = `SELECT pg_is_in_recovery(), s.store, greatest(c.reltuples, 0)::bigint,
  ${HAS_LONG_STATEMENT},
  pg_catalog.to_regproc('pg_catalog.pg_walfile_name') IS NOT NULL,
  pg_catalog.pg_has_role(pg_catalog.to_regrole('pg_read_all_stats'), 'USAGE'),
  ${CHECKS.map(([sql]) => `coalesce(${sql}, false)`).join(",\n  ")}
FROM plant_store.plant_schema s, pg_catalog.pg_class c WHERE c.oid = 'plant_store.plants'::regclass`;

/**
 * Where the engine has a write-ahead log: its timeline, which a promotion counts up, and since when the
 * server runs. The file is named by the newest timeline; the control file changes later.
 */
const SERVER = `SELECT pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()),
  pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time())`;

/** What is wrong if `INSPECT` finds no row. */
const NO_ROW =
  "plant_store.plant_schema shows no row; if it has row security, run: ALTER TABLE plant_store.plant_schema " +
  `DISABLE ROW LEVEL SECURITY; if it is empty, run: INSERT INTO plant_store.plant_schema SELECT ${SCHEMA_VERSION}, ` +
  "gen_random_uuid(), 0 WHERE NOT EXISTS (SELECT FROM plant_store.plant_schema); and start every server again";

const UNPROVABLE =
  "a standby is required, and the role of the servers cannot see how far standbys are; " +
  "run: GRANT pg_read_all_stats TO …;";

/** What is wrong if the database refuses `INSPECT` itself. @internal */
export function explainRefusal(sqlstate: string, message: string): string {
  if (sqlstate === "42501") return `the role of the servers lacks a right (${message}); grant it`;
  if (sqlstate === "42P01") {
    return (
      `a table is missing (${message}); check the name of the database in the URL; if it is new, run there what ` +
      "`plant-store print schema` prints, otherwise restore that table"
    );
  }
  return (
    `its tables or its engine do not fit this release (${message}); compare the tables with what ` +
    "`plant-store print schema` prints; the engines are in docs/database.md"
  );
}

/** What a look at the database has found. @internal */
export interface Inspection {
  readonly isInRecovery: boolean;
  /** The id of the store: a database that was restored under the same name has another one. */
  readonly store: string | undefined;
  /** The engine's own estimate. */
  readonly plants: number;
  /** Why nothing may be stored there, with what mends it; `undefined` if it can be used. */
  readonly refusal: string | undefined;
  /** What an operator should know, with what mends it. */
  readonly warnings: readonly string[];
  /** Why commits wait for no standby; `undefined` if they do. */
  readonly unsynchronized: string | undefined;
  /** Why it cannot be proven that standbys have a commit; `undefined` if it can. */
  readonly unprovable: string | undefined;
  /** Of the write-ahead log; 0 if the engine has none. */
  readonly timeline: number;
  /** When the server was started; `undefined` if the engine does not show it. */
  readonly startedAt: string | undefined;
  /** Whether a statement of the role has been under way for more than a second. */
  readonly hasLongStatement: boolean;
}

/** Looks at a database. @throws DatabaseFault. @internal */
export async function inspect(connection: Connection): Promise<Inspection> {
  const [row] = await connection.query(INSPECT);
  const hasLog = row?.[0] === "f" && row[4] === "t";
  return judgeInspection(row, hasLog ? (await connection.query(SERVER))[0] : undefined);
}

/** Judges the rows of `INSPECT` and `SERVER`. @internal */
export function judgeInspection(
  row: Rows[number] | undefined,
  [walFile, startedAt]: Rows[number] = [],
): Inspection {
  const [recovery, store, plants, hasLong, , canProve, ...results] = row ?? [];
  const found = CHECKS.filter((_, at) => results[at] === "t");
  const isRefused = ([sql]: readonly [string, string]) => sql in REFUSED;
  return {
    isInRecovery: recovery === "t",
    store: store ?? undefined,
    plants: Number(plants ?? 0),
    refusal: row === undefined ? NO_ROW : found.find(isRefused)?.[1],
    warnings: found.filter((check) => !isRefused(check)).map(([, message]) => message),
    unsynchronized: found.find(([sql]) => sql in UNSYNCHRONIZED)?.[1],
    hasLongStatement: hasLong === "t",
    unprovable: canProve === "t" ? undefined : UNPROVABLE,
    timeline: Number.parseInt(walFile?.slice(0, 8) ?? "0", 16),
    startedAt: startedAt ?? undefined,
  };
}
