/**
 * The proof that standbys have a commit, for `requireSync`.
 *
 * Invariant. A commit is proven when as many synchronous standbys as the setting asks for, and at least
 * one, have flushed the log of the primary up to a position that was read after the commit. The settings
 * alone prove nothing: when `synchronous_standby_names` is emptied, commits that wait are reported as
 * successes, and when it is filled, sessions show it before commits wait. The proof does not depend on
 * the session, but it has to come from the server that made the commit, and a pooler may go on to
 * another one.
 */
import { sleep } from "../clock.ts";
import { type Connection, DatabaseFault } from "./connection.ts";

/** When the server was started, in SQL: two servers differ in it. @internal */
export const STARTED_AT =
  "(pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time()) OPERATOR(pg_catalog.*) 1000000)::bigint";

/**
 * How far standbys are; `$1` is a position in the log, `NULL` the newest one on the disk. The function
 * beneath `pg_stat_replication`, whose joins take twice as long.
 */
const STANDBYS = `SELECT ${STARTED_AT}, l.lsn, pg_catalog.current_setting('synchronous_standby_names'),
  (SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_get_wal_senders() r
    WHERE r.sync_state OPERATOR(pg_catalog.=) ANY ('{sync,quorum}') AND r.flush_lsn OPERATOR(pg_catalog.>=) l.lsn)
FROM (SELECT coalesce($1::pg_catalog.pg_lsn, pg_catalog.pg_current_wal_flush_lsn()) AS lsn) l`;

const PAUSE_MS_MAX = 50;

/**
 * Resolves when standbys have everything that was committed before the call. It waits as long as the
 * connection works, like a commit that waits for its standby.
 *
 * @param startedAt of the server that has committed.
 * @throws DatabaseFault
 * @internal
 */
export async function awaitStandbys(
  connection: Connection,
  startedAt: string | null,
): Promise<void> {
  let position: string | null = null;
  for (let pauseMs = 1; ; pauseMs = Math.min(2 * pauseMs, PAUSE_MS_MAX)) {
    const [row] = await connection.query(STANDBYS, [position]);
    const [server, newest = null, names, count] = row ?? [];
    if (server !== startedAt)
      throw new DatabaseFault("Another server than that of the commit answers");
    if (Number(count) >= countNeeded(names ?? "")) return;
    position = newest;
    await sleep(pauseMs);
  }
}

/** How many standbys a commit waits for: `ANY 2 (a, b, c)`, `FIRST 2 (a, b)`, `2 (a, b)`, or names alone. */
function countNeeded(names: string): number {
  const [, count = "1"] = /^\s*(?:(?:any|first)\s+)?(\d+)\s*\(/i.exec(names) ?? [];
  return Math.max(1, Number(count));
}
