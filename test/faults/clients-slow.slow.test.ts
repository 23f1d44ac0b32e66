/** Clients that are slow or do nothing, and ordinary clients at the same time. */
import assert from "node:assert/strict";
import { once } from "node:events";
import net from "node:net";
import { type TestContext, test } from "node:test";
import { Client } from "../support/client.ts";
import { encodeRequest } from "../support/contract.ts";
import { errorNumber } from "../support/service.ts";
import { TIMEOUT, until } from "../support/watch.ts";
import { openFilesMax, openSockets } from "./machine.ts";
import { assertKept, plant, Trial } from "./trial.ts";

/** The creates of an ordinary client that must be answered meanwhile. */
const CREATES = 50;

/** Creates one plant after another on one connection. */
async function createMany(trial: Trial, firstId: number): Promise<void> {
  const client = await Client.connect(trial.server.port);
  for (let id = firstId; id < firstId + CREATES; id++) {
    await client.send(encodeRequest(trial, { body: plant(id) }));
    assert.equal(trial.account(plant(id), await client.next()), 200);
  }
  client.destroy();
}

/** Sends a byte now and then until the server has closed. */
async function trickle(client: Client, bytes: Buffer): Promise<void> {
  for (const byte of bytes) {
    if (client.isClosed) return;
    await client.send(Buffer.of(byte));
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

const SLOW = 100;

test(
  `${SLOW} clients with slow headers and ${SLOW} with slow bodies get 408, and an ordinary one gets its answers`,
  TIMEOUT,
  async (t) => {
    const limits = ["--header-timeout-ms=1500", "--request-timeout-ms=2500"];
    const trial = await Trial.start(t, { args: limits });
    const request = encodeRequest(trial, { body: plant(1, "n".repeat(2000)) });
    const bodyStart = request.indexOf("\r\n\r\n") + 4;
    const clients = await Promise.all(
      Array.from({ length: SLOW * 2 }, () => Client.connect(trial.server.port)),
    );
    const slow = clients.map(async (client, at) => {
      const start = at < SLOW ? 10 : bodyStart;
      await client.send(request.subarray(0, start));
      // The server may close while the client still sends.
      await Promise.all([trickle(client, request.subarray(start)), client.next()]).then(
        ([, answer]) => assert.equal(errorNumber(answer), 40801),
      );
    });
    await Promise.all([createMany(trial, 100), ...slow]);
    for (const client of clients) client.destroy();
    await createMany(trial, 200);
    assert.deepEqual(await trial.stop(), { status: 0, signal: null, messages: [] });
    assertKept(trial.folder, trial.acknowledged);
  },
);

/** As many as wanted, if this machine allows a process so many. */
const IDLE = Math.min(2000, openFilesMax() - 200);
const AT_A_TIME = 200;

async function connectIdle(
  t: TestContext,
  port: number,
  count: number,
  options: net.SocketConstructorOpts = {},
): Promise<net.Socket[]> {
  const sockets: net.Socket[] = [];
  t.after(() => {
    for (const socket of sockets) socket.destroy();
  });
  while (sockets.length < count) {
    const more = Array.from({ length: Math.min(AT_A_TIME, count - sockets.length) }, () =>
      net.connect({ port, host: "127.0.0.1", ...options }).on("error", () => {}),
    );
    sockets.push(...more);
    await Promise.all(more.map((socket) => once(socket, "connect")));
  }
  return sockets;
}

test(
  `${IDLE} idle connections delay no other client, and are closed after their timeout`,
  TIMEOUT,
  async (t) => {
    const trial = await Trial.start(t, { args: ["--header-timeout-ms=5000"] });
    const before = openSockets(trial.pid);
    const sockets = await connectIdle(t, trial.server.port, IDLE);
    await until("the server has them all", () => openSockets(trial.pid) >= before + IDLE);
    await createMany(trial, 100);
    let closed = 0;
    for (const socket of sockets) socket.on("close", () => closed++).resume();
    await until("all are closed", () => closed === IDLE);
    await createMany(trial, 200);
    assert.deepEqual(await trial.stop(), { status: 0, signal: null, messages: [] });
    assertKept(trial.folder, trial.acknowledged);
  },
);

/** More than may linger, if this machine allows a process so many. */
const REFUSED = Math.min(1200, openFilesMax() - 200);
const LINGERING_MAX = 1024;

test(
  `${REFUSED} refused clients that never stop sending delay neither an ordinary client nor a stop`,
  TIMEOUT,
  async (t) => {
    const trial = await Trial.start(t);
    const before = openSockets(trial.pid);
    const headers = { Authorization: undefined, "Content-Length": "1000000000" };
    const refused = encodeRequest(trial, { headers });
    const clients = await connectIdle(t, trial.server.port, REFUSED, { allowHalfOpen: true });
    let answered = 0;
    for (const socket of clients) {
      socket.once("data", () => answered++);
      socket.write(refused);
    }
    await until("all are answered", () => answered === REFUSED);
    const sending = setInterval(() => {
      for (const socket of clients) if (!socket.destroyed) socket.write("x");
    }, 500);
    t.after(() => clearInterval(sending));
    await until("only so many linger", () => openSockets(trial.pid) <= before + LINGERING_MAX);
    await createMany(trial, 100);
    assert.ok(clients.some(({ destroyed }) => !destroyed));
    assert.deepEqual(await trial.stop(), { status: 0, signal: null, messages: [] });
    assertKept(trial.folder, trial.acknowledged);
  },
);
