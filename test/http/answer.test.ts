/**
 * The answer to a request whose client is still sending: the client gets it, the connection lingers
 * within its limits, and no further request is carried out.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import http, { type RequestListener } from "node:http";
import net from "node:net";
import { type TestContext, test } from "node:test";
import { promisify } from "node:util";
import type { PlantService, VerifiedToken } from "../../src/core/services.ts";
import { Lingering } from "../../src/http/answer.ts";
import { createRequestListener, Listener } from "../../src/http/listener.ts";
import { PlantServer } from "../../src/http/server.ts";
import { Client } from "../support/client.ts";
import { chunked, encodeRequest, type RequestParts } from "../support/contract.ts";
import { parseAnswers } from "../support/raw.ts";
import { serve } from "../support/serve.ts";
import { errorNumber, startService } from "../support/service.ts";
import { collectMessages, HANG_MS, makeLatch, until } from "../support/watch.ts";

const MIB = 1024 * 1024;
const BLOCK = Buffer.alloc(64 * 1024, " ");
const NO_TOKEN = { Authorization: undefined };
const GOOD = '{"id":1,"name":"a"}';

/** Only the head of a request whose body has this many bytes. */
function headOf(length: number, parts: RequestParts = {}): RequestParts {
  return { ...parts, headers: { "Content-Length": String(length), ...parts.headers } };
}

const REFUSED: readonly [what: string, head: RequestParts, body: Buffer, error: number][] = [
  ["a body of 20 MiB", headOf(20 * MIB), Buffer.alloc(20 * MIB), 41301],
  [
    "an endless chunk",
    { headers: { ...NO_TOKEN, "Transfer-Encoding": "chunked" } },
    Buffer.concat([Buffer.from("fffffff\r\n"), Buffer.alloc(20 * MIB)]),
    40101,
  ],
  [
    "150 KiB without a token",
    headOf(150 * 1024, { headers: NO_TOKEN }),
    Buffer.alloc(150 * 1024),
    40101,
  ],
  [
    "60 KiB of a client that offers another protocol",
    headOf(60 * 1024, { headers: { ...NO_TOKEN, Connection: "upgrade", Upgrade: "h2c" } }),
    Buffer.alloc(60 * 1024),
    40101,
  ],
  [
    "60 KiB of a client of HTTP/1.0",
    headOf(60 * 1024, { version: "HTTP/1.0", headers: NO_TOKEN }),
    Buffer.alloc(60 * 1024),
    40101,
  ],
  [
    "a body after two Hosts",
    headOf(20 * MIB, { headers: { Host: ["a", "b"] } }),
    Buffer.alloc(20 * MIB),
    40001,
  ],
  ["20 MiB of headers", { headers: { X: "x".repeat(20_000) } }, Buffer.alloc(20 * MIB), 43101],
  ["20 MiB for another host", { method: "CONNECT", target: "a:1" }, Buffer.alloc(20 * MIB), 40001],
  ["what is no HTTP", { method: "\0" }, Buffer.alloc(20 * MIB), 40001],
];

test("a client that sends all of a refused request before it reads gets the answer", async (t) => {
  for (const [what, head, body, error] of REFUSED) {
    await t.test(`${what}: ${error}`, async (t) => {
      const service = await startService(t);
      const answered = collectMessages(t, "plant-store:request");
      const socket = net.connect(service.port, "127.0.0.1").pause();
      // In pieces, so that later pieces notice a reset that an earlier piece causes.
      const length = Math.ceil(body.length / 20);
      const send = promisify<Buffer, void>(socket.write).bind(socket);
      await send(Buffer.concat([encodeRequest(service, head), body.subarray(0, length)]));
      await until("the server has answered", () => answered.length > 0);
      await new Promise((resolve) => setImmediate(resolve)); // a connection that closes at once is closed by now
      for (let at = length; at < body.length; at += length) {
        await send(body.subarray(at, at + length));
      }
      const [answer] = parseAnswers(Buffer.concat(await socket.toArray()));
      assert.equal(answer && errorNumber(answer), error);
    });
  }
});

test("a refusal is sent in one write", async (t) => {
  const { port } = await mount(t);
  const { prototype } = net.Socket;
  const single = t.mock.method(prototype, "_write");
  const joint = t.mock.method(prototype, "_writev" as "_write"); // for several pieces
  const client = await Client.connect(port, true);
  await client.send(encodeRequest({ token: "good" }, headOf(2 * MIB)));
  assert.equal(errorNumber(await client.next()), 41301);
  const calls = [
    ...single.mock.calls.filter((call) => call.arguments[0].length > 0),
    ...joint.mock.calls,
  ];
  const ofServer = calls.filter((call) => (call.this as net.Socket).localPort === port);
  assert.equal(ofServer.length, 1);
  client.destroy();
});

