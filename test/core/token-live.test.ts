/** How old a verdict may be, and who waits for a poll, by a clock that the test sets. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { describe, test } from "node:test";
import { turn } from "../../src/clock.ts";
import type { Clock, VerifiedToken } from "../../src/core/services.ts";
import { hashToken, LiveTokens, type Moment, type TokenRecord } from "../../src/core/token.ts";

const HOUR_MS = 3_600_000;
const WAIT_MS = 3000;
const [TOKEN, OTHER] = ["token", "other"];
const UNREADABLE = { code: "tokens_unreadable" };

function record(token: string): TokenRecord {
  return { name: "app", hash: hashToken(token), scopes: ["write"], createdAt: 0 };
}

/** A clock whose two hands and whose timers move when the test says so. */
class FakeClock {
  monotonicMs = 5000;
  wallMs = Date.parse("2026-01-01");
  /** Timers that have not run, by their number: when they are due, by the monotonic clock. */
  readonly timers = new Map<object, { readonly due: number; readonly run: () => void }>();
  tick = () => {};

  readonly clock: Clock = {
    monotonicMs: () => this.monotonicMs,
    wallMs: () => this.wallMs,
    setTimeout: (run, ms) => {
      const timer = { unref() {}, refresh() {} };
      this.timers.set(timer, { due: this.monotonicMs + ms, run });
      return timer;
    },
    clearTimeout: (timer) => void this.timers.delete(timer ?? {}),
    setInterval: (tick) => {
      this.tick = tick;
      return { unref() {}, refresh() {} };
    },
    clearInterval() {},
    setImmediate,
    randomBytes,
  };

  pass(ms: number): void {
    this.monotonicMs += ms;
    this.wallMs += ms;
    for (const [timer, { due, run }] of [...this.timers]) {
      if (due <= this.monotonicMs && this.timers.delete(timer)) run();
    }
  }
}

/** Polls end when the test says so. */
class HeldTokens extends LiveTokens {
  readonly time: FakeClock;
  readonly polls: { readonly begun: Moment; readonly end: () => void }[] = [];
  readonly verdict: VerifiedToken;

  constructor(waitMs?: number, time = new FakeClock()) {
    super({ clock: time.clock, intervalMs: 100, waitMs, fault: "a test holds it up" });
    this.time = time;
    this.follow();
    this.take(record(TOKEN));
    this.verdict = this.verify(TOKEN) as VerifiedToken;
  }

  take(found: TokenRecord): void {
    this.accept(this.now(), [found]);
  }

  protected override poll(): Promise<void> {
    return new Promise((end) => this.polls.push({ begun: this.now(), end }));
  }

  /** Ends the poll under way well. */
  async succeed(token = TOKEN): Promise<void> {
    await turn();
    const poll = this.polls.at(-1);
    assert.ok(poll !== undefined);
    this.accept(poll.begun, [record(token)]);
    poll.end();
    await turn();
  }

  async fail(): Promise<void> {
    await turn();
    this.polls.at(-1)?.end();
    await turn();
  }

  /** What those get who ask now. */
  ask(): Promise<unknown[]> {
    return Promise.all([this.verify(TOKEN), this.isCurrent(this.verdict)]);
  }
}

/** How far the clocks moved since the last poll, and whether verdicts are given at once. */
const AGES: readonly [says: string, monotonicMs: number, wallMs: number, isFresh: boolean][] = [
  ["both clocks agree", 1999, 1999, true],
  ["the monotonic clock stood still while the machine slept", 0, 2000, false],
  ["the wall clock was set back an hour", 1999, 1999 - HOUR_MS, true],
  ["the wall clock was set back, and the process was frozen", 2000, -5000, false],
  ["the wall clock was set forward an hour", 1, HOUR_MS + 1, false],
];

for (const [says, monotonicMs, wallMs, isFresh] of AGES) {
  test(`a verdict is given ${isFresh ? "at once" : "after a poll"} if ${says}`, async () => {
    const tokens = new HeldTokens();
    tokens.time.monotonicMs += monotonicMs;
    tokens.time.wallMs += wallMs;
    const answers = tokens.ask();
    assert.equal(tokens.isReadable, isFresh);
    if (isFresh) assert.equal(tokens.verify(OTHER), undefined);
    else {
      assert.throws(() => tokens.verify(OTHER), UNREADABLE);
      await tokens.succeed();
    }
    assert.deepEqual(await answers, [tokens.verdict, true]);
    assert.equal(tokens.polls.length, isFresh ? 0 : 1);
  });
}

