/**
 * Bearer tokens: their form and hash, what is stored of them, and how a server judges them.
 *
 * A token is `pst_` and 256 random bits in base64url. Their entropy makes a slow hash needless: no
 * search finds the token of a SHA-256. The caller provides the randomness, the clocks and the timers.
 *
 * Invariants of `LiveTokens`, the live tokens of a server, followed by looks at the place where they are
 * stored. A verdict is given only while the newest good look began less than 2 s ago, by the monotonic and
 * by the wall clock: the first stops while a machine sleeps, and the second is sometimes set. So a process
 * that was frozen, or whose look hangs, accepts no token that was revoked meanwhile. While verdicts are
 * older, only a token that the last table accepts waits for a look: a guess costs nothing.
 */
import { createHash } from "node:crypto";
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

/** The times of a record, which JSON has in ISO 8601. */
const TIMES: readonly string[] = ["createdAt", "expiresAt", "revokedAt"];

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
 * The record in an object of JSON.
 *
 * @throws PlantStoreError `corruption`, also for a member that is not known: it may be a revocation, or an
 * expiry, that the disk has changed. The message names the member that is wrong.
 * @internal
 */
export function decodeTokenRecord(members: Readonly<Record<string, unknown>>): TokenRecord {
  const { hash, scopes, expiresAt, revokedAt } = members;
  requireMembers(members, RECORD_MEMBERS);
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

/**
 * The members of an object of JSON; none if the text is another value.
 *
 * @throws PlantStoreError `corruption` if it is no JSON; the message does not show the text.
 * @internal
 */
export function parseMembers(text: string): Readonly<Record<string, unknown>> {
  try {
    return Object(JSON.parse(text));
  } catch {
    throw damage("expected JSON");
  }
}

const RECORD_MEMBERS = ["name", "hash", "scopes", "createdAt", "expiresAt", "revokedAt"];

/** @throws PlantStoreError `corruption` if there is another member than these. @internal */
export function requireMembers(members: object, known: readonly string[]): void {
  if (Object.keys(members).every((member) => known.includes(member))) return;
  throw damage(`expected no members but ${known.join(", ")}`);
}

/** @throws PlantStoreError `corruption` if there is no possible name. @internal */
export function parseTokenName({ name }: Readonly<Record<string, unknown>>): string {
  if (typeof name === "string" && isTokenName(name)) return name;
  throw damage("name: expected letters, digits and ._@-");
}

/** @throws PlantStoreError `corruption` if the member is no time as `formatTime` writes it. @internal */
export function parseTime(members: Readonly<Record<string, unknown>>, member: string): number {
  const value = members[member];
  const time = typeof value === "string" ? Date.parse(value) : Number.NaN;
  // `Date.parse` reads other texts, too, some of them as another time.
  if (!Number.isNaN(time) && new Date(time).toISOString() === value) return time;
  throw damage(`${member}: expected a time such as ${new Date(0).toISOString()}`);
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

function assertNewToken(newToken: NewToken, now: number): void {
  const { name, scopes = [], expiresAt } = newToken;
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

/** The tokens of an import, one record for each hash. @internal */
interface MergedTokens {
  /** As they are after the import: a token that is there already stays as it is. */
  readonly merged: readonly TokenRecord[];
  readonly added: readonly TokenRecord[];
}

/**
 * What an import writes if these tokens are there.
 *
 * @param now milliseconds since 1970.
 * @throws PlantStoreError `token_exists` if another live token has the name of a new one; `corruption` or
 * RangeError if a record is not possible.
 * @internal
 */
export function mergeTokens(
  tokens: readonly TokenRecord[],
  records: Iterable<TokenRecord>,
  now: number,
): MergedTokens {
  const known = new Map(tokens.map((token) => [token.hash, token]));
  const names = new Set(tokens.filter((token) => isLive(token, now)).map(({ name }) => name));
  const merged = new Map<string, TokenRecord>();
  const added: TokenRecord[] = [];
  for (const given of records) {
    const record = decodeTokenRecord(JSON.parse(encodeTokens(given)));
    const { name, hash } = record;
    if (merged.has(hash)) continue;
    const there = known.get(hash);
    merged.set(hash, there ?? record);
    if (there !== undefined) continue;
    if (isLive(record, now)) {
      if (names.has(name)) throw tokenExists(name);
      names.add(name);
    }
    added.push(record);
  }
  return { merged: [...merged.values()], added };
}

/** How long verdicts are given after the start of the look that they come from. @internal */
export const VERDICT_MS = 2000;
/** How often servers look at their tokens. @internal */
export const LOOK_INTERVAL_MS = { folder: 100, database: 500 } as const;
/** Requests that wait for a look: as many as may be in flight by default. */
const WAITING_MAX = 16_384;

/** One moment by both clocks, in milliseconds. @internal */
export interface Moment {
  readonly steadyMs: number;
  readonly wallMs: number;
}

/** How long ago a moment was, by the clock that shows more: one that was set back is ignored. @internal */
export function ageMs(since: Moment, clock: Clock): number {
  return Math.max(clock.steadyMs() - since.steadyMs, clock.wallMs() - since.wallMs);
}

interface FollowOptions {
  readonly clock: Clock;
  readonly intervalMs: number;
  /** How long a request waits for a look. */
  readonly waitMs: number;
  /** Why tokens cannot be judged, for clients. */
  readonly fault: string;
}

/** The live tokens of a server. A subclass looks at the place where they are stored. */
export abstract class LiveTokens implements TokenVerifier {
  readonly #options: FollowOptions;
  readonly #clock: Clock;
  /** Verdicts by hash: the time of a look-up reveals nothing of a token. */
  #live = new Map<string, VerifiedToken>();
  #records = new Map<VerifiedToken, TokenRecord>();
  /** When the newest good look began; before the first one, a moment that is too old. */
  #lookedAt: Moment;
  /** How often the interval has passed since a good look ended. A process that is frozen counts none. */
  #missed = Number.POSITIVE_INFINITY;
  /** The last look, which may not have begun: looks are made one after the other. */
  #looking: Promise<void> = Promise.resolve();
  /** The last look, if it has not begun. */
  #next: Promise<void> | undefined;
  /** Each ends the wait of a request for a good look: an error rejects it. */
  readonly #waiting = new Set<(error?: PlantStoreError) => void>();
  #interval: Timer | undefined;
  /** @internal */
  protected isClosed = false;

  /** @internal */
  protected constructor(options: FollowOptions) {
    this.#options = options;
    this.#clock = options.clock;
    const { steadyMs, wallMs } = this.now();
    this.#lookedAt = { steadyMs: steadyMs - VERDICT_MS, wallMs: wallMs - VERDICT_MS };
  }

  /** Looks once, and calls `note` if that succeeds. Never rejects. @internal */
  protected abstract look(): Promise<void>;

  /** @internal */
  protected now(): Moment {
    return { steadyMs: this.#clock.steadyMs(), wallMs: this.#clock.wallMs() };
  }

  /** Looks at every interval, until `close`. Keeps no process alive. @internal */
  protected follow(): void {
    this.#interval = this.#clock.setInterval(() => {
      this.#missed++;
      void this.#lookNext();
    }, this.#options.intervalMs);
    this.#interval.unref();
  }

  /** Begins a look; if one is under way, once that has ended. */
  #lookNext(): Promise<void> {
    this.#next ??= this.#looking.then(() => {
      this.#next = undefined;
      return this.isClosed ? undefined : this.look();
    });
    this.#looking = this.#next;
    return this.#looking;
  }

  /**
   * Takes the result of a good look.
   *
   * @param begun when it began: what it found may be as old.
   * @param records the tokens, if they may have changed; those that are not live are ignored.
   * @internal
   */
  protected note(begun: Moment, records?: Iterable<TokenRecord>): void {
    if (records !== undefined) this.#replace(records);
    this.#lookedAt = begun;
    if (!this.isFresh) return; // the process was frozen amid the look, or the disk hung
    this.#missed = 0;
    for (const end of this.#waiting) end();
  }

  #replace(records: Iterable<TokenRecord>): void {
    const wallMs = this.#clock.wallMs();
    const live = new Map<string, VerifiedToken>();
    const recordOf = new Map<VerifiedToken, TokenRecord>();
    for (const record of records) {
      if (!isLive(record, wallMs)) continue;
      const { hash, name, scopes } = record;
      const before = this.#live.get(hash);
      // The same object while name and scopes are the same: a stream must outlive other changes.
      const isSame = before?.name === name && before.scopes.join() === scopes.join();
      const verdict = isSame ? before : { name, scopes };
      live.set(hash, verdict);
      recordOf.set(verdict, record);
    }
    this.#live = live;
    this.#records = recordOf;
  }

  /** Whether the newest good look is young enough for verdicts. @internal */
  protected get isFresh(): boolean {
    return ageMs(this.#lookedAt, this.#clock) < VERDICT_MS;
  }

  /**
   * Answers at once while the newest good look began less than 2 s ago. Later (looks fail or hang, or the
   * process was frozen) a token that was good waits for a good look, for 2 s or the deadline of a database.
   *
   * @throws PlantStoreError `tokens_unreadable`: at once for any other token, as a rejection if no look
   * succeeds in time.
   */
  verify(token: string): VerifiedToken | undefined | Promise<VerifiedToken | undefined> {
    const verdict = this.#live.get(hashToken(token));
    const record = verdict && this.#records.get(verdict);
    const isGood = record !== undefined && isLive(record, this.#clock.wallMs());
    if (this.isFresh) return isGood ? verdict : undefined;
    if (!isGood) throw this.#unreadable();
    return this.#waitForLook().then(() => this.verify(token));
  }

  /** Waits like `verify`; a result that is over, or not one of this object, is `false` at once. */
  isCurrent(verified: VerifiedToken): boolean | Promise<boolean> {
    const record = this.#records.get(verified);
    if (record === undefined || !isLive(record, this.#clock.wallMs())) return false;
    return this.isFresh || this.#waitForLook().then(() => this.isCurrent(verified));
  }

  /** Resolves after the next good look. */
  #waitForLook(): Promise<void> {
    if (this.isClosed || this.#waiting.size >= WAITING_MAX) throw this.#unreadable();
    if (this.#waiting.size === 0) void this.#lookNext();
    return new Promise((resolve, reject) => {
      const end = (error?: PlantStoreError) => {
        this.#clock.clearTimeout(timer);
        this.#waiting.delete(end);
        if (error === undefined) resolve();
        else reject(error);
      };
      const timer = this.#clock.setTimeout(() => end(this.#unreadable()), this.#options.waitMs);
      this.#waiting.add(end);
    });
  }

  #unreadable(): PlantStoreError {
    const why = `cannot judge tokens now, because ${this.#options.fault}`;
    return new PlantStoreError(
      "tokens_unreadable",
      `Authorization: ${why}: send the request again later`,
    );
  }

  /** The live tokens, for their operator. */
  list(): TokenStatus[] {
    const wallMs = this.#clock.wallMs();
    return [...this.#records.values()]
      .filter((record) => isLive(record, wallMs))
      .map(({ name, scopes, expiresAt }) => ({ name, scopes, expiresAt }));
  }

  /** Milliseconds since the newest good look began. @internal */
  protected get ageMs(): number {
    return ageMs(this.#lookedAt, this.#clock);
  }

  /**
   * For how long no look has succeeded, in milliseconds during which the process ran. Unlike the age of
   * verdicts it does not grow while the process is frozen or its event loop is busy, nor with a clock
   * that is set.
   *
   * @internal
   */
  get failingMs(): number {
    return this.#missed * this.#options.intervalMs;
  }

  /**
   * For an operator: `false` once looks have failed, or not ended, for 2 s, and until one succeeds. It stays
   * `true` if the process was only frozen, or busy: the first request then waits for a look.
   */
  get isReadable(): boolean {
    return this.isFresh || this.failingMs < VERDICT_MS;
  }

  /**
   * Resolves when a look that begins after this call has ended, or once a request would no longer wait for
   * it. If the look succeeded, every token is known that was created before the call. Never rejects: a
   * failure is a warning.
   */
  refresh(): Promise<void> {
    return new Promise((resolve) => {
      const timer = this.#clock.setTimeout(resolve, this.#options.waitMs);
      void this.#lookNext().then(() => {
        this.#clock.clearTimeout(timer);
        resolve();
      });
    });
  }

  /** Stops looking, and rejects what waits for a look. Two seconds later `verify` throws `tokens_unreadable`. */
  close(): void {
    this.isClosed = true;
    this.#clock.clearInterval(this.#interval);
    for (const end of this.#waiting) end(this.#unreadable());
  }

  /** `close()`, for `using` and `await using`. */
  [Symbol.dispose](): void {
    this.close();
  }
}
