/**
 * The tokens that a server accepts: verified in memory, and polled where they are stored.
 *
 * Invariants. A verdict is at most 2 s old, by the monotonic and by the wall clock: the first stops while a machine
 * sleeps, and the second may be set. So a process that was frozen, or whose polls hang, accepts no token that was
 * revoked meanwhile. Then a token that was good waits for a poll, and guesses are refused at once.
 */
import { PlantStoreError } from "./errors.ts";
import type { Clock, Timer, TokenStatus, TokenVerifier, VerifiedToken } from "./services.ts";
import { hashToken, isLive, type TokenRecord } from "./token.ts";

/** How old a verdict may be, counted from the start of its poll. */
const VERDICT_MS = 2000;
/** How often servers poll their tokens; more often would keep an idle process awake. @internal */
export const POLL_INTERVAL_MS = 500;

/** Begins to count the milliseconds from now on, by the clock that shows more. @internal */
export function startAge(clock: Clock): () => number {
  const [monotonicMs, wallMs] = [clock.monotonicMs(), clock.wallMs()];
  return () => Math.max(clock.monotonicMs() - monotonicMs, clock.wallMs() - wallMs);
}

/** `waitMs`: how long a request waits for a good poll after the first one; `reason`: of a refusal, for clients. */
type FollowOptions = { clock: Clock; waitMs?: number | undefined; reason: string };

/** The tokens that a server accepts. A subclass polls the place where they are stored. */
export abstract class LiveTokens implements TokenVerifier {
  readonly #options: FollowOptions;
  /** The tokens by their hashes. */
  #byHash = new Map<string, TokenRecord>();
  /** Tokens accepted since the last change, by the token itself: hashing takes a tenth of a request. */
  #accepted = new Map<string, TokenRecord>();
  /** How long ago the newest good poll began, in milliseconds. @internal */
  protected age = () => Number.POSITIVE_INFINITY;
  /** The last poll, which may not have begun: they run one after the other. */
  #lastPoll: Promise<void> = Promise.resolve();
  /** The last poll, if it has not begun. */
  #queuedPoll: Promise<void> | undefined;
  /** All requests with an old verdict share it, so a poll that hangs keeps one callback and not one for each. */
  #sharedWait: Promise<void> | undefined;
  #interval: Timer | undefined;
  #isClosed = false;

  /** @internal */
  protected constructor(options: FollowOptions) {
    this.#options = options;
  }

  /** Polls once, and calls `accept` if that succeeds. Never rejects. @internal */
  protected abstract poll(): Promise<void>;

  /** Polls at every interval, until `close`. Keeps no process alive. @internal */
  protected follow(): void {
    this.#interval = this.#options.clock.setInterval(() => void this.refresh(), POLL_INTERVAL_MS);
    this.#interval.unref();
  }

  /** Never rejects. Resolves after a poll that begins from now on, which finds every token created before the call. */
  refresh(): Promise<void> {
    this.#queuedPoll ??= this.#lastPoll = this.#lastPoll.then(() => {
      this.#queuedPoll = undefined;
      return this.#isClosed ? undefined : this.poll();
    });
    return this.#queuedPoll;
  }

  /** Takes what a good poll has found: its age since it began, and the tokens if they may have changed. @internal */
  protected accept(age: () => number, records?: readonly TokenRecord[]): void {
    if (records !== undefined) {
      this.#byHash = new Map(records.map((record) => [record.hash, record]));
      this.#accepted = new Map();
    }
    this.age = age;
  }

  /** Whether the newest good poll is young enough for verdicts. */
  get isReadable(): boolean {
    return this.age() < VERDICT_MS;
  }

  /**
   * Returns the record of a live token. If the newest good poll began 2 s ago or earlier, a token that was good
   * waits for the next one.
   *
   * @throws PlantStoreError `tokens_unreadable`: at once for any other token, and if no poll succeeds in time.
   */
  verify(token: string): VerifiedToken | undefined | Promise<VerifiedToken | undefined> {
    const record = this.#accepted.get(token) ?? this.#byHash.get(hashToken(token));
    const isGood = record !== undefined && isLive(record, this.#options.clock.wallMs());
    if (this.age() < VERDICT_MS) {
      if (isGood) this.#accepted.set(token, record);
      return isGood ? record : undefined;
    }
    if (!isGood || this.#isClosed) throw this.#unreadable();
    this.#sharedWait ??= this.#waitForPoll().finally(() => {
      this.#sharedWait = undefined;
    });
    return this.#sharedWait.then(() => this.verify(token));
  }

  /** Resolves after a good poll that begins from now on. @throws PlantStoreError `tokens_unreadable`. */
  async #waitForPoll(): Promise<void> {
    const { clock, waitMs = 0 } = this.#options;
    const sleep = (ms: number) =>
      new Promise<void>((resolve) => clock.setTimeout(resolve, ms).unref());
    const endsAt = clock.monotonicMs() + waitMs;
    await Promise.race([this.refresh(), sleep(VERDICT_MS)]);
    while (!this.isReadable) {
      if (this.#isClosed || clock.monotonicMs() >= endsAt) throw this.#unreadable();
      await sleep(POLL_INTERVAL_MS); // each interval polls
    }
  }

  #unreadable(): PlantStoreError {
    const message = `Tokens cannot be verified now: ${this.#options.reason}; retry later`;
    return new PlantStoreError("tokens_unreadable", message);
  }

  /** The live tokens, for their operator. */
  list(): TokenStatus[] {
    const now = this.#options.clock.wallMs();
    return [...this.#byHash.values()]
      .filter((record) => isLive(record, now))
      .map(({ name, scopes, expiresAt }) => ({ name, scopes, expiresAt }));
  }

  /** Stops polling. Two seconds later `verify` throws `tokens_unreadable`. */
  close(): void {
    this.#isClosed = true;
    this.#options.clock.clearInterval(this.#interval);
  }

  /** `close()`, for `using`. */
  [Symbol.dispose](): void {
    this.close();
  }
}
