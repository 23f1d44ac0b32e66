/**
 * The tables, the statements, and how a plant is written in a row.
 *
 * Invariants. No statement depends on a setting of its session: a pooler shares sessions, and a role
 * may have settings of its own. So every table, function, type and operator is qualified by its schema,
 * also an operator that a keyword hides: `OPERATOR(pg_catalog.=) ANY` for IN, CASE WHEN for CASE x WHEN
 * and NULLIF, coalesce for IS DISTINCT FROM. Otherwise a role that may create objects in a schema of the
 * search path runs its own code as the role of the session (test/postgres/hostile-role). A string that
 * `text` cannot hold (NUL, a lone surrogate) is kept exactly in `exact`, the record as JSON; `name` and
 * `tag` are then for people only.
 */
import { randomBytes } from "node:crypto";
import { encodeNewPlant, type NewPlant, parseNewPlant } from "../core/plant.ts";
import type { Connection, Rows } from "./connection.ts";

const SCHEMA_VERSION = 1;

export type DatabaseEngine = "postgresql" | "citus";

/** The tables, as an array of their object identifiers in SQL. */
const TABLES =
  "'{plant_store.plants,plant_store.plant_tokens,plant_store.plant_leases,plant_store.plant_schema}'::pg_catalog.regclass[]";

/**
 * The rights `x` that an owner gave others: on the schema, its tables and their columns, and on the
 * schemas of the search path; each with the statement that revokes it, on tables with all the others.
 */
const RIGHTS = `(SELECT o.schema, o.target, r.privilege_type AS privilege, r.grantee AS role,
    pg_catalog.format('REVOKE %s ON %s FROM %s CASCADE;', coalesce(o.rights, r.privilege_type), o.target,
      CASE WHEN r.grantee OPERATOR(pg_catalog.=) 0 THEN 'PUBLIC' ELSE r.grantee::pg_catalog.regrole::pg_catalog.text END) AS revoke
  FROM (SELECT n.nspname AS schema, pg_catalog.format('SCHEMA %I', n.nspname) AS target, NULL AS rights, n.nspacl AS acl
    FROM pg_catalog.pg_namespace n
    WHERE n.nspname OPERATOR(pg_catalog.=) ANY (pg_catalog.array_append(pg_catalog.current_schemas(false), 'plant_store'))
    UNION ALL SELECT 'plant_store', pg_catalog.concat('plant_store.', t.relname), 'ALL', u.acl
    FROM pg_catalog.pg_class t, LATERAL (SELECT t.relacl UNION ALL SELECT a.attacl
      FROM pg_catalog.pg_attribute a WHERE a.attrelid OPERATOR(pg_catalog.=) t.oid) u (acl)
    WHERE t.oid OPERATOR(pg_catalog.=) ANY (${TABLES})) o, pg_catalog.aclexplode(o.acl) r
  WHERE r.grantee OPERATOR(pg_catalog.<>) r.grantor) x`;

const MAKE_TABLES = `-- So that every name below is one of PostgreSQL, whatever other roles have created.
SET LOCAL search_path = pg_catalog, pg_temp;
CREATE SCHEMA plant_store;
-- An earlier version made the tables in the schema public.
DO $do$ BEGIN
  IF EXISTS (SELECT FROM pg_tables WHERE schemaname = 'public' AND tablename = 'plant_schema') THEN
    ALTER TABLE public.plants SET SCHEMA plant_store;
    ALTER TABLE public.plant_tokens SET SCHEMA plant_store;
    ALTER TABLE public.plant_leases SET SCHEMA plant_store;
    ALTER TABLE public.plant_schema SET SCHEMA plant_store;
  END IF;
  IF EXISTS (SELECT FROM pg_tables WHERE schemaname = 'plant_store' AND tableowner <> current_user) THEN
    RAISE 'public.plant_schema belongs to another role: run this as its owner; if it is not of plant-store, drop it';
  END IF;
END $do$;

CREATE TABLE IF NOT EXISTS plant_store.plants (
  id bigint PRIMARY KEY,
  name text NOT NULL,
  tag text,
  exact text,
  batch bigint NOT NULL
) WITH (fillfactor = 90);

CREATE TABLE IF NOT EXISTS plant_store.plant_tokens (
  hash text PRIMARY KEY,
  name text NOT NULL,
  scopes text NOT NULL,
  created_at bigint NOT NULL,
  expires_at bigint,
  revoked_at bigint
);
-- A server that can still write here is asking the primary.
CREATE TABLE IF NOT EXISTS plant_store.plant_leases (slot integer PRIMARY KEY, beat bigint NOT NULL) WITH (fillfactor = 50);

-- One row. Every change of the tokens gives tokens_version another random number.
CREATE TABLE IF NOT EXISTS plant_store.plant_schema (version integer NOT NULL, store uuid NOT NULL, tokens_version bigint NOT NULL);`;