const TOKEN: VerifiedToken = { name: "test", scopes: ["write"] };

/** A service without a disk, and the ids of the plants that were created. */
function makePorts() {
  const created: bigint[] = [];
  const plants: PlantService = {
    create: async ({ id }) => {
      created.push(id);
      return "created";
    },
    get: async () => undefined,
    async *list() {},
  };
  const tokens = { verify: (token: string) => (token === "good" ? TOKEN : undefined) };
  return { plants, tokens, created };
}

/** The listener mounted in another server. */
async function mount(t: TestContext, lingering?: Lingering) {
  const { created, ...ports } = makePorts();
  const mounted = new Listener(ports, lingering);
  const sockets: net.Socket[] = [];
  const listener: RequestListener = (req, res) => {
    sockets.push(req.socket);
    mounted.handleMounted(req, res);
  };
  return { ...(await serve(t, listener)), created, sockets };
}

/** A client of a mounted listener that is refused while it sends. */
async function connectRefused(port: number): Promise<Client> {
  const client = await Client.connect(port, true);
  await client.send(encodeRequest({ token: "good" }, headOf(1024 * MIB)));
  assert.equal(errorNumber(await client.next()), 41301);
  return client;
}

async function sendUntilGone(client: Client, part: string | Buffer = BLOCK): Promise<number> {
  let sent = 0;
  while (!client.isGone) {
    await client.send(part);
    sent += part.length;
  }
  return sent;
}

test("a mounted listener carries out no request that follows a refusal", async (t) => {
  const refused = encodeRequest(
    { token: "bad" },
    {
      headers: { "Transfer-Encoding": "chunked" },
      body: chunked("{}"),
    },
  );
  const next = encodeRequest({ token: "good" }, { body: GOOD });
  for (const [what, ...packets] of [
    ["in the same packet", Buffer.concat([refused, next])],
    ["in the next packet", refused, next],
    [
      "when the answer is there",
      refused.subarray(0, -5),
      Buffer.concat([refused.subarray(-5), next]),
    ],
  ] as const) {
    await t.test(what, async (t) => {
      const { port, created } = await mount(t);
      const client = await Client.connect(port, true);
      await client.send(packets[0]);
      if (packets[1] === undefined) await client.send(...packets.slice(1));
      assert.equal(errorNumber(await client.next()), 40102);
      await client.send(...packets.slice(1));
      client.halfClose();
      assert.deepEqual(await client.rest(), []);
      await until("the server is done with it", () => client.isGone);
      assert.deepEqual(created, []);
    });
  }
});

test("a refused client that sends slowly and endlessly is cut", async (t) => {
  const { port } = await mount(t, new Lingering({ totalMs: 200 }));
  await sendUntilGone(await connectRefused(port), "x");
});

test("a refused client that sends more than the limit is cut", async (t) => {
  const { port } = await mount(t, new Lingering({ bytesMax: MIB }));
  const sent = await sendUntilGone(await connectRefused(port));
  assert.ok(sent < 64 * MIB, `${sent} bytes`); // besides what the buffers of the sockets hold
});

test("a refused client that neither sends nor closes is cut", async (t) => {
  const { port, sockets } = await mount(t, new Lingering({ pauseMs: 50, totalMs: 600_000 }));
  const client = await connectRefused(port);
  await until("the server has cut the connection", () => sockets[0]?.destroyed === true);
  assert.equal(client.isGone, false); // the client did not close
  client.destroy();
});

test("the connection of a refused client ends when the client closes it", async (t) => {
  const { port } = await mount(t);
  const client = await connectRefused(port);
  assert.deepEqual(await client.rest(), []);
  client.halfClose();
  await until("the connection is gone", () => client.isGone);
});

test("refused clients beyond their maximum number are cut at once, until one has left", async (t) => {
  const { port } = await mount(t, new Lingering({ connectionsMax: 1, bytesMax: 1024 * MIB }));
  const first = await connectRefused(port);
  const second = await connectRefused(port);
  assert.ok((await sendUntilGone(second)) < 64 * MIB);
  await first.send(BLOCK, BLOCK, BLOCK);
  assert.equal(first.isGone, false);
  first.halfClose();
  await until("the first one is gone", () => first.isGone);
  const third = await connectRefused(port);
  for (let blocks = 0; blocks < 100; blocks++) await third.send(BLOCK);
  assert.equal(third.isGone, false);
  third.destroy();
});

test("a connection that is gone when its refusal is due does not count among the refused clients", async (t) => {
  const lingering = new Lingering({ connectionsMax: 1 });
  const gone = new net.Socket().destroy();
  await once(gone, "close");
  lingering.close(gone);
  const { port } = await mount(t, lingering);
  const client = await connectRefused(port);
  for (let blocks = 0; blocks < 100; blocks++) await client.send(BLOCK);
  assert.equal(client.isGone, false);
  client.destroy();
});

