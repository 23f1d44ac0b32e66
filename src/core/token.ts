/**
 * Bearer tokens: their form and hash, the record that is stored of each, and the tokens that a server accepts.
 *
 * A token is `pst_` and 256 random bits in base64url. Nobody can guess it, so a plain SHA-256 is safe to store. The
 * caller provides the randomness, the clocks and the timers.
 *
 * Invariant. A damaged record is an error, never another record: a flipped bit must not turn a revoked token into a
 * live one. So an unknown member is damage, too.
 *
 * Invariants of `LiveTokens`. A verdict is at most 2 s old, by the monotonic and by the wall clock: the first stops
 * while a machine sleeps, and the second may be set. So a process that was frozen, or whose polls hang, accepts no
 * token that was revoked meanwhile. While verdicts are older, a token that was good waits for a poll; everything
 * else is refused at once, so guesses cost nothing.
 */
import { hash } from "node:crypto";
import { PlantStoreError } from "./errors.ts";
import {
  type Clock,
  isTokenName,
  SCOPES,
  type Scope,
  type Timer,
  type TokenStatus,
  type TokenVerifier,
  type VerifiedToken,
} from "./services.ts";

/** @internal */
export const TOKEN_BYTES = 32;

/** @param random `TOKEN_BYTES` bytes that nobody can guess. @internal */
export function formatToken(random: Buffer): string {
  return `pst_${random.toString("base64url")}`;
}

/** The SHA-256 of a token, in hexadecimal. @internal */
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

/** A record as one line of JSON, without its line feed. @internal */
export function encodeTokenRecord(record: TokenRecord): string {
  const { name, hash, scopes, createdAt, expiresAt, revokedAt } = record;
  const date = (time: number | undefined) => (time === undefined ? undefined : new Date(time));
  const times = { createdAt: date(createdAt), expiresAt: date(expiresAt) };
  return JSON.stringify({ name, hash, scopes, ...times, revokedAt: date(revokedAt) });
}

const RECORD_MEMBERS = ["name", "hash", "scopes", "createdAt", "expiresAt", "revokedAt"];

/**
 * The record in a line of JSON.
 *
 * @throws PlantStoreError `corruption`, which says what was expected; it does not show the line.
 * @internal
 */
export function decodeTokenRecord(line: string): TokenRecord {
  const members = parseMembers(line);
  const { name, hash, scopes, createdAt, expiresAt, revokedAt } = members;
  if (!Object.keys(members).every((member) => RECORD_MEMBERS.includes(member))) {
    throw damage("members", `only ${RECORD_MEMBERS.join(", ")}`);
  }
  if (typeof name !== "string" || !isTokenName(name)) throw damage("name", "letters and digits");
  if (typeof hash !== "string" || !/^[0-9a-f]{64}$/.test(hash)) throw damage("hash", "a SHA-256");
  if (!isScopes(scopes)) throw damage("scopes", SCOPE_ARRAY);
  return {
    name,
    hash,
    scopes,
    createdAt: parseTime("createdAt", createdAt),
    ...(expiresAt !== undefined && { expiresAt: parseTime("expiresAt", expiresAt) }),
    ...(revokedAt !== undefined && { revokedAt: parseTime("revokedAt", revokedAt) }),
  };
}

function parseMembers(line: string): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {} // the reason would show the line
  if (typeof value !== "object" || value === null) throw damage("record", "a JSON object");
  return value as Readonly<Record<string, unknown>>;
}

function parseTime(member: string, value: unknown): number {
  const time = typeof value === "string" ? Date.parse(value) : Number.NaN;
  // `Date.parse` reads other texts, too, some of them as another time.
  if (!Number.isNaN(time) && new Date(time).toISOString() === value) return time;
  throw damage(member, `a time such as ${new Date(0).toISOString()}`);
}

function damage(what: string, expected: string): PlantStoreError {
  return new PlantStoreError("corruption", `${what}: expected ${expected}`);
}

/** @internal */
export function isScope(value: unknown): value is Scope {
  return SCOPES.some((scope) => scope === value);
}

function isScopes(value: unknown): value is Scope[] {
  return Array.isArray(value) && value.every(isScope);
}

const SCOPE_ARRAY = `an array of ${SCOPES.join(", ")}`;

/** What a date can hold. @internal */
export const TIME_MAX = 8.64e15;

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

/**
 * The record of a new token; `now` is in milliseconds since 1970.
 *
 * @throws TypeError or RangeError if the name, the scopes or the expiry are not possible.
 * @internal
 */
