/** The lock between processes: started, killed and stopped for real. */
import assert from "node:assert/strict";
import fs from "node:fs";
import { test } from "node:test";
import { Worker } from "node:worker_threads";
import { PlantStoreError } from "../../src/core/errors.ts";
import { locks } from "../../src/log/lock.ts";
import { makeFolder } from "../support/folders.ts";
import { RIVAL_COMMAND, Rival, seeAttempts } from "../support/lock-process.ts";

const mine = { name: "lock", command: "mine" };

test("locks.acquire() names the process that holds the lock, and what it does", async (t) => {
  const folder = makeFolder(t);
  const rival = await Rival.start(t);
  assert.equal(await rival.acquire(folder), "won");
  await assert.rejects(locks.acquire(folder, mine), (error) => {
    assert.ok(error instanceof PlantStoreError);
    assert.equal(error.code, "locked");
    assert.match(error.message, new RegExp(`\\b${rival.pid}\\b`));
    assert.ok(error.message.includes(RIVAL_COMMAND));
    return true;
  });
  await rival.release();
  await (await locks.acquire(folder, mine)).close();
});

test("locks.acquire() waits for another process to release the lock", async (t) => {
  const folder = makeFolder(t);
  const rival = await Rival.start(t);
  const lock = await locks.acquire(folder, mine);
  const waiting = rival.acquire(folder, 60_000);
  await seeAttempts(folder, waiting);
  await lock.close();
  assert.equal(await waiting, "won");
});

test("locks.acquire() is never blocked by a holder that was killed", async (t) => {
  const folder = makeFolder(t);
  const rival = await Rival.start(t);
  assert.equal(await rival.acquire(folder), "won");
  await rival.kill();
  assert.equal(await locks.askDurableBytes(folder, "lock"), undefined);
  await (await locks.acquire(folder, mine)).close();
});

test("locks.acquire() treats a stopped holder as alive, although it does not answer", {
  skip: process.platform !== "linux",
}, async (t) => {
  const folder = makeFolder(t);
  const rival = await Rival.start(t);
  assert.equal(await rival.acquire(folder), "won");
  await stop(rival);
  await Promise.all([
    assert.rejects(locks.acquire(folder, mine), { code: "locked" }),
    assert.rejects(locks.askDurableBytes(folder, "lock"), { code: "locked" }),
  ]);
  await rival.kill();
  await (await locks.acquire(folder, mine)).close();
});

const RIVALS = 10;
const ROUNDS = 8;
/** The winner of this round is killed: its socket must not let two processes win the next round. */
const CRASH = 3;

test("locks.acquire() is won by exactly one of ten processes at once", async (t) => {
  const folder = makeFolder(t);
  const rivals = await Promise.all(Array.from({ length: RIVALS }, () => Rival.start(t)));
  for (let round = 0; round < ROUNDS; round++) {
    const outcomes = await Promise.all(rivals.map((rival) => rival.acquire(folder)));
    const winner = outcomes.indexOf("won");
    const losers = outcomes.filter((_, index) => index !== winner);
    assert.deepEqual(losers, Array(RIVALS - 1).fill("locked"), `round ${round}`);
    const rival = rivals[winner];
    const named = { message: new RegExp(`\\b${rival?.pid}\\b`) };
    await assert.rejects(locks.acquire(folder, mine), named);
    if (round !== CRASH) {
      await rival?.release();
      continue;
    }
    await rival?.kill();
    rivals[winner] = await Rival.start(t);
  }
});

test("locks.acquire() fails with locked when a rival removes its socket", async (t) => {
  // A winner removes the temporary sockets of all others, no matter how far those have come.
  const folder = makeFolder(t);
  const lock = await locks.acquire(folder, { ...mine, command: "first" });
  const sweeper = await sweepMeanwhile(folder);
  try {
    for (let attempt = 0; attempt < 300; attempt++) {
      await assert.rejects(locks.acquire(folder, mine), { code: "locked" });
    }
  } finally {
    await sweeper.terminate();
    await lock.close();
  }
});

/** Removes sockets as a winner does, but again and again, in a thread of its own. */
async function sweepMeanwhile(folder: string): Promise<Worker> {
  const sweep = `
    const { parentPort, workerData } = require("node:worker_threads");
    const fs = require("node:fs");
    parentPort.postMessage("ready");
    for (;;) {
      for (const name of fs.readdirSync(workerData)) {
        if (name.includes(".new-")) fs.rmSync(workerData + "/" + name, { force: true });
      }
    }`;
  const worker = new Worker(sweep, { eval: true, workerData: folder });
  await new Promise((resolve) => worker.once("message", resolve));
  return worker;
}

/** Sends SIGSTOP and waits until the kernel says that the process has stopped. */
async function stop(rival: Rival): Promise<void> {
  rival.process.kill("SIGSTOP");
  const isStopped = () => / T /.test(fs.readFileSync(`/proc/${rival.pid}/stat`, "utf8"));
  while (!isStopped()) await new Promise(setImmediate);
}