test("a refused client that still sends does not delay a stop", async (t) => {
  const service = await startService(t);
  const client = await Client.connect(service.port, true);
  await client.send(encodeRequest(service, headOf(1024 * MIB)));
  assert.equal(errorNumber(await client.next()), 41301);
  await Promise.all([service.server.close(600_000), sendUntilGone(client, "x")]);
});

test("a client that is refused during a stop is answered, and does not delay it", async (t) => {
  const { released, release } = makeLatch();
  const verify = t.mock.fn(async () => {
    await released;
    return undefined;
  });
  const { plants } = makePorts();
  const server = await PlantServer.start({ plants, tokens: { verify }, port: 0 });
  t.after(() => server.close(0));
  const client = await Client.connect(Number(new URL(server.url).port), true);
  await client.send(encodeRequest({ token: "bad" }, headOf(1024 * MIB)));
  await until("the token is looked up", () => verify.mock.callCount() === 1);
  const closing = t.mock.method(net.Server.prototype, "close");
  const closed = server.close(600_000);
  await until("the grace of the stop is over", () => closing.mock.callCount() > 0);
  release();
  assert.equal(errorNumber(await client.next()), 40102);
  await closed;
  await sendUntilGone(client);
});

test("a refused client that still sends does not delay the stop of a server in which the listener is mounted", {
  timeout: HANG_MS / 2, // the client gives up later
}, async () => {
  const { plants, tokens } = makePorts();
  const patient = new Lingering({ totalMs: 600_000, pauseMs: 600_000 });
  const listener = new Listener({ plants, tokens }, patient);
  const server = http
    .createServer((req, res) => listener.handleMounted(req, res))
    .listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as net.AddressInfo;
  const client = await connectRefused(port);
  const closed = new Promise((resolve) => server.close(resolve));
  await Promise.all([closed, sendUntilGone(client, "x")]);
});

for (const [what, head] of [
  ["of HTTP/1.0", { version: "HTTP/1.0" }],
  ["that asks for a close", { headers: { Connection: "close" } }],
  ["with a length of 0", { headers: { Connection: "close", "Content-Length": "0" } }],
] as const) {
  test(`a refused request without a body ${what} does not count among the refused clients`, async (t) => {
    const lingering = new Lingering({ connectionsMax: 1 });
    const { port, sockets } = await mount(t, lingering);
    const client = await Client.connect(port, true);
    const headers = { ...NO_TOKEN, ...("headers" in head ? head.headers : {}) };
    await client.send(encodeRequest({ token: "" }, { ...head, method: "GET", headers }));
    assert.equal(errorNumber(await client.next()), 40101);
    await until("the server has closed it", () => client.isClosed);
    assert.deepEqual(
      sockets.map((socket) => lingering.has(socket)),
      [false],
    );
    client.destroy();
  });
}

test("a mounted listener carries out no request that follows an offer of another protocol", async (t) => {
  const { created, plants, tokens } = makePorts();
  const { released, release } = makeLatch();
  const create: PlantService["create"] = (plant) => {
    created.push(plant.id);
    return released.then(() => "created");
  };
  const listener = createRequestListener({ plants: { ...plants, create }, tokens });
  const { port } = await serve(t, listener);
  const offer = { Connection: "Upgrade", Upgrade: "h2c" };
  const first = encodeRequest({ token: "good" }, { headers: offer, body: GOOD });
  const client = await Client.connect(port, true);
  // The parser drops the rest of this packet, and takes the text inside the header X for a request.
  await client.send(Buffer.concat([first, Buffer.from("GET /x HTTP/1.1\r\nHost: a\r\nX: ")]));
  await until("the first request is in flight", () => created.length === 1);
  await client.send(encodeRequest({ token: "good" }, { body: GOOD.replace("1", "2") }));
  release();
  assert.equal((await client.next()).status, 200);
  client.halfClose();
  assert.deepEqual(await client.rest(), []);
  await until("the server is done with it", () => client.isGone);
  assert.deepEqual(created, [1n]);
});

test("a client that is refused at once lingers longer than a request may take", async (t) => {
  const service = await startService(t, {
    requestTimeoutMs: 100,
    headerTimeoutMs: 100,
    connectionCheckIntervalMs: 10,
  });
  const client = await Client.connect(service.port, true);
  await client.send(encodeRequest(service, headOf(1024 * MIB)));
  assert.equal(errorNumber(await client.next()), 41301);
  // Meanwhile a request of another client that began at the same time meets its timeout.
  const other = await Client.connect(service.port, true);
  await other.send("POST /plants HTTP/1.1\r\n");
  assert.equal(errorNumber(await other.next()), 40801);
  for (let blocks = 0; blocks < 10; blocks++) await client.send(BLOCK);
  assert.equal(client.isGone, false);
  client.destroy();
  other.destroy();
});