export function makeRecord(token: string, newToken: NewToken, now: number): TokenRecord {
  const { name, scopes = ["write"], expiresAt } = newToken;
  if (typeof name !== "string") throw new TypeError(`name: expected a string, got ${typeof name}`);
  if (!isTokenName(name)) {
    throw new RangeError(
      "name: expected 1 to 64 letters, digits, dots, underscores, @ and hyphens, " +
        `starting with a letter or digit, got "${name}"`,
    );
  }
  if (!isScopes(scopes)) throw new RangeError(`scopes: expected ${SCOPE_ARRAY}`);
  if (expiresAt !== undefined && !(expiresAt > now && expiresAt <= TIME_MAX)) {
    throw new RangeError(`expiresAt: expected a time in the future, at most ${TIME_MAX} ms`);
  }
  const expiry = expiresAt !== undefined && { expiresAt };
  return { name, hash: hashToken(token), scopes, createdAt: now, ...expiry };
}

/** @internal */
export function tokenExists(name: string): PlantStoreError {
  return new PlantStoreError(
    "token_exists",
    `Cannot create token "${name}": a live token has this name; choose another, or revoke that one first`,
  );
}

/**
 * The tokens after a name was revoked, also that of tokens that have expired.
 *
 * @throws PlantStoreError `token_unknown` if that changes none.
 * @internal
 */
export function revokeAll(
  tokens: readonly TokenRecord[],
  name: string,
  revokedAt: number,
): TokenRecord[] {
  const isMeant = (token: TokenRecord) => token.name === name && token.revokedAt === undefined;
  if (tokens.some(isMeant)) {
    return tokens.map((token) => (isMeant(token) ? { ...token, revokedAt } : token));
  }
  const why = "every token of this name is revoked, or there is none";
  const message = `Cannot revoke token "${name}": ${why}; "token list" shows them`;
  throw new PlantStoreError("token_unknown", message);
}

/**
 * The tokens of an import whose hash is not there yet.
 *
 * @throws PlantStoreError `token_exists` if another live token has the name of a live one; `corruption` if
 * a record is not possible.
 * @internal
 */
