import assert from "node:assert/strict";
import { appendFileSync, mkdirSync, renameSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { TokenReader } from "../../src/auth/token-log.ts";
import { clock } from "../../src/clock.ts";
import { createToken, revokeToken, TokenRegistry } from "../../src/index.ts";
import { type Disk, disk, replaceDisk } from "../../src/log/disk.ts";
import { makeFolder } from "../support/folders.ts";
import { runToEnd } from "../support/run.ts";
import { judge, readTokenLog, tokenLogPath, writeTokenLog } from "../support/token-logs.ts";
import { makeLatch, until } from "../support/watch.ts";

/** How long the registry waits between two looks at its file. */
const LOOK_INTERVAL_MS = 100;

/**
 * A registry that looks at its file only when the test asks it to. With a real timer a test could
 * not know what each look sees.
 */
async function openByHand(
  t: TestContext,
  folder: string,
): Promise<{ registry: TokenRegistry; look: () => Promise<void> }> {
  const ticks: (() => unknown)[] = [];
  const { setInterval: repeat } = clock;
  const timers = t.mock.method(clock, "setInterval", (tick: () => void, ms: number) => {
    if (ms !== LOOK_INTERVAL_MS) return repeat(tick, ms); // a timer of a lock
    ticks.push(tick);
    return { unref() {}, refresh() {} };
  });
  const registry = await TokenRegistry.open(folder);
  timers.mock.restore();
  t.after(() => registry.close());
  const look = async () => {
    assert.equal(ticks.length, 1);
    ticks[0]?.();
    await registry.refresh(); // waits for the look that has just begun
  };
  return { registry, look };
}

/** Makes the file old: a file that has just changed is read at every look, even if it seems the same. */
function ageFiles(t: TestContext): void {
  const now = Date.now() + 60_000;
  t.mock.method(Date, "now", () => now);
}

for (const isOld of [false, true]) {
  const age = isOld ? "an old" : "a fresh";

  test(`${age} log that is missing for less than half a second keeps its tokens, then it has none`, async (t) => {
    const folder = makeFolder(t);
    const token = await createToken(folder, { name: "a" });
    if (isOld) ageFiles(t);
    const { registry, look } = await openByHand(t, folder);
    const clock = holdClock(t);
    await look();
    const log = join(folder, "tokens.jsonl");
    renameSync(log, `${log}.away`);
    for (const ms of [0, 499]) {
      clock.pass(ms);
      await look();
      assert.equal(judge(registry, token)?.name, "a");
    }
    clock.pass(1);
    await look();
    assert.equal(judge(registry, token), undefined);
    renameSync(`${log}.away`, log);
    await look();
    assert.equal(judge(registry, token)?.name, "a");
  });

  test(`${age} log that is edited in place, with its length kept, is read again at the next look`, async (t) => {
    const folder = makeFolder(t);
    const token = await createToken(folder, { name: "a" });
    if (isOld) ageFiles(t);
    const { registry, look } = await openByHand(t, folder);
    await look();
    writeTokenLog(folder, readTokenLog(folder).replace('"a"', '"b"'));
    await look();
    assert.equal(judge(registry, token)?.name, "b");
  });
}

test("a token is valid up to its expiry and no longer, without a look at the file", async (t) => {
  const folder = makeFolder(t);
  const expiresAt = Date.now() + 3_600_000;
  const token = await createToken(folder, { name: "a", expiresAt });
  const forEver = await createToken(folder, { name: "b" });
  const { registry, look } = await openByHand(t, folder);
  const clock = t.mock.method(Date, "now", () => expiresAt - 1);
  await look(); // else verdicts would be an hour old
  assert.equal(judge(registry, token)?.name, "a");
  clock.mock.mockImplementation(() => expiresAt);
  assert.equal(judge(registry, token), undefined);
  assert.equal(judge(registry, forEver)?.name, "b");
});

test("a verdict is current until its token is revoked or expires, and no longer", async (t) => {
  const folder = makeFolder(t);
  const expiresAt = Date.now() + 3_600_000;
  const token = await createToken(folder, { name: "a", expiresAt });
  const forEver = await createToken(folder, { name: "b" });
  const { registry, look } = await openByHand(t, folder);
  const [a, b] = [judge(registry, token), judge(registry, forEver)];
  assert.ok(a !== undefined && b !== undefined);
  assert.deepEqual([registry.isCurrent(a), registry.isCurrent(b)], [true, true]);
  assert.equal(registry.isCurrent({ ...b }), false, "a copy is not a verdict of the registry");
  const clock = t.mock.method(Date, "now", () => expiresAt - 1);
  await look(); // else verdicts would be an hour old
  clock.mock.mockImplementation(() => expiresAt);
  assert.deepEqual([registry.isCurrent(a), registry.isCurrent(b)], [false, true]);
  clock.mock.restore();
  await revokeToken(folder, "b");
  await look();
  assert.equal(registry.isCurrent(b), false);
});

test("a verdict stays current while other tokens change, until its own token changes", async (t) => {
  const folder = makeFolder(t);
  const token = await createToken(folder, { name: "a" });
  const { registry, look } = await openByHand(t, folder);
  const verdict = judge(registry, token);
  assert.ok(verdict !== undefined);
  await look(); // the file has just changed, so it is read again
  await createToken(folder, { name: "b" });
  await look();
  assert.equal(registry.isCurrent(verdict), true);
  assert.equal(judge(registry, token), verdict);
  writeTokenLog(folder, readTokenLog(folder).replace('"write"', '"read"'));
  await look();
  assert.equal(registry.isCurrent(verdict), false);
  assert.deepEqual(judge(registry, token)?.scopes, ["read"]);
});

test("once an unreadable line is repaired, the next look reads the whole log", async (t) => {
  const folder = makeFolder(t);
  const token = await createToken(folder, { name: "a" });
  const { registry, look } = await openByHand(t, folder);
  const log = readTokenLog(folder);
  const revoked = JSON.stringify({
    event: "revoked",
    name: "a",
    revokedAt: new Date().toISOString(),
  });
  writeTokenLog(folder, `${log}${revoked}\nno event\n`);
  await look();
  writeTokenLog(folder, log);
  await look();
  assert.equal(judge(registry, token)?.name, "a", "nothing of the unreadable log is kept");
  writeTokenLog(folder, `${log}${revoked}\n`);
  await look();
  assert.equal(judge(registry, token), undefined);
});

test("a last event without its line feed counts, and counts once when it is completed", async (t) => {
  const folder = makeFolder(t);
  const token = await createToken(folder, { name: "a" });
  const { registry, look } = await openByHand(t, folder);
  const log = readTokenLog(folder);
  const revoked = JSON.stringify({
    event: "revoked",
    name: "a",
    revokedAt: new Date().toISOString(),
  });
  writeTokenLog(folder, log + revoked);
  await look();
  assert.equal(judge(registry, token), undefined);
  writeTokenLog(folder, log);
  await look();
  assert.equal(judge(registry, token)?.name, "a");
});

test("refresh() shares a look that has not begun, and waits for one that begins after it", async (t) => {
  const folder = makeFolder(t);
  const { registry } = await openByHand(t, folder);
  const { released, release } = makeLatch();
  const { read } = TokenReader.prototype;
  const steps: string[] = [];
  t.mock.method(TokenReader.prototype, "read", async function (this: TokenReader) {
    steps.push("begin");
    const tokens = await read.call(this);
    await released;
    steps.push("end");
    return tokens;
  });
  const early = [registry.refresh(), registry.refresh()];
  await until("a look is under way", () => steps.length === 1);
  const token = await createToken(folder, { name: "late" });
  const late = registry.refresh();
  release();
  await Promise.all(early);
  assert.deepEqual([steps.slice(0, 2), judge(registry, token)], [["begin", "end"], undefined]);
  await late;
  assert.deepEqual(steps, ["begin", "end", "begin", "end"]);
  assert.equal(judge(registry, token)?.name, "late");
});

/** A monotonic clock that the test moves, and a wall clock that stands: a busy machine may take seconds. */
function holdClock(t: TestContext): { pass(ms: number): void } {
  let now = Math.ceil(clock.steadyMs()); // sums of whole milliseconds are exact
  const wallMs = clock.wallMs();
  t.mock.method(clock, "steadyMs", () => now);
  t.mock.method(clock, "wallMs", () => wallMs);
  return {
    pass(ms) {
      now += ms;
    },
  };
}

/** Ways to replace or damage a valid token log. */
const FAILURES: Readonly<Record<string, (log: string) => unknown>> = {
  "a folder in its place": (log) => mkdirSync(log),
  "a FIFO without a writer in its place": (log) => runToEnd(["mkfifo", log]),
  "an unparsable line": (log) => {
    renameSync(`${log}.away`, log);
    appendFileSync(log, "no event\n");
  },
};

for (const [failure, spoil] of Object.entries(FAILURES)) {
  test(`while looks fail, tokens are accepted for 2 s and no longer, until a look succeeds: ${failure}`, async (t) => {
    const folder = makeFolder(t);
    const token = await createToken(folder, { name: "a" });
    const good = readTokenLog(folder);
    const { registry, look } = await openByHand(t, folder);
    const verdict = judge(registry, token);
    assert.ok(verdict !== undefined);
    const clock = holdClock(t);
    await look();
    const log = tokenLogPath(folder);
    renameSync(log, `${log}.away`);
    await spoil(log);

    for (const ms of [0, 1999]) {
      clock.pass(ms);
      await look();
      assert.deepEqual([judge(registry, token), registry.isCurrent(verdict)], [verdict, true]);
    }
    clock.pass(1);
    assert.throws(() => registry.verify("unknown"), { code: "tokens_unreadable" });
    const waiting = [registry.verify(token), registry.isCurrent(verdict)] as const;
    await look();
    renameSync(log, `${log}.bad`);
    await look(); // one look at a missing log decides nothing
    assert.throws(() => registry.verify("unknown"), { code: "tokens_unreadable" });
    writeTokenLog(folder, good);
    await look();
    assert.deepEqual(await Promise.all(waiting), [verdict, true]);
    assert.deepEqual([judge(registry, token), registry.isCurrent(verdict)], [verdict, true]);
  });
}

test("an unfinished last line is not a failed look, however long it stays", async (t) => {
  const folder = makeFolder(t);
  const token = await createToken(folder, { name: "a" });
  const { registry, look } = await openByHand(t, folder);
  const clock = holdClock(t);
  appendFileSync(tokenLogPath(folder), '{"event":"revoked","na');
  for (let looks = 0; looks < 3; looks++) {
    clock.pass(10_000);
    await look();
  }
  assert.equal(judge(registry, token)?.name, "a");
});

/** The calls of a look, each of which meets a fault of the disk. */
const CALLS: Readonly<Record<string, (whole: Disk, fault: () => Promise<void>) => Partial<Disk>>> =
  {
    find: (whole, fault) => ({ findLater: (path) => fault().then(() => whole.findLater(path)) }),
    open: (whole, fault) => ({ open: (path) => fault().then(() => whole.open(path)) }),
    "second read": (whole, fault) => ({
      async open(path) {
        const file = await whole.open(path);
        const read = file.read.bind(file);
        file.read = (buffer, start, bytes, position, done) => {
          if (position === 0) return read(buffer, start, 1, position, done);
          const readRest = () => read(buffer, start, bytes, position, done);
          fault().then(readRest, (cause) => done(cause, 0));
        };
        return file;
      },
    }),
  };

for (const [call, over] of Object.entries(CALLS)) {
  for (const fault of ["hangs", "fails"]) {
    test(`while the ${call} of a look ${fault}, tokens are accepted for 2 s and no longer, and nothing waits for it`, async (t) => {
      const folder = makeFolder(t);
      const token = await createToken(folder, { name: "a" });
      const { registry, look } = await openByHand(t, folder);
      const verdict = judge(registry, token);
      const clock = holdClock(t);
      await look();

      const whole = disk;
      t.after(() => replaceDisk(whole));
      const { released, release } = makeLatch();
      let faults = 0;
      const meet = () => {
        faults++;
        return fault === "hangs" ? released : Promise.reject(new Error("input/output error"));
      };
      replaceDisk(Object.assign(Object.create(whole), over(whole, meet)));
      const looking = look();
      await until("a look meets the fault", () => faults > 0);
      clock.pass(1999);
      assert.ok(verdict !== undefined && judge(registry, token) === verdict);
      clock.pass(1);
      assert.throws(() => registry.verify("unknown"), { code: "tokens_unreadable" });
      const waiting = registry.verify(token);
      replaceDisk(whole);
      release();
      await looking;
      assert.equal(await waiting, verdict);
    });
  }
}
