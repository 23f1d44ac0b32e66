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
import { clock } from "../clock.ts";
import { encodeNewPlant, isSamePlant, type NewPlant, parseNewPlant } from "../core/plant.ts";
import type { Rows } from "./connection.ts";

/** @internal */
export const SCHEMA_VERSION = 1;

/** The engines that `printSchema` has SQL for. */
export type DatabaseEngine = "postgresql" | "citus";

/** The tables, as an array of their object identifiers in SQL. @internal */
export const TABLES =
  "'{plant_store.plants,plant_store.plant_tokens,plant_store.plant_leases,plant_store.plant_schema}'::pg_catalog.regclass[]";

/**
 * The rights `x` that an owner gave others: on the schema, its tables and their columns, and on the
 * schemas of the search path; each with the statement that revokes it, on tables with all the others;
 * what a role has passed on is revoked with its right to do so.
 *
 * @internal
 */
export const RIGHTS = `(SELECT o.schema, o.target, r.privilege_type AS privilege, r.grantee AS role,
    pg_catalog.format(CASE WHEN r.grantor OPERATOR(pg_catalog.=) o.owner THEN 'REVOKE %s ON %s FROM %s CASCADE;'
      ELSE 'REVOKE GRANT OPTION FOR %s ON %s FROM %4$s CASCADE;' END, coalesce(o.rights, r.privilege_type), o.target,
      CASE WHEN r.grantee OPERATOR(pg_catalog.=) 0 THEN 'PUBLIC' ELSE r.grantee::pg_catalog.regrole::pg_catalog.text END,
      r.grantor::pg_catalog.regrole) AS revoke
  FROM (SELECT n.nspname AS schema, pg_catalog.format('SCHEMA %I', n.nspname) AS target, NULL AS rights, n.nspowner AS owner,
      n.nspacl AS acl
    FROM pg_catalog.pg_namespace n
    WHERE n.nspname OPERATOR(pg_catalog.=) ANY (pg_catalog.array_append(pg_catalog.current_schemas(false), 'plant_store'))
    UNION ALL SELECT 'plant_store', pg_catalog.concat('plant_store.', t.relname), 'ALL', t.relowner, u.acl
    FROM pg_catalog.pg_class t, LATERAL (SELECT t.relacl UNION ALL SELECT a.attacl
      FROM pg_catalog.pg_attribute a WHERE a.attrelid OPERATOR(pg_catalog.=) t.oid) u (acl)
    WHERE t.oid OPERATOR(pg_catalog.=) ANY (${TABLES})) o, pg_catalog.aclexplode(o.acl) r
  WHERE r.grantee OPERATOR(pg_catalog.<>) r.grantor) x`;

const MAKE_TABLES = `-- So that every name below is one of PostgreSQL, whatever other roles have created.
SET LOCAL search_path = pg_catalog, pg_temp;
DO $do$ BEGIN
  IF NOT (SELECT pg_has_role(current_user, datdba, 'MEMBER') FROM pg_database WHERE datname = current_database()) THEN
    RAISE 'The servers would refuse tables of %, which does not own the database; a superuser should run: ALTER DATABASE % OWNER TO %;',
      current_user, quote_ident(current_database()), quote_ident(current_user);
  END IF;
  IF EXISTS (SELECT FROM pg_namespace WHERE nspname = 'plant_store' AND pg_get_userbyid(nspowner) <> current_user) THEN
    RAISE 'The schema plant_store belongs to %, which can read, forge and remove all in it: run this as that role, or drop the schema',
      (SELECT nspowner::regrole FROM pg_namespace WHERE nspname = 'plant_store') USING ERRCODE = 'duplicate_schema';
  END IF;
  CREATE SCHEMA plant_store;
END $do$;

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

-- One row. Every change of the tokens gives tokens_version another random number; servers is the role that
-- may write here besides the owner.
CREATE TABLE plant_store.plant_schema (
  version integer NOT NULL,
  store uuid NOT NULL,
  tokens_version bigint NOT NULL,
  servers text NOT NULL
);`;

/**
 * The statements that create the tables. A person runs them once: servers that start at the same time would
 * race.
 *
 * @param role the role that the servers log in as.
 * @returns SQL for psql.
 */
