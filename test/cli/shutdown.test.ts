import assert from "node:assert/strict";
import { test } from "node:test";
import { createToken } from "../../src/index.ts";
import { startServer } from "../support/cli.ts";
import { Client } from "../support/client.ts";
import { encodeRequest } from "../support/contract.ts";
import { makeFolder } from "../support/folders.ts";
import { messagesOf } from "../support/messages.ts";
import { readLog } from "../support/stores.ts";
import { TIMEOUT, until } from "../support/watch.ts";

const CONNECTIONS = 64;
/** How many answers come before the signal: enough for every connection to be busy. */
const ANSWERS = 640;

interface Load {
  /** The ids of the plants that were answered 200. */
  readonly stored: number[];
  /** How many requests were sent and not yet answered. */
  inFlight: number;
  /** Set by the test right before it sends the signal. */
  isSignalled: boolean;
}

/** How the last request of a connection ended. */
interface LastRequest {
  readonly wasSentBefore: boolean;
  readonly end: "answered" | "closed" | "reset";
}

/** Sends creates one after another on one connection until the server closes it. */
async function keepCreating(
  client: Client,
  token: string,
  ids: Iterator<number>,
  load: Load,
): Promise<LastRequest> {
  for (;;) {
    const id = ids.next().value as number;
    const wasSentBefore = !load.isSignalled;
    load.inFlight++;
    await client.send(encodeRequest({ token }, { body: `{"id":${id},"name":"Fern ${id}"}` }));
    try {
      const { status, headers, text } = await client.next();
      assert.equal(status, 200);
      assert.equal(text, `{"name":"Fern ${id}"}`);
      load.stored.push(id);
      if (headers.get("connection") !== "close") continue;
      assert.deepEqual(await client.rest(), []);
      return { wasSentBefore, end: "answered" };
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error;
      const isReset = (error as NodeJS.ErrnoException).code !== undefined;
      return { wasSentBefore, end: isReset ? "reset" : "closed" };
    } finally {
      load.inFlight--;
    }
  }
}

function* countUp(): Generator<number, never> {
  for (let id = 1; ; id++) yield id;
}

test(
  "SIGTERM under a load of 64 connections loses nothing: answers or clean closes, and status 0",
  TIMEOUT,
  async (t) => {
    const folder = makeFolder(t);
    const token = await createToken(folder, { name: "load" });
    // A stop that waits for its deadline fails the test.
    const server = await startServer(t, ["--data", folder, "--drain-timeout-ms=600000"]);
    const load: Load = { stored: [], inFlight: 0, isSignalled: false };
    const ids = countUp();
    const clients = await Promise.all(
      Array.from({ length: CONNECTIONS }, () => Client.connect(server.port)),
    );
    const connections = clients.map((client) => keepCreating(client, token, ids, load));

    await until("the load is under way", () => load.stored.length >= ANSWERS && load.inFlight > 0);
    load.isSignalled = true;
    const end = await server.stop();
    const lasts = await Promise.all(connections);

    assert.deepEqual([end.status, end.signal, messagesOf(end.stderr)], [0, null, []]);
    // Only a request that was sent after the signal may find its connection closed.
    const lost = lasts.filter(({ wasSentBefore, end }) => wasSentBefore && end === "reset");
    assert.deepEqual(lost, []);
    assert.ok(lasts.some(({ end }) => end === "answered"));

    const lines = readLog(folder).split("\n");
    assert.equal(lines.pop(), "", "the last line is whole");
    const counts = new Map<string, number>();
    for (const line of lines) counts.set(line, (counts.get(line) ?? 0) + 1);
    const missing = load.stored.filter(
      (id) => counts.get(`{"id":${id},"name":"Fern ${id}"}`) !== 1,
    );
    assert.deepEqual(missing, []);
    assert.equal(counts.size, lines.length, "no line occurs twice");
    assert.ok(load.stored.length >= ANSWERS);
  },
);
