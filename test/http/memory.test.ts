/**
 * What requests hold in memory until they are answered: how it is shared between clients, given back, and
 * refused with 50301; and that long bodies wait for each other.
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
  encodeRequest,
  holdRoom,
  resultOf,
} from "../support/contract.ts";
import { NO_READS } from "../support/plants.ts";
import { postPlant } from "../support/post.ts";
import { serve } from "../support/serve.ts";
import { startService } from "../support/service.ts";
import { until } from "../support/watch.ts";

/** A plant in exactly this many bytes. */
function plantOf(bytes: number): string {
  return '{"id":1,"name":"x"}'.padEnd(bytes);
}

test("creates that together pass pendingBytesMax are answered 50301 until there is room", async (t) => {
  const service = await startService(t, { pendingBytesMax: 6000 });
  const finish = await holdRoom(t, service);
  const body = plantOf(600);
  assertError(await service.post(body), 50301);
  assertPlant(await finish(), { name: "held" });
  assertPlant(await service.post(body), { name: "x" });
});

test("while one token holds all that it is lent, another one still creates", async (t) => {
  const service = await startService(t, { pendingBytesMax: 320_000 });
  const other = await createToken(service.folder, { name: "other" });
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
  assertPlant(await postPlant(service.url, other, '{"id":100,"name":"y"}'), { name: "y" });
  for (const client of clients) client.destroy();
});

test("the answer to a create holds memory until the client reads it or leaves", async (t) => {
  const MIB = 1024 * 1024;
  const service = await startService(t, { bodyBytesMax: 4 * MIB, pendingBytesMax: 32 * MIB });
  const other = await createToken(service.folder, { name: "other" });
  await service.tokens.refresh();
  // An answer that is longer than the buffers of both sockets.
  const long = (id: number) => `{"id":${id},"name":"${"n".repeat(4 * MIB - 100)}"}`;
  const socket = connect(service.port, "127.0.0.1").pause();
  t.after(() => socket.destroy());
  socket.write(encodeRequest(service, { body: long(1) }));
  await until("the plant is stored", async () => (await service.store.get(1n)) !== undefined);
  assertError(await service.post(long(2)), 50301);
  assert.equal(await service.store.get(2n), undefined);
  assertPlant(await postPlant(service.url, other, '{"id":3,"name":"y"}'), { name: "y" });
  socket.destroy();
  await until("the memory has returned", async () => (await service.post(long(2))).status === 200);
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
  const plants = { create, ...NO_READS };
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
  const plants = { create, ...NO_READS };
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
  assertPlant(await service.post(body), { name: "x" });
});

test("a body that is longer than pendingBytesMax is accepted while no other is under way", async (t) => {
  const service = await startService(t, { pendingBytesMax: 6000 });
  const body = plantOf(5000);
  assertPlant(await service.post(body), { name: "x" });
  const finish = await holdRoom(t, service);
  assertError(await service.post(body), 50301);
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
  assertPlant(await service.post(`{"id":3,"name":"${name}"}`), { name });
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
  assertPlant(await service.post(body), { name: "y" });
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
