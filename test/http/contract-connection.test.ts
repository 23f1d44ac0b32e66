/**
 * What happens on one connection: requests in one packet, clients that are slow
 * or close their side, and connections that are asked to close or to change
 * their protocol.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import net from "node:net";
import { test } from "node:test";
import { promisify } from "node:util";
import type { NewPlant } from "../../src/core/plant.ts";
import { revokeToken } from "../../src/index.ts";
import { Client } from "../support/client.ts";
import {
  assertError,
  assertPlant,
  assertServes,
  chunked,
  encodeRequest,
  exchange,
  ownLines,
  plantBody,
  type RequestParts,
  resultOf,
} from "../support/contract.ts";
import { parseAnswers } from "../support/raw.ts";
import { type Service, startService } from "../support/service.ts";
import { collectMessages, makeLatch, until } from "../support/watch.ts";

/** Sends everything in one packet, and returns the answers until the server closes. */
async function pipeline(service: Service, requests: readonly (RequestParts | string)[]) {
  const bytes = requests.map((request) =>
    typeof request === "string" ? Buffer.from(request) : encodeRequest(service, request),
  );
  const client = await Client.connect(service.port);
  await client.send(Buffer.concat(bytes));
  const answers = await client.rest();
  client.destroy();
  await assertServes(service);
  return answers.map(resultOf);
}

const CLOSE = { headers: { Connection: "close" } };
const GOOD = { body: plantBody(1) };
const SECOND = { body: plantBody(2) };
const LAST = { ...CLOSE, body: plantBody(3) };
const GARBAGE = "garbage\r\n\r\n";
const NO_TOKEN = { headers: { Authorization: undefined } };
/** A request that is refused before its body arrives, with an answer that closes the connection. */
const AMID = {
  headers: { Authorization: undefined, "Transfer-Encoding": "chunked" },
  body: chunked("{}"),
};
const CONNECT = { method: "CONNECT" };
const OFFER = { headers: { Connection: "upgrade", Upgrade: "websocket" } };

const PIPELINES: readonly [
  what: string,
  requests: readonly (RequestParts | string)[],
  results: readonly number[],
  stored: readonly number[],
][] = [
  [
    "three creates are answered and stored in order",
    [GOOD, SECOND, LAST],
    [200, 200, 200],
    [1, 2, 3],
  ],
  ["a replay waits for its create", [GOOD, GOOD, LAST], [200, 200, 200], [1, 3]],
  [
    "a refusal waits for the create before it",
    [GOOD, { method: "PUT" }, LAST],
    [200, 40501, 200],
    [1, 3],
  ],
  [
    "nothing in the packet of a refused token is",
    [{ ...NO_TOKEN, body: plantBody(1) }, LAST],
    [40101],
    [],
  ],
  ["nor after a refused one without a body", [{ ...NO_TOKEN, method: "GET" }, LAST], [40101], []],
  ["nor after a good one and a refused one", [GOOD, NO_TOKEN, SECOND, LAST], [200, 40101], [1]],
  ["garbage after a refused token is not answered", [NO_TOKEN, SECOND, GARBAGE], [40101], []],
  [
    "a create may follow an unknown path",
    [{ target: "/", body: plantBody(1) }, LAST],
    [40401, 200],
    [3],
  ],
  ["a create may follow a bad body", [{ body: "{" }, LAST], [40003, 200], [3]],
  ["a create may follow a request without a body", [{ method: "DELETE" }, LAST], [40501, 200], [3]],
  ["garbage after a create is refused after its answer", [GOOD, GARBAGE], [200, 40001], [1]],
  ["nothing after garbage is carried out", [GOOD, GARBAGE, LAST], [200, 40001], [1]],
  ["nothing after a bad Host is carried out", [{ headers: { Host: "a b" } }, LAST], [40001], []],
  ["nothing after large headers is", [{ headers: { X: "x".repeat(20_000) } }, LAST], [43101], []],
  ["nothing after Connection: close is", [{ ...CLOSE, body: plantBody(1) }, SECOND], [200], [1]],
  [
    "a create may follow an option of a connection that only resembles close",
    [{ headers: { Connection: "x-close" }, body: plantBody(1) }, LAST],
    [200, 200],
    [1, 3],
  ],
  [
    "garbage after Connection: close is not answered",
    [{ ...CLOSE, body: plantBody(1) }, GARBAGE],
    [200],
    [1],
  ],
  ["CONNECT after Connection: close is not answered", [LAST, CONNECT], [200], [3]],
  ["nothing after HTTP/1.0 is carried out", [{ version: "HTTP/1.0", ...GOOD }, SECOND], [200], [1]],
  ["nothing after CONNECT is carried out", [CONNECT, LAST], [], []],
  ["nothing after a refusal amid a body is", [GOOD, AMID, SECOND, LAST], [200, 40101], [1]],
  ["CONNECT after that is not answered", [GOOD, AMID, SECOND, CONNECT, LAST], [200, 40101], [1]],
  ["nor an offer of another protocol", [GOOD, AMID, SECOND, OFFER, LAST], [200, 40101], [1]],
];