describe("while verdicts are too old", () => {
  test("a token that was revoked meanwhile is refused after the poll", async () => {
    const tokens = new HeldTokens();
    tokens.time.pass(2000);
    const answers = tokens.ask();
    await tokens.succeed(OTHER);
    assert.deepEqual(await answers, [undefined, false]);
    assert.ok(tokens.verify(OTHER));
  });

  test("guesses are refused at once, with no timer and no poll", async () => {
    const tokens = new HeldTokens();
    tokens.time.pass(2000);
    for (let guess = 0; guess < 100; guess++) {
      assert.throws(() => tokens.verify(`${guess}`), UNREADABLE);
      assert.equal(tokens.isCurrent({ name: "app", scopes: ["write"] }), false);
    }
    await turn();
    assert.deepEqual([tokens.time.timers.size, tokens.polls.length], [0, 0]);
  });

  test("a poll that began before the process was frozen ends no wait; the next one does", async () => {
    const tokens = new HeldTokens();
    tokens.time.tick();
    await turn();
    tokens.time.pass(2000);
    const answers = tokens.ask();
    await tokens.succeed();
    assert.equal(tokens.polls.length, 2, "the next poll has begun");
    assert.throws(() => tokens.verify(OTHER), UNREADABLE);
    await tokens.succeed();
    assert.deepEqual(await answers, [tokens.verdict, true]);
  });

  for (const waitMs of [undefined, WAIT_MS]) {
    const rest = waitMs === undefined ? "ends the wait" : "is followed by others until their time";
    test(`a poll that begins for those who wait, and fails, ${rest}`, async () => {
      const tokens = new HeldTokens(waitMs);
      tokens.time.tick();
      await turn();
      tokens.time.pass(2000);
      const answers = tokens.ask();
      const outcome = Promise.allSettled([answers]);
      await tokens.fail(); // it began before
      await tokens.fail();
      if (waitMs !== undefined) {
        tokens.time.tick();
        await tokens.succeed();
      }
      const [{ status }] = await outcome;
      assert.equal(status, waitMs === undefined ? "rejected" : "fulfilled");
    });
  }

  test("all wait for one poll, and no longer than their time if it hangs", async () => {
    const tokens = new HeldTokens(WAIT_MS);
    tokens.time.pass(2000);
    const answers = Array.from({ length: 100 }, () => assert.rejects(tokens.ask(), UNREADABLE));
    await turn();
    assert.deepEqual([tokens.time.timers.size, tokens.polls.length], [1, 1]);
    tokens.time.pass(WAIT_MS - 1);
    assert.equal(tokens.time.timers.size, 1);
    tokens.time.pass(1);
    await Promise.all(answers);
    const later = tokens.ask();
    await tokens.succeed(); // the poll that hung: its result is too old
    await tokens.succeed();
    assert.deepEqual(await later, [tokens.verdict, true]);
    assert.deepEqual([tokens.time.timers.size, tokens.polls.length], [0, 2]);
  });

  test("close() rejects those who wait, and who comes later", async () => {
    const tokens = new HeldTokens();
    tokens.time.pass(2000);
    const answers = assert.rejects(tokens.ask(), UNREADABLE);
    tokens.close();
    await answers;
    assert.throws(() => tokens.verify(TOKEN), UNREADABLE);
    assert.equal(tokens.time.timers.size, 0);
  });
});

test("an expiry is checked at each request, and holds after the wall clock was set", () => {
  const tokens = new HeldTokens();
  const { time } = tokens;
  const expiresAt = time.wallMs + 1000;
  const accept = () => tokens.take({ ...record(TOKEN), expiresAt });
  time.wallMs += HOUR_MS;
  accept();
  assert.equal(tokens.verify(TOKEN), undefined);
  time.wallMs -= HOUR_MS;
  accept();
  const verdict = tokens.verify(TOKEN) as VerifiedToken;
  assert.deepEqual([verdict.name, tokens.isCurrent(verdict)], ["app", true]);
  time.wallMs = expiresAt;
  assert.deepEqual([tokens.verify(TOKEN), tokens.isCurrent(verdict)], [undefined, false]);
  assert.deepEqual(tokens.list(), []);
});
