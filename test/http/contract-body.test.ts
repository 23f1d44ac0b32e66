/**
 * How a body arrives: in any pieces, with a length or in chunks, up to the
 * limit and beyond it, and what happens when the memory for bodies is used up.
 */
import assert from "node:assert/strict";
import { connect } from "node:net";
import { test } from "node:test";
import { createRequestListener, createToken } from "../../src/index.ts";
import { Client } from "../support/client.ts";
import {
  assertError,
  assertPlant,
  assertServes,
  chunked,
  chunkedRequest,
  encodeRequest,
  exchange,
  holdRoom,
  ownLines,
  resultOf,
} from "../support/contract.ts";
import { serve } from "../support/serve.ts";
import { startService } from "../support/service.ts";
import { until } from "../support/watch.ts";

// Characters of two, three and four bytes and an escape, so that some cuts fall inside them.
const PLANT = { name: "Gänse\u2028木🌱", tag: "\ud800\n" };
const BODY = Buffer.from('{"id":70e-1,"name":"Gänse\u2028木🌱","tag":"\\ud800\\n"}');
const LINES = ['{"id":7,"name":"Gänse\\u2028木🌱","tag":"\\ud800\\n"}'];

test("a body may be cut into two packets at any byte", async (t) => {
  const service = await startService(t);
  const request = encodeRequest(service, { body: BODY });
  const start = request.length - BODY.length;
  for (let cut = start; cut < request.length; cut++) {
    const parts = [request.subarray(0, cut), request.subarray(cut)];
    assertPlant(await exchange(service, parts), PLANT);
  }
  assert.deepEqual(ownLines(service), LINES);
});

test("a body may be cut into two chunks at any byte", async (t) => {
  const service = await startService(t);
  for (let cut = 1; cut < BODY.length; cut++) {
    const chunks = [BODY.subarray(0, cut), BODY.subarray(cut)];
    assertPlant(await exchange(service, chunkedRequest(service, ...chunks)), PLANT);
  }
  assert.deepEqual(ownLines(service), LINES);
});

function everyByte(bytes: Buffer): Buffer[] {
  return Array.from(bytes, (byte) => Buffer.from([byte]));
}

test("a whole request may arrive byte by byte", async (t) => {
  const service = await startService(t);
  const request = encodeRequest(service, { body: BODY });
  assertPlant(await exchange(service, everyByte(request)), PLANT);
  assert.deepEqual(ownLines(service), LINES);
});

test("a chunked request may arrive byte by byte, one byte a chunk", async (t) => {
  const service = await startService(t);
  const request = chunkedRequest(service, ...everyByte(BODY));
  assertPlant(await exchange(service, everyByte(request)), PLANT);
  assert.deepEqual(ownLines(service), LINES);
});

const SIZE = BODY.length.toString(16);

const CHUNKED_BODIES: readonly [what: string, body: string][] = [
  ["a chunk extension", `${SIZE};name=value\r\n${BODY}\r\n0\r\n\r\n`],
  ["a quoted chunk extension", `${SIZE};name="a;b"\r\n${BODY}\r\n0\r\n\r\n`],
  ["leading zeros in a chunk size", `000${SIZE}\r\n${BODY}\r\n0\r\n\r\n`],
  ["a chunk size in upper case", `${SIZE.toUpperCase()}\r\n${BODY}\r\n0\r\n\r\n`],
  ["a long last chunk", `${SIZE}\r\n${BODY}\r\n0000\r\n\r\n`],
  ["trailers", `${SIZE}\r\n${BODY}\r\n0\r\nContent-Type: text/plain\r\nX: y\r\n\r\n`],
];

test("everything that the chunked coding allows is accepted", async (t) => {
  for (const [what, body] of CHUNKED_BODIES) {
    await t.test(`a chunked body may have ${what}`, async (t) => {
      const service = await startService(t);
      const headers = { "Transfer-Encoding": "Chunked" };
      assertPlant(await exchange(service, { headers, body }), PLANT);
      assert.deepEqual(ownLines(service), LINES);
    });
  }
});