test("requests in one packet are answered in order", async (t) => {
  for (const [what, requests, results, stored] of PIPELINES) {
    await t.test(what, async (t) => {
      const service = await startService(t);
      assert.deepEqual(await pipeline(service, requests), results);
      assert.deepEqual(ownLines(service), stored.map(plantBody));
    });
  }
});

test("nothing after a refusal that Node closes by itself is carried out", async (t) => {
  const service = await startService(t);
  const headers = { Expect: "100-continue", "Content-Length": "0" };
  assert.deepEqual(await pipeline(service, [{ target: "/", headers }, LAST]), [40401]);
  assert.deepEqual(ownLines(service), []);
});

test("a request that follows a refusal during a body is not read", async (t) => {
  const service = await startService(t);
  const started = collectMessages(t, "http.server.request.start");
  const rest = Array.from({ length: 2000 }, () => SECOND);
  assert.deepEqual(await pipeline(service, [GOOD, AMID, ...rest]), [200, 40101]);
  assert.equal(started.length, 2 + 1); // and one that checks the service afterwards
});

for (const [where, before] of [
  ["directly", []],
  ["later", [SECOND]],
] as const) {
  test(`a client that sends everything before it reads gets the refusal, with a long body ${where} after it`, async (t) => {
    const service = await startService(t);
    const long = { body: Buffer.alloc(32 * 1024 * 1024) };
    const requests = [AMID, ...before, long].map((each) => encodeRequest(service, each));
    const socket = net.connect(service.port, "127.0.0.1").pause();
    await promisify<Buffer, void>(socket.write).call(socket, Buffer.concat(requests));
    const [answer] = parseAnswers(Buffer.concat(await socket.toArray()));
    assert.equal(answer && resultOf(answer), 40101);
  });
}

test("sixteen creates in one packet are answered and stored in order", async (t) => {
  const service = await startService(t);
  const client = await Client.connect(service.port);
  const plants = Array.from({ length: 16 }, (_, index) => plantBody(index));
  await client.send(Buffer.concat(plants.map((body) => encodeRequest(service, { body }))));
  for (const index of plants.keys()) {
    assertPlant(await client.next(), { name: `plant ${index}` });
  }
  assert.deepEqual(ownLines(service), plants);
  await assertServes(service, client);
  client.destroy();
});

test("a client that does not wait for the answer to a preflight is closed", async (t) => {
  const service = await startService(t, { corsOrigins: ["*"] });
  const headers = { Origin: "https://app.example", "Access-Control-Request-Method": "POST" };
  const preflight = encodeRequest(service, { method: "OPTIONS", headers });
  const client = await Client.connect(service.port);
  await client.send(Buffer.concat([preflight, preflight, encodeRequest(service, GOOD)]));
  assert.deepEqual(
    (await client.rest()).map(({ status }) => status),
    [204],
  );
  assert.deepEqual(service.logLines(), []);
});

test("a client that waits for each answer may send a wrong token and then a valid one", async (t) => {
  const service = await startService(t);
  const client = await Client.connect(service.port);
  for (const [parts, result] of [
    [{ ...NO_TOKEN, ...GOOD }, 40101],
    [{ ...NO_TOKEN, method: "GET" }, 40101],
    [GOOD, 200],
    [{ headers: { Authorization: "Bearer wrong" }, ...SECOND }, 40102],
    [SECOND, 200],
  ] as const) {
    const request = encodeRequest(service, parts);
    // In two packets, so that a refused request may be answered before its body arrives.
    await client.send(request.subarray(0, -3), request.subarray(-3));
    assert.equal(resultOf(await client.next()), result);
  }
  client.destroy();
});

test("no request of a client that has reset the connection is carried out", async (t) => {
  const service = await startService(t);
  const answered = collectMessages(t, "plant-store:request");
  const request = encodeRequest(service, { method: "GET", target: "/nowhere" });
  const socket = net.connect(service.port, "127.0.0.1");
  await once(socket, "connect");
  await assertServes(service); // the server has accepted both
  const before = answered.length;
  socket.write(Buffer.concat(Array.from({ length: 500 }, () => request)));
  socket.resetAndDestroy(); // both in one turn of the event loop, so the server, in this process, reads later
  await once(socket, "close");
  await assertServes(service);
  assert.ok(answered.length - before < 10, `${answered.length - before} were answered`);
});