export function selectNew(
  tokens: readonly TokenRecord[],
  records: Iterable<TokenRecord>,
  now: number,
): TokenRecord[] {
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

/** How old a verdict may be, counted from the start of its poll. @internal */
export const VERDICT_MS = 2000;
/** How often servers poll their tokens. @internal */
export const POLL_INTERVAL_MS = { folder: 100, database: 500 } as const;

/** One moment by both clocks, in milliseconds. @internal */
export interface Moment {
  readonly monotonicMs: number;
  readonly wallMs: number;
}

/** How long ago a moment was, by the clock that shows more: one that was set back is ignored. @internal */
export function ageMs(since: Moment, clock: Clock): number {
  return Math.max(clock.monotonicMs() - since.monotonicMs, clock.wallMs() - since.wallMs);
}

interface FollowOptions {
  readonly clock: Clock;
  readonly intervalMs: number;
  /** How long a request waits for a good poll, after the first one. Default: not at all. */
  readonly waitMs?: number | undefined;
  /** Why tokens cannot be verified, for clients. */
  readonly fault: string;
}

/** The tokens that a server accepts. A subclass polls the place where they are stored. */
export abstract class LiveTokens implements TokenVerifier {
  readonly #options: FollowOptions;
  /** The tokens that are not revoked, by hash. */
  #byHash = new Map<string, TokenRecord>();
  /** Those accepted since the tokens changed, by the token itself: to hash it takes a tenth of a request. */
  #accepted = new Map<string, TokenRecord>();
  /** When the newest good poll began; before the first one, a moment that is too old. */
  #polledAt: Moment;
  /** The last poll, which may not have begun: they run one after the other. */
  #polling: Promise<void> = Promise.resolve();
  /** The last poll, if it has not begun. */
  #next: Promise<void> | undefined;
  #interval: Timer | undefined;
  /** @internal */
  protected isClosed = false;

  /** @internal */
  protected constructor(options: FollowOptions) {
    this.#options = options;
    const { monotonicMs, wallMs } = this.now();
    this.#polledAt = { monotonicMs: monotonicMs - VERDICT_MS, wallMs: wallMs - VERDICT_MS };
  }

  /** Polls once, and calls `accept` if that succeeds. Never rejects. @internal */
  protected abstract poll(): Promise<void>;

  /** @internal */
  protected now(): Moment {
    const { clock } = this.#options;
    return { monotonicMs: clock.monotonicMs(), wallMs: clock.wallMs() };
  }

  /** Polls at every interval, until `close`. Keeps no process alive. @internal */
  protected follow(): void {
    const { clock, intervalMs } = this.#options;
    this.#interval = clock.setInterval(() => void this.refresh(), intervalMs);
    this.#interval.unref();
  }

  /**
   * Resolves when a poll that begins after this call has ended. If it succeeded, every token is known that was
   * created before the call. Never rejects: a failure is a warning.
   */
  refresh(): Promise<void> {
    this.#next ??= this.#polling.then(() => {
      this.#next = undefined;
      return this.isClosed ? undefined : this.poll();
    });
    this.#polling = this.#next;
    return this.#polling;
  }

  /**
   * Takes the result of a good poll.
   *
   * @param begun when it began: what it found may be as old.
   * @param records the tokens, if they may have changed.
   * @internal
   */
  protected accept(begun: Moment, records?: Iterable<TokenRecord>): void {
    if (records !== undefined) this.#replace(records);
    this.#polledAt = begun;
  }

  /** A record that has not changed stays the same object, so that its streams go on. */
  #replace(records: Iterable<TokenRecord>): void {
    const tokens = new Map<string, TokenRecord>();
    for (const record of records) {
      if (record.revokedAt !== undefined) continue;
      const before = this.#byHash.get(record.hash);
      const isSame = before && JSON.stringify(before) === JSON.stringify(record);
      tokens.set(record.hash, isSame ? before : record);
    }
    this.#byHash = tokens;
    this.#accepted = new Map();
  }

  /** Milliseconds since the newest good poll began. @internal */
  protected get ageMs(): number {
    return ageMs(this.#polledAt, this.#options.clock);
  }

  /** Whether the newest good poll is young enough for verdicts. */
  get isReadable(): boolean {
    return this.ageMs < VERDICT_MS;
  }

  #isGood(record: TokenRecord | undefined): record is TokenRecord {
    return record !== undefined && isLive(record, this.#options.clock.wallMs());
  }

  /**
   * Returns the record of a live token. If the newest good poll began 2 s ago or earlier (polls fail or
   * hang, or the process was frozen), a token that was good waits for the next one.
   *
   * @throws PlantStoreError `tokens_unreadable`: at once for any other token, as a rejection if no poll
   * succeeds in time.
   */
  verify(token: string): VerifiedToken | undefined | Promise<VerifiedToken | undefined> {
    const record = this.#accepted.get(token) ?? this.#byHash.get(hashToken(token));
    const isGood = this.#isGood(record);
    if (!this.isReadable) {
      if (!isGood || this.isClosed) throw this.#unreadable();
      return this.#waitForPoll().then(() => this.verify(token));
    }
    if (!isGood) return undefined;
    this.#accepted.set(token, record);
    return record;
  }

  /** Waits like `verify`; a result that is over, or not one of this object, is `false` at once. */
  isCurrent(verified: VerifiedToken): boolean | Promise<boolean> {
    const record = this.#byHash.get((verified as TokenRecord).hash);
    if (record !== verified || !this.#isGood(record)) return false;
    return this.isReadable || this.#waitForPoll().then(() => this.isCurrent(verified));
  }

  /** Resolves after a good poll that begins from now on. @throws PlantStoreError `tokens_unreadable`. */
  async #waitForPoll(): Promise<void> {
    const { clock, intervalMs, waitMs = 0 } = this.#options;
    const sleep = (ms: number) =>
      new Promise<void>((resolve) => clock.setTimeout(resolve, ms).unref());
    const endsAt = clock.monotonicMs() + waitMs;
    await Promise.race([this.refresh(), sleep(VERDICT_MS)]);
    const isOver = () => this.isReadable || this.isClosed || clock.monotonicMs() >= endsAt;
    while (!isOver()) await sleep(intervalMs); // each interval polls
    if (!this.isReadable) throw this.#unreadable();
  }

  #unreadable(): PlantStoreError {
    const why = `cannot verify tokens right now, because ${this.#options.fault}`;
    return new PlantStoreError("tokens_unreadable", `Authorization: ${why}; retry later`);
  }

  /** The live tokens, for their operator. */
  list(): TokenStatus[] {
    return [...this.#byHash.values()]
      .filter((record) => this.#isGood(record))
      .map(({ name, scopes, expiresAt }) => ({ name, scopes, expiresAt }));
  }

  /** Stops polling. Two seconds later `verify` throws `tokens_unreadable`. */
  close(): void {
    this.isClosed = true;
    this.#options.clock.clearInterval(this.#interval);
  }

  /** `close()`, for `using` and `await using`. */
  [Symbol.dispose](): void {
    this.close();
  }
}
