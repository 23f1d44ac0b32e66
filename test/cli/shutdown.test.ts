/** How a server stops. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { createToken } from "../../src/index.ts";
import { startServer } from "../support/cli.ts";
import { Client } from "../support/client.ts";
import { encodeRequest } from "../support/contract.ts";
import { makeFolder } from "../support/folders.ts";
import { logLinesOf } from "../support/messages.ts";
import { readLog } from "../support/stores.ts";
import { TIMEOUT, until } from "../support/watch.ts";

const FERN = '{"id":1,"name":"Fern"}';

/** So long that a test which waits for one of these limits fails by its own timeout. */
const PATIENT = [
  "--drain-timeout-ms=600000",
  "--request-timeout-ms=600000",
  "--keep-alive-timeout-ms=600000",
];

/** A folder with one token. */
async function makeStore(t: TestContext): Promise<{ folder: string; token: string }> {
  const folder = makeFolder(t);
  return { folder, token: await createToken(folder, { name: "gardener" }) };
}

test(
  "a create whose body comes after the signal is stored, and gets its response",
  TIMEOUT,
  async (t) => {
    const { folder, token } = await makeStore(t);
    const server = await startServer(t, ["--data", folder, ...PATIENT]);
    const held = await holdRequest(server.port, token);
    const end = server.stop("SIGINT");
    await until("it accepts no more", () => isRefused(server.port));
    await held.send(FERN.slice(-1));
    const answer = await held.next();
    assert.deepEqual([answer.status, answer.headers.get("connection")], [200, "close"]);
    assert.equal((await end).status, 0);
    assert.equal(readLog(folder), `${FERN}\n`);
  },
);

test("a second SIGTERM ends it at once, with a request in flight", TIMEOUT, async (t) => {
  const { folder, token } = await makeStore(t);
  const server = await startServer(t, ["--data", folder, ...PATIENT]);
  const held = await holdRequest(server.port, token);
  const end = server.stop();
  await until("it accepts no more", () => isRefused(server.port));
  assert.equal(held.isClosed, false);
  void server.stop();
  assert.deepEqual([(await end).status, (await end).signal], [null, "SIGTERM"]);
  assert.equal(readLog(folder), "");
});

test("the deadline ends it with 0, and the request is logged as cut", TIMEOUT, async (t) => {
  const { folder, token } = await makeStore(t);
  const server = await startServer(t, ["--data", folder, ...PATIENT, "--drain-timeout-ms=300"]);
  const held = await holdRequest(server.port, token);
  const end = await server.stop();
  assert.equal(end.status, 0);
  await until("the connection is cut", () => held.isClosed);
  const [request, ...others] = logLinesOf(end.stderr).filter(({ event }) => event === "request");
  assert.deepEqual([request?.status, request?.cut, request?.token], [0, true, "gardener"]);
  assert.deepEqual(others, []);
});

test(
  "SIGTERM under a load of 64 connections: every request gets a response or is cleanly refused",
  TIMEOUT,
  async (t) => {
    const { folder, token } = await makeStore(t);
    const server = await startServer(t, ["--data", folder, ...PATIENT]);
    const stored: string[] = [];
    const lost: string[] = [];
    let isSignalled = false;
    let next = 0;
    const createUntilClosed = async (): Promise<void> => {
      const client = await Client.connect(server.port);
      for (;;) {
        const [line, wasSentBefore] = [`{"id":${++next},"name":"Fern"}`, !isSignalled];
        const response = await client
          .send(encodeRequest({ token }, { body: line }))
          .then(() => client.next())
          .catch((error) => void (wasSentBefore && error.code && lost.push(line))); // a reset
        if (response === undefined) return;
        assert.equal(response.status, 200);
        stored.push(line);
        if (response.headers.get("connection") === "close") return;
      }
    };
    const load = Promise.all(Array.from({ length: 64 }, createUntilClosed));
    await until("the load is under way", () => stored.length >= 640);
    isSignalled = true;
    assert.equal((await server.stop()).status, 0);
    await load;
    const lines = readLog(folder).trimEnd().split("\n");
    assert.equal(new Set(lines).size, lines.length, "no line is there twice");
    const missing = stored.filter((line) => !lines.includes(line));
    assert.deepEqual([missing, lost], [[], []]);
  },
);

/** A create that the server has begun to read: only its last byte is not sent yet. */
async function holdRequest(port: number, token: string): Promise<Client> {
  const client = await Client.connect(port);
  const request = encodeRequest({ token }, { headers: { Expect: "100-continue" }, body: FERN });
  const bodyStart = request.length - FERN.length;
  await client.send(request.subarray(0, bodyStart));
  // From now on the signal is sure to find the request in flight.
  assert.equal((await client.next()).status, 100);
  await client.send(request.subarray(bodyStart, -1));
  return client;
}

async function isRefused(port: number): Promise<boolean> {
  try {
    (await Client.connect(port)).destroy();
    return false;
  } catch (error) {
    // A reset: the connection was in the queue when that was closed, so ask again.
    const { code } = error as NodeJS.ErrnoException;
    assert.match(code ?? "", /^ECONN(REFUSED|RESET)$/);
    return code === "ECONNREFUSED";
  }
}
