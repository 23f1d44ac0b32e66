/** The client in front of a server that is killed, drained or full: every create is answered once, and stored once. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { type TestContext, test } from "node:test";
import { encodeNewPlant, type NewPlant, PlantClient } from "../../src/client.ts";
import { createToken } from "../../src/index.ts";
import { startServer } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { freePort } from "../support/serve.ts";
import { readLog } from "../support/stores.ts";
import { TIMEOUT, until } from "../support/watch.ts";
import { isError } from "./scripted.ts";

const ROUNDS = 5;
const WORKERS = 16;
/** Its writes fail as on a full disk once the log has 256 KiB. */
const FULL = ["sh", "-c", 'trap "" XFSZ; ulimit -S -f 512; exec "$@"', "sh"];

/** A data directory with a token, and a server that may be started again and again at one address. */
async function settle(t: TestContext) {
  const folder = makeFolder(t);
  const token = await createToken(folder, { name: "client", scopes: ["write", "read"] });
  const port = `${await freePort()}`;
  const start = (wrapper: readonly string[] = []) =>
    startServer(t, ["--data", folder, "--port", port], { wrapper });
  return { folder, start, token, url: `http://127.0.0.1:${port}` };
}

/** Creates plants, some at a time, until it is stopped; remembers which creates resolved. */
class Load {
  readonly answered: NewPlant[] = [];
  readonly #workers: Promise<unknown>;
  #isStopped = false;
  #next = 1n;

  constructor(client: PlantClient, name: string) {
    this.#workers = Promise.all(Array.from({ length: WORKERS }, () => this.#work(client, name)));
  }

  async #work(client: PlantClient, name: string): Promise<void> {
    while (!this.#isStopped) {
      const plant = { id: this.#next++, name };
      assert.deepEqual(await client.create(plant), { name });
      this.answered.push(plant);
    }
  }

  /** Resolves when this many more creates have resolved. */
  async more(count: number): Promise<void> {
    const aim = this.answered.length + count;
    const reached = until("creates resolve", () => this.answered.length >= aim);
    await Promise.race([reached, this.#workers]);
  }

  /** Every plant whose create resolved is in the log once, and nothing else. */
  async end(folder: string): Promise<void> {
    this.#isStopped = true;
    await this.#workers;
    const lines = readLog(folder).split("\n").slice(0, -1);
    assert.deepEqual(lines.sort(), this.answered.map(encodeNewPlant).sort());
  }
}

for (const signal of ["SIGKILL", "SIGTERM"] as const) {
  test(`every create resolves once while ${signal} ends the server`, TIMEOUT, async (t) => {
    const { folder, token, url, start } = await settle(t);
    const load = new Load(new PlantClient(url, { token }), "Fern");
    for (let round = 0; round < ROUNDS; round++) {
      const server = await start();
      await load.more(200);
      await server.stop(signal);
    }
    await start();
    await load.more(200);
    await load.end(folder);
  });
}

test("every create resolves once while the disk is full", TIMEOUT, async (t) => {
  const { folder, token, url, start } = await settle(t);
  const server = await start(FULL);
  const load = new Load(new PlantClient(url, { token }), "Fern".repeat(500));
  await until("the disk is full", () => readLog(folder).length > 250_000);
  const failing = new PlantClient(url, { token, deadlineMs: 500 });
  // Longer than the disk: a short one may fit where a batch did not.
  const long = failing.create({ id: -1n, name: "Fern".repeat(100_000) });
  await assert.rejects(long, isError("outcome_unknown", undefined, "write_failed"));
  assert.ok(load.answered.length < 256, "it was full");
  execFileSync("prlimit", ["--pid", `${server.process.pid}`, "--fsize=unlimited"]);
  await load.more(200);
  await load.end(folder);
});
