/**
 * The live tokens of a server, followed by looks at the place where they are stored.
 *
 * Invariants. A verdict is given only while the newest good look began less than 2 s ago, by the
 * monotonic and by the wall clock: the first stops while a machine sleeps, and the second is sometimes
 * set. So a process that was frozen, or whose look hangs, accepts no token that was revoked meanwhile.
 * While verdicts are older, only a token that the last table accepts waits for a look: a guess costs
 * nothing. The caller provides the clocks and the timers.
 */
import { PlantStoreError } from "./errors.ts";
import type { TokenStatus, VerifiedToken } from "./services.ts";
import { LiveTokens, type TokenRecord } from "./token.ts";

/** How long verdicts are given after the start of the look that they come from. @internal */
export const VERDICT_MS = 2000;
/** How often servers look at their tokens. @internal */
export const LOOK_INTERVAL_MS = { folder: 100, database: 500 } as const;
/** Requests that wait for a look: as many as may be in flight by default. */
const WAITING_MAX = 16_384;

interface Timer {
  unref(): unknown;
}

/** Clocks and timers; `src/clock.ts` describes them. @internal */
export interface Clock {
  steadyMs(): number;
  wallMs(): number;
  setTimeout(run: () => void, ms: number): Timer;
  clearTimeout(timer: Timer | undefined): void;
  setInterval(run: () => void, ms: number): Timer;
  clearInterval(timer: Timer | undefined): void;
}

/** One moment by both clocks, in milliseconds. @internal */
export interface Moment {
  readonly steadyMs: number;
  readonly wallMs: number;
}

/** How old something is, by the clock that shows more: one that was set back is ignored. @internal */
export function ageMs(since: Moment, steadyMs: number, wallMs: number): number {
  return Math.max(steadyMs - since.steadyMs, wallMs - since.wallMs);
}

/** @internal */
export interface FollowOptions {
  readonly clock: Clock;
  readonly intervalMs: number;
  /** How long a request waits for a look. */
  readonly waitMs: number;
  /** Looks once, and calls `note` if that succeeds. Never rejects. */
  readonly look: () => Promise<void>;
  /** Why tokens cannot be judged, for clients. */
  readonly fault: string;
}

interface Waiter {
  /** By the monotonic clock. */
  readonly deadline: number;
  readonly resolve: () => void;
  readonly reject: (error: PlantStoreError) => void;
}

/** @internal */
export class FollowedTokens {
  readonly #options: FollowOptions;
  readonly #clock: Clock;
  readonly #live = new LiveTokens();
  /** When the newest good look began; before the first one, a moment that is too old. */
  #lookedAt: Moment;
  /** How often the interval has passed since a good look ended. A process that is frozen counts none. */
  #missed = Number.POSITIVE_INFINITY;
  /** The last look, which may not have begun: looks are made one after the other. */
  #looking: Promise<void> = Promise.resolve();
  /** The last look, if it has not begun. */
  #next: Promise<void> | undefined;
  /** The requests that wait for a look, oldest first: all wait equally long. */
  #waiting: Waiter[] = [];
  #expiry: Timer | undefined;
  #interval: Timer | undefined;
  #isClosed = false;

  constructor(options: FollowOptions) {
    this.#options = options;
    this.#clock = options.clock;
    const { steadyMs, wallMs } = this.now();
    this.#lookedAt = { steadyMs: steadyMs - VERDICT_MS, wallMs: wallMs - VERDICT_MS };
  }

