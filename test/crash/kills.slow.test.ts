/**
 * SIGKILL at random moments: during a start, under load, and during a stop. Each round starts the server on the
 * folder that the last kill left. `npm run crash` runs more rounds.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { createToken } from "../../src/index.ts";
import { runCli, startServer } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { PROGRAM } from "../support/program.ts";
import { readLog } from "../support/stores.ts";
import { Book, Load, repeat } from "./load.ts";

const ROUNDS = Number(process.env.CRASH_ROUNDS ?? 3);
/** A new folder is used after this many rounds, because every round reads the whole log. */
const ROUNDS_PER_FOLDER = 20;
const LOAD_MS_MAX = 600;
const STOP_MS_MAX = 60;
const REPEATS = 200;

/** Starts a server and kills it within the time that a start takes. */
async function killStart(folder: string, startMs: number): Promise<void> {
  const child = spawn(process.execPath, [PROGRAM, "serve", "--port", "0", "--data", folder]);
  const closed = once(child, "close");
  await sleep(Math.random() * startMs * 1.2);
  child.kill("SIGKILL");
  await closed;
}

/** The server of a folder, after checking that it has what was acknowledged. */
async function startAndCheck(t: TestContext, folder: string, token: string, book: Book) {
  const server = await startServer(t, ["--data", folder]);
  const target = { url: server.url, token };
  assert.deepEqual(book.findFaults(readLog(folder)), []);
  assert.deepEqual(await repeat(target, book, book.sample(REPEATS / 2)), []);
  return { server, target };
}

async function runLife(t: TestContext, rounds: number): Promise<void> {
  const folder = makeFolder(t);
  const token = await createToken(folder, { name: "crash" });
  const book = new Book();
  let startMs = 200;
  for (let round = 0; round < rounds; round++) {
    const moment = Math.floor(Math.random() * 4);
    if (moment === 0) await killStart(folder, startMs);
    const begun = performance.now();
    const { server, target } = await startAndCheck(t, folder, token, book);
    startMs = performance.now() - begun;
    const load = new Load(target, book);
    await sleep(Math.random() * LOAD_MS_MAX);
    if (moment === 1) {
      server.process.kill("SIGTERM");
      await sleep(Math.random() * STOP_MS_MAX);
    }
    await server.stop("SIGKILL");
    await load.stop();
    assert.deepEqual(load.wrong, []);
  }
  const { server } = await startAndCheck(t, folder, token, book);
  assert.equal((await server.stop()).status, 0);
  assert.equal((await runCli(["verify", "--data", folder])).status, 0);
  assert.ok(book.acknowledged > 0, "the load was stored");
  t.diagnostic(`${rounds} kills, ${book.acknowledged} plants acknowledged`);
}

describe("a server that is killed at random moments loses nothing that it acknowledged", () => {
  for (let done = 0; done < ROUNDS; done += ROUNDS_PER_FOLDER) {
    const rounds = Math.min(ROUNDS_PER_FOLDER, ROUNDS - done);
    const timeout = 60_000 + rounds * 20_000;
    test(`in rounds ${done + 1} to ${done + rounds}`, { timeout }, (t) => runLife(t, rounds));
  }
});

test("plants that are lost, there twice, or were never sent are found in a log", () => {
  const book = new Book();
  book.sent = 5;
  for (let plant = 0; plant < 4; plant++) book.acknowledge(plant); // the last may be there or not
  const [a = "", b = "", c = "", d = "", e = ""] = [0, 1, 2, 3, 4].map((plant) => book.line(plant));
  const count = (...lines: string[]) => {
    return book.findFaults(lines.map((line) => `${line}\n`).join("")).length;
  };
  assert.deepEqual([count(a, b, c, d), count(d, e, c, b, a)], [0, 0]);
  assert.deepEqual([count(a, b, d), count(a, b, c, d, b)], [1, 1]);
  assert.equal(count(a, b, c, d, '{"id":1,"name":"a stranger"}'), 1);
  assert.equal(count(a, b, c, d.slice(0, -1)), 2);
  assert.equal(count(a, b, c, d.replace("Fern", "Moss")), 2);
  assert.equal(book.findFaults([a, b, c, d].join("\n")).length, 2);
});
