/**
 * What makes a database unfit for plants, or doubtful, and the statements that find it out.
 *
 * Invariant. A value that is missing in an answer, or has another form, is a reason to refuse. The
 * statements follow the rules of those in `schema`.
 */
import { clock } from "../clock.ts";
import type { Connection, DatabaseFault, Rows } from "./connection.ts";
import { RIGHTS, SCHEMA_VERSION, TABLES } from "./schema.ts";
import { STARTED_AT } from "./standby-proof.ts";

/** Less often than other inspections, because Citus starts a session on each node. */
const NODES_INTERVAL_MS = 5000;

function alterSystem(why: string, change: string): string {
  return `${why}; run: ALTER SYSTEM SET ${change}; SELECT pg_catalog.pg_reload_conf();`;
}

function setting(name: string, operator: "=" | "<>", value: string): string {
  return `pg_catalog.current_setting('${name}', true) OPERATOR(pg_catalog.${operator}) '${value}'`;
}

/**
 * Expressions in SQL that make a database unfit for plants if they are true or a text, each with what
 * is wrong and what to do; that text takes the place of `%`.
 */
const REFUSED: Readonly<Record<string, string>> = {
  [`s.version OPERATOR(pg_catalog.<>) ${SCHEMA_VERSION}`]: `its tables are not of version ${SCHEMA_VERSION}: use the release that fits them`,
  [setting("server_encoding", "<>", "UTF8")]:
    "its encoding is not UTF8: create the database with ENCODING 'UTF8'",
  // Not transaction_read_only, which is on for a moment after a promotion.
  [setting("default_transaction_read_only", "=", "on")]:
    "it is read-only; if nobody needs that, run: BEGIN READ WRITE; " +
    "ALTER ROLE … IN DATABASE … SET default_transaction_read_only = off; COMMIT;",
  [setting("fsync", "=", "off")]: alterSystem("fsync is off: a crash loses plants", "fsync = on"),
  // The statements write NULL in arrays, which then would be a text.
  [setting("array_nulls", "=", "off")]:
    "array_nulls is off; run: ALTER ROLE … SET array_nulls = on;",
  "r.writers": "roles that are neither the owner nor that of the servers may write in it; run: %",
};

/** A database is not used while this holds if a standby is required; otherwise only a warning. */
const UNSYNCHRONIZED = {
  [setting("synchronous_standby_names", "=", "")]: alterSystem(
    "synchronous_standby_names is empty, so a failover may lose the newest plants",
    "synchronous_standby_names = 'ANY 1 (…)'",
  ),
};

/** Expressions that only cause a warning. */
const DOUBTFUL = {
  [setting("full_page_writes", "=", "off")]: alterSystem(
    "full_page_writes is off",
    "full_page_writes = on",
  ),
  [setting("transaction_isolation", "<>", "read committed")]:
    "transactions are not read committed, so many are sent twice; " +
    "run: ALTER ROLE … SET default_transaction_isolation = 'read committed';",
  [`(SELECT coalesce(a.state, '') OPERATOR(pg_catalog.<>) 'active' FROM pg_catalog.pg_stat_activity a
    WHERE a.pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid())`]:
    "its role cannot see what its own sessions do, so connections that a firewall forgets are not " +
    "replaced; run: ALTER ROLE … RESET role; ALTER ROLE … RESET track_activities; " +
    "ALTER SYSTEM RESET track_activities; SELECT pg_catalog.pg_reload_conf();",
  "r.others":
    "other roles may read the hashes of the tokens, or create functions and operators in a schema of " +
    "the search path; run: %",
  [`(SELECT pg_catalog.string_agg(pg_catalog.format('ALTER SCHEMA %I OWNER TO …;', n.nspname), ' ') FROM pg_catalog.pg_namespace n
    WHERE n.nspname OPERATOR(pg_catalog.=) ANY (pg_catalog.current_schemas(false))
    AND NOT pg_catalog.pg_has_role(n.nspowner, c.relowner, 'MEMBER') AND pg_catalog.pg_get_userbyid(n.nspowner)
      OPERATOR(pg_catalog.<>) ALL (ARRAY['pg_database_owner', s.servers, session_user]))`]:
    "a schema of the search path belongs to another role, which may create functions and operators in it; run: %",
  // Before PostgreSQL 14 there are no such roles.
  [`(SELECT pg_catalog.string_agg(pg_catalog.format('REVOKE %s FROM %s;',
      m.roleid::pg_catalog.regrole, m.member::pg_catalog.regrole), ' ') FROM pg_catalog.pg_auth_members m
    WHERE m.roleid OPERATOR(pg_catalog.=) ANY (ARRAY[pg_catalog.to_regrole('pg_read_all_data'),
      pg_catalog.to_regrole('pg_write_all_data')]::pg_catalog.oid[]))`]:
    "some roles may read or write every table; if they should not, run: %",
};