/** A plant in exactly this many bytes. */
function plantOf(bytes: number): string {
  return '{"id":1,"name":"x"}'.padEnd(bytes);
}

for (const [limit, bodyBytesMax] of [
  ["the default limit of 1 MiB", undefined],
  ["a limit of 100 bytes", 100],
] as const) {
  test(`a body may have ${limit} and not a byte more`, async (t) => {
    const service = await startService(t, bodyBytesMax === undefined ? {} : { bodyBytesMax });
    const max = bodyBytesMax ?? 1_048_576;
    const exact = plantOf(max);
    const longer = plantOf(max + 1);
    const half = max / 2;

    await t.test("exactly the limit with Content-Length is accepted", async () => {
      assertPlant(await exchange(service, { body: exact }), { name: "x" });
    });
    await t.test("exactly the limit in one chunk is accepted", async () => {
      assertPlant(await exchange(service, chunkedRequest(service, exact)), { name: "x" });
    });
    await t.test("exactly the limit in two chunks is accepted", async () => {
      const request = chunkedRequest(service, exact.slice(0, half), exact.slice(half));
      assertPlant(await exchange(service, request), { name: "x" });
    });
    await t.test("a byte more with Content-Length is answered 41301", async () => {
      assertError(await exchange(service, { body: longer }), 41301);
    });
    await t.test("a byte more in one chunk is answered 41301", async () => {
      assertError(await exchange(service, chunkedRequest(service, longer)), 41301);
    });
    await t.test("a byte more in a chunk of its own is answered 41301", async () => {
      assertError(await exchange(service, chunkedRequest(service, exact, " ")), 41301);
    });
    assert.deepEqual(ownLines(service), ['{"id":1,"name":"x"}']);
  });
}

const DECLARED_LENGTHS = ["1048577", "4294967296", "9007199254740993", "18446744073709551615"];

test("a length beyond the limit is refused before any of the body is there", async (t) => {
  const service = await startService(t);
  for (const length of DECLARED_LENGTHS) {
    await t.test(`Content-Length: ${length} is answered 41301`, async () => {
      const headers = { "Content-Length": length };
      const answer = await exchange(service, { headers });
      assertError(answer, 41301);
      assert.equal(answer.headers.get("connection"), "close");
    });
  }
});

test("a chunked body beyond the limit is refused before its end", async (t) => {
  const service = await startService(t, { bodyBytesMax: 100 });
  const endless = chunkedRequest(service, plantOf(101)).subarray(0, -"0\r\n\r\n".length);
  assertError(await exchange(service, endless), 41301);
});

test("creates that together pass pendingBytesMax are answered 50301 until there is room", async (t) => {
  const service = await startService(t, { pendingBytesMax: 6000 });
  const finish = await holdRoom(t, service);
  const body = plantOf(600);
  const second = await exchange(service, { body });
  assertError(second, 50301);
  assert.match(second.headers.get("retry-after") ?? "", /^[1-9][0-9]*$/);
  assertPlant(await finish(), { name: "held" });
  assertPlant(await exchange(service, { body }), { name: "x" });
});

test("while one token holds all that it is lent, another one still creates", async (t) => {
  const service = await startService(t, { pendingBytesMax: 320_000 });
  const other = { ...service, token: await createToken(service.folder, { name: "other" }) };
  await service.tokens.refresh();
  const clients: Client[] = [];
  const refused: number[] = [];
  // Each holds 31,024 bytes until it is answered.
  for (let id = 1; id <= 12; id++) {
    const client = await Client.connect(service.port);
    await client.send(encodeRequest(service, { body: plantOf(10_000) }).subarray(0, -1));
    client.next().then(
      (answer) => refused.push(resultOf(answer)),
      () => {},
    );
    clients.push(client);
  }
  await until("more than half of the memory is refused", () => refused.length === 7);
  assert.deepEqual(refused, Array(7).fill(50301));
  assertPlant(await exchange(other, { body: '{"id":100,"name":"y"}' }), { name: "y" });
  for (const client of clients) client.destroy();
});

