/**
 * What makes a database unfit for plants, and the statements that find it out. They follow the rules
 * of those in `schema`.
 */

import type { Connection, DatabaseFault, Rows } from "./connection.ts";
import { SCHEMA_VERSION, TABLES } from "./schema.ts";
import { STARTED_AT } from "./standby-proof.ts";

function alterSystem(why: string, change: string): string {
  return `${why}; run: ALTER SYSTEM SET ${change}; SELECT pg_catalog.pg_reload_conf();`;
}

function setting(name: string, value: string, operator = "="): string {
  return `pg_catalog.current_setting('${name}', true) OPERATOR(pg_catalog.${operator}) '${value}'`;
}

/**
 * Expressions in SQL that make a database unfit for plants if they are true or a text, each with what
 * is wrong and what to do; that text takes the place of `%`.
 */
const REFUSED: Readonly<Record<string, string>> = {
  [`s.version OPERATOR(pg_catalog.<>) ${SCHEMA_VERSION}`]: `its tables are not of version ${SCHEMA_VERSION}: use the release that fits them`,
  [setting("server_encoding", "UTF8", "<>")]:
    "its encoding is not UTF8: create the database with ENCODING 'UTF8'",
  // Not transaction_read_only, which is on for a moment after a promotion.
  [setting("default_transaction_read_only", "on")]:
    "it is read-only; if nobody needs that, run: BEGIN READ WRITE; " +
    "ALTER ROLE … IN DATABASE … SET default_transaction_read_only = off; COMMIT;",
  [setting("fsync", "off")]: alterSystem("fsync is off: a crash loses plants", "fsync = on"),
  // The statements write NULL in arrays, which then would be a text.
  [setting("array_nulls", "off")]: "array_nulls is off; run: ALTER ROLE … SET array_nulls = on;",
  [`(SELECT pg_catalog.string_agg(pg_catalog.format('ALTER TABLE plant_store.%I SET LOGGED;', t.relname), ' ')
    FROM pg_catalog.pg_class t WHERE t.oid OPERATOR(pg_catalog.=) ANY (${TABLES})
    AND t.relpersistence OPERATOR(pg_catalog.<>) 'p')`]:
    "a crash empties tables that are not logged; run: %",
};

const UNSYNCHRONIZED = alterSystem(
  "synchronous_standby_names is empty, so a failover may lose the newest plants",
  "synchronous_standby_names = 'ANY 1 (…)'",
);

/** @internal */
export const CHECKS = Object.entries(REFUSED);

/**
 * Whether a statement of this role has been under way for more than a second: it runs, or waits for anything
 * except its client. A session whose state is hidden counts: it may wait although its client is gone.
 */
const HAS_LONG_STATEMENT = `EXISTS (SELECT FROM pg_catalog.pg_stat_activity a
    WHERE a.datname OPERATOR(pg_catalog.=) current_catalog AND a.usename OPERATOR(pg_catalog.=) session_user
    AND coalesce(a.backend_type, 'client backend') OPERATOR(pg_catalog.=) 'client backend'
    AND coalesce(a.state, 'disabled') OPERATOR(pg_catalog.=) ANY ('{active,disabled}')
    AND coalesce(a.wait_event, '') OPERATOR(pg_catalog.<>) ALL ('{ClientRead,ClientWrite}')
    AND coalesce(a.query_start, '-infinity') OPERATOR(pg_catalog.<)
      (current_timestamp OPERATOR(pg_catalog.-) interval '1 second'))`;

/**
 * Whether the server only follows another one; if not, the name of its log file, which has the newest
 * timeline (the control file has it later), and when the server was started.
 *
 * @internal
 */
export const INSPECT_SERVER = `SELECT CASE WHEN NOT pg_catalog.pg_is_in_recovery()
  THEN pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()) END, ${STARTED_AT}`;

/** Asked of every connection, and twice a second. @internal */
export const INSPECT = `SELECT s.store, c.reltuples::bigint,
  ${HAS_LONG_STATEMENT},
  pg_catalog.pg_has_role(pg_catalog.to_regrole('pg_read_all_stats'), 'USAGE'),
  ${setting("synchronous_standby_names", "")},
  ${CHECKS.map(([sql]) => sql).join(",\n  ")}
FROM (SELECT version, store FROM plant_store.plant_schema LIMIT 1) s, pg_catalog.pg_class c
WHERE c.oid OPERATOR(pg_catalog.=) 'plant_store.plants'::pg_catalog.regclass`;

