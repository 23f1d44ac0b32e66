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

/** The tables, as an array of their object identifiers in SQL. @internal */
export const TABLES =
  "'{plant_store.plants,plant_store.plant_tokens,plant_store.plant_leases,plant_store.plant_schema}'::pg_catalog.regclass[]";

const MAKE_TABLES = `-- So that every name below is one of PostgreSQL, whatever other roles have created.
SET LOCAL search_path = pg_catalog, pg_temp;
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
);`;

/**
 * The statements that create the tables. A person runs them once: servers that start at the same time would
 * race.
 *
 * @param role the role that the servers log in as.
 * @returns SQL for psql.
 */
export function printSchema(role = "plant_store"): string {
  const name = `"${role.replaceAll('"', '""')}"`;
  const text = `'${role.replaceAll("'", "''")}'`;
  return `-- Tables of plant-store, version ${SCHEMA_VERSION}. Run once, by their owner; ${name} is the servers' role.
BEGIN;
${MAKE_TABLES}
INSERT INTO plant_store.plant_schema VALUES (${SCHEMA_VERSION}, gen_random_uuid(), 0);

DO $do$
DECLARE
  lacking text;
BEGIN
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