test("the answer to a create holds memory until the client reads it or leaves", async (t) => {
  const MIB = 1024 * 1024;
  const service = await startService(t, { bodyBytesMax: 9 * MIB, pendingBytesMax: 64 * MIB });
  const other = { ...service, token: await createToken(service.folder, { name: "other" }) };
  await service.tokens.refresh();
  // An answer that is longer than the buffers of both sockets.
  const long = (id: number) => `{"id":${id},"name":"${"n".repeat(8 * MIB)}"}`;
  const socket = connect(service.port, "127.0.0.1").pause();
  t.after(() => socket.destroy());
  socket.write(encodeRequest(service, { body: long(1) }));
  await until("the plant is stored", async () => (await service.store.get(1n)) !== undefined);
  assertError(await service.post(long(2)), 50301);
  assert.equal(await service.store.get(2n), undefined);
  assertPlant(await exchange(other, { body: '{"id":3,"name":"y"}' }), { name: "y" });
  socket.destroy();
  await until("the memory has returned", async () => (await service.post(long(2))).status === 200);
});

test("a body in 30,000 chunks of one byte is stored, and other requests come in between", async (t) => {
  const service = await startService(t);
  const client = await Client.connect(service.port);
  const body = `{"id":1,"name":"x"}`.padEnd(30_000);
  const request = chunkedRequest(service, ...everyByte(Buffer.from(body)));
  const sending = client.send(request);
  assertPlant(await exchange(service, { body: '{"id":2,"name":"y"}' }), { name: "y" });
  await sending;
  assertPlant(await client.next(), { name: "x" });
  client.destroy();
});

test("long bodies are parsed one in a turn of the event loop", async (t) => {
  let turn = 0;
  let isOver = false;
  const count = () => {
    turn++;
    if (!isOver) setImmediate(count);
  };
  count();
  const turns: number[] = [];
  const create = async () => {
    turns.push(turn);
    return "created" as const;
  };
  const plants = { create, get: async () => undefined, async *list() {} };
  const tokens = { verify: () => ({ name: "a", scopes: ["write"] as const }) };
  const listener = createRequestListener({ plants, tokens });
  const { port } = await serve(t, listener);
  const request = encodeRequest({ token: "any" }, { body: plantOf(60_000) });
  const client = await Client.connect(port);
  // In one packet or two, so that several are whole at once.
  await client.send(Buffer.concat(Array.from({ length: 10 }, () => request)));
  for (let answered = 0; answered < 10; answered++) assertPlant(await client.next(), { name: "x" });
  isOver = true;
  client.destroy();
  assert.equal(new Set(turns).size, 10);
});

test("long bodies of different tokens take turns", async (t) => {
  const names: string[] = [];
  const create = async ({ name }: { readonly name: string }) => {
    names.push(name);
    return "created" as const;
  };
  const plants = { create, get: async () => undefined, async *list() {} };
  const tokens = { verify: (name: string) => ({ name, scopes: ["write"] as const }) };
  const { port } = await serve(t, createRequestListener({ plants, tokens }));
  const requestOf = (token: string) =>
    encodeRequest({ token }, { body: `{"id":1,"name":"${token}"}`.padEnd(40_000) });
  const clients = await Promise.all(Array.from({ length: 61 }, () => Client.connect(port)));
  const [one, ...many] = clients as [Client, ...Client[]];
  for (const client of clients) {
    await client.send(encodeRequest({ token: "first" }, { body: plantOf(100) })); // so it is accepted
    await client.next();
  }
  names.splice(0);
  await Promise.all(many.map((client) => client.send(requestOf("many"))));
  await one.send(requestOf("one"));
  assertPlant(await one.next(), { name: "one" });
  assert.ok(names.length < 30, `${names.length} before it`);
  for (const client of clients) client.destroy();
});

test("a body whose client leaves returns its memory", async (t) => {
  const service = await startService(t, { pendingBytesMax: 6000 });
  const body = plantOf(900);
  const request = encodeRequest(service, { body });
  // Each of these would keep the others out if its memory were not returned.
  for (let round = 0; round < 5; round++) {
    const client = await Client.connect(service.port);
    await client.send(request.subarray(0, -100));
    client.halfClose();
    assertError(await client.next(), 40001);
    await client.rest();
    client.destroy();
  }
  assertPlant(await exchange(service, { body }), { name: "x" });
});

