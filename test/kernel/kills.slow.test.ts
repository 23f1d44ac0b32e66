/**
 * SIGKILL at random moments: during a start, under load, and during a stop. Each round starts the server on the
 * folder that the last kill left. `npm run crash` runs 200 rounds, or KERNEL_KILLS.
 */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { readLog } from "../support/stores.ts";
import { Book, startLoad } from "./load.ts";
import { Trial } from "./trial.ts";

const KILLS = Number(process.env.KERNEL_KILLS ?? 10);
/** A new folder is used after this many rounds, because every round reads the whole log. */
const KILLS_PER_FOLDER = 20;

async function runLife(t: TestContext, kills: number): Promise<void> {
  const trial = new Trial(t);
  const book = new Book();
  const startAndCheck = async () => {
    await trial.start();
    await book.createAll(trial.target, book.sample(100));
    assert.deepEqual(book.findFaults(readLog(trial.folder)), []);
  };
  let startMs = 200;
  for (let kill = 0; kill < kills; kill++) {
    const moment = Math.floor(Math.random() * 4);
    const killMs = Math.ceil(Math.random() * startMs);
    if (moment === 0) await trial.run(["serve", "--port=0"], {}, killMs);
    const begun = performance.now();
    await startAndCheck();
    startMs = performance.now() - begun;
    const stop = startLoad(trial.target, book);
    await sleep(Math.random() * 600);
    if (moment === 1) {
      trial.server.process.kill("SIGTERM");
      await sleep(Math.random() * 60);
    }
    await trial.end("SIGKILL");
    await stop();
  }
  await startAndCheck();
  assert.equal(await trial.end("SIGTERM"), 0);
  assert.equal(await trial.run(["verify"]), 0);
  assert.ok(book.acknowledged.size > 0, "the load was stored");
  t.diagnostic(`${kills} kills, ${book.acknowledged.size} plants acknowledged`);
}

for (let done = 0; done < KILLS; done += KILLS_PER_FOLDER) {
  const kills = Math.min(KILLS_PER_FOLDER, KILLS - done);
  const name = `a killed server loses nothing that it acknowledged, from kill ${done + 1}`;
  test(name, { timeout: 60_000 + kills * 20_000 }, (t) => runLife(t, kills));
}
