/** How old a verdict may be, and who waits for a poll, by clocks that the test sets. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { clock } from "../../src/clock.ts";
import { LiveTokens, startAge } from "../../src/core/live-tokens.ts";
import type { VerifiedToken } from "../../src/core/services.ts";
import { hashToken, type TokenRecord } from "../../src/core/token.ts";

const HOUR_MS = 3_600_000;
const WAIT_MS = 3000;
const [TOKEN, OTHER] = ["token", "other"];
const UNREADABLE = { code: "tokens_unreadable" };

function record(token: string): TokenRecord {
  return { name: token, hash: hashToken(token), scopes: ["write"], createdAt: 0 };
}

/** Polls that end when the test says so. */
class HeldTokens extends LiveTokens {
  readonly time: { monotonicMs: number; wallMs: number };
  readonly polls: { readonly age: () => number; readonly end: () => void }[] = [];
  readonly startAge: () => () => number;
  readonly pass: (ms: number) => Promise<void>;

  constructor({ mock: { timers } }: TestContext, waitMs?: number) {
    timers.enable({ apis: ["setTimeout"] });
    const time = { monotonicMs: 5000, wallMs: Date.parse("2026-01-01") };
    const clocks = { monotonicMs: () => time.monotonicMs, wallMs: () => time.wallMs };
    const held = { ...clock, ...clocks, setTimeout, setInterval: () => ({ unref() {} }) };
    super({ clock: held, waitMs, reason: "a test holds it up" });
    this.time = time;
    this.startAge = () => startAge(held);
    this.pass = async (ms) => {
      time.monotonicMs += ms;
      time.wallMs += ms;
      timers.tick(ms);
      await clock.turn();
    };
    this.follow();
    this.take(record(TOKEN));
  }

  protected override poll(): Promise<void> {
    return new Promise((end) => this.polls.push({ age: this.startAge(), end }));
  }

  take(found: TokenRecord): void {
    this.accept(this.startAge(), [found]);
  }

  /** Ends the poll in flight, which has found this token, or has failed. */
  async end(found?: string): Promise<void> {
    await clock.turn();
    const poll = this.polls.at(-1) ?? assert.fail("no poll");
    if (found !== undefined) this.accept(poll.age, [record(found)]);
    poll.end();
    await clock.turn();
  }
}

/** Tokens whose verdicts are just too old. */
async function makeOld(t: TestContext, waitMs?: number): Promise<HeldTokens> {
  const tokens = new HeldTokens(t, waitMs);
  await tokens.pass(2000);
  return tokens;
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
  test(`a verdict is given ${isReadable ? "at once" : "after a poll, to a good token,"} if ${says}`, async (t) => {
    const tokens = new HeldTokens(t);
    tokens.time.monotonicMs += monotonicMs;
    tokens.time.wallMs += wallMs;
    assert.equal(tokens.isReadable, isReadable);
    if (isReadable) assert.equal(tokens.verify(OTHER), undefined);
    else assert.throws(() => tokens.verify(OTHER), UNREADABLE);
    await clock.turn();
    assert.equal(tokens.polls.length, 0, "a guess begins no poll");
    const verdict = tokens.verify(TOKEN);
    if (!isReadable) await tokens.end(TOKEN);
    assert.equal((await verdict)?.name, TOKEN);
    assert.equal(tokens.polls.length, isReadable ? 0 : 1);
  });
}

test("a poll that began before a freeze ends no wait; the next one does", async (t) => {
  const tokens = new HeldTokens(t);
  void tokens.refresh();
  await clock.turn();
  await tokens.pass(2000);
  const verdict = tokens.verify(TOKEN);
  await tokens.end(TOKEN);
  assert.equal(tokens.polls.length, 2, "the next poll has begun");
  assert.throws(() => tokens.verify(OTHER), UNREADABLE);
  await tokens.end(TOKEN);
  assert.equal((await verdict)?.name, TOKEN);
});

test("all who wait share one poll, and are refused if it fails, or hangs for 2 s", async (t) => {
  const tokens = await makeOld(t);
  const refuse = () => assert.rejects(async () => tokens.verify(TOKEN), UNREADABLE);
  const refused = Array.from({ length: 100 }, refuse);
  await tokens.end();
  await Promise.all(refused);
  assert.equal(tokens.polls.length, 1);
  const waiting = t.mock.method(Promise, "race");
  const hung = Array.from({ length: 100 }, refuse);
  await tokens.pass(2000);
  await Promise.all(hung);
  assert.equal(waiting.mock.callCount(), 1, "each keeps nothing of its own");
});

test("a token waits for later polls, if they may succeed, until its time is over, or close()", async (t) => {
  const tokens = await makeOld(t, WAIT_MS);
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
  const ended = assert.rejects(async () => tokens.verify(TOKEN), UNREADABLE);
  tokens.close(); // before the poll has begun
  await ended;
  assert.throws(() => tokens.verify(TOKEN), UNREADABLE);
});

test("an expiry is checked at each request, by the wall clock", (t) => {
  const tokens = new HeldTokens(t);
  const expiresAt = tokens.time.wallMs + 1000;
  tokens.take({ ...record(TOKEN), expiresAt });
  tokens.time.wallMs = expiresAt - 1;
  assert.equal((tokens.verify(TOKEN) as VerifiedToken).name, TOKEN);
  tokens.time.wallMs = expiresAt;
  assert.equal(tokens.verify(TOKEN), undefined);
  assert.deepEqual(tokens.list(), []);
});
