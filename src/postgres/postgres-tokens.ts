/**
 * The token check of a server over a database: judged in memory, followed twice a second.
 *
 * Invariants. A change of the tokens is in force within 2 s on every server, or no token is accepted
 * (core/live-tokens). A look writes the server's own row of `plant_leases` and returns the version
 * of the tokens, in one statement. So a primary that was replaced is believed for 2 s at most, if it has
 * a synchronous standby: it can commit no more.
 */
import { clock } from "../clock.ts";
import { publishWarning } from "../core/channels.ts";
import { PlantStoreError } from "../core/errors.ts";
import { LiveTokens, VERDICT_MS } from "../core/live-tokens.ts";
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
export class PostgresTokens extends LiveTokens {
  readonly #plants: PostgresPlants;
  readonly #slot = String(clock.randomBytes(4).readUInt32LE() % SLOTS);
  #version: string | null | undefined;
  #lastFault: string | undefined;

  private constructor(plants: PostgresPlants) {
    super({
      clock,
      waitMs: plants.database.deadlineMs,
      reason: "the database has not answered for 2 s",
    });
    this.#plants = plants;
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
    tokens.follow();
    return tokens;
  }

  /** Milliseconds since the newest good look began. */
  get leaseAgeMs(): number {
    return this.ageMs;
  }

  /** @internal */
  protected override async poll(): Promise<void> {
    await this.#look(VERDICT_MS).catch((fault: DatabaseFault) => this.#warn(fault));
  }

  /**
   * @param limitMs after it only a first attempt begins.
   * @throws DatabaseFault
   */
  async #look(limitMs: number): Promise<void> {
    await this.#plants.database.sideWrites.run(async (connection) => {
      const begun = this.now();
      const late = clock.setInterval(() => this.#warn(), VERDICT_MS);
      late.unref();
      const beating = this.#plants.database.write(connection, BEAT, [this.#slot]);
      const [beat] = await beating.finally(() => clock.clearInterval(late));
      if (beat?.[0] === this.#version) this.accept(begun);
      else {
        // On the same connection: another host may have other tokens.
        const rows = await connection.query(READ_TOKENS);
        this.accept(begun, decodeTokens(rows));
        this.#version = rows[0]?.[0];
      }
    }, limitMs);
    if (this.isReadable) this.#lastFault = undefined; // else the next look is as late
  }

  /**
   * Warns once of each reason why there is no good look, except that the database is lost.
   * A write that waits for the standby gets no answer, and may hold the row that the next one needs.
   */
  #warn(fault?: DatabaseFault): void {
    const { database } = this.#plants;
    if (this.isClosed || database.isLost) return;
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