export function printSchema(engine: DatabaseEngine = "postgresql", role = "plant_store"): string {
  const name = `"${role.replaceAll('"', '""')}"`;
  const text = `'${role.replaceAll("'", "''")}'`;
  return `-- Tables of plant-store, version ${SCHEMA_VERSION}. Run once, by their owner; ${name} is the servers' role.
${engine === "citus" ? setOnNodes(name) : ""}BEGIN;
${MAKE_TABLES}
-- A default, because the servers say how to make a row that was lost, and know no other role.
ALTER TABLE plant_store.plant_schema ALTER servers SET DEFAULT ${text};
INSERT INTO plant_store.plant_schema VALUES (${SCHEMA_VERSION}, gen_random_uuid(), 0);

DO $do$
DECLARE
  revoke text;
  lacking text;
BEGIN
  -- Rights that ALTER DEFAULT PRIVILEGES has given.
  FOR revoke IN SELECT DISTINCT x.revoke FROM ${RIGHTS} WHERE x.schema = 'plant_store' LOOP
    EXECUTE revoke;
  END LOOP;
  -- A table's lock is waited for before a statement's own settings count.
  SELECT string_agg(v.change, ' ') INTO lacking FROM pg_roles r, pg_database d, LATERAL (VALUES
    (0::oid, 'lock_timeout=%', $sql$ALTER ROLE ${name} SET lock_timeout = '1s';$sql$),
    (d.oid, 'search_path=pg_catalog, pg_temp',
      $sql$ALTER ROLE ${name} IN DATABASE $sql$ || quote_ident(d.datname) || ' SET search_path = pg_catalog, pg_temp;')) v (db, setting, change)
  WHERE r.rolname = ${text} AND r.rolname <> current_user AND d.datname = current_database() AND NOT EXISTS (
    SELECT FROM pg_db_role_setting s, unnest(s.setconfig) c WHERE s.setrole = r.oid AND s.setdatabase = v.db AND c LIKE v.setting);
  BEGIN
    IF lacking IS NOT NULL THEN EXECUTE lacking; END IF;
  EXCEPTION WHEN insufficient_privilege THEN
    RAISE WARNING 'The role of the servers lacks settings; a superuser should run: %', lacking;
  END;
END $do$;
GRANT USAGE ON SCHEMA plant_store TO ${name};
GRANT SELECT, INSERT, UPDATE (batch) ON plant_store.plants TO ${name};
GRANT SELECT, INSERT, UPDATE ON plant_store.plant_leases TO ${name};
-- Without the right to change tokens: token create, token revoke and token import log in as the owner.
GRANT SELECT ON plant_store.plant_tokens, plant_store.plant_schema TO ${name};
COMMIT;
${engine === "citus" ? DISTRIBUTE : ""}`;
}

const DISTRIBUTE = `
SELECT pg_catalog.create_distributed_table('plant_store.plants', 'id', shard_count => (SELECT
  4 OPERATOR(pg_catalog.*) pg_catalog.count(*)::pg_catalog.int4 FROM pg_catalog.citus_get_active_worker_nodes()));
`;

/**
 * Settings of a statement do not reach workers, so the role has them there. Each part of a batch with a held
 * row waits for `lock_timeout`. A batch uses a session of a worker for each of its shards: they are few, and
 * kept open. With Citus's own prevention of deadlocks only one batch would run at a time.
 */
function setOnNodes(role: string): string {
  const statements = [
    `ALTER ROLE ${role} SET lock_timeout = '20ms'`,
    `ALTER ROLE ${role} SET synchronous_commit = 'on'`,
    `ALTER ROLE ${role} SET citus.max_cached_conns_per_worker = 4`,
    `ALTER ROLE ${role} SET citus.enable_deadlock_prevention = off`,
    // A commit that a crash has interrupted holds its rows until then, by default for a minute.
    "ALTER SYSTEM SET citus.recover_2pc_interval = '2s'",
    "SELECT pg_catalog.pg_reload_conf()",
  ];
  const run = (sql: string) =>
    `SELECT nodeid, (CASE WHEN success THEN 't' ELSE result END)::pg_catalog.bool AS success
  FROM pg_catalog.run_command_on_all_nodes($$${sql}$$, false);`;
  return `-- One node after the other, because workers repeat ALTER ROLE on each other. A failure is an error.
${statements.map(run).join("\n")}
`;
}

/** 63 random bits in decimal: no two changes share one. @internal */
export function randomNumber(): string {
  return (clock.randomBytes(8).readBigUInt64LE() >> 1n).toString();
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
  if (exact === null) return name === plant.name && tag === (plant.tag ?? null);
  try {
    // Equal texts are the same plant; it may also have another spelling.
    return exact === encodeNewPlant(plant) || isSamePlant(plant, decodeRow(row));
  } catch {
    return false; // it was edited by hand, and is no plant any more
  }
}

/** Not NUL, which the database refuses, nor half a surrogate pair, which it changes. */
function fitsText(text: string): boolean {
  return !text.includes("\0") && text.isWellFormed();
}

/**
 * An element of an array, as the server reads it; without what `text` cannot hold. With the literals
 * that the driver makes of arrays an import took 1.13 to 1.27 times as long.
 *
 * @internal
 */
export function encodeElement(text: string): string {
  const fit = fitsText(text) ? text : text.replaceAll("\0", "\uFFFD").toWellFormed();
  return `"${NEEDS_ESCAPE.test(fit) ? fit.replace(/["\\]/g, "\\$&") : fit}"`;
}

const NEEDS_ESCAPE = /["\\]/;