  now(): Moment {
    return { steadyMs: this.#clock.steadyMs(), wallMs: this.#clock.wallMs() };
  }

  /** Milliseconds since the newest good look began. */
  get ageMs(): number {
    return ageMs(this.#lookedAt, this.#clock.steadyMs(), this.#clock.wallMs());
  }

  get isFresh(): boolean {
    return this.#isFreshAt(this.#clock.wallMs());
  }

  /**
   * For how long no look has succeeded, in milliseconds during which the process ran. Unlike the age of
   * verdicts it does not grow while the process is frozen or its event loop is busy, nor with a clock
   * that is set.
   */
  get failingMs(): number {
    return this.#missed * this.#options.intervalMs;
  }

  /** For an operator: `false` once looks have failed, or not ended, for 2 s. */
  get isReadable(): boolean {
    return this.isFresh || this.failingMs < VERDICT_MS;
  }

  /**
   * Returns a promise only if the token has to wait for a look.
   *
   * @throws PlantStoreError `tokens_unreadable`, also as a rejection.
   */
  verify(token: string): VerifiedToken | undefined | Promise<VerifiedToken | undefined> {
    const wallMs = this.#clock.wallMs();
    const verdict = this.#live.verify(token, wallMs);
    if (this.#isFreshAt(wallMs)) return verdict;
    if (verdict === undefined) throw this.#unreadable();
    return this.#nextLook().then(() => this.verify(token));
  }

  /** Waits like `verify`; a verdict that is over or unknown is `false` at once. */
  isCurrent(verified: VerifiedToken): boolean | Promise<boolean> {
    const wallMs = this.#clock.wallMs();
    const isCurrent = this.#live.isCurrent(verified, wallMs);
    if (!isCurrent || this.#isFreshAt(wallMs)) return isCurrent;
    return this.#nextLook().then(() => this.isCurrent(verified));
  }

  list(): TokenStatus[] {
    return this.#live.list(this.#clock.wallMs());
  }

  /**
   * Takes the result of a good look.
   *
   * @param begun when it began: what it found may be as old.
   * @param records the tokens, if they may have changed.
   */
  note(begun: Moment, records?: Iterable<TokenRecord>): void {
    if (records !== undefined) this.#live.replace(records);
    this.#lookedAt = begun;
    if (!this.isFresh) return; // the process was frozen amid the look, or the disk hung
    this.#missed = 0;
    this.#clock.clearTimeout(this.#expiry);
    this.#expiry = undefined;
    for (const { resolve } of this.#waiting.splice(0)) resolve();
  }

  /** Looks at every interval, until `close`. Keeps no process alive. */
  follow(): void {
    this.#interval = this.#clock.setInterval(() => {
      this.#missed++;
      void this.#look();
    }, this.#options.intervalMs);
    this.#interval.unref();
  }

  /**
   * Resolves when a look that begins after this call has ended, well or not, or when a request would
   * no longer wait for it. Never rejects.
   */
  async refresh(): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = this.#clock.setTimeout(resolve, this.#options.waitMs);
      void this.#look().then(() => {
        this.#clock.clearTimeout(timer);
        resolve();
      });
    });
  }

  /** Stops looking, and rejects the requests that wait: verdicts are given for 2 s more at most. */
  close(): void {
    this.#isClosed = true;
    this.#clock.clearInterval(this.#interval);
    this.#expire(Number.POSITIVE_INFINITY);
  }

  #isFreshAt(wallMs: number): boolean {
    return ageMs(this.#lookedAt, this.#clock.steadyMs(), wallMs) < VERDICT_MS;
  }

  /** Begins a look, or waits for the next one to begin if one is under way already. */
  #look(): Promise<void> {
    this.#next ??= this.#looking.then(() => {
      this.#next = undefined;
      return this.#isClosed ? undefined : this.#options.look();
    });
    this.#looking = this.#next;
    return this.#looking;
  }

  #nextLook(): Promise<void> {
    if (this.#isClosed || this.#waiting.length >= WAITING_MAX) throw this.#unreadable();
    if (this.#waiting.length === 0) void this.#look();
    const { waitMs } = this.#options;
    const deadline = this.#clock.steadyMs() + waitMs;
    this.#expiry ??= this.#clock.setTimeout(() => this.#expire(), waitMs);
    return new Promise((resolve, reject) => this.#waiting.push({ deadline, resolve, reject }));
  }

  /** Rejects the requests whose deadline has passed. */
  #expire(now = this.#clock.steadyMs()): void {
    const count = this.#waiting.findIndex(({ deadline }) => deadline > now);
    const late = this.#waiting.splice(0, count < 0 ? this.#waiting.length : count);
    for (const { reject } of late) reject(this.#unreadable());
    this.#clock.clearTimeout(this.#expiry);
    const next = this.#waiting[0];
    this.#expiry = next && this.#clock.setTimeout(() => this.#expire(), next.deadline - now);
  }

  #unreadable(): PlantStoreError {
    const why = `cannot judge tokens now, because ${this.#options.fault}`;
    return new PlantStoreError(
      "tokens_unreadable",
      `Authorization: ${why}: send the request again later`,
    );
  }
}
