/** Whether a server, and the database there, may keep plants: the rows of `CHECK_SERVER` and `CHECK`. */
import { DatabaseError, type Rows, SESSION } from "./connection.ts";
import { type DatabaseHost, formatHost } from "./url.ts";

/** A server that accepts writes. */
export interface Server {
  readonly host: DatabaseHost;
  /** Each promotion counts it up. */
  readonly timeline: number;
  /** When it was started: two names of one server have the same. */
  readonly startedAt: string;
}

/** What a database that may be used says of itself. */
export interface DatabaseState {
  /** The id of the store; a database that was made anew under the same name has another one. */
  readonly store: string;
  /** Whether commits wait for a standby. */
  readonly isSynchronous: boolean;
}

/** The host only follows another one, or was replaced by it. */
export class NotPrimaryError extends DatabaseError {}

/** The database must not be used until a person has fixed it; the message says how. */
export class UnusableDatabaseError extends DatabaseError {
  /** The server, if it may have replaced another one of this store. */
  readonly server: Server | undefined;

  constructor(host: DatabaseHost, why: string, server?: Server) {
    super(`Cannot store plants in the database on "${formatHost(host)}": ${why}`);
    this.server = server;
  }
}

export const NO_STANDBY =
  "synchronous_standby_names is empty, so a failover may lose the newest plants; run: ALTER SYSTEM SET " +
  "synchronous_standby_names = 'ANY 1 (…)'; SELECT pg_reload_conf();";

/** @throws NotPrimaryError, UnusableDatabaseError */
export function verifyServer(host: DatabaseHost, [row = []]: Rows): Server {
  const [isFollowing, timeline, startedAt, , settings] = row;
  if (isFollowing !== "f") throw new NotPrimaryError(`"${formatHost(host)}" is a standby`);
  if (settings !== String(SESSION.length)) {
    const why =
      "a pooler does not pass on the settings of the login; connect to PostgreSQL directly";
    throw new UnusableDatabaseError(host, why);
  }
  return { host, timeline: Number.parseInt(timeline ?? "", 16), startedAt: startedAt ?? "" };
}

/** @param expected the id of the store, once it is known. @throws UnusableDatabaseError */
export function verifyState(server: Server, [row = []]: Rows, expected?: string): DatabaseState {
  const [refusal, store, standbys] = row;
  if (expected && store && store !== expected) {
    const why = `it is another store (${store}, not ${expected}), made anew or restored`;
    throw new UnusableDatabaseError(server.host, `${why}; if that is meant, start again`);
  }
  if (refusal !== null) throw new UnusableDatabaseError(server.host, String(refusal), server);
  return { store: store ?? "", isSynchronous: standbys !== "" };
}

/** Handles the failure of `CHECK` or `PROBE`. @throws UnusableDatabaseError if a table or a right is missing */
export function explainRefusal(server: Server): (error: DatabaseError) => never {
  return (error) => {
    const { sqlstate = "", message } = error;
    if (!/^(42|3F)/.test(sqlstate)) throw error;
    const fix =
      sqlstate === "42501"
        ? "grant this right to the role of the servers"
        : "if a table is missing, and the URL names the right database, run what `plant-store print schema` prints";
    throw new UnusableDatabaseError(server.host, `${message}; ${fix}`, server);
  };
}
