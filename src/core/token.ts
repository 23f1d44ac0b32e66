/**
 * Bearer tokens: their form and hash, and the record that is stored of each.
 *
 * A token is `pst_` and 256 random bits in base64url. Nobody can guess it, so a plain SHA-256 is safe to store.
 * Invariant. A damaged record is an error, never another record: a flipped bit revives no revoked token.
 */
import { hash } from "node:crypto";
import { PlantStoreError } from "./errors.ts";
import type { Scope } from "./services.ts";

export const TOKEN_BYTES = 32;
export const SCOPES: readonly Scope[] = ["write", "read"];
/** Logs show these names, so nothing in them controls a terminal. */
const NAME = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$/;

/** @param random `TOKEN_BYTES` bytes that nobody can guess. */
export function formatToken(random: Buffer): string {
  return `pst_${random.toString("base64url")}`;
}

/** The SHA-256 of a token, in hexadecimal. */
export function hashToken(token: string): string {
  return hash("sha256", token, "hex");
}

/** A token as it is stored: never the token itself. */
export interface TokenRecord {
  /** Unique among the live tokens; revocations and logs refer to the token by it. */
  readonly name: string;
  /** SHA-256 of the token, in hexadecimal. */
  readonly hash: string;
  readonly scopes: readonly Scope[];
  /** Milliseconds since 1970, UTC. */
  readonly createdAt: number;
  /** The first moment at which the token is no longer good; absent: it never expires. */
  readonly expiresAt?: number;
  readonly revokedAt?: number;
}

/** Whether the token is good at a time, in milliseconds since 1970. */
export function isLive({ revokedAt, expiresAt }: TokenRecord, now: number): boolean {
  return revokedAt === undefined && (expiresAt === undefined || now < expiresAt);
}

/** A record as one line of JSON, without its line feed. */
export function encodeTokenRecord(record: Partial<TokenRecord>): string {
  const { name, hash, scopes, createdAt, expiresAt, revokedAt } = record;
  const members = { name, hash, scopes, createdAt, expiresAt, revokedAt };
  return JSON.stringify(
    members,
    (_, value) => (typeof value === "number" ? new Date(value).toJSON() : value), // the numbers are times
  );
}

/** The record in a line, which may have more white space. @throws PlantStoreError `corruption`. */
export function decodeTokenRecord(line: string): TokenRecord {
  let [text, record]: [string, Partial<TokenRecord>] = ["", {}];
  try {
    record = Object(
      JSON.parse(line, (member, value) => (member.endsWith("At") ? Date.parse(value) : value)),
    );
    text = JSON.stringify(JSON.parse(line));
  } catch {} // the reason would show the line
  const { hash, createdAt, expiresAt = 0, revokedAt = 0 } = record;
  const areTimes = [createdAt, expiresAt, revokedAt].every(Number.isFinite);
  const members = "name, hash, scopes, createdAt, and perhaps expiresAt and revokedAt";
  const isWritten =
    areTimes && /^[0-9a-f]{64}$/.test(`${hash}`) && text === encodeTokenRecord(record);
  const mistake = findMistake(record) ?? (isWritten ? undefined : `expected only ${members}`);
  if (mistake === undefined) return record as TokenRecord;
  throw new PlantStoreError("corruption", mistake);
}

/** What is wrong with the name or the scopes of a token. */
export function findMistake(token: { name?: unknown; scopes?: unknown }): string | undefined {
  const { name, scopes } = token;
  if (typeof name !== "string" || !NAME.test(name)) {
    return "name: expected 1 to 64 letters, digits and ._@-, the first a letter or digit";
  }
  const areScopes = Array.isArray(scopes) && scopes.length > 0 && scopes.every(isScope);
  return areScopes ? undefined : `scopes: expected an array of one or more of ${SCOPES}`;
}

export function isScope(value: unknown): value is Scope {
  return SCOPES.includes(value as Scope);
}

export const TIME_MAX = 8.64e15; // what a date can hold

export interface NewToken {
  /** 1 to 64 letters, digits, `.`, `_`, `@` and `-`, the first a letter or digit; of no other live token. */
  readonly name: string;
  /** Default: `write` alone. */
  readonly scopes?: readonly Scope[] | undefined;
  /** Milliseconds since 1970, UTC. Default: never. */
  readonly expiresAt?: number | undefined;
}

/** The record of a new token. @throws RangeError if name, scopes or expiry are not possible. */
export function makeRecord(token: string, newToken: NewToken, now: number): TokenRecord {
  const { name, scopes = ["write"], expiresAt } = newToken;
  const mistake = findMistake({ name, scopes });
  if (mistake !== undefined) throw new RangeError(mistake);
  if (expiresAt !== undefined && !(expiresAt > now && expiresAt <= TIME_MAX)) {
    throw new RangeError(`expiresAt: expected a time from ${now} to ${TIME_MAX}, got ${expiresAt}`);
  }
  const expiry = expiresAt !== undefined && { expiresAt };
  return { name, hash: hashToken(token), scopes, createdAt: now, ...expiry };
}

type Tokens = readonly TokenRecord[];

export function tokenExists(name: string): PlantStoreError {
  const why = "a live token has this name; choose another, or revoke that one first";
  return new PlantStoreError("token_exists", `Cannot create token "${name}": ${why}`);
}

/** The tokens after a name was revoked, expired ones as well. @throws PlantStoreError `token_unknown` if none was. */
export function revokeAll(tokens: Tokens, name: string, revokedAt: number): TokenRecord[] {
  const isMeant = (token: TokenRecord) => token.name === name && token.revokedAt === undefined;
  if (!tokens.some(isMeant)) {
    const why = 'every token of this name is revoked, or there is none; "token list" shows them';
    throw new PlantStoreError("token_unknown", `Cannot revoke token "${name}": ${why}`);
  }
  return tokens.map((token) => (isMeant(token) ? { ...token, revokedAt } : token));
}

/**
 * The tokens of an import whose hash is not there yet. @throws PlantStoreError `token_exists` if another live token
 * has the name of a live one; `corruption` if a record is not possible.
 */
export function selectNew(tokens: Tokens, records: Iterable<TokenRecord>, now: number) {
  const hashes = new Set(tokens.map(({ hash }) => hash));
  const names = new Set(tokens.filter((token) => isLive(token, now)).map(({ name }) => name));
  const added: TokenRecord[] = [];
  for (const given of records) {
    const record = decodeTokenRecord(encodeTokenRecord(given));
    if (hashes.has(record.hash)) continue;
    if (isLive(record, now) && names.has(record.name)) throw tokenExists(record.name);
    if (isLive(record, now)) names.add(record.name);
    hashes.add(record.hash);
    added.push(record);
  }
  return added;
}
