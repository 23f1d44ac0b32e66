/** How old a verdict may be, and who waits for a look, by a clock that the test sets. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { describe, test } from "node:test";
import type { Clock } from "../../src/core/services.ts";
import {
  ageMs,
  formatToken,
  hashToken,
  LiveTokens,
  type Moment,
  type TokenRecord,
} from "../../src/core/token.ts";

const HOUR_MS = 3_600_000;
const WAIT_MS = 3000;
const WAITING_MAX = 16_384;

const TOKEN = formatToken(Buffer.alloc(32, 1));
const OTHER = formatToken(Buffer.alloc(32, 2));

function record(token: string, name: string): TokenRecord {
  return { name, hash: hashToken(token), scopes: ["write"], createdAt: 0 };
}

const RECORDS = [record(TOKEN, "app")];
const UNREADABLE = { code: "tokens_unreadable" };

/** A clock whose two hands and whose timers move when the test says so. */
class FakeClock {
  steadyMs = 5000;
  wallMs = Date.parse("2026-01-01");
  /** Timers that have not run: when they are due, by the monotonic clock. */
  readonly timers = new Map<object, { readonly due: number; readonly run: () => void }>();
  tick = () => {};

  get clock(): Clock {
    const setTimeout = (run: () => void, ms: number) => {
      const timer = { unref() {}, refresh() {} };
      this.timers.set(timer, { due: this.steadyMs + ms, run });
      return timer;
    };
    const setInterval = (tick: () => void) => {
      this.tick = tick;
      return { unref() {}, refresh() {} };
    };
    return {
      steadyMs: () => this.steadyMs,
      wallMs: () => this.wallMs,
      setTimeout,
      clearTimeout: (timer) => {
        if (timer !== undefined) this.timers.delete(timer);
      },
      setInterval,
      clearInterval() {},
      setImmediate,
      randomBytes,
    };
  }

  pass(ms: number): void {
    this.steadyMs += ms;
    this.wallMs += ms;
  }

  /** Runs the timers that are due. */
  runTimers(): void {
    for (const [timer, { due, run }] of [...this.timers]) {
      if (due > this.steadyMs || !this.timers.delete(timer)) continue;
      run();
    }
  }
}

/** Looks end when the test says so. */
class HeldTokens extends LiveTokens {
  readonly looks: { readonly begun: Moment; readonly end: () => void }[] = [];

  constructor(clock: Clock) {
    super({ clock, intervalMs: 100, waitMs: WAIT_MS, fault: "a test holds it up" });
    this.follow();
    this.note(this.now(), RECORDS);
  }

  protected override look(): Promise<void> {
    return new Promise((end) => this.looks.push({ begun: this.now(), end }));
  }

  /** Ends the look under way well. */
  async succeed(records: readonly TokenRecord[] = RECORDS): Promise<void> {
    const look = this.looks.at(-1);
    assert.ok(look !== undefined);
    this.note(look.begun, records);
    look.end();
    await turn();
  }
}

