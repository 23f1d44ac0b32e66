/** Many servers that want one data directory at the same moment. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { type TestContext, test } from "node:test";
import { createToken } from "../../src/index.ts";
import { makeFolder } from "../support/folders.ts";
import { readyUrl } from "../support/messages.ts";
import { postPlant } from "../support/post.ts";
import { PROGRAM } from "../support/program.ts";
import { assertKept, assertLog, assertTurnedAway, plant } from "./trial.ts";

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
        const url = readyUrl(stdout);
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
