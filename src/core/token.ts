/**
 * Bearer tokens: their form and hash, what is stored of them, and how they are judged.
 *
 * A token is `pst_` and 256 random bits in base64url. Their entropy makes a slow hash needless: no
 * search finds the token of a SHA-256. The caller provides the randomness and the time.
 */
import { createHash } from "node:crypto";
import { PlantStoreError } from "./errors.ts";
import {
  isTokenName,
  SCOPES,
  type Scope,
  type TokenStatus,
  type VerifiedToken,
} from "./services.ts";

/** @internal */
export const TOKEN_BYTES = 32;

/**
 * @param random `TOKEN_BYTES` bytes that nobody can guess.
 * @internal
 */
export function formatToken(random: Buffer): string {
  return `pst_${random.toString("base64url")}`;
}

/** The SHA-256 of a token, in hexadecimal. @internal */
export function hashToken(token: string): string {
  return createHash("sha256").update(token).digest("hex");
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

/** The times of a record, which JSON has in ISO 8601. @internal */
export const TIMES: readonly string[] = ["createdAt", "expiresAt", "revokedAt"];

/** What a date can hold. @internal */
export const TIME_MAX = 8.64e15;

/**
 * A record, or an object that holds some, as JSON in one line.
 *
 * @throws RangeError as `formatTime`.
 * @internal
 */
export function encodeTokens(value: object): string {
  return JSON.stringify(value, function (this: TokenRecord, key, value) {
    return TIMES.includes(key) && value !== undefined ? formatTime(this, key, value) : value;
  });
}

/**
 * A time of a token in ISO 8601.
 *
 * @throws RangeError that names the token and the member, if no date has this time.
 * @internal
 */
export function formatTime({ name }: TokenRecord, member: string, time: unknown): string {
  if (typeof time === "number" && Math.abs(time) <= TIME_MAX) return new Date(time).toISOString();
  const expected = `expected milliseconds since 1970, at most ${TIME_MAX}, got ${time}`;
  throw new RangeError(`token "${name}": ${member}: ${expected}`);
}

/**
 * The record in an object of JSON; unknown members are ignored.
 *
 * @throws PlantStoreError `corruption`; the message names the member.
 * @internal
 */
export function decodeTokenRecord(members: Readonly<Record<string, unknown>>): TokenRecord {
  const { hash, scopes, expiresAt, revokedAt } = members;
  const name = parseTokenName(members);
  if (typeof hash !== "string" || !/^[0-9a-f]{64}$/.test(hash)) {
    throw damage("hash: expected 64 hexadecimal digits");
  }
  if (!isScopes(scopes)) throw damage(`scopes: expected an array of ${SCOPES.join(", ")}`);
  return {
    name,
    hash,
    scopes,
    createdAt: parseTime(members, "createdAt"),
    ...(expiresAt !== undefined && { expiresAt: parseTime(members, "expiresAt") }),
    ...(revokedAt !== undefined && { revokedAt: parseTime(members, "revokedAt") }),
  };
}

/** @throws PlantStoreError `corruption` if there is no possible name. @internal */
export function parseTokenName({ name }: Readonly<Record<string, unknown>>): string {
  if (typeof name === "string" && isTokenName(name)) return name;
  throw damage("name: expected letters, digits and ._@-");
}

/** @throws PlantStoreError `corruption` if the member is no time. @internal */
export function parseTime(members: Readonly<Record<string, unknown>>, member: string): number {
  const value = members[member];
  const time = typeof value === "string" ? Date.parse(value) : Number.NaN;
  if (Number.isNaN(time)) throw damage(`${member}: expected an ISO 8601 time`);
  return time;
}

function damage(fault: string): PlantStoreError {
  return new PlantStoreError("corruption", fault);
}

export interface NewToken {
  /**
   * 1 to 64 letters, digits, `.`, `_`, `@` and `-`, the first a letter or digit. No live token may
   * have the same name.
   */
  readonly name: string;
  /** Default: `write` alone. */
  readonly scopes?: readonly Scope[] | undefined;
  /** Milliseconds since 1970, UTC. Default: never. */
  readonly expiresAt?: number | undefined;
}

/** Whether the token is good at a time, in milliseconds since 1970. */
export function isLive({ revokedAt, expiresAt }: TokenRecord, now: number): boolean {
  return revokedAt === undefined && (expiresAt === undefined || now < expiresAt);
}

/** @internal */
export function isScope(value: unknown): value is Scope {
  return SCOPES.some((scope) => scope === value);
}

function isScopes(value: unknown): value is Scope[] {
  return Array.isArray(value) && value.every(isScope);
}

function assertNewToken({ name, scopes = [], expiresAt }: NewToken, now: number): void {
  if (typeof name !== "string") throw new TypeError(`name: expected a string, got ${typeof name}`);
  if (!isTokenName(name)) {
    throw new RangeError(
      "name: expected 1 to 64 letters, digits, dots, underscores, @ and hyphens, " +
        `starting with a letter or digit, got "${name}"`,
    );
  }
  if (!isScopes(scopes)) throw new RangeError(`scopes: expected an array of ${SCOPES.join(", ")}`);
  if (expiresAt !== undefined && !(expiresAt > now && expiresAt <= TIME_MAX)) {
    throw new RangeError(`expiresAt: expected a time in the future, at most ${TIME_MAX} ms`);
  }
}

/**
 * What is stored of a new token; `now` is in milliseconds since 1970.
 *
 * @throws TypeError or RangeError if name, scopes or expiry are not possible.
 * @internal
 */
export function makeRecord(token: string, newToken: NewToken, now: number): TokenRecord {
  assertNewToken(newToken, now);
  const { name, scopes = ["write"], expiresAt } = newToken;
  const expiry = expiresAt !== undefined && { expiresAt };
  return { name, hash: hashToken(token), scopes, createdAt: now, ...expiry };
}

/** @internal */
export function tokenExists(name: string): PlantStoreError {
  return new PlantStoreError(
    "token_exists",
    `Cannot create token "${name}": a live token has this name; ` +
      "choose another, or revoke that one first",
  );
}

/** @internal */
export function tokenUnknown(name: string): PlantStoreError {
  return new PlantStoreError(
    "token_unknown",
    `Cannot revoke token "${name}": no live token has this name; "token list" shows them`,
  );
}

/** What becomes of the tokens of an import. @internal */
export interface MergedTokens {
  /** One record for each hash of the import. */
  readonly merged: readonly TokenRecord[];
  /** Those that are new, or revoked by the import. */
  readonly changed: readonly TokenRecord[];
}

/**
 * Merges records into the tokens that are there: a token that is revoked on either side is revoked.
 *
 * @param now milliseconds since 1970.
 * @throws PlantStoreError `token_exists` if another live token has the name of a new one, or if a hash
 * belongs to two different tokens; `corruption` or RangeError if a record is not possible.
 * @internal
 */
export function mergeTokens(
  tokens: readonly TokenRecord[],
  records: Iterable<TokenRecord>,
  now: number,
): MergedTokens {
  const all = new Map(tokens.map((token) => [token.hash, token]));
  const merged = new Map<string, TokenRecord>();
  const changed = new Map<string, TokenRecord>();
  for (const given of records) {
    const record = decodeTokenRecord(JSON.parse(encodeTokens(given)));
    const { name, hash, revokedAt } = record;
    const known = all.get(hash);
    if (known !== undefined && !isSameToken(known, record)) {
      const why = `token "${known.name}" has the same hash, but another name, other scopes or times`;
      throw new PlantStoreError("token_exists", `Cannot import token "${name}": ${why}`);
    }
    if (known === undefined || (known.revokedAt === undefined && revokedAt !== undefined)) {
      all.set(hash, record);
      changed.set(hash, record);
    }
    merged.set(hash, all.get(hash) ?? record);
  }
  const names = new Set<string>();
  for (const token of all.values()) {
    if (!isLive(token, now)) continue;
    if (changed.has(token.hash) && names.has(token.name)) {
      const why = "another live token has this name; revoke one of the two first";
      throw new PlantStoreError("token_exists", `Cannot import token "${token.name}": ${why}`);
    }
    names.add(token.name);
  }
  return { merged: [...merged.values()], changed: [...changed.values()] };
}

/** Whether two records of one hash differ at most in their revocations. */
function isSameToken(one: TokenRecord, other: TokenRecord): boolean {
  const [a, b] = [one, other].map(({ name, scopes, createdAt, expiresAt }) =>
    JSON.stringify([name, scopes, createdAt, expiresAt]),
  );
  return a === b;
}

/** The live tokens of a server; times are milliseconds since 1970. @internal */
export class LiveTokens {
  /** Verdicts by hash: the time of a look-up reveals nothing of a token. */
  #verdicts = new Map<string, VerifiedToken>();
  #records = new Map<VerifiedToken, TokenRecord>();

  replace(live: Iterable<TokenRecord>): void {
    const known = this.#verdicts;
    this.#verdicts = new Map();
    this.#records = new Map();
    for (const record of live) {
      const { hash, name, scopes } = record;
      const before = known.get(hash);
      // The same object while name and scopes are the same: a stream must outlive other changes.
      const isSame = before?.name === name && before.scopes.join() === scopes.join();
      const verdict = isSame ? before : { name, scopes };
      this.#verdicts.set(hash, verdict);
      this.#records.set(verdict, record);
    }
  }

  verify(token: string, now: number): VerifiedToken | undefined {
    const verdict = this.#verdicts.get(hashToken(token));
    return verdict !== undefined && this.isCurrent(verdict, now) ? verdict : undefined;
  }

  /** Whether a verdict is still valid. */
  isCurrent(verified: VerifiedToken, now: number): boolean {
    const record = this.#records.get(verified);
    return record !== undefined && isLive(record, now);
  }

  list(now: number): TokenStatus[] {
    return [...this.#records.values()]
      .filter((record) => isLive(record, now))
      .map(({ name, scopes, expiresAt }) => ({ name, scopes, expiresAt }));
  }
}