test("a create whose token is revoked before its body has arrived stores nothing", async (t) => {
  const service = await startService(t);
  const request = encodeRequest(service, GOOD);
  const client = await Client.connect(service.port);
  await client.send(request.subarray(0, -1));
  await assertServes(service); // by now the head of the first create was judged
  await revokeToken(service.folder, "test");
  await until(
    "the server knows about the revocation",
    async () => (await service.post(SECOND.body)).status === 401,
  );
  await client.send(request.subarray(-1));
  assertError(await client.next(), 40102);
  assert.ok(!ownLines(service).includes(GOOD.body));
  client.destroy();
});

test("HTTP/1.0 needs no Host, and its connection stays open only on request", async (t) => {
  const service = await startService(t);
  for (const connection of [undefined, "close", "keep-alive"]) {
    const headers = { Host: undefined, Connection: connection };
    const answer = await exchange(service, { version: "HTTP/1.0", headers, ...GOOD });
    assertPlant(answer, { name: "plant 1" });
    assert.equal(answer.headers.get("connection"), connection ?? "close");
  }
  assertError(await exchange(service, { version: "HTTP/1.0", ...NO_TOKEN }), 40101);
});

test("an offer of another protocol is ignored", async (t) => {
  const service = await startService(t);
  for (const upgrade of ["h2c", "websocket", "TLS/1.0", "x/1, y/2"]) {
    await t.test(`Upgrade: ${upgrade}`, async () => {
      const headers = { Connection: "Upgrade, HTTP2-Settings", Upgrade: upgrade };
      assertPlant(await exchange(service, { headers, ...GOOD }), { name: "plant 1" });
      assertError(await exchange(service, { method: "PUT", headers }), 40501);
    });
  }
});

test("an Upgrade that the Connection header does not name keeps the connection open", async (t) => {
  const service = await startService(t);
  const client = await Client.connect(service.port);
  for (const connection of [undefined, "keep-alive"]) {
    const headers = { Connection: connection, Upgrade: "h2c" };
    await client.send(encodeRequest(service, { headers, ...GOOD }));
    const answer = await client.next();
    assertPlant(answer, { name: "plant 1" });
    assert.equal(answer.headers.get("connection"), "keep-alive");
  }
  client.destroy();
});

test("after an offer of another protocol nothing is carried out, and the connection closes", async (t) => {
  const service = await startService(t);
  const offer = encodeRequest(service, {
    headers: { Connection: "upgrade", Upgrade: "h2c" },
    ...GOOD,
  });
  const next = encodeRequest(service, SECOND);
  for (const [what, following, late] of [
    ["a request in the same packet", next, undefined],
    ["a request in the next packet", Buffer.alloc(0), next],
    ["one whose body is itself a request", next.subarray(0, -plantBody(2).length), next],
    ["one that is cut in two", next.subarray(0, 40), next.subarray(40)],
  ] as const) {
    await t.test(`${what} is not carried out`, async () => {
      const client = await Client.connect(service.port);
      await client.send(Buffer.concat([offer, following]));
      const answer = await client.next();
      assertPlant(answer, { name: "plant 1" });
      assert.equal(answer.headers.get("connection"), "close");
      if (late !== undefined) await client.send(late);
      assert.deepEqual(await client.rest(), []);
      await assertServes(service);
    });
  }
  assert.deepEqual(ownLines(service), [plantBody(1)]);
});

test("a request after an offer that is not answered yet is not carried out either", async (t) => {
  const service = await startService(t);
  const create = service.store.create.bind(service.store);
  const { released, release } = makeLatch();
  t.mock.method(service.store, "create", async (plant: NewPlant) => {
    await released;
    return create(plant);
  });
  const client = await Client.connect(service.port);
  await client.send(encodeRequest(service, { ...OFFER, ...GOOD }), encodeRequest(service, SECOND));
  release();
  assertPlant(await client.next(), { name: "plant 1" });
  assert.deepEqual(await client.rest(), []);
  assert.deepEqual(ownLines(service), [plantBody(1)]);
});

test("a client that closes its side during a request is answered 40001", async (t) => {
  const service = await startService(t);
  const whole = encodeRequest(service, GOOD);
  const headers = { "Transfer-Encoding": "chunked" };
  for (const [what, bytes, results] of [
    ["nothing", Buffer.alloc(0), []],
    ["half a method", whole.subarray(0, 2), [40001]],
    ["half a head", whole.subarray(0, 30), [40001]],
    ["a head without its body", whole.subarray(0, -GOOD.body.length), [40001]],
    ["all but the last byte", whole.subarray(0, -1), [40001]],
    [
      "a chunk without the last one",
      encodeRequest(service, { headers, body: "2\r\n{}\r\n" }),
      [40001],
    ],
    ["a create and half of another", Buffer.concat([whole, whole.subarray(0, -1)]), [200, 40001]],
  ] as const) {
    await t.test(`after ${what}`, async () => {
      const client = await Client.connect(service.port);
      await client.send(bytes);
      client.halfClose();
      assert.deepEqual((await client.rest()).map(resultOf), results);
      await assertServes(service);
    });
  }
});