/** @internal */
export const CHECKS = Object.entries({ ...REFUSED, ...UNSYNCHRONIZED, ...DOUBTFUL });

/** More checks of a node of Citus, besides those of settings above. */
const NODE_REFUSED = {
  "pg_catalog.current_setting('synchronous_commit') OPERATOR(pg_catalog.<>) ALL ('{on,remote_apply}')":
    "commits may be lost in a crash; run: ALTER ROLE … SET synchronous_commit = 'on';",
};
const NODE_DOUBTFUL = {
  "pg_catalog.current_setting('lock_timeout') OPERATOR(pg_catalog.=) ANY ('{0,1s}')":
    "a row that is held delays all others; run: ALTER ROLE … SET lock_timeout = '20ms';",
  "pg_catalog.current_setting('citus.recover_2pc_interval', true) OPERATOR(pg_catalog.=) ANY ('{-1,1min}')":
    alterSystem("interrupted commits hold rows for long", "citus.recover_2pc_interval = '2s'"),
};
const NODE_CHECKS = [
  ...CHECKS.filter(([sql]) => sql.includes("current_setting(")),
  ...Object.entries({ ...NODE_REFUSED, ...NODE_DOUBTFUL }),
];

/**
 * For the coordinator of Citus: what the checks find on each node. A node that cannot be reached is left out,
 * because nothing can be stored there either.
 *
 * @internal
 */
export const INSPECT_NODES = `WITH s AS MATERIALIZED (SELECT pg_catalog.concat(
  pg_catalog.set_config('citus.node_connection_timeout', '500ms', true),
  pg_catalog.set_config('client_min_messages', 'error', true)) AS done)
SELECT pg_catalog.concat(n.nodename, ':', n.nodeport), r.result
FROM s, LATERAL pg_catalog.run_command_on_all_nodes(pg_catalog.concat(pg_catalog.left(s.done, 0), $$SELECT ARRAY[
  ${NODE_CHECKS.map(([sql]) => `coalesce(${sql}, false)`).join(",\n  ")}]$$)) r
LEFT JOIN pg_catalog.pg_dist_node n ON n.nodeid OPERATOR(pg_catalog.=) r.nodeid WHERE r.success`;

/**
 * Whether a statement of this role has been under way for more than a second: it runs, or waits for anything
 * except its client. Citus waits for its workers in the same way as for a client (seen on 13.2.2), so there a
 * session with a snapshot or a transaction id counts, too. A session whose state is hidden counts: it may wait
 * although its client is gone.
 */
const HAS_LONG_STATEMENT = `EXISTS (SELECT FROM pg_catalog.pg_stat_activity a
    WHERE a.datname OPERATOR(pg_catalog.=) current_catalog AND a.usename OPERATOR(pg_catalog.=) session_user
    AND coalesce(a.backend_type, 'client backend') OPERATOR(pg_catalog.=) 'client backend'
    AND coalesce(a.state, 'disabled') OPERATOR(pg_catalog.=) ANY ('{active,disabled}')
    AND coalesce(a.wait_event, '') OPERATOR(pg_catalog.<>) 'ClientWrite'
    AND (coalesce(a.wait_event, '') OPERATOR(pg_catalog.<>) 'ClientRead'
      OR coalesce(a.backend_xmin, a.backend_xid) IS NOT NULL
      AND EXISTS (SELECT FROM pg_catalog.pg_extension e WHERE e.extname OPERATOR(pg_catalog.=) 'citus'))
    AND coalesce(a.query_start, '-infinity') OPERATOR(pg_catalog.<)
      (current_timestamp OPERATOR(pg_catalog.-) interval '1 second'))`;

