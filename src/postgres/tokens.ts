/**
 * The tokens in a database: as a server follows them, and as an operator changes them.
 *
 * Invariants. Only hashes are stored. A change is in force within 2 s on every server, or no token is accepted
 * (core/live-tokens): a poll is a probe that the primary has committed. A change is decided under a lock, so it sees
 * every earlier one, and it is reported after a commit of ours that covers it.
 */
import { clock } from "../clock.ts";
import { PlantStoreError } from "../core/errors.ts";
import { LiveTokens } from "../core/live-tokens.ts";
import {
  formatToken,
  makeRecord,
  type NewToken,
  revokeAll,
  selectNew,
  TOKEN_BYTES,
  type TokenRecord,
} from "../core/token.ts";
import { type Connection, DatabaseError, withTimeout } from "./connection.ts";
import type { Database } from "./database.ts";
import { LOCK_TOKENS, listTokens, WRITE_TOKENS } from "./schema.ts";

/** Verifies tokens by the table of a database, for any number of servers. */
export class PostgresTokens extends LiveTokens {
  readonly #database: Database;

  /** @internal */
  constructor(database: Database) {
    const reason = "the database has not responded for 2 s";
    super({ clock, waitMs: database.deadlineMs, reason });
    this.#database = database;
  }

  /** Polls until verdicts are given, and then follows the tokens. @throws DatabaseError @internal */
  async start(): Promise<void> {
    while (!this.isReadable) {
      await this.#poll().catch((error) => {
        if (!(error instanceof DatabaseError) || this.#database.hosts.isFinal(error)) throw error;
      });
    }
    this.follow();
  }

  /** @internal */
  protected override poll(): Promise<void> {
    return this.#poll().catch((error) => this.#database.warn(error));
  }

  async #poll(): Promise<void> {
    const { age, tokens } = await this.#database.probe();
    this.accept(age, tokens);
  }
}

/**
 * Changes the tokens of a database; the role needs the rights of their owner. Every method may throw
 * PlantStoreError `io_error`: the database does not confirm the change, or refuses it.
 */
export class TokenTable {
  readonly #database: Database;

  /** @internal */
  constructor(database: Database) {
    this.#database = database;
  }

  /** Creates a token and returns it. @throws PlantStoreError `token_exists`; TypeError or RangeError. */
  async create(newToken: NewToken): Promise<string> {
    const token = formatToken(clock.randomBytes(TOKEN_BYTES));
    await this.import([makeRecord(token, newToken, clock.wallMs())]);
    return token;
  }

  /** Revokes the tokens of this name, even expired ones. @throws PlantStoreError `token_unknown` */
  async revoke(name: string): Promise<void> {
    const now = clock.wallMs();
    await this.#change((tokens) => {
      const ofName = tokens.filter((token) => token.name === name);
      const ours = ofName.filter(({ revokedAt }) => revokedAt === now); // a response may be lost
      return ours.length > 0 ? ours : revokeAll(ofName, name, now);
    });
  }

  /** Every token ever created, oldest first. */
  list(): Promise<readonly TokenRecord[]> {
    return this.#run(listTokens);
  }

  /**
   * Imports the tokens of another store, all or none, and returns how many are new. A token that is there stays.
   *
   * @throws PlantStoreError `token_exists` if another live token has the name of a new one; `corruption`.
   */
  async import(records: Iterable<TokenRecord>): Promise<number> {
    const given = [...records];
    const hashes = new Set(given.map(({ hash }) => hash));
    let count = 0;
    await this.#change((tokens) => {
      const added = selectNew(tokens, given, clock.wallMs());
      count = added.length;
      return [...tokens.filter(({ hash }) => hashes.has(hash)), ...added];
    });
    return count;
  }

  /** Writes what `decide` returns for the tokens that are there. */
  #change(decide: (tokens: readonly TokenRecord[]) => readonly TokenRecord[]): Promise<void> {
    return this.#run(async (connection) => {
      try {
        await connection.query("BEGIN");
        await connection.query(LOCK_TOKENS);
        const records = decide(await listTokens(connection));
        if (records.length > 0) await connection.query(WRITE_TOKENS, [JSON.stringify(records)]);
        await this.#database.write(connection, "COMMIT");
      } catch (error) {
        connection.close(); // with its transaction
        throw error;
      }
    });
  }

  async #run<T>(work: (connection: Connection) => Promise<T>): Promise<T> {
    const { deadlineMs, changes } = this.#database;
    try {
      return await withTimeout(deadlineMs, changes.run(work));
    } catch (cause) {
      if (!(cause instanceof DatabaseError)) throw cause;
      const next = "log in as the owner of the tables, and list the tokens to see if it was made";
      throw new PlantStoreError("io_error", `${cause.message}; ${next}`, { cause });
    }
  }
}