test("a body that is longer than pendingBytesMax is accepted while no other is under way", async (t) => {
  const service = await startService(t, { pendingBytesMax: 6000 });
  const body = plantOf(5000);
  assertPlant(await exchange(service, { body }), { name: "x" });
  const finish = await holdRoom(t, service);
  assertError(await exchange(service, { body }), 50301);
  assertPlant(await finish(), { name: "held" });
});

test("a record for which the queue has no room is answered 50301", async (t) => {
  const service = await startService(t, { queueBytesMax: 200 });
  const client = await Client.connect(service.port);
  // In one packet, so that the second comes while the first waits.
  const requests = [1, 2].map((id) =>
    encodeRequest(service, { body: `{"id":${id},"name":"${"x".repeat(150)}"}` }),
  );
  await client.send(Buffer.concat(requests));
  assertPlant(await client.next(), { name: "x".repeat(150) });
  const answer = await client.next();
  assertError(answer, 50301);
  assert.ok(answer.headers.has("retry-after"));
  client.destroy();
  // A record of any length is accepted if nothing else waits.
  const name = "y".repeat(300);
  assertPlant(await exchange(service, { body: `{"id":3,"name":"${name}"}` }), { name });
});

test("more requests than pendingRequestsMax are answered 50301 until there is room", async (t) => {
  const service = await startService(t, { pendingRequestsMax: 1 });
  const first = await Client.connect(service.port);
  const request = encodeRequest(service, { body: plantOf(100) });
  await first.send(request.subarray(0, -10));
  const body = '{"id":2,"name":"y"}';
  const busy = await Client.connect(service.port);
  await busy.send(encodeRequest(service, { body }));
  assertError(await busy.next(), 50301);
  busy.destroy();
  await first.send(request.subarray(-10));
  assertPlant(await first.next(), { name: "x" });
  first.destroy();
  assertPlant(await exchange(service, { body }), { name: "y" });
});

test("a create with a long head counts as several requests in flight", async (t) => {
  const service = await startService(t, { pendingRequestsMax: 3 });
  const body = plantOf(100);
  const long = encodeRequest(service, { headers: { X: "x".repeat(15_000) }, body });
  const first = await Client.connect(service.port);
  await first.send(long.subarray(0, -10));
  const second = await Client.connect(service.port);
  await second.send(encodeRequest(service, { body }));
  assertError(await second.next(), 50301);
  await first.send(long.subarray(-10));
  assertPlant(await first.next(), { name: "x" });
  // All of its memory was returned.
  for (const client of [first, second]) {
    await client.send(long);
    assertPlant(await client.next(), { name: "x" });
    client.destroy();
  }
});

test("an unauthenticated body is answered before it is sent, and never read to its end", async (t) => {
  const service = await startService(t);
  const total = 256 * 1024 * 1024;
  const block = Buffer.alloc(64 * 1024, " ");
  for (const [how, method, headers, part] of [
    ["with Content-Length", "POST", { "Content-Length": String(total) }, block],
    ["in chunks", "POST", { "Transfer-Encoding": "chunked" }, chunked(block).subarray(0, -5)],
    ["of HEAD with Content-Length", "HEAD", { "Content-Length": String(total) }, block],
    [
      "of HEAD in chunks",
      "HEAD",
      { "Transfer-Encoding": "chunked" },
      chunked(block).subarray(0, -5),
    ],
  ] as const) {
    await t.test(`a body of 256 MiB ${how}`, async () => {
      const client = await Client.connect(service.port);
      await client.send(
        encodeRequest(service, { method, headers: { ...headers, Authorization: undefined } }),
      );
      const head = await client.head();
      assert.match(head, /^HTTP\/1\.1 401 /);
      let sent = 0;
      while (sent < total && !client.isGone) {
        await client.send(part);
        sent += block.length;
      }
      client.destroy();
      assert.ok(sent < total, "the server read all of it");
      await assertServes(service);
    });
  }
});
