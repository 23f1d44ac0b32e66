/** The client in front of real servers that fail: every create is answered once, and every plant is stored once. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import {
  encodeNewPlant,
  type NewPlant,
  PlantClient,
  type PlantStoreError,
} from "../../src/client.ts";
import { createToken } from "../../src/index.ts";
import { execute, mountSmallDisk } from "../kernel/machine.ts";
import { startServer } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { messagesOf } from "../support/messages.ts";
import { freePort } from "../support/serve.ts";
import { collect, readLog } from "../support/stores.ts";
import { TIMEOUT, until } from "../support/watch.ts";
import { serveFailing } from "./failing-proxy.ts";

const ROUNDS = 5;
const WORKERS = 16;

/** A data directory with a token, and the port of its server, which may be started again and again. */
async function settle(t: TestContext, folder = makeFolder(t)) {
  const token = await createToken(folder, { name: "client", scopes: ["write", "read"] });
  const port = await freePort();
  const start = () => startServer(t, ["--data", folder, "--port", String(port)]);
  return { folder, token, port, start, url: `http://127.0.0.1:${port}` };
}

/** Creates plants, some at a time, until it is stopped; remembers what was answered. */
class Load {
  readonly answered: NewPlant[] = [];
  readonly #workers: Promise<void>[];
  #isStopped = false;
  #next = 1n;

  constructor(client: PlantClient, name: string) {
    this.#workers = Array.from({ length: WORKERS }, () => this.#work(client, name));
  }

  async #work(client: PlantClient, name: string): Promise<void> {
    while (!this.#isStopped) {
      const plant = { id: this.#next++, name };
      assert.deepEqual(await client.create(plant), { name });
      this.answered.push(plant);
    }
  }

  /** Resolves when this many more creates were answered. */
  async more(count: number): Promise<void> {
    const aim = this.answered.length + count;
    const failed = Promise.all(this.#workers);
    await Promise.race([until("creates are answered", () => this.answered.length >= aim), failed]);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await Promise.all(this.#workers);
  }

  /** Every answered plant is in the log once, and nothing else. */
  assertStoredOnce(folder: string): void {
    const lines = readLog(folder).split("\n").slice(0, -1);
    assert.deepEqual(lines.sort(), this.answered.map(encodeNewPlant).sort());
  }
}

const ENDS: readonly [what: string, signal: NodeJS.Signals][] = [
  ["killed", "SIGKILL"],
  ["drained", "SIGTERM"],
];

for (const [what, signal] of ENDS) {
  test(
    `every create is answered once while the server is ${what} and restarted`,
    TIMEOUT,
    async (t) => {
      const { folder, token, url, start } = await settle(t);
      const load = new Load(new PlantClient(url, { token }), "Fern");
      for (let round = 0; round < ROUNDS; round++) {
        const server = await start();
        await load.more(200);
        await server.stop(signal);
      }
      await start();
      await load.more(200);
      await load.stop();
      load.assertStoredOnce(folder);
    },
  );
}

test("every create is answered once while the disk is full", TIMEOUT, async (t) => {
  const disk = mountSmallDisk(t, "256k");
  if (disk === undefined) return;
  const { folder, token, url, start } = await settle(t, disk);
  const server = await start();
  const load = new Load(new PlantClient(url, { token }), "Fern".repeat(500));
  const isFull = () => messagesOf(server.stderr()).some((text) => text.includes("ENOSPC"));
  await until("the disk is full", isFull);
  const failing = new PlantClient(url, { token, deadlineMs: 300 });
  // Longer than the disk: a short one may fit where a batch did not.
  await assert.rejects(failing.create({ id: -1n, name: "Fern".repeat(100_000) }), (error) => {
    const { code, cause } = error as PlantStoreError;
    assert.equal(code, "outcome_unknown");
    assert.deepEqual([(cause as PlantStoreError).number], [50302]);
    return true;
  });
  const before = load.answered.length;
  execute("mount", "-o", "remount,size=16m", folder);
  await load.more(200);
  await load.stop();
  assert.ok(before < 256, "it was full");
  load.assertStoredOnce(folder);
});

test(
  "every create is answered once through a proxy that answers HTML and breaks connections",
  TIMEOUT,
  async (t) => {
    const { folder, token, port, start } = await settle(t);
    await start();
    const proxy = await serveFailing(t, port);
    const client = new PlantClient(proxy.url, { token });
    const load = new Load(client, "Fern");
    await load.more(300);
    await load.stop();
    load.assertStoredOnce(folder);
    const stored = await collect(client.list());
    assert.deepEqual(stored.map(encodeNewPlant), readLog(folder).split("\n").slice(0, -1));
    assert.deepEqual(await client.get(1n), { id: 1n, name: "Fern" });
  },
);

test("a list goes on where it was when the server is killed and restarted", TIMEOUT, async (t) => {
  const { folder, token, url, start } = await settle(t);
  let server = await start();
  const client = new PlantClient(url, { token });
  const load = new Load(client, "Fern".repeat(1000));
  await load.more(2000); // 8 MB, more than the sockets hold
  await load.stop();
  const listed: string[] = [];
  for await (const plant of client.list()) {
    listed.push(encodeNewPlant(plant));
    if (listed.length === 500 || listed.length === 1200) {
      await server.stop("SIGKILL");
      server = await start();
    }
  }
  assert.deepEqual(listed, readLog(folder).split("\n").slice(0, -1));
});
