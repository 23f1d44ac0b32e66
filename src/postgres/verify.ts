/**
 * Whether a server, and the database there, may keep plants: the rows of `CHECK_SERVER` and `CHECK` in words.
 * Each refusal says how to fix it.
 */
import { DatabaseError, type Rows, SESSION } from "./connection.ts";
import { SCHEMA_VERSION } from "./schema.ts";
import { type DatabaseHost, formatHost } from "./url.ts";

/** A server that accepts writes. @internal */
export interface Server {
  readonly host: DatabaseHost;
  /** Each promotion counts it up. */
  readonly timeline: number;
  /** When it was started: two names of one server have the same. */
  readonly startedAt: string;
  /** Of its session. */
  readonly pid: string;
  /** The id of the store; a database that was made anew under the same name has another one. */
  readonly store?: string | undefined;
  /** Whether commits wait for a standby. */
  readonly isSynchronous?: boolean;
}

/** The host only follows another one, or was replaced by it. @internal */
export class NotPrimaryError extends DatabaseError {}

/** The database must not be used until a person has fixed it; the message says how. @internal */
export class UnusableDatabaseError extends DatabaseError {
  /** The server, unless it has another store. */
  readonly server: Server | undefined;

  constructor({ host }: Pick<Server, "host">, why: string, server?: Server) {
    super(`Cannot store plants in the database on "${formatHost(host)}": ${why}`);
    this.server = server;
  }
}

/** @internal */
export const NO_STANDBY =
  "synchronous_standby_names is empty, so a failover may lose the newest plants; run: ALTER SYSTEM SET " +
  "synchronous_standby_names = 'ANY 1 (…)'; SELECT pg_reload_conf();";

const POOLER =
  "a pooler does not pass on the settings of the login; connect to PostgreSQL directly";

/** Reads the row of `CHECK_SERVER`. @throws NotPrimaryError, UnusableDatabaseError @internal */
export function verifyServer(host: DatabaseHost, [row = []]: Rows): Server {
  const [isFollowing, walFile, startedAt, pid, settings] = row;
  if (isFollowing !== "f") throw new NotPrimaryError(`"${formatHost(host)}" is a standby`);
  if (settings !== String(SESSION.length)) throw new UnusableDatabaseError({ host }, POOLER);
  const timeline = Number.parseInt(walFile?.slice(0, 8) ?? "", 16);
  return { host, timeline, startedAt: startedAt ?? "", pid: pid ?? "" };
}

/**
 * Reads the row of `CHECK`, or the begin of that of `PROBE`.
 *
 * @param store the id that the store must have, once it is known.
 * @throws UnusableDatabaseError
 * @internal
 */
export function verifyState(
  server: Server,
  row: Rows[number] | undefined,
  { requireSync, store: expected }: { requireSync: boolean; store?: string | undefined },
): Server {
  const [version, store, encoding, fsync, isReadOnly, unlogged, canProve, standbys] = row ?? [];
  const problems: readonly [isProblem: boolean, how: string][] = [
    [
      version !== String(SCHEMA_VERSION),
      `its tables are of version ${version}, not ${SCHEMA_VERSION}; use the release that fits them, or ` +
        "restore the row of plant_store.about",
    ],
    [encoding !== "UTF8", "its encoding is not UTF8; create it with ENCODING 'UTF8'"],
    [
      fsync !== "on",
      "fsync is off, so a crash loses plants; run: ALTER SYSTEM SET fsync = on; SELECT pg_reload_conf();",
    ],
    [
      isReadOnly !== "off",
      "it is read-only; if nobody needs that, run: BEGIN READ WRITE; " +
        "ALTER ROLE … IN DATABASE … SET default_transaction_read_only = off; COMMIT;",
    ],
    [
      unlogged !== null,
      `a crash empties tables that are not logged; run: ALTER TABLE plant_store.… SET LOGGED; for ${unlogged}`,
    ],
    [
      requireSync && canProve !== "t",
      "a standby is required, and the role of the servers cannot see how far standbys are; run: " +
        "GRANT pg_read_all_stats TO …;",
    ],
  ];
  const [, problem] = problems.find(([isProblem]) => isProblem) ?? [];
  if (expected !== undefined && typeof store === "string" && store !== expected) {
    const why = `it is another store (${store}, not ${expected}), made anew or restored`;
    throw new UnusableDatabaseError(server, `${why}; if that is meant, start again`);
  }
  if (problem !== undefined) throw new UnusableDatabaseError(server, problem, server);
  return { ...server, store: store ?? undefined, isSynchronous: standbys !== "" };
}

/** @returns why the database cannot be used, if it has refused `CHECK` or `PROBE`. @internal */
export function explainRefusal(server: Server, error: DatabaseError): DatabaseError {
  const { sqlstate = "", cause } = error;
  if (!/^(42|3F)/.test(sqlstate)) return error;
  const { message } = cause as Error;
  const why =
    sqlstate === "42501"
      ? `the role of the servers lacks a right (${message}); grant it`
      : `a table is missing or of another release (${message}); if the URL names the right database, and it ` +
        "is new, run what `plant-store print schema` prints";
  return new UnusableDatabaseError(server, why, server);
}
