/** The drain: which requests a stopping server answers, waits for and cuts. */
import assert from "node:assert/strict";
import { once } from "node:events";
import net from "node:net";
import { test } from "node:test";
import { Client } from "../support/client.ts";
import { assertPlant, encodeRequest, plantBody } from "../support/contract.ts";
import { holdCreates, startService } from "../support/service.ts";
import { until } from "../support/watch.ts";

const GOOD = { body: plantBody(1) };
const SECOND = { body: plantBody(2) };

test("a request that arrives during a drain gets Connection: close", async (t) => {
  const service = await startService(t);
  const client = await Client.connect(service.port);
  await client.send(encodeRequest(service, GOOD));
  assertPlant(await client.next(), { name: "plant 1" });

  const closed = service.server.close();
  await client.send(encodeRequest(service, SECOND));
  const answer = await client.next();
  assertPlant(answer, { name: "plant 2" });
  assert.equal(answer.headers.get("connection"), "close");
  assert.deepEqual(await client.rest(), []);
  await closed;
  await assert.rejects(Client.connect(service.port), { code: "ECONNREFUSED" });
  assert.deepEqual(service.logLines(), [plantBody(1), plantBody(2)]);
});

/** A drain in these tests must not meet its deadline. */
const PATIENT_MS = 600_000;

test("a drain responds to the request before half a head, and does not wait for the rest", async (t) => {
  const service = await startService(t);
  const { release, count } = holdCreates(t, service);
  const half = encodeRequest(service, SECOND).subarray(0, 40);
  const client = await Client.connect(service.port);
  await client.send(Buffer.concat([encodeRequest(service, GOOD), half]));
  await until("it is in flight", () => count() === 1);
  const others: Client[] = [];
  for (const sent of ["", half, Buffer.concat([Buffer.from("\r\n"), half])]) {
    const other = await Client.connect(service.port);
    await other.send(sent);
    others.push(other);
  }
  const closed = service.server.close(PATIENT_MS);
  for (const other of others) assert.deepEqual(await other.rest(), []); // two polls have passed
  assert.equal(client.isClosed, false);
  release();
  const [answer, ...more] = await client.rest();
  assert.ok(answer !== undefined);
  assertPlant(answer, { name: "plant 1" });
  assert.deepEqual(more, []);
  await closed;
});

test("a drain ends with a stream that began before it", async (t) => {
  const service = await startService(t);
  const name = "x".repeat(100_000);
  const ids = Array.from({ length: 200 }, (_, id) => BigInt(id));
  await Promise.all(ids.map((id) => service.store.create({ id, name })));
  const { port, server } = service;
  const socket = net.connect(port, "127.0.0.1");
  const headers = { Accept: "application/x-ndjson" };
  socket.write(encodeRequest(service, { method: "GET", headers }));
  await once(socket, "readable"); // more than the buffers of the sockets hold
  const closed = server.close(PATIENT_MS);
  const text = Buffer.concat(await socket.toArray()).toString("latin1");
  assert.equal(text.split('"id":').length - 1, ids.length);
  assert.ok(text.endsWith("\r\n0\r\n\r\n"));
  await closed;
});

test("a stop ends at its deadline, even if clients connect meanwhile", async (t) => {
  for (const deadlineMs of [0, 50]) {
    const service = await startService(t);
    let isOver = false;
    const connect = async () => {
      while (!isOver) {
        const client = await Client.connect(service.port).catch(() => undefined);
        await client?.send(encodeRequest(service, GOOD).subarray(0, -1));
      }
    };
    const connecting = Array.from({ length: 8 }, connect);
    await service.server.close(deadlineMs);
    isOver = true;
    await Promise.all(connecting);
  }
});
