/** A stop that leaves its clients and their load balancer the time to go elsewhere. */
import assert from "node:assert/strict";
import http from "node:http";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { createToken } from "../../src/index.ts";
import { type RunningServer, startServer } from "../support/cli.ts";
import { Client } from "../support/client.ts";
import { encodeRequest } from "../support/contract.ts";
import { makeFolder } from "../support/folders.ts";
import { messagesOf } from "../support/messages.ts";
import { readLog } from "../support/stores.ts";
import { TIMEOUT, until } from "../support/watch.ts";

const CONNECTIONS = 64;
/** Answers before the signal: enough for every connection to be in use. */
const ANSWERS = 640;

interface Garden {
  readonly server: RunningServer;
  readonly folder: string;
  readonly token: string;
  /** The status of `/readyz`. */
  readiness(): Promise<number | undefined>;
}

async function startGarden(t: TestContext, ...args: string[]): Promise<Garden> {
  const folder = makeFolder(t);
  const token = await createToken(folder, { name: "load" });
  const socketPath = path.join(folder, "admin.sock");
  const server = await startServer(t, ["--data", folder, "--admin", socketPath, ...args]);
  const readiness = () =>
    new Promise<number | undefined>((resolve, reject) => {
      const request = http.get({ socketPath, path: "/readyz", agent: false }, (answer) => {
        resolve(answer.resume().statusCode);
      });
      request.on("error", reject);
    });
  return { server, folder, token, readiness };
}

/** Creates a plant, and resolves with the status, or the code of the failure. */
function create({ server, token }: Garden, agent: http.Agent, id: number): Promise<string> {
  return new Promise((resolve) => {
    const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
    const request = http.request(`${server.url}/plants`, { method: "POST", agent, headers });
    request.on("response", (answer) => {
      answer.resume().on("error", () => {});
      answer.on("close", () => resolve(answer.complete ? `${answer.statusCode}` : "cut"));
    });
    request.on("error", ({ code = "" }: NodeJS.ErrnoException) => resolve(code));
    request.end(`{"id":${id},"name":"Fern ${id}"}`);
  });
}

test(
  "a stop with a delay resets no request of a client that reuses 64 connections",
  TIMEOUT,
  async (t) => {
    const garden = await startGarden(t, "--drain-delay-ms=600000");
    const agent = new http.Agent({ keepAlive: true, maxSockets: CONNECTIONS });
    t.after(() => agent.destroy());
    const outcomes = new Map<string, number>();
    let sent = 0;
    let isAway = false;
    const keepCreating = async () => {
      while (!isAway) {
        const outcome = await create(garden, agent, sent++);
        outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
      }
    };
    const clients = Array.from({ length: CONNECTIONS }, keepCreating);
    await until("the load is under way", () => (outcomes.get("200") ?? 0) >= ANSWERS);
    const stopped = garden.server.stop();
    await until("it is not ready", async () => (await garden.readiness()) === 503);
    const answered = outcomes.get("200") ?? 0;
    const isServed = () => (outcomes.get("200") ?? 0) > answered + ANSWERS;
    await until("new connections are served all the same", isServed);
    isAway = true;
    await Promise.all(clients); // a balancer has seen the 503 by now
    garden.server.process.kill("SIGTERM"); // ends the delay
    const { status, stderr } = await stopped;
    assert.deepEqual([status, messagesOf(stderr)], [0, []]);
    assert.deepEqual([...outcomes], [["200", sent]]);
    assert.equal(readLog(garden.folder).split("\n").length - 1, sent);
  },
);

test("during the delay an idle connection is closed by its next answer, and new ones are accepted", async (t) => {
  const garden = await startGarden(t, "--drain-delay-ms=600000");
  const request = encodeRequest(garden, { body: '{"id":1,"name":"Fern"}' });
  const idle = await Client.connect(garden.server.port);
  await idle.send(request);
  assert.equal((await idle.next()).headers.get("connection"), "keep-alive");
  const stopped = garden.server.stop();
  await until("it is not ready", async () => (await garden.readiness()) === 503);
  for (const client of [idle, await Client.connect(garden.server.port)]) {
    await client.send(request);
    const [answer, ...others] = await client.rest();
    assert.deepEqual([answer?.status, answer?.headers.get("connection")], [200, "close"]);
    assert.deepEqual(others, []);
  }
  garden.server.process.kill("SIGTERM"); // the second one ends the delay
  assert.deepEqual([(await stopped).status, (await stopped).signal], [0, null]);
});

test("during the drain after a delay that was cut short, a signal ends the process", async (t) => {
  const garden = await startGarden(t, "--drain-delay-ms=600000", "--drain-timeout-ms=600000");
  const request = encodeRequest(garden, { body: '{"id":1,"name":"Fern"}' });
  const slow = await Client.connect(garden.server.port);
  t.after(() => slow.destroy());
  const { process } = garden.server;
  const draining = () => garden.readiness().then((status) => status === 503);
  const stopped = garden.server.stop();
  await until("it is not ready", draining);
  await slow.send(request.subarray(0, -1)); // a body without its end
  process.kill("SIGTERM");
  const isRefused = () =>
    Client.connect(garden.server.port).then(
      (client) => client.destroy(),
      () => true,
    );
  await until("it drains", async () => (await isRefused()) === true);
  process.kill("SIGTERM");
  assert.equal((await stopped).signal, "SIGTERM");
});
