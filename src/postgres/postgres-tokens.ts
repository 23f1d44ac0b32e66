/**
 * The token check of a server over a database: judged in memory, followed twice a second.
 *
 * Invariants. A change of the tokens is in force within 2 s on every server, or no token is accepted
 * (core/token). A look writes the server's own row of `plant_leases` and returns the version
 * of the tokens, in one statement. So a primary that was replaced is believed for 2 s at most, if it has
 * a synchronous standby: it can commit no more.
 */
import { clock } from "../clock.ts";
import { publishWarning } from "../core/channels.ts";
import { PlantStoreError } from "../core/errors.ts";
import type { TokenStatus, TokenVerifier, VerifiedToken } from "../core/services.ts";
import { FollowedTokens, isLive, LOOK_INTERVAL_MS, VERDICT_MS } from "../core/token.ts";
import { DatabaseFault } from "./connection.ts";
import type { PostgresPlants } from "./postgres-plants.ts";
import { writeSettings } from "./schema.ts";
import { decodeTokens, READ_TOKENS } from "./token-table.ts";

/** So there are few rows, no matter how often servers start. Two servers in one slot only wait for each other. */
const SLOTS = 1024;

const NO_COMMITS = "the database confirms no commit; its synchronous standby may be missing";

const BEAT = `WITH ${writeSettings("'1s'")}
INSERT INTO plant_store.plant_leases AS l (slot, beat) SELECT $1::integer, 1 FROM s
ON CONFLICT (slot) DO UPDATE SET beat = l.beat OPERATOR(pg_catalog.+) 1
RETURNING (SELECT tokens_version FROM plant_store.plant_schema)`;

/** Judges tokens by the table of a database, for any number of servers. */
export class PostgresTokens implements TokenVerifier {
  readonly #plants: PostgresPlants;
  readonly #slot = String(clock.randomBytes(4).readUInt32LE() % SLOTS);
  readonly #tokens: FollowedTokens;
  #version: string | null | undefined;
  #lastFault: string | undefined;
  #isClosed = false;

  private constructor(plants: PostgresPlants) {
    this.#plants = plants;
    this.#tokens = new FollowedTokens({
      clock,
      intervalMs: LOOK_INTERVAL_MS.database,
      waitMs: plants.database.deadlineMs,
      look: () => this.#look(VERDICT_MS).catch((fault: DatabaseFault) => this.#warn(fault)),
      fault: "the database has not answered for 2 s",
    });
  }

  /**
   * Reads the tokens of the database that the plants are in, and follows them until `close`, which
   * comes before that of the plants. A primary that misses its standby commits nothing: then this
   * resolves at the deadline, and every verdict is `tokens_unreadable` until the standby is back.
   *
   * @throws PlantStoreError `io_error` if they cannot be read, or the server's row cannot be written.
   */
  static async open(plants: PostgresPlants): Promise<PostgresTokens> {
    const tokens = new PostgresTokens(plants);
    const { database } = plants;
    const look = tokens.#look(database.deadlineMs);
    try {
      await Promise.race([look, database.pause(database.deadlineMs, { ref: false })]);
    } catch (cause) {
      const { message } = cause as Error;
      throw new PlantStoreError("io_error", `Cannot read the tokens: ${message}`, { cause });
    }
    tokens.#tokens.follow();
    return tokens;
  }

  /** Milliseconds since the newest good look began. */
  get leaseAgeMs(): number {
    return this.#tokens.ageMs;
  }

  /**
   * For an operator: `false` once the database has not answered for 2 s, and until it answers again.
   * It stays `true` if the process was only frozen, or busy: the first request then waits for a look.
   */
  get isReadable(): boolean {
    return this.#tokens.isReadable;
  }

  /** For how long looks have not succeeded, not counting time in which the process did not run. @internal */
  get failingMs(): number {
    return this.#tokens.failingMs;
  }

  /**
   * Answers at once while the newest good look began less than 2 s ago. Later a token that was good
   * waits for the next good look, until the deadline.
   *
   * @throws PlantStoreError `tokens_unreadable`: at once for any other token, as a rejection if no look
   * succeeds in time.
   */
  verify(token: string): VerifiedToken | undefined | Promise<VerifiedToken | undefined> {
    return this.#tokens.verify(token);
  }

  /** Waits like `verify`; a result that is over, or not one of this registry, is `false` at once. */
  isCurrent(verified: VerifiedToken): boolean | Promise<boolean> {
    return this.#tokens.isCurrent(verified);
  }

  /** The live tokens, for their operator. */
  list(): TokenStatus[] {
    return this.#tokens.list();
  }

  /**
   * Resolves when a look at the database that begins after this call has ended, or at the deadline. If
   * the look succeeded, every token is known that was created before the call. Never rejects: a failure
   * is a warning.
   */
  refresh(): Promise<void> {
    return this.#tokens.refresh();
  }

  /** Stops following. Verdicts that wait are rejected, and 2 s later every verdict is `tokens_unreadable`. */
  close(): void {
    this.#isClosed = true;
    this.#tokens.close();
  }

  /** `close()`, for `using` and `await using`. */
  [Symbol.dispose](): void {
    this.close();
  }

  /**
   * @param limitMs after it only a first attempt begins.
   * @throws DatabaseFault
   */
  async #look(limitMs: number): Promise<void> {
    await this.#plants.database.sideWrites.run(async (connection) => {
      const begun = this.#tokens.now();
      const late = clock.setInterval(() => this.#warn(), VERDICT_MS);
      late.unref();
      const beating = this.#plants.database.write(connection, BEAT, [this.#slot]);
      const [beat] = await beating.finally(() => clock.clearInterval(late));
      if (beat?.[0] === this.#version) this.#tokens.note(begun);
      else {
        // On the same connection: another host may have other tokens.
        const rows = await connection.query(READ_TOKENS);
        const now = clock.wallMs();
        const live = decodeTokens(rows).filter((token) => isLive(token, now));
        this.#tokens.note(begun, live);
        this.#version = rows[0]?.[0];
      }
    }, limitMs);
    if (this.#tokens.isFresh) this.#lastFault = undefined; // else the next look is as late
  }

  /**
   * Warns once of each reason why there is no good look, except that the database is lost.
   * A write that waits for the standby gets no answer, and may hold the row that the next one needs.
   */
  #warn(fault?: DatabaseFault): void {
    const { database } = this.#plants;
    if (this.#isClosed || database.isLost) return;
    const isHeld = fault === undefined || fault.sqlstate === "55P03";
    const isWaiting = isHeld && database.inspection?.hasLongStatement;
    const reason = isWaiting ? new DatabaseFault(NO_COMMITS) : fault;
    if (reason === undefined || reason.message === this.#lastFault) return;
    this.#lastFault = reason.message;
    publishWarning(
      "Cannot follow the tokens: unless that succeeds within 2 s, requests with a token are answered " +
        "503 until it does",
      reason,
    );
  }
}
