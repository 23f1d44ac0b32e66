/**
 * The tokens in the table `plant_tokens`: read whole, and changed by one statement.
 *
 * Invariants. Only hashes are stored. Every change replaces the number `tokens_version` by a random
 * one, in the same statement, and only if the number is still the one that the decision was
 * made with: two changes at once never both count. Random, because a counter would have the same
 * value on two sides of a failover. A change is reported after a commit of ours that covers it.
 */
import { clock } from "../clock.ts";
import { PlantStoreError } from "../core/errors.ts";
import {
  formatToken,
  isLive,
  isScope,
  makeRecord,
  type NewToken,
  revokeAll,
  selectNew,
  TIME_MAX,
  TOKEN_BYTES,
  type TokenRecord,
  tokenExists,
} from "../core/token.ts";
import { DatabaseFault, nextStep, type Rows } from "./connection.ts";
import type { PostgresPlants } from "./postgres-plants.ts";
import { encodeElement, randomNumber, writeSettings } from "./schema.ts";

/** The number of the version, with each token: one row at least. @internal */
export const READ_TOKENS = `SELECT s.tokens_version, t.name, t.hash, t.scopes, t.created_at,
  t.expires_at, t.revoked_at
FROM plant_store.plant_schema s LEFT JOIN plant_store.plant_tokens t ON true
ORDER BY t.created_at, t.hash`;

/**
 * Replaces the version `$1` by `$2`, and writes tokens: of one that is there it sets the revocation, and
 * none that has one. It also writes the rows that it does not change, so that this commit covers them.
 */
const WRITE_TOKENS = `WITH ${writeSettings("'5s'")}, v AS (
  UPDATE plant_store.plant_schema SET tokens_version = $2::bigint FROM s
  WHERE tokens_version OPERATOR(pg_catalog.=) $1::bigint RETURNING 1)
INSERT INTO plant_store.plant_tokens AS t (hash, name, scopes, created_at, expires_at, revoked_at)
SELECT u.* FROM v, unnest($3::pg_catalog.text[], $4::pg_catalog.text[], $5::pg_catalog.text[],
  $6::bigint[], $7::bigint[], $8::bigint[]) u
ON CONFLICT (hash) DO UPDATE SET revoked_at = coalesce(t.revoked_at, excluded.revoked_at) RETURNING 1`;

/** @internal */
export function decodeTokens(rows: Rows): TokenRecord[] {
  return rows
    .filter(([, name]) => name !== null) // the row of an empty table
    .map(([, name, hash, scopes, createdAt, expiresAt, revokedAt]) => ({
      name: name ?? "",
      hash: hash ?? "",
      scopes: (scopes ?? "").split(",").filter(isScope),
      createdAt: readTime(createdAt),
      ...(expiresAt && { expiresAt: readTime(expiresAt) }),
      ...(revokedAt && { revokedAt: readTime(revokedAt) }),
    }));
}

/** A person may have written a time beyond those of a date. */
function readTime(text: string | null | undefined): number {
  return Math.min(Number(text), TIME_MAX);
}

/**
 * Creates a token and returns it: only its hash is kept. The role of the connection needs the rights
 * to change `plant_tokens` and `plant_schema`.
 *
 * @throws PlantStoreError `token_exists` if a live token has this name, `io_error` if the database
 * does not confirm the change.
 * @throws TypeError or RangeError if name, scopes or expiry are not possible.
 */
export async function createToken(plants: PostgresPlants, newToken: NewToken): Promise<string> {
  const token = await createTokenIf(plants, newToken, ({ name }) => name === newToken.name);
  if (token === undefined) throw tokenExists(newToken.name);
  return token;
}

/** Creates a token if there is no live one; `undefined` otherwise. Throws like `createToken`. */
export function createFirstToken(
  plants: PostgresPlants,
  newToken: NewToken,
): Promise<string | undefined> {
  return createTokenIf(plants, newToken, () => true);
}

/**
 * Revokes the tokens of this name, also expired ones; every server refuses them within 2 s.
 *
 * @throws PlantStoreError `token_unknown`; `io_error` if the database does not confirm the change.
 */
