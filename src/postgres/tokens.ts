/**
 * The tokens in a database: as a server follows them, and as an operator changes them.
 *
 * Invariants. Only hashes are stored. A change is in force within 2 s on every server, or no token is accepted
 * (core/live-tokens): a poll is a probe that the primary has committed. A change is decided under a lock, so two changes
 * at once never both count, and it is reported after a commit of ours that covers it.
 */
import { clock } from "../clock.ts";
import { PlantStoreError } from "../core/errors.ts";
import { LiveTokens } from "../core/live-tokens.ts";
import {
  formatToken,
  isLive,
  makeRecord,
  type NewToken,
  revokeAll,
  selectNew,
  TOKEN_BYTES,
  type TokenRecord,
  tokenExists,
} from "../core/token.ts";
import { type Connection, DatabaseError } from "./connection.ts";
import type { Database } from "./database.ts";
import { decodeTokens, LIST_TOKENS, LOCK_TOKENS, tokenValues, WRITE_TOKENS } from "./schema.ts";
import { isRefusal, withTimeout } from "./serial-connection.ts";

/** Verifies tokens by the table of a database, for any number of servers. */
export class PostgresTokens extends LiveTokens {
  readonly #database: Database;
  #version = "";

  /** @internal */
  constructor(database: Database) {
    super({
      clock,
      waitMs: database.deadlineMs,
      reason: "the database has not responded for 2 s",
    });
    this.#database = database;
  }

  /**
   * Polls until verdicts are given, and then follows the tokens.
   *
   * @param isPatient whether a database that is away is waited for.
   * @throws DatabaseError
   * @internal
   */
  async start(isPatient: boolean): Promise<void> {
    while (!this.isReadable) {
      try {
        await this.#poll();
      } catch (error) {
        const isFinal = !(error instanceof DatabaseError) || this.#database.isFinal(error);
        if (isFinal || !isPatient) throw error;
      }
    }
    this.follow();
  }

  /** Milliseconds since the newest probe that the primary has committed began. */
  get leaseAgeMs(): number {
    return this.ageMs;
  }

  /** @internal */
  protected override poll(): Promise<void> {
    return this.#poll().catch(() => {}); // the database has warned of it
  }

  async #poll(): Promise<void> {
    const { begun, version, tokens } = await this.#database.probe(this.#version);
    this.accept(begun, tokens && decodeTokens(tokens));
    this.#version = version;
  }
}

/** Changes the tokens of a database. The role needs the rights of their owner. */
export class TokenTable {
  readonly #database: Database;

  /** @internal */
  constructor(database: Database) {
    this.#database = database;
  }

  /**
   * Creates a token and returns it: only its hash is kept.
   *
   * @throws PlantStoreError `token_exists` if a live token has this name, `io_error` if the database does not
   * confirm the change; TypeError or RangeError if name, scopes or expiry are not possible.
   */
  async create(newToken: NewToken): Promise<string> {
    const token = await this.#create(newToken, ({ name }) => name === newToken.name);
    if (token === undefined) throw tokenExists(newToken.name);
    return token;
  }

  /** Creates a token if there is no live one; `undefined` otherwise. Throws like `create`. */
  createFirst(newToken: NewToken): Promise<string | undefined> {
    return this.#create(newToken, () => true);
  }

  async #create(
    newToken: NewToken,
    isInTheWay: (token: TokenRecord) => boolean,
  ): Promise<string | undefined> {
    const now = clock.wallMs();
    const token = formatToken(clock.randomBytes(TOKEN_BYTES));
    const record = makeRecord(token, newToken, now);
    const isRival = (other: TokenRecord) =>
      other.hash !== record.hash && isLive(other, now) && isInTheWay(other);
    const written = await this.#change((tokens) => (tokens.some(isRival) ? [] : [record]));
    return written > 0 ? token : undefined;
  }

  /**
   * Revokes the tokens of this name, also expired ones; every server refuses them within 2 s.
   *
   * @throws PlantStoreError `token_unknown`; `io_error` if the database does not confirm the change.
   */
  async revoke(name: string): Promise<void> {
    const now = clock.wallMs();
    await this.#change((tokens) => {
      const ours = tokens.filter((token) => token.name === name && token.revokedAt === now);
      // By this call, whose response was lost.
      if (ours.length > 0) return ours;
      return revokeAll(tokens, name, now).filter((token) => token.name === name);
    });
  }

  /** Every token ever created, oldest first. @throws PlantStoreError `io_error`. */
  list(): Promise<readonly TokenRecord[]> {
    const list = async (connection: Connection) =>
      decodeTokens(await connection.query(LIST_TOKENS));
    return this.#run(list, "Cannot read the tokens");
  }

  /**
   * Imports the tokens of another store: all, or none. A token that is there already stays as it is.
   *
   * @returns how many tokens are new.
   * @throws PlantStoreError `token_exists` if another live token has the name of a new one; `corruption` if a
   * record is not possible; `io_error` if the database does not confirm the change.
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

  /** Writes what `decide` returns for the tokens that are there; returns how many. */
  #change(decide: (tokens: readonly TokenRecord[]) => readonly TokenRecord[]): Promise<number> {
    const unknown =
      'Cannot say whether the tokens were changed; once the database responds, "token list" shows it';
    return this.#run(async (connection) => {
      try {
        await connection.query("BEGIN");
        await connection.query(`SET LOCAL lock_timeout = ${this.#database.deadlineMs}`);
        await connection.query(LOCK_TOKENS);
        const records = decide(decodeTokens(await connection.query(LIST_TOKENS)));
        if (records.length > 0) await connection.query(WRITE_TOKENS, tokenValues(records));
        await this.#database.write(connection, "COMMIT");
        return records.length;
      } catch (error) {
        connection.close(); // with its transaction
        throw error;
      }
    }, unknown);
  }

  async #run<T>(work: (connection: Connection) => Promise<T>, failed: string): Promise<T> {
    const { deadlineMs, writes } = this.#database;
    try {
      return await withTimeout(deadlineMs, writes.run(work, deadlineMs));
    } catch (cause) {
      if (!(cause instanceof DatabaseError)) throw cause;
      const next = cause.sqlstate === "42501" ? "; log in as the owner of the tables" : "";
      const what = isRefusal(cause) ? "Cannot use the tokens" : failed;
      throw new PlantStoreError("io_error", `${what}: ${cause.message}${next}`, { cause });
    }
  }
}