/** Whether the server only follows another one, and whether the engine has a write-ahead log. @internal */
export const INSPECT_SERVER = `SELECT pg_catalog.pg_is_in_recovery(),
  pg_catalog.to_regproc('pg_catalog.pg_walfile_name') IS NOT NULL`;

/**
 * The timeline, and when the server was started. The name of the file has the newest timeline; the control
 * file has it later.
 */
const INSPECT_LOG = `SELECT pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), ${STARTED_AT}`;

/**
 * What is wrong with the schema and the tables. Asked before any of them is read: a view in the place of
 * a table would run the functions of its owner as the role of the session, even if only planned.
 *
 * @internal
 */
export const INSPECT_TABLES = `SELECT pg_catalog.concat_ws(' ',
  CASE WHEN NOT pg_catalog.pg_has_role(c.relowner, d.datdba, 'MEMBER') THEN pg_catalog.format(
    '(if they were not made as %s, drop the schema plant_store; if they were:) ALTER DATABASE %I OWNER TO %1$s;',
    c.relowner::pg_catalog.regrole, d.datname) END,
  CASE WHEN n.nspowner OPERATOR(pg_catalog.<>) c.relowner
    THEN pg_catalog.format('ALTER SCHEMA plant_store OWNER TO %s;', c.relowner::pg_catalog.regrole) END,
  (SELECT pg_catalog.string_agg(pg_catalog.format(CASE
    WHEN t.relkind OPERATOR(pg_catalog.<>) 'r' THEN '(make plant_store.%I an ordinary table)'
    WHEN t.relowner OPERATOR(pg_catalog.<>) c.relowner THEN 'ALTER TABLE plant_store.%I OWNER TO …;'
    WHEN t.relpersistence OPERATOR(pg_catalog.<>) 'p' THEN 'ALTER TABLE plant_store.%I SET LOGGED;'
    WHEN t.relrowsecurity THEN 'ALTER TABLE plant_store.%I DISABLE ROW LEVEL SECURITY;'
    WHEN EXISTS (SELECT FROM pg_catalog.pg_trigger g WHERE g.tgrelid OPERATOR(pg_catalog.=) t.oid
      AND NOT g.tgisinternal AND g.tgenabled OPERATOR(pg_catalog.<>) 'D') THEN 'ALTER TABLE plant_store.%I DISABLE TRIGGER USER;'
    WHEN EXISTS (SELECT FROM pg_catalog.pg_rewrite w WHERE w.ev_class OPERATOR(pg_catalog.=) t.oid) THEN 'DROP RULE … ON plant_store.%I;'
    WHEN EXISTS (SELECT FROM pg_catalog.pg_inherits i WHERE t.oid OPERATOR(pg_catalog.=) ANY (ARRAY[i.inhrelid, i.inhparent]))
      THEN 'ALTER TABLE … NO INHERIT plant_store.%I;'
    END, t.relname), ' ') FROM pg_catalog.pg_class t WHERE t.oid OPERATOR(pg_catalog.=) ANY (${TABLES})))
FROM pg_catalog.pg_class c, pg_catalog.pg_namespace n, pg_catalog.pg_database d
WHERE c.oid OPERATOR(pg_catalog.=) 'plant_store.plants'::pg_catalog.regclass
  AND n.oid OPERATOR(pg_catalog.=) c.relnamespace AND d.datname OPERATOR(pg_catalog.=) current_catalog`;

const UNFIT_TABLES =
  "its tables are not as `plant-store print schema` makes them: they or their schema have another owner, they are not logged, " +
  "so that a crash empties them, or have row security, triggers, rules or inheritance, which hide or change rows; run: ";