const UNPROVABLE =
  "a standby is required, and the role of the servers cannot see how far standbys are; " +
  "run: GRANT pg_read_all_stats TO …;";

/** What is wrong if the database refuses to be inspected. */
function explainRefusal(sqlstate: string, message: string): string {
  if (sqlstate === "42501") return `the role of the servers lacks a right (${message}); grant it`;
  return sqlstate === "42P01" || sqlstate === NO_SCHEMA
    ? `a table is missing (${message}): if the URL names the right database, and it is new, run what ` +
        "`plant-store print schema` prints; otherwise restore the table"
    : `its tables do not fit this release (${message}): compare them with \`plant-store print schema\``;
}

/** PostgreSQL before 16 has another SQLSTATE for a table in a schema that is missing. */
const NO_SCHEMA = "3F000";

/** What a server is, whatever its databases hold. */
interface ServerState {
  readonly isInRecovery: boolean;
  /** Of the write-ahead log. */
  readonly timeline: number;
  /** When the server was started. */
  readonly startedAt: string | undefined;
}

/** What a look at the database has found. @internal */
export interface Inspection extends ServerState {
  /** The id of the store: a database that was restored under the same name has another one. */
  readonly store: string | undefined;
  /** The estimate of the server; `undefined` before the first one. */
  readonly plants: number | undefined;
  /** Why nothing may be stored there, with what mends it; `undefined` if it can be used. */
  readonly refusal: string | undefined;
  /** Why commits wait for no standby, with what mends it; `undefined` if they do. */
  readonly unsynchronized: string | undefined;
  /** Why it cannot be proven that standbys have a commit; `undefined` if it can. */
  readonly unprovable: string | undefined;
  /** Whether a statement of the role has been under way for more than a second. */
  readonly hasLongStatement: boolean;
}

/**
 * Inspects a database.
 *
 * @throws DatabaseFault if the database does not answer; that it refuses to is a refusal.
 * @internal
 */
export async function inspect(connection: Connection): Promise<Inspection> {
  const [[walFile = null, startedAt] = []] = await connection.query(INSPECT_SERVER);
  const isInRecovery = walFile === null;
  const timeline = Number.parseInt(walFile?.slice(0, 8) ?? "0", 16);
  const server = { isInRecovery, timeline, startedAt: startedAt ?? undefined };
  if (isInRecovery) return { ...NOTHING_FOUND, ...server }; // a standby may not read all tables
  try {
    const [row] = await connection.query(INSPECT);
    return { ...judgeInspection(row), ...server };
  } catch (cause) {
    const { sqlstate = "", cause: reason } = cause as DatabaseFault;
    if (!sqlstate.startsWith("42") && sqlstate !== NO_SCHEMA) throw cause;
    const refusal = explainRefusal(sqlstate, (reason as Error).message);
    return { ...NOTHING_FOUND, ...server, refusal };
  }
}

const NOTHING_FOUND = {
  store: undefined,
  plants: undefined,
  refusal: undefined,
  unsynchronized: undefined,
  unprovable: undefined,
  hasLongStatement: false,
};

/** Judges the row of `INSPECT`. */
function judgeInspection(row: Rows[number] | undefined): Omit<Inspection, keyof ServerState> {
  if (row === undefined) {
    return { ...NOTHING_FOUND, refusal: "plant_store.plant_schema has no row: restore the tables" };
  }
  const [store, plants, hasLong, canProve, isUnsynchronized, ...results] = row;
  const at = results.findIndex((result) => result !== null && result !== "f");
  return {
    store: store ?? undefined,
    plants: Number(plants) >= 0 ? Number(plants) : undefined,
    refusal: CHECKS[at]?.[1].replace("%", () => results[at] ?? ""),
    unsynchronized: isUnsynchronized === "t" ? UNSYNCHRONIZED : undefined,
    hasLongStatement: hasLong === "t",
    unprovable: canProve === "t" ? undefined : UNPROVABLE,
  };
}