/**
 * The statements that create the tables, or move those of an earlier version to their schema. A person
 * runs them once: servers that start at the same time would race.
 *
 * @param role the role that the servers log in as.
 */
export function printSchema(engine: DatabaseEngine = "postgresql", role = "plant_store"): string {
  const name = `"${role.replaceAll('"', '""')}"`;
  const text = `'${role.replaceAll("'", "''")}'`;
  return `-- Tables of plant-store, version ${SCHEMA_VERSION}. Run once, by their owner; ${name} is the servers' role.
BEGIN;
${MAKE_TABLES}
-- The role that may write here besides the owner.
ALTER TABLE plant_store.plant_schema ADD servers text NOT NULL DEFAULT ${text};
INSERT INTO plant_store.plant_schema SELECT ${SCHEMA_VERSION}, gen_random_uuid(), 0
  WHERE NOT EXISTS (SELECT FROM plant_store.plant_schema);

DO $do$
DECLARE
  revoke text;
  settings text := $sql$ALTER ROLE ${name} SET lock_timeout = '1s';
    ALTER ROLE ${name} IN DATABASE $sql$ || quote_ident(current_database()) || ' SET search_path = pg_catalog, pg_temp;';
BEGIN
  -- Rights that the tables had in public, or that ALTER DEFAULT PRIVILEGES gives.
  FOR revoke IN SELECT DISTINCT x.revoke FROM ${RIGHTS} WHERE x.schema = 'plant_store' LOOP
    EXECUTE revoke;
  END LOOP;
  -- A table's lock is waited for before a statement's own settings count.
  BEGIN
    IF current_user <> ${text} THEN EXECUTE settings; END IF;
  EXCEPTION WHEN insufficient_privilege THEN
    RAISE WARNING 'The role of the servers lacks settings; a superuser should run: %', settings;
  END;
END $do$;
GRANT USAGE ON SCHEMA plant_store TO ${name};
GRANT SELECT, INSERT, UPDATE (batch) ON plant_store.plants TO ${name};
GRANT SELECT, INSERT, UPDATE ON plant_store.plant_leases TO ${name};
-- Without the right to change tokens: the commands \`token create\` and \`token revoke\` log in as the owner.
GRANT SELECT ON plant_store.plant_tokens, plant_store.plant_schema TO ${name};
COMMIT;
${engine === "citus" ? CITUS : ""}`;
}

const CITUS = `
SELECT pg_catalog.create_distributed_table('plant_store.plants', 'id');
-- On the coordinator and on every worker, because settings of a statement do not reach workers:
--   ALTER SYSTEM SET synchronous_commit = 'on'; SELECT pg_catalog.pg_reload_conf();
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
  pg_catalog.set_config('synchronous_commit',
    CASE WHEN pg_catalog.current_setting('synchronous_commit') OPERATOR(pg_catalog.=) 'remote_apply'
      THEN 'remote_apply' ELSE 'on' END,
    true),
  pg_catalog.set_config('client_min_messages', 'warning', true),
  pg_catalog.set_config('lock_timeout', ${lockTimeout}, true))`;
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
SELECT u.*, $5::bigint FROM s,
  unnest($1::bigint[], $2::pg_catalog.text[], $3::pg_catalog.text[], $4::pg_catalog.text[]) u
ON CONFLICT (id) DO UPDATE SET batch = p.batch
RETURNING id, name, tag, exact, batch`;

/** @internal */
export const GET = `SELECT id, name, tag, exact FROM plant_store.plants
WHERE id OPERATOR(pg_catalog.=) ANY ($1::bigint[])`;

/**
 * Plants from an id on, at most so many and about so many bytes of them, but at least one: otherwise
 * rows of a megabyte would come by the thousand.
 *
 * @internal
 */
export const PAGE = `SELECT id, name, tag, exact FROM (
  SELECT q.*, pg_catalog.sum(bytes) OVER (ORDER BY id) OPERATOR(pg_catalog.-) bytes AS earlier FROM (
    SELECT id, name, tag, exact, pg_catalog.octet_length(name)
      OPERATOR(pg_catalog.+) coalesce(pg_catalog.octet_length(tag), 0)
      OPERATOR(pg_catalog.+) coalesce(pg_catalog.octet_length(exact), 0) AS bytes
    FROM plant_store.plants WHERE id OPERATOR(pg_catalog.>=) $1::bigint ORDER BY id LIMIT $2::integer) q) r
