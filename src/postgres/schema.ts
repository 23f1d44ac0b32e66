/**
 * The tables, the statements, and how plants and tokens are written in rows.
 *
 * Invariants. Every table is named with its schema. All other names are those of `pg_catalog`, because the login sets
 * the search path: a role that may create objects elsewhere cannot have its own code run. A string that `text` cannot
 * hold (NUL, a lone surrogate) is kept in `exact`, the record as JSON; `name` and `tag` are then for people only.
 */
import { PlantStoreError } from "../core/errors.ts";
import { encodeNewPlant, type NewPlant, parseNewPlant } from "../core/plant.ts";
import type { TokenRecord } from "../core/token.ts";
import { type Connection, type DatabaseError, type Rows, SESSION } from "./connection.ts";

const SCHEMA_VERSION = 1;

/** What has no other meaning within quotes, in a comment and in psql. */
const ROLE_NAME = /^[^"'`$\\\p{Cc}]+$/u;

/**
 * The SQL that creates the tables, for a person to run once: servers that start at the same time would race.
 *
 * @param role the role that the servers log in as.
 * @throws RangeError for a name with quotes, `$`, backslashes or control characters.
 */
export function printSchema(role = "plant_store"): string {
  if (!ROLE_NAME.test(role)) {
    const expected = "expected a name without quotes, $, backslashes and control characters";
    throw new RangeError(`role: ${expected}, got ${JSON.stringify(role)}`);
  }
  return `-- Tables of plant-store, version ${SCHEMA_VERSION}. Run once, by their owner; "${role}" is the servers' role.
BEGIN;
-- So that every name below is one of PostgreSQL, whatever other roles have created.
SET LOCAL search_path = pg_catalog, pg_temp;
CREATE SCHEMA plant_store;

CREATE TABLE plant_store.plants (
  id bigint PRIMARY KEY,
  name text NOT NULL,
  tag text,
  exact text,           -- the plant as JSON, only if text cannot hold its name or tag
  batch bigint NOT NULL -- the number of the statement that created the row
) WITH (fillfactor = 90);

CREATE TABLE plant_store.tokens (
  hash text PRIMARY KEY,
  name text NOT NULL,
  scopes text NOT NULL,
  created_at bigint NOT NULL,
  expires_at bigint,
  revoked_at bigint
);

CREATE TABLE plant_store.about (version integer NOT NULL, store uuid NOT NULL);
INSERT INTO plant_store.about VALUES (${SCHEMA_VERSION}, gen_random_uuid());

GRANT USAGE ON SCHEMA plant_store TO "${role}";
GRANT SELECT, INSERT, UPDATE (batch) ON plant_store.plants TO "${role}";
-- Without the right to change tokens: token create, token revoke and token import log in as the owner.
GRANT SELECT ON plant_store.tokens, plant_store.about TO "${role}";
COMMIT;
`;
}

/**
 * Asked of each new connection, whatever its database holds: whether the server only follows another one; its
 * timeline (the control file has it later); when it was started; the process of the session; how many settings of
 * the login it has. Makes commits wait until the standby has flushed them.
 */
export const CHECK_SERVER = `SELECT pg_is_in_recovery(),
  CASE WHEN NOT pg_is_in_recovery() THEN left(pg_walfile_name(pg_current_wal_lsn()), 8) END,
  date_part('epoch', pg_postmaster_start_time())::text, pg_backend_pid(),
  (SELECT count(*) FROM pg_settings WHERE source = 'client'
    AND name || '=' || setting = ANY ('{${SESSION.map((each) => JSON.stringify(each)).join()}}')),
  set_config('synchronous_commit',
    CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false)`;

export const NO_STANDBY =
  "synchronous_standby_names is empty, so a failover may lose the newest plants; run: ALTER SYSTEM SET " +
  "synchronous_standby_names = 'ANY 1 (…)'; SELECT pg_reload_conf();";

/**
 * Why plants must not be stored in the database, `NULL` if they may; the id of the store; the standbys that commits
 * wait for. `$1`: whether a standby is required; `$2`: the id, once it is known.
 */
const STATE = `CASE
    WHEN version IS DISTINCT FROM ${SCHEMA_VERSION} THEN 'its tables are not of version ${SCHEMA_VERSION}; see plant_store.about'
    WHEN store <> $2::uuid THEN 'it is another store, made anew or restored; if that is meant, start again'
    WHEN current_setting('server_encoding') <> 'UTF8' THEN 'create it with ENCODING ''UTF8'''
    WHEN current_setting('fsync') <> 'on' THEN 'run: ALTER SYSTEM SET fsync = on; SELECT pg_reload_conf();'
    WHEN 'on' IN (current_setting('data_sync_retry'), current_setting('zero_damaged_pages'))
      THEN 'data_sync_retry and zero_damaged_pages may lose plants; turn both off'
    WHEN current_setting('default_transaction_read_only') <> 'off' THEN 'default_transaction_read_only is on; turn it off'
    WHEN $1::boolean AND current_setting('synchronous_standby_names') = '' THEN '${NO_STANDBY.replaceAll("'", "''")}'
    WHEN $1::boolean AND NOT pg_has_role('pg_read_all_stats', 'USAGE') THEN 'run: GRANT pg_read_all_stats TO …;'
    ELSE (SELECT 'a crash empties tables that are not logged; run: ' ||
        string_agg(format('ALTER TABLE plant_store.%I SET LOGGED;', relname), ' ') FROM pg_class
      WHERE oid = ANY ('{plant_store.plants,plant_store.tokens,plant_store.about}'::regclass[])
      AND relpersistence <> 'p')
  END, store, current_setting('synchronous_standby_names')`;

/** Asked of each new connection to a primary. */
export const CHECK = `SELECT ${STATE} FROM (SELECT) s LEFT JOIN plant_store.about ON true`;

/** The row of `CHECK` or `PROBE` when a table or a right is missing. @throws DatabaseError for another failure */
export function explainMissing(error: DatabaseError): Rows {
  const { sqlstate = "", message } = error;
  if (!/^(42|3F)/.test(sqlstate)) throw error;
  const fix = sqlstate === "42501" ? "grant this right" : "run what `print schema` prints";
  return [[`${message}; ${fix}`]];
}

/**
 * Has the primary commit, and returns the columns of `CHECK`, the estimated number of plants, and what changes
 * with the tokens. A primary that was replaced cannot commit it, if it has a synchronous standby.
 */
export const PROBE = `WITH commit AS MATERIALIZED (SELECT pg_logical_emit_message(true, 'plant_store', ''))
SELECT ${STATE},
  (SELECT reltuples::bigint FROM pg_class WHERE oid = 'plant_store.plants'::regclass),
  (SELECT concat_ws(' ', count(*), count(revoked_at), max(created_at)) FROM plant_store.tokens)
FROM commit LEFT JOIN plant_store.about ON true`;

/**
 * A position of the log, and whether enough standbys have it, by `ANY 2 (a, b, c)`, `FIRST 2 (a, b)`, `2 (a, b)`, or
 * names alone. `$1`: the position; `NULL`: the newest one on the primary's disk.
 */
export const STANDBYS = `SELECT lsn,
  (SELECT count(*) FROM pg_stat_get_wal_senders()
    WHERE sync_state = ANY ('{sync,quorum}') AND flush_lsn >= lsn)
  >= greatest(1, substring(lower(current_setting('synchronous_standby_names'))
    FROM '^\\s*(?:any\\s|first\\s)?\\s*(\\d+)\\s*\\(')::integer)
FROM (SELECT coalesce($1::pg_lsn, pg_current_wal_flush_lsn()) AS lsn) l`;

/** The processes of the sessions that do anything but wait for their client. */
export const WORKING =
  "SELECT pid FROM pg_stat_get_activity(NULL) WHERE wait_event IS DISTINCT FROM 'ClientRead'";

/**
 * Stores new plants, and returns every id with the content that it has in the table. A row that exists is
 * written again as it is, so that this commit covers it: a row that is only read may still wait for the
 * standby, and be lost.
 */
export const CREATE = `WITH s AS MATERIALIZED (SELECT set_config('lock_timeout', $3, true))
INSERT INTO plant_store.plants AS p (id, name, tag, exact, batch)
SELECT r.*, $2::bigint FROM s, json_to_recordset($1::json) r (id bigint, name text, tag text, exact text)
ON CONFLICT (id) DO UPDATE SET batch = p.batch
RETURNING id, name, tag, exact, batch`;

export const GET =
  "SELECT id, name, tag, exact FROM plant_store.plants WHERE id = ANY ($1::bigint[])";

/** Plants from an id on, at most so many and about so many bytes of them, but at least one. */
export const PAGE = `SELECT id, name, tag, exact FROM (
  SELECT q.*, sum(bytes) OVER (ORDER BY id) - bytes AS earlier FROM (
    SELECT *, octet_length(name) + coalesce(octet_length(tag), 0) + coalesce(octet_length(exact), 0) AS bytes
    FROM plant_store.plants WHERE id >= $1::bigint ORDER BY id LIMIT $2::integer) q) r
WHERE earlier < $3::bigint ORDER BY id`;

const LIST_TOKENS = `SELECT json_strip_nulls(row_to_json(t)) FROM (
  SELECT name, hash, string_to_array(scopes, ',') AS scopes, created_at AS "createdAt", expires_at AS "expiresAt",
    revoked_at AS "revokedAt" FROM plant_store.tokens) t ORDER BY "createdAt", hash`;

/** Every token, oldest first. */
export async function listTokens(connection: Connection): Promise<TokenRecord[]> {
  const rows = await connection.query(LIST_TOKENS);
  return rows.map(([json]) => JSON.parse(json ?? ""));
}

/** Other changes wait until the transaction ends; reads do not. */
export const LOCK_TOKENS = "LOCK TABLE plant_store.tokens IN SHARE ROW EXCLUSIVE MODE";

/** Of a known token only the revocation changes. Writes all rows, so that this commit covers them. */
export const WRITE_TOKENS = `INSERT INTO plant_store.tokens AS t
SELECT hash, name, array_to_string(scopes, ','), "createdAt", "expiresAt", "revokedAt"
FROM json_to_recordset($1::json) r
  (hash text, name text, scopes text[], "createdAt" bigint, "expiresAt" bigint, "revokedAt" bigint)
ON CONFLICT (hash) DO UPDATE SET revoked_at = coalesce(t.revoked_at, excluded.revoked_at)`;

/** The parameters of `CREATE`. */
export function createValues(plants: readonly NewPlant[], batch: string, lockMs: number): string[] {
  const rows = plants.map((plant) => {
    const { id, name, tag } = plant;
    const row = { id: String(id), name: toText(name), tag: tag && toText(tag) };
    return row.name === name && row.tag === tag ? row : { ...row, exact: encodeNewPlant(plant) };
  });
  return [JSON.stringify(rows), batch, `${lockMs}ms`];
}

/** The plant of a row that begins with `id, name, tag, exact`. @throws PlantStoreError `read_failed` */
export function decodeRow(row: Rows[number]): NewPlant {
  const [id, name, tag, exact] = row as readonly [string, string, string | null, string | null];
  if (exact === null)
    return tag === null ? { id: BigInt(id), name } : { id: BigInt(id), name, tag };
  try {
    return parseNewPlant(Buffer.from(exact));
  } catch (cause) {
    const why = `the column "exact" of its row was changed`;
    throw new PlantStoreError("read_failed", `Cannot read plant ${id}: ${why}`, { cause });
  }
}

/** Without NUL, which the database refuses, and half a surrogate pair, which it changes. */
function toText(text: string): string {
  return text.replaceAll("\0", "\uFFFD").toWellFormed();
}
