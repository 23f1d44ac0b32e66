/**
 * The token check of a server over a database: judged in memory, followed twice a second.
 *
 * Invariants. A change of the tokens is in force within 2 s on every server, or none is accepted:
 * verdicts are given only while the newest good look began less than 2 s ago. A look writes the
 * server's own row of `plant_leases` and returns the version of the tokens, in one statement. So a
 * primary that was replaced is believed for 2 s at most, if it has a synchronous standby: it can
 * commit no more. The clock is the monotonic one.
 */
import { randomInt } from "node:crypto";
import { EventEmitter, once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { publishWarning } from "../core/channels.ts";
import { PlantStoreError } from "../core/errors.ts";
import type { TokenStatus, TokenVerifier, VerifiedToken } from "../core/services.ts";
import { isLive, LiveTokens } from "../core/token.ts";
import { DatabaseFault } from "./connection.ts";
import type { PostgresPlants } from "./postgres-plants.ts";
import { writeSettings } from "./schema.ts";
import { decodeTokens, READ_TOKENS } from "./token-table.ts";

const LOOK_INTERVAL_MS = 500;
const LEASE_MS = 2000;
/** Unknown tokens that wait for a look. */
const WAITING_MAX = 1000;
/** So there are few rows, no matter how often servers start. Two servers in one slot only wait for each other. */
const SLOTS = 1024;

const NO_COMMITS = "the database confirms no commit; its synchronous standby may be missing";

const BEAT = `WITH ${writeSettings("'1s'")}
INSERT INTO public.plant_leases AS l (slot, beat) SELECT $1::integer, 1 FROM s
ON CONFLICT (slot) DO UPDATE SET beat = l.beat + 1
RETURNING (SELECT tokens_version FROM public.plant_schema)`;

/** Judges tokens by the table of a database, for any number of servers. */
export class PostgresTokens implements TokenVerifier {
  readonly #plants: PostgresPlants;
  readonly #slot = String(randomInt(SLOTS));
  readonly #closing = new AbortController();
  /** Emits `look` after every good look. */
  readonly #events = new EventEmitter().setMaxListeners(0);
  readonly #tokens = new LiveTokens();
  #version: string | null | undefined;
  /** When the newest good look began, or so that none counts; by the monotonic clock. */
  #lookedAt = performance.now() - LEASE_MS;
  #lastFault: string | undefined;

  private constructor(plants: PostgresPlants) {
    this.#plants = plants;
  }

  /**
   * Reads the tokens of the database that the plants are in, and follows them until `close`, which
   * comes before that of the plants. A primary that misses its standby commits nothing: then this
   * resolves at the deadline, and verdicts wait.
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
    void tokens.#follow();
    return tokens;
  }

  /** Milliseconds since the newest good look began. */
  get leaseAgeMs(): number {
    return performance.now() - this.#lookedAt;
  }

  /** Whether tokens are judged now; otherwise verdicts wait. */
  get isReadable(): boolean {
    return this.leaseAgeMs < LEASE_MS;
  }

  /**
   * Answers at once while `isReadable`; otherwise waits for the next good look, until the deadline.
   *
   * @throws PlantStoreError `tokens_unreadable`, as a rejection.
   */
  verify(token: string): VerifiedToken | undefined | Promise<VerifiedToken | undefined> {
    return this.#judge(() => this.#tokens.verify(token, Date.now()));
  }

  /** Waits and throws like `verify`. */
  isCurrent(verified: VerifiedToken): boolean | Promise<boolean> {
    return this.#judge(() => this.#tokens.isCurrent(verified, Date.now()));
  }

  /**
   * Resolves after a good look that begins after this call, so that every token is known that was
   * created before it. `undefined` if many wait. Rejects like `verify`.
   */
  nextLook(): Promise<void> | undefined {
    if (this.#events.listenerCount("look") >= WAITING_MAX) return undefined;
    const since = performance.now();
    return this.#until(() => this.#lookedAt > since);
  }

  /** The live tokens, for their operator. */
  list(): TokenStatus[] {
    return this.#tokens.list(Date.now());
  }

  /** Stops following; verdicts that wait are rejected at their deadline. */
  close(): void {
    this.#closing.abort();
  }

  /** `close()`, for `using` and `await using`. */
  [Symbol.dispose](): void {
    this.close();
  }

  #judge<T>(judge: () => T): T | Promise<T> {
    return this.isReadable ? judge() : this.#untilReadable().then(judge);
  }

  #untilReadable(): Promise<void> {
    this.#warn();
    const since = performance.now(); // a look that began before does not know the newest tokens
    return this.#until(() => this.isReadable && this.#lookedAt > since);
  }

  /** Waits for looks, until the deadline. */
  async #until(isOver: () => boolean): Promise<void> {
    const signal = AbortSignal.timeout(this.#plants.database.deadlineMs);
    try {
      while (!isOver()) await once(this.#events, "look", { signal });
    } catch (cause) {
      throw new PlantStoreError(
        "tokens_unreadable",
        "Authorization: cannot judge tokens now, because the database does not answer: send the " +
          "request again later",
        { cause },
      );
    }
  }

  async #follow(): Promise<void> {
    const { signal } = this.#closing;
    while (!signal.aborted) {
      const begun = performance.now();
      await this.#look(LEASE_MS).catch((fault: DatabaseFault) => this.#warn(fault));
      const rest = Math.max(begun + LOOK_INTERVAL_MS - performance.now(), 0);
      await sleep(rest, undefined, { signal, ref: false }).catch(() => {});
    }
  }

  /**
   * @param limitMs after it only a first attempt begins.
   * @throws DatabaseFault
   */
  async #look(limitMs: number): Promise<void> {
    await this.#plants.database.sideWrites.run(async (connection) => {
      const begun = performance.now();
      const late = setTimeout(() => this.#warn(), LEASE_MS);
      const beating = connection.query(BEAT, [this.#slot]);
      const [beat] = await beating.finally(() => clearTimeout(late));
      if (beat?.[0] !== this.#version) {
        // On the same connection: another host may have other tokens.
        const rows = await connection.query(READ_TOKENS);
        const now = Date.now();
        this.#tokens.replace(decodeTokens(rows).filter((token) => isLive(token, now)));
        this.#version = rows[0]?.[0];
      }
      this.#lookedAt = Math.max(begun, this.#lookedAt);
    }, limitMs);
    if (this.isReadable) this.#lastFault = undefined; // else the next look is as late
    this.#events.emit("look");
  }

  /**
   * Warns once of each reason why there is no good look, except that the database is lost.
   * A write that waits for the standby gets no answer, and may hold the row that the next one needs.
   */
  #warn(fault?: DatabaseFault): void {
    const { database } = this.#plants;
    if (this.#closing.signal.aborted || database.isLost) return;
    const isHeld = fault === undefined || fault.sqlstate === "55P03";
    const isWaiting = isHeld && database.inspection?.hasLongStatement;
    const reason = isWaiting ? new DatabaseFault(NO_COMMITS) : fault;
    if (reason === undefined || reason.message === this.#lastFault) return;
    this.#lastFault = reason.message;
    publishWarning("Cannot follow the tokens: requests wait until that succeeds", reason);
  }
}