WHERE earlier OPERATOR(pg_catalog.<) $3::bigint ORDER BY id`;

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
  return `${why}; run: ALTER SYSTEM ${change}; SELECT pg_catalog.pg_reload_conf();`;
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
  [setting("fsync", "=", "off")]: alterSystem(
    "fsync is off, so a crash loses plants",
    "SET fsync = on",
  ),
  // The statements write NULL in arrays, which then would be a text.
  [setting("array_nulls", "=", "off")]:
    "array_nulls is off; run: ALTER ROLE … SET array_nulls = on;",
  [`(SELECT pg_catalog.string_agg(pg_catalog.format(CASE
    WHEN t.relkind OPERATOR(pg_catalog.<>) 'r' THEN '(make plant_store.%I an ordinary table)'
    WHEN t.relowner OPERATOR(pg_catalog.<>) c.relowner THEN 'ALTER TABLE plant_store.%I OWNER TO …;'
    WHEN t.relpersistence OPERATOR(pg_catalog.<>) 'p' THEN 'ALTER TABLE plant_store.%I SET LOGGED;'
    WHEN t.relrowsecurity THEN 'ALTER TABLE plant_store.%I DISABLE ROW LEVEL SECURITY;'
    WHEN EXISTS (SELECT FROM pg_catalog.pg_trigger g WHERE g.tgrelid OPERATOR(pg_catalog.=) t.oid
      AND NOT g.tgisinternal AND g.tgenabled OPERATOR(pg_catalog.<>) 'D') THEN 'ALTER TABLE plant_store.%I DISABLE TRIGGER USER;'
    WHEN EXISTS (SELECT FROM pg_catalog.pg_rewrite w WHERE w.ev_class OPERATOR(pg_catalog.=) t.oid) THEN 'DROP RULE … ON plant_store.%I;'
    WHEN EXISTS (SELECT FROM pg_catalog.pg_inherits i WHERE t.oid OPERATOR(pg_catalog.=) ANY (ARRAY[i.inhrelid, i.inhparent]))
      THEN 'ALTER TABLE … NO INHERIT plant_store.%I;'
    END, t.relname), ' ') FROM pg_catalog.pg_class t WHERE t.oid OPERATOR(pg_catalog.=) ANY (${TABLES}))`]:
    "its tables are not as `plant-store print schema` makes them: they have another owner, are not logged, so that a " +
    "crash empties them, or have row security, triggers, rules or inheritance, which hide or change rows; run: %",
  "r.writers": "roles that are neither the owner nor that of the servers may write in it; run: %",
};

/** A database is not used while this holds if a standby is required; otherwise only a warning. */
const UNSYNCHRONIZED = {
  [setting("synchronous_standby_names", "=", "")]: alterSystem(
    "synchronous_standby_names is empty, so a failover may lose the newest plants",
    "SET synchronous_standby_names = 'ANY 1 (…)'",
  ),
};

/** Expressions that only cause a warning. */
const DOUBTFUL = {
  [setting("full_page_writes", "=", "off")]: alterSystem(
    "full_page_writes is off",
    "SET full_page_writes = on",
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
  // Before PostgreSQL 14 there are no such roles.
  [`(SELECT pg_catalog.string_agg(pg_catalog.format('REVOKE %s FROM %s;',
      m.roleid::pg_catalog.regrole, m.member::pg_catalog.regrole), ' ') FROM pg_catalog.pg_auth_members m
    WHERE m.roleid OPERATOR(pg_catalog.=) ANY (ARRAY[pg_catalog.to_regrole('pg_read_all_data'),
      pg_catalog.to_regrole('pg_write_all_data')]::pg_catalog.oid[]))`]:
    "some roles may read or write every table; if they should not, run: %",
};

/** @internal */
export const CHECKS = Object.entries({ ...REFUSED, ...UNSYNCHRONIZED, ...DOUBTFUL });

/**
 * Whether a statement of this role has been under way for more than a second. A statement counts
 * if it runs, or waits for anything except its client: for a standby, a lock, the disk. Where Citus is
 * installed, a wait for the client counts, too, if the session has a snapshot or a transaction id,
 * because Citus waits for its workers in the same way (read in the source of Citus, not tried). A session
 * whose state is hidden counts: it may wait although its client is gone.
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

/** Asked of every connection, and twice a second. @internal */
export const INSPECT = `SELECT pg_catalog.pg_is_in_recovery(), s.store, greatest(c.reltuples, 0)::bigint,
  ${HAS_LONG_STATEMENT},
  pg_catalog.to_regproc('pg_catalog.pg_walfile_name') IS NOT NULL,
  pg_catalog.pg_has_role(pg_catalog.to_regrole('pg_read_all_stats'), 'USAGE'),
  ${CHECKS.map(([sql]) => sql).join(",\n  ")}
