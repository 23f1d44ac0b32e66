/** What the port to locks promises, of the real ones and of the simulated ones. */
import assert from "node:assert/strict";
import { readdirSync, rmSync } from "node:fs";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { type Locks, locks } from "../../src/log/lock.ts";
import { makeFolder } from "../support/folders.ts";
import { SimulatedClock } from "./clock.ts";
import { SimulatedDisk } from "./disk.ts";
import { SimulatedLocks } from "./locks.ts";
import { Platter } from "./platter.ts";
import { Random } from "./random.ts";
import { RuleBook } from "./rules.ts";

interface Place {
  readonly locks: Locks;
  readonly folder: string;
  /** Has another program remove the entries of the locks. */
  sweep(): void;
}

const OPTIONS = { name: "lock", command: "serve" };
const LOCKED = { code: "locked" };

const CHECKS: Record<string, (place: Place) => Promise<void>> = {
  "one at a time holds a lock, and the next one gets it": async ({ locks, folder }) => {
    const first = await locks.acquire(folder, OPTIONS);
    await assert.rejects(locks.acquire(folder, OPTIONS), LOCKED);
    await assert.rejects(locks.acquire(folder, { ...OPTIONS, waitMs: 30 }), LOCKED);
    const other = await locks.acquire(folder, { ...OPTIONS, name: "tokens-lock" });
    const next = locks.acquire(folder, { ...OPTIONS, waitMs: 5000 });
    assert.equal(first.findLoss(), undefined);
    await first.close();
    await (await next).close();
    await other.close();
  },

  "of two that ask at once one gets the lock": async ({ locks, folder }) => {
    const asked = [1, 2].map(() => locks.acquire(folder, OPTIONS));
    const results = await Promise.allSettled(asked);
    assert.deepEqual(results.map(({ status }) => status).sort(), ["fulfilled", "rejected"]);
    for (const result of results) if (result.status === "fulfilled") await result.value.close();
  },

  "a lock needs a folder": async ({ locks, folder }) => {
    const missing = path.join(folder, "missing");
    await assert.rejects(locks.acquire(missing, OPTIONS), { code: "io_error" });
  },

  "the holder tells how much is durable, and nobody does if there is none": async (place) => {
    const { locks, folder } = place;
    assert.equal(await locks.askDurableBytes(folder, "lock"), undefined);
    let bytes: number | undefined;
    const lock = await locks.acquire(folder, { ...OPTIONS, durableBytes: () => bytes });
    await assert.rejects(locks.askDurableBytes(folder, "lock"), LOCKED);
    bytes = 42;
    assert.equal(await locks.askDurableBytes(folder, "lock"), 42);
    await lock.close();
    assert.equal(await locks.askDurableBytes(folder, "lock"), undefined);
  },

  "a lock whose entry is removed is lost, for good": async ({ locks, folder, sweep }) => {
    const lock = await locks.acquire(folder, OPTIONS);
    sweep();
    const loss = lock.findLoss();
    assert.ok(loss instanceof Error);
    assert.equal(await lock.lost, loss);
    const next = await locks.acquire(folder, OPTIONS);
    assert.equal(lock.findLoss(), loss);
    assert.equal(next.findLoss(), undefined);
    await Promise.all([lock.close(), next.close()]);
  },
};

async function onSystem(t: TestContext, check: (place: Place) => Promise<void>): Promise<void> {
  const folder = makeFolder(t);
  const sweep = () => {
    for (const name of readdirSync(folder)) rmSync(path.join(folder, name));
  };
  await check({ locks, folder, sweep });
}

async function onSimulation(check: (place: Place) => Promise<void>): Promise<void> {
  const random = new Random("locks");
  const clock = new SimulatedClock(random);
  const platter = new Platter(clock);
  platter.create("/data", "folder");
  const disk = new SimulatedDisk({ platter, clock, random, rules: new RuleBook() });
  const simulated = new SimulatedLocks(disk, clock);
  const sweep = () => simulated.lose("/data", "lock");
  await clock.run(check({ locks: simulated, folder: "/data", sweep }));
}

for (const [name, check] of Object.entries(CHECKS)) {
  test(`with the real locks, ${name}`, (t) => onSystem(t, check));
  test(`with the simulated locks, ${name}`, () => onSimulation(check));
}