function follow() {
  const time = new FakeClock();
  const tokens = new HeldTokens(time.clock);
  return {
    time,
    tokens,
    looks: tokens.looks,
    succeed: (records?: readonly TokenRecord[]) => tokens.succeed(records),
  };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

const AGES: readonly [says: string, steadyMs: number, wallMs: number, age: number][] = [
  ["both clocks agree", 1999, 1999, 1999],
  ["the monotonic clock stood still while the machine slept", 0, 2000, 2000],
  ["the wall clock was set back an hour", 1999, 1999 - HOUR_MS, 1999],
  ["the wall clock was set back, and the process was frozen", 2000, -5000, 2000],
  ["the wall clock was set forward an hour", 1, HOUR_MS + 1, HOUR_MS + 1],
];

for (const [says, steadyMs, wallMs, age] of AGES) {
  test(`the age is ${age} ms if ${says}`, () => {
    const time = new FakeClock();
    const since = { steadyMs: time.steadyMs, wallMs: time.wallMs };
    time.steadyMs += steadyMs;
    time.wallMs += wallMs;
    assert.equal(ageMs(since, time.clock), age);
  });

  test(`a verdict is given ${age < 2000 ? "at once" : "after a look"} if ${says}`, async () => {
    const { time, tokens, looks, succeed } = follow();
    const verdict = tokens.verify(TOKEN);
    assert.ok(verdict !== undefined && !(verdict instanceof Promise));
    time.steadyMs += steadyMs;
    time.wallMs += wallMs;
    const judged = [tokens.verify(TOKEN), tokens.isCurrent(verdict)];
    if (age < 2000) assert.deepEqual([judged, tokens.verify(OTHER)], [[verdict, true], undefined]);
    else {
      assert.throws(() => tokens.verify(OTHER), UNREADABLE);
      await turn();
      assert.equal(looks.length, 1);
      await succeed();
    }
    assert.deepEqual(await Promise.all(judged), [verdict, true]);
    assert.equal(tokens.verify(OTHER), undefined);
  });
}

describe("while verdicts are too old", () => {
  test("a token that was revoked meanwhile is refused after the look", async () => {
    const { time, tokens, succeed } = follow();
    const verdict = tokens.verify(TOKEN);
    assert.ok(verdict !== undefined && !(verdict instanceof Promise));
    time.pass(2000);
    const judged = [tokens.verify(TOKEN), tokens.isCurrent(verdict)];
    await turn();
    await succeed([record(OTHER, "other")]);
    assert.deepEqual(await Promise.all(judged), [undefined, false]);
    assert.ok(tokens.verify(OTHER));
  });

  test("a verdict that was over before is refused at once", () => {
    const { time, tokens } = follow();
    time.pass(2000);
    assert.equal(tokens.isCurrent({ name: "app", scopes: ["write"] }), false);
  });

  test("a look that began before the process was frozen ends no wait; the next one does", async () => {
    const { time, tokens, looks, succeed } = follow();
    time.tick();
    await turn();
    time.pass(2000);
    const judged = tokens.verify(TOKEN);
    await succeed();
    assert.equal(looks.length, 2, "the next look has begun");
    assert.throws(() => tokens.verify(OTHER), UNREADABLE);
    await succeed();
    assert.ok(await judged);
  });

  test("a look that hangs ends the wait after its time, and begins no other", async () => {
    const { time, tokens, looks } = follow();
    time.pass(2000);
    const judged = assert.rejects(async () => tokens.verify(TOKEN), UNREADABLE);
    await turn();
    time.pass(WAIT_MS - 1);
    time.runTimers();
    const later = assert.rejects(async () => tokens.verify(TOKEN), UNREADABLE);
    await turn();
    time.pass(1);
    time.runTimers();
    await judged;
    time.pass(WAIT_MS - 1);
    time.runTimers();
    await later;
    assert.deepEqual([time.timers.size, looks.length], [0, 1]);
  });

  test("16,384 wait for one look, and the next one is refused at once", async () => {
    const { time, tokens, looks, succeed } = follow();
    const verdict = tokens.verify(TOKEN);
    assert.ok(verdict !== undefined && !(verdict instanceof Promise));
    time.pass(2000);
    const waiting = Array.from({ length: WAITING_MAX }, () => tokens.isCurrent(verdict));
    assert.throws(() => tokens.isCurrent(verdict), UNREADABLE);
    await turn();
    assert.equal(looks.length, 1);
    await succeed();
    assert.deepEqual(new Set(await Promise.all(waiting)), new Set([true]));
    assert.equal(time.timers.size, 0);
  });

  test("guesses are refused at once, with no timer and no look", async () => {
    const { time, tokens, looks } = follow();
    time.pass(2000);
    for (let guess = 0; guess < 1000; guess++) {
      assert.throws(() => tokens.verify(OTHER), UNREADABLE);
    }
    await turn();
    assert.deepEqual([time.timers.size, looks.length], [0, 0]);
  });

  test("close() rejects those who wait", async () => {
    const { time, tokens } = follow();
    time.pass(2000);
    const judged = assert.rejects(async () => tokens.verify(TOKEN), UNREADABLE);
    tokens.close();
    await judged;
    assert.throws(() => tokens.verify(TOKEN), UNREADABLE);
    assert.equal(time.timers.size, 0);
  });
});

test("tokens are readable unless 20 intervals pass without a good look, however long each takes", async () => {
  const { time, tokens, looks, succeed } = follow();
  time.tick();
  await turn();
  time.pass(HOUR_MS);
  for (let ticks = 2; ticks < 20; ticks++) time.tick();
  assert.equal(tokens.isReadable, true);
  time.tick();
  assert.equal(tokens.isReadable, false);
  await succeed();
  assert.equal(tokens.isReadable, false, "the look began an hour ago");
  assert.equal(looks.length, 2);
  await succeed();
  assert.equal(tokens.isReadable, true);
});

test("refresh() resolves after the time of a wait if its look hangs", async () => {
  const { time, tokens } = follow();
  const refreshed = tokens.refresh();
  await turn();
  time.pass(WAIT_MS);
  time.runTimers();
  await refreshed;
});
