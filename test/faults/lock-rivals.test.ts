/** Several processes that want one data directory. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { createToken } from "../../src/index.ts";
import { makeFolder } from "../support/folders.ts";
import { postPlant } from "../support/post.ts";
import { PROGRAM } from "../support/program.ts";
import { readLog } from "../support/stores.ts";
import { TIMEOUT, until } from "../support/watch.ts";
import { assertKept, assertLog, assertTurnedAway, plant, runOn, Trial } from "./trial.ts";

test(
  "while a server runs, every command that writes plants refuses and names it; tokens can be created",
  TIMEOUT,
  async (t) => {
    const trial = await Trial.start(t);
    const { folder } = trial;
    assert.equal(await trial.create(1), 200);
    const file = join(makeFolder(t), "more.jsonl");
    writeFileSync(file, `${plant(8)}\n`);

    const names = ["a", "b", "c"];
    const [created, turnedAway] = await Promise.all([
      Promise.all(names.map((name) => runOn(folder, "token", "create", name))),
      Promise.all([
        runOn(folder, "serve", "--port", "0"),
        runOn(folder, "import", file),
        runOn(folder, "repair", "--yes"),
      ]),
    ]);
    for (const end of turnedAway) {
      assertTurnedAway(end);
      assert.match(end.stderr, new RegExp(`\\bserve\\b.*\\b${trial.pid}\\b`));
    }
    for (const [at, { status, stdout, stderr }] of created.entries()) {
      assert.deepEqual([status, stderr], [0, ""]);
      const line = plant(10 + at);
      await until("the token is accepted", async () => {
        return (await postPlant(trial.server.url, stdout.trim(), line)).status === 200;
      });
      trial.acknowledged.push(line);
    }
    const events = readFileSync(join(folder, "tokens.jsonl"), "utf8").trimEnd().split("\n");
    const inLog = events.map((event) => JSON.parse(event).name);
    assert.deepEqual(inLog.slice(1).sort(), names);
    assert.deepEqual(await trial.stop(), { status: 0, signal: null, messages: [] });
    assertLog(folder, trial.acknowledged);
  },
);

test("while an import runs, a server refuses to start and names it", TIMEOUT, async (t) => {
  const folder = makeFolder(t);
  const importing = spawn(process.execPath, [PROGRAM, "import", "-", "--data", folder]);
  t.after(() => importing.kill("SIGKILL"));
  const ended = once(importing, "close");
  importing.stdin.write(`${plant(1)}\n`);
  await until("it has begun", () => {
    try {
      return readLog(folder) !== "";
    } catch {
      return false; // there is no log yet
    }
  });
  const end = await runOn(folder, "serve", "--port", "0");
  assertTurnedAway(end);
  assert.match(end.stderr, new RegExp(`\\bimport\\b.*\\b${importing.pid}\\b`));
  importing.stdin.end(`${plant(2)}\n`);
  assert.deepEqual(await ended, [0, null]);
  assertLog(folder, [plant(1), plant(2)]);
});

const STARTS = 10;
/** `LOCK_ROUNDS=100` sets more. */
const ROUNDS = Number(process.env.LOCK_ROUNDS ?? 3);

test(`of ${STARTS} servers started at once exactly one serves, in ${ROUNDS} rounds that end with SIGKILL`, {
  timeout: 30_000 + ROUNDS * 30_000,
}, async (t) => {
  const folder = makeFolder(t);
  const token = await createToken(folder, { name: "gardener" });
  const acknowledged: string[] = [];
  for (let round = 1; round <= ROUNDS; round++) {
    // The last winner was killed a moment ago, and must not delay any of these.
    const servers = Array.from({ length: STARTS }, () => new Contender(t, folder));
    const outcomes = await Promise.all(servers.map(({ outcome }) => outcome));
    const [winner, ...others] = outcomes.filter((outcome) => outcome.url !== undefined);
    assert.equal(others.length, 0, `round ${round}: several serve`);
    assert.ok(winner?.url !== undefined, `round ${round}: no server serves`);
    for (const { url, status, stderr } of outcomes) {
      if (url === undefined) assertTurnedAway({ status, signal: null, stdout: "", stderr });
    }
    const line = plant(round);
    assert.equal((await postPlant(winner.url, token, line)).status, 200);
    acknowledged.push(line);
    for (const server of servers) await server.kill();
    assertLog(folder, acknowledged);
  }
  assertKept(folder, acknowledged);
});

interface StartOutcome {
  /** Present if the server serves. */
  readonly url?: string;
  readonly status: number | null;
  readonly stderr: string;
}

/** Starts a server that serves or refuses. */
class Contender {
  readonly outcome: Promise<StartOutcome>;
  readonly #process: ChildProcess;
  readonly #ended: Promise<unknown>;

  constructor(t: TestContext, folder: string) {
    const args = [PROGRAM, "serve", "--port", "0", "--data", folder];
    const child = spawn(process.execPath, args);
    this.#process = child;
    this.#ended = once(child, "close");
    t.after(() => child.kill("SIGKILL"));
    let stdout = "";
    let stderr = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      stderr += text;
    });
    this.outcome = new Promise((resolve) => {
      child.stdout.setEncoding("utf8").on("data", (text: string) => {
        stdout += text;
        const url = /listening on (\S+)\n/.exec(stdout)?.[1];
        if (url !== undefined) resolve({ url, status: null, stderr });
      });
      child.once("close", (status) => resolve({ status, stderr }));
    });
  }

  async kill(): Promise<void> {
    this.#process.kill("SIGKILL");
    await this.#ended;
  }
}