/** Asked of every connection, and twice a second. @internal */
export const INSPECT = `SELECT s.store, c.reltuples::bigint,
  ${HAS_LONG_STATEMENT},
  pg_catalog.pg_has_role(pg_catalog.to_regrole('pg_read_all_stats'), 'USAGE'),
  pg_catalog.to_regproc('pg_catalog.run_command_on_all_nodes') IS NOT NULL,
  ${CHECKS.map(([sql]) => sql).join(",\n  ")}
FROM (SELECT version, store, servers FROM plant_store.plant_schema LIMIT 1) s, pg_catalog.pg_class c, LATERAL (SELECT
  pg_catalog.string_agg(DISTINCT x.revoke, ' ') FILTER (WHERE x.schema OPERATOR(pg_catalog.=) 'plant_store'
    AND x.privilege OPERATOR(pg_catalog.<>) ALL ('{SELECT,USAGE}')) AS writers,
  pg_catalog.string_agg(DISTINCT x.revoke, ' ') FILTER (WHERE x.target OPERATOR(pg_catalog.=) 'plant_store.plant_tokens'
    OR x.schema OPERATOR(pg_catalog.<>) 'plant_store' AND x.privilege OPERATOR(pg_catalog.=) 'CREATE') AS others
  FROM ${RIGHTS} WHERE x.role OPERATOR(pg_catalog.<>) c.relowner
    AND pg_catalog.pg_get_userbyid(x.role) OPERATOR(pg_catalog.<>) s.servers) r
WHERE c.oid OPERATOR(pg_catalog.=) 'plant_store.plants'::pg_catalog.regclass`;

/** The row of `INSPECT`, without the checks. */
const FORM = /^[^,]+,-?\d+,[tf],[tf]?,[tf]$/;

const OTHER_FORM = "it does not answer as PostgreSQL does; check the proxy or pooler before it";

const NO_ROW =
  "plant_store.plant_schema shows no row; run: ALTER TABLE plant_store.plant_schema DISABLE ROW LEVEL SECURITY; " +
  `INSERT INTO plant_store.plant_schema SELECT ${SCHEMA_VERSION}, pg_catalog.gen_random_uuid(), 0 WHERE NOT EXISTS ` +
  "(SELECT FROM plant_store.plant_schema); and start every server again";

const UNPROVABLE =
  "a standby is required, and the role of the servers cannot see how far standbys are; " +
  "run: GRANT pg_read_all_stats TO …;";

const UNPROVABLE_ON_CITUS =
  "a standby cannot be required on Citus, because the servers do not see those of workers: start without this option";

/** What is wrong if the database refuses to be inspected. */
function explainRefusal(sqlstate: string, message: string): string {
  if (sqlstate === "42501") return `the role of the servers lacks a right (${message}); grant it`;
  return sqlstate === "42P01" || sqlstate === NO_SCHEMA
    ? `a table is missing (${message}): if the URL names the right database, and it is new, run what ` +
        "`plant-store print schema` prints; otherwise restore the table"
    : `its tables or its engine do not fit this release (${message}): compare them with docs/database.md and ` +
        "`plant-store print schema`";
}

/** PostgreSQL before 16 has another SQLSTATE for a table in a schema that is missing. */
const NO_SCHEMA = "3F000";

/** What a server is, whatever its databases hold. */
interface ServerState {
  readonly isInRecovery: boolean;
  /** Of the write-ahead log; 0 if the engine has none. */
  readonly timeline: number;
  /** When the server was started; `undefined` if the engine does not show it. */
  readonly startedAt: string | undefined;
}

/** What a look at the database has found. @internal */
export interface Inspection extends ServerState {
  /** The id of the store: a database that was restored under the same name has another one. */
  readonly store: string | undefined;
  /** The estimate of the engine; `undefined` before the first one, and on Citus. */
  readonly plants: number | undefined;
  /** Why nothing may be stored there, with what mends it; `undefined` if it can be used. */
  readonly refusal: string | undefined;
  /** What an operator should know, with what mends it. */
  readonly warnings: readonly string[];
  /** Why commits wait for no standby; `undefined` if they do. */
  readonly unsynchronized: string | undefined;
  /** Why it cannot be proven that standbys have a commit; `undefined` if it can. */
  readonly unprovable: string | undefined;
  /** Whether a statement of the role has been under way for more than a second. */
  readonly hasLongStatement: boolean;
}

