/** How old a verdict may be, and who waits for a poll, by clocks that the test sets. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { describe, test } from "node:test";
import { turn } from "../../src/clock.ts";
import { LiveTokens, startAge } from "../../src/core/live-tokens.ts";
import type { Clock, VerifiedToken } from "../../src/core/services.ts";
import { hashToken, type TokenRecord } from "../../src/core/token.ts";

const HOUR_MS = 3_600_000;
const WAIT_MS = 3000;
const [TOKEN, OTHER] = ["token", "other"];
const UNREADABLE = { code: "tokens_unreadable" };

function record(token: string): TokenRecord {
  return { name: token, hash: hashToken(token), scopes: ["write"], createdAt: 0 };
}

/** Two clocks and their timers, which move when the test says so; polls end when it says so. */
class HeldTokens extends LiveTokens {
  readonly time: { monotonicMs: number; wallMs: number };
  readonly polls: { readonly age: () => number; readonly end: () => void }[] = [];
  readonly timers: Timers;
  readonly startAge: () => () => number;

  constructor(waitMs?: number) {
    const timers = new Timers();
    const time = { monotonicMs: 5000, wallMs: Date.parse("2026-01-01") };
    const clock: Clock = {
      monotonicMs: () => time.monotonicMs,
      wallMs: () => time.wallMs,
      setTimeout: (run, ms) => timers.add(time.monotonicMs + ms, run),
      clearTimeout() {},
      setInterval: (run) => timers.add(Number.POSITIVE_INFINITY, run),
      clearInterval() {},
      setImmediate,
      randomBytes,
    };
    super({ clock, waitMs, reason: "a test holds it up" });
    this.time = time;
    this.timers = timers;
    this.startAge = () => startAge(clock);
    this.follow();
    this.take(record(TOKEN));
  }

  protected override poll(): Promise<void> {
    return new Promise((end) => this.polls.push({ age: this.startAge(), end }));
  }

  take(found: TokenRecord): void {
    this.accept(this.startAge(), [found]);
  }

  async pass(ms: number): Promise<void> {
    this.time.monotonicMs += ms;
    this.time.wallMs += ms;
    this.timers.run(this.time.monotonicMs);
    await turn();
  }

  /** Ends the poll in flight, which has found this token, or has failed. */
  async end(found?: string): Promise<void> {
    await turn();
    const poll = this.polls.at(-1);
    assert.ok(poll !== undefined);
    if (found !== undefined) this.accept(poll.age, [record(found)]);
    poll.end();
    await turn();
  }
}

class Timers {
  readonly #all = new Set<{ readonly due: number; readonly run: () => void }>();

  add(due: number, run: () => void) {
    this.#all.add({ due, run });
    return { unref() {} };
  }

  run(now: number): void {
    for (const timer of [...this.#all]) {
      if (timer.due <= now && this.#all.delete(timer)) timer.run();
    }
  }
}

/** How far the clocks moved since the last poll, and whether verdicts are given at once. */
const AGES: readonly [says: string, monotonicMs: number, wallMs: number, isReadable: boolean][] = [
  ["both clocks agree", 1999, 1999, true],
  ["the monotonic clock stood still while the machine slept", 0, 2000, false],
  ["the wall clock was set back an hour", 1999, 1999 - HOUR_MS, true],
  ["the wall clock was set back, and the process was frozen", 2000, -5000, false],
  ["the wall clock was set forward an hour", 1, HOUR_MS + 1, false],
];

for (const [says, monotonicMs, wallMs, isReadable] of AGES) {
  test(`a verdict is given ${isReadable ? "at once" : "after a poll"} if ${says}`, async () => {
    const tokens = new HeldTokens();
    tokens.time.monotonicMs += monotonicMs;
    tokens.time.wallMs += wallMs;
    assert.equal(tokens.isReadable, isReadable);
    const verdict = tokens.verify(TOKEN);
    if (isReadable) assert.equal(tokens.verify(OTHER), undefined);
    else {
      assert.throws(() => tokens.verify(OTHER), UNREADABLE);
      await tokens.end(TOKEN);
    }
    assert.equal((await verdict)?.name, TOKEN);
    assert.equal(tokens.polls.length, isReadable ? 0 : 1);
  });
}

describe("while verdicts are too old", () => {
  async function age(waitMs?: number): Promise<HeldTokens> {
    const tokens = new HeldTokens(waitMs);
    await tokens.pass(2000);
    return tokens;
  }

  test("a token that was accepted, and is revoked meanwhile, is refused after the poll", async () => {
    const tokens = new HeldTokens();
    assert.ok(tokens.verify(TOKEN));
    await tokens.pass(2000);
    const verdict = tokens.verify(TOKEN);
    await tokens.end(OTHER);
    assert.equal(await verdict, undefined);
    assert.ok(tokens.verify(OTHER));
  });

  test("guesses are refused at once, and begin no poll", async () => {
    const tokens = await age();
    for (let guess = 0; guess < 100; guess++) {
      assert.throws(() => tokens.verify(`${guess}`), UNREADABLE);
    }
    await turn();
    assert.equal(tokens.polls.length, 0);
  });

  test("a poll that began before the process was frozen ends no wait; the next one does", async () => {
    const tokens = new HeldTokens();
    void tokens.refresh();
    await turn();
    await tokens.pass(2000);
    const verdict = tokens.verify(TOKEN);
    await tokens.end(TOKEN);
    assert.equal(tokens.polls.length, 2, "the next poll has begun");
    assert.throws(() => tokens.verify(OTHER), UNREADABLE);
    await tokens.end(TOKEN);
    assert.equal((await verdict)?.name, TOKEN);
  });

  test("all who wait share one poll, and are refused if it fails", async () => {
    const tokens = await age();
    const refused = Array.from({ length: 100 }, () =>
      assert.rejects(async () => tokens.verify(TOKEN), UNREADABLE),
    );
    await tokens.end();
    await Promise.all(refused);
    assert.equal(tokens.polls.length, 1);
  });

  test("nobody waits longer than 2 s for a poll that hangs", async () => {
    const tokens = await age();
    const refused = assert.rejects(async () => tokens.verify(TOKEN), UNREADABLE);
    await tokens.pass(2000);
    await refused;
  });

  test("where later polls may succeed, a token waits for them until its time is over", async () => {
    const tokens = await age(WAIT_MS);
    const verdicts = [tokens.verify(TOKEN), tokens.verify(TOKEN)];
    await tokens.end();
    void tokens.refresh();
    await tokens.pass(WAIT_MS - 1);
    await tokens.end(TOKEN);
    await tokens.pass(500);
    for (const verdict of await Promise.all(verdicts)) assert.equal(verdict?.name, TOKEN);
    await tokens.pass(2000);
    const refused = assert.rejects(async () => tokens.verify(TOKEN), UNREADABLE);
    await tokens.end();
    for (let ms = 0; ms < WAIT_MS; ms += 500) await tokens.pass(500);
    await refused;
  });

  test("close() ends the wait, and whoever comes later is refused at once", async () => {
    const tokens = await age(WAIT_MS);
    const refused = assert.rejects(async () => tokens.verify(TOKEN), UNREADABLE);
    tokens.close(); // before the poll has begun
    await refused;
    assert.throws(() => tokens.verify(TOKEN), UNREADABLE);
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
  assert.equal((tokens.verify(TOKEN) as VerifiedToken).name, TOKEN);
  time.wallMs = expiresAt;
  assert.equal(tokens.verify(TOKEN), undefined);
  assert.deepEqual(tokens.list(), []);
});