export async function revokeToken(plants: PostgresPlants, name: string): Promise<void> {
  const now = clock.wallMs();
  await changeTokens(plants, (tokens) => {
    const ours = tokens.filter((token) => token.name === name && token.revokedAt === now);
    // By this call, whose answer was lost.
    return ours.length > 0
      ? ours
      : revokeAll(tokens, name, now).filter((token) => token.name === name);
  });
}

/** Every token ever created, oldest first. @throws PlantStoreError `io_error`. */
export async function listTokens(plants: PostgresPlants): Promise<readonly TokenRecord[]> {
  return decodeTokens(await run(plants, READ_TOKENS, []));
}

/**
 * Imports the tokens that `listTokens` has listed, of another store: all, or none. A token that is there
 * already stays as it is. Every server accepts the new ones within 2 s.
 *
 * @returns how many tokens are new.
 * @throws PlantStoreError `token_exists` if another live token has the name of a new one; `corruption` if a
 * record is not possible; `io_error` if the database does not confirm the change.
 */
export async function importTokens(
  plants: PostgresPlants,
  records: Iterable<TokenRecord>,
): Promise<number> {
  const given = [...records];
  let count = 0;
  await changeTokens(plants, (tokens) => {
    const added = selectNew(tokens, given, clock.wallMs());
    count = added.length;
    const hashes = new Set(given.map(({ hash }) => hash));
    return [...tokens.filter(({ hash }) => hashes.has(hash)), ...added];
  });
  return count;
}

/** The columns of tokens, each as an array. */
function encodeColumns(tokens: readonly TokenRecord[]): string[] {
  const rows = tokens.map(({ hash, name, scopes, createdAt, expiresAt, revokedAt }) =>
    [hash, name, scopes.join(), createdAt, expiresAt, revokedAt].map((value) => {
      const isTime = typeof value === "number";
      return value === undefined ? "NULL" : encodeElement(isTime ? `${Math.floor(value)}` : value);
    }),
  );
  return [0, 1, 2, 3, 4, 5].map((at) => `{${rows.map((row) => row[at]).join()}}`);
}

/** @returns `undefined` if a live token is in the way. */
async function createTokenIf(
  plants: PostgresPlants,
  newToken: NewToken,
  isInTheWay: (token: TokenRecord) => boolean,
): Promise<string | undefined> {
  const now = clock.wallMs();
  const token = formatToken(clock.randomBytes(TOKEN_BYTES));
  const record = makeRecord(token, newToken, now);
  const isCreated = await changeTokens(plants, (tokens) => {
    const others = tokens.filter(({ hash }) => hash !== record.hash);
    return others.some((other) => isLive(other, now) && isInTheWay(other)) ? [] : [record];
  });
  return isCreated ? token : undefined;
}

/**
 * Writes tokens, again until no other change came between.
 *
 * @param decide what to write if these tokens are there.
 * @returns whether anything was written.
 */
async function changeTokens(
  plants: PostgresPlants,
  decide: (tokens: readonly TokenRecord[]) => readonly TokenRecord[],
): Promise<boolean> {
  for (;;) {
    const tokens = await run(plants, READ_TOKENS, []);
    const records = decide(decodeTokens(tokens));
    if (records.length === 0) return false;
    const values = [tokens[0]?.[0] ?? null, randomNumber(), ...encodeColumns(records)];
    if ((await run(plants, WRITE_TOKENS, values, UNKNOWN)).length > 0) return true;
  }
}

const UNKNOWN =
  'Cannot say whether the tokens were changed; once the database answers, "token list" shows it';

/** @param unanswered what to say if the database does not answer. */
async function run(
  { database }: PostgresPlants,
  text: string,
  values: readonly (string | null)[],
  unanswered = "Cannot read the tokens",
): Promise<Rows> {
  try {
    // A read waits for no write of this server, which may wait for the standby.
    return text === READ_TOKENS
      ? await database.reads.query(text, values)
      : await database.sideWrites.write(text, values);
  } catch (cause) {
    if (!(cause instanceof DatabaseFault)) throw cause;
    const what = nextStep(cause) === "refuse" ? "Cannot use the tokens" : unanswered;
    const next = cause.sqlstate === "42501" ? "; log in as the owner of the tables" : "";
    throw new PlantStoreError("io_error", `${what}: ${cause.message}${next}`, { cause });
  }
}