/** Inspects a database, and on Citus also each of its nodes, but those not every time. @internal */
export class Inspector {
  /** What `INSPECT_NODES` has found. */
  #nodes: Rows = [];
  #askedNodesAt = Number.NEGATIVE_INFINITY;

  /** @throws DatabaseFault if the database does not answer; that it refuses to is a refusal. */
  async inspect(connection: Connection): Promise<Inspection> {
    const server = await inspectServer(connection);
    if (server.isInRecovery) return { ...NOTHING_FOUND, ...server }; // a standby may not read all tables
    try {
      const [[mend] = []] = await connection.query(INSPECT_TABLES);
      const refusal = mend ? UNFIT_TABLES + mend : OTHER_FORM;
      if (mend !== "") return { ...NOTHING_FOUND, ...server, refusal };
      const [row] = await connection.query(INSPECT);
      return { ...judgeInspection(row, await this.#inspectNodes(connection, row)), ...server };
    } catch (cause) {
      const { sqlstate = "", cause: reason } = cause as DatabaseFault;
      if (!sqlstate.startsWith("42") && sqlstate !== NO_SCHEMA) throw cause;
      const refusal = explainRefusal(sqlstate, (reason as Error).message);
      return { ...NOTHING_FOUND, ...server, refusal };
    }
  }

  async #inspectNodes(connection: Connection, row: Rows[number] | undefined): Promise<Rows> {
    if (row?.[4] !== "t") return [];
    const now = clock.steadyMs();
    if (now - this.#askedNodesAt >= NODES_INTERVAL_MS) {
      this.#nodes = await connection.query(INSPECT_NODES);
      this.#askedNodesAt = now;
    }
    return this.#nodes;
  }
}

const NOTHING_FOUND = {
  store: undefined,
  plants: undefined,
  refusal: undefined,
  warnings: [],
  unsynchronized: undefined,
  unprovable: undefined,
  hasLongStatement: false,
};

async function inspectServer(connection: Connection): Promise<ServerState> {
  const [[recovery, hasLog] = []] = await connection.query(INSPECT_SERVER);
  const isInRecovery = recovery === "t";
  if (isInRecovery || hasLog !== "t") return { isInRecovery, timeline: 0, startedAt: undefined };
  const [[walFile, startedAt] = []] = await connection.query(INSPECT_LOG);
  const timeline = Number.parseInt(walFile?.slice(0, 8) ?? "", 16) || 0;
  return { isInRecovery, timeline, startedAt: startedAt ?? undefined };
}

/** Judges the rows of `INSPECT` and `INSPECT_NODES`. @internal */
export function judgeInspection(
  row: Rows[number] | undefined,
  nodes: Rows = [],
): Omit<Inspection, keyof ServerState> {
  const [store, plants, hasLong, canProve, hasNodes] = row ?? [];
  const results = row?.slice(5) ?? [];
  const isSound = results.length === CHECKS.length && FORM.test(row?.slice(0, 5).join() ?? "");
  const found = CHECKS.flatMap(([sql, message], at) => {
    const result = results[at] ?? "f";
    return result === "f" ? [] : [[sql, message.replace("%", () => result)] as const];
  });
  for (const [node, flags] of nodes) {
    const isSet = flags?.slice(1, -1).split(",");
    const onNode = NODE_CHECKS.filter((_, at) => isSet?.[at] === "t");
    for (const [sql, message] of onNode) found.push([sql, `on its node "${node}": ${message}`]);
  }
  const isRefused = ([sql]: readonly [string, string]) => sql in REFUSED || sql in NODE_REFUSED;
  return {
    store: store ?? undefined,
    plants: hasNodes === "f" && Number(plants) >= 0 ? Number(plants) : undefined,
    refusal: row === undefined ? NO_ROW : isSound ? found.find(isRefused)?.[1] : OTHER_FORM,
    warnings: found.filter((check) => !isRefused(check)).map(([, message]) => message),
    unsynchronized: found.find(([sql]) => sql in UNSYNCHRONIZED)?.[1],
    hasLongStatement: hasLong === "t",
    unprovable: hasNodes === "t" ? UNPROVABLE_ON_CITUS : canProve === "t" ? undefined : UNPROVABLE,
  };
}