FROM (SELECT version, store, servers FROM plant_store.plant_schema LIMIT 1) s, pg_catalog.pg_class c, LATERAL (SELECT
  pg_catalog.string_agg(DISTINCT x.revoke, ' ') FILTER (WHERE x.schema OPERATOR(pg_catalog.=) 'plant_store'
    AND x.privilege OPERATOR(pg_catalog.<>) ALL ('{SELECT,USAGE}')) AS writers,
  pg_catalog.string_agg(DISTINCT x.revoke, ' ') FILTER (WHERE x.target OPERATOR(pg_catalog.=) 'plant_store.plant_tokens'
    OR x.schema OPERATOR(pg_catalog.<>) 'plant_store' AND x.privilege OPERATOR(pg_catalog.=) 'CREATE') AS others
  FROM ${RIGHTS} WHERE x.role OPERATOR(pg_catalog.<>) c.relowner
    AND pg_catalog.pg_get_userbyid(x.role) OPERATOR(pg_catalog.<>) s.servers) r
WHERE c.oid OPERATOR(pg_catalog.=) 'plant_store.plants'::pg_catalog.regclass`;

/**
 * Where the engine has a write-ahead log: its timeline, which a promotion counts up, and since when the
 * server runs. The file is named by the newest timeline; the control file changes later.
 */
const SERVER = `SELECT pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()),
  pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time())`;

/** The row of `INSPECT`, without the checks. */
const FORM = /^[tf],[^,]+,\d+,[tf],[tf],[tf]?$/;

/** What is wrong if a row has another form. */
const OTHER_FORM = "it does not answer as PostgreSQL does; check the proxy or pooler before it";

/** What is wrong if `INSPECT` finds no row. */
const NO_ROW =
  "plant_store.plant_schema shows no row; if it has row security, run: ALTER TABLE plant_store.plant_schema " +
  `DISABLE ROW LEVEL SECURITY; if it is empty, run: INSERT INTO plant_store.plant_schema SELECT ${SCHEMA_VERSION}, ` +
  "pg_catalog.gen_random_uuid(), 0 WHERE NOT EXISTS (SELECT FROM plant_store.plant_schema); and start every server again";

const UNPROVABLE =
  "a standby is required, and the role of the servers cannot see how far standbys are; " +
  "run: GRANT pg_read_all_stats TO …;";

/** What is wrong if the database refuses `INSPECT` itself. @internal */
export function explainRefusal(sqlstate: string, message: string): string {
  if (sqlstate === "42501") return `the role of the servers lacks a right (${message}); grant it`;
  if (sqlstate === "42P01") {
    return (
      `a table is missing (${message}); check the name of the database in the URL; if it is new, or its tables are ` +
      "in the schema public, run there what `plant-store print schema` prints; otherwise restore that table"
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
  /** The engine's own estimate; `undefined` until it has counted some. */
  readonly plants: number | undefined;
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
  const [recovery, store, plants, hasLong, , canProve] = row ?? [];
  const results = row?.slice(6) ?? [];
  const timeline = Number.parseInt(walFile?.slice(0, 8) ?? "0", 16);
  const isSound = results.length === CHECKS.length && FORM.test(row?.slice(0, 6).join() ?? "");
  const unknown = isSound && Number.isInteger(timeline) ? undefined : OTHER_FORM;
  const found = CHECKS.flatMap(([sql, message], at) => {
    const result = results[at] ?? "f";
    return result === "f" ? [] : [[sql, message.replace("%", () => result)] as const];
  });
  const isRefused = ([sql]: readonly [string, string]) => sql in REFUSED;
  return {
    isInRecovery: recovery === "t",
    store: store ?? undefined,
    plants: Number(plants) || undefined, // 0 for a table that was never analysed
    refusal: row === undefined ? NO_ROW : (unknown ?? found.find(isRefused)?.[1]),
    warnings: found.filter((check) => !isRefused(check)).map(([, message]) => message),
    unsynchronized: found.find(([sql]) => sql in UNSYNCHRONIZED)?.[1],
    hasLongStatement: hasLong === "t",
    unprovable: canProve === "t" ? undefined : UNPROVABLE,
    timeline: timeline || 0,
    startedAt: startedAt ?? undefined,
  };
}
