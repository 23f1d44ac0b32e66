/** Limits of time and memory that take a while to reach. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { RequestMessage } from "../../src/index.ts";
import { Client, sendRaw } from "../support/client.ts";
import {
  assertError,
  assertPlant,
  encodeRequest,
  plantBody,
  resultOf,
} from "../support/contract.ts";
import { holdCreates, startService } from "../support/service.ts";
import { collectMessages, until } from "../support/watch.ts";

const GOOD = { body: plantBody(1) };
const SECOND = { body: plantBody(2) };
const NO_TOKEN = { headers: { Authorization: undefined } };

/** Much longer than a whole request takes on a busy machine, so that none of them is late. */
const LIMITS = { requestTimeoutMs: 1000 };

test("a request that got 408 is not carried out when its rest arrives", async (t) => {
  const service = await startService(t, LIMITS);
  const { release } = holdCreates(t, service);
  const messages = collectMessages<RequestMessage>(t, "plant-store:request");
  const client = await Client.connect(service.port);
  const second = encodeRequest(service, SECOND);
  await client.send(Buffer.concat([encodeRequest(service, GOOD), second.subarray(0, 30)]));
  await until("its time has run out", () => messages.some(({ status }) => status === 408));
  await client.send(second.subarray(30));
  const other = await Client.connect(service.port);
  await other.send(encodeRequest(service, { method: "GET", target: "/nowhere" }));
  assertError(await other.next(), 40401); // what was sent before has been read
  other.destroy();
  release();
  assert.deepEqual((await client.rest()).map(resultOf), [200, 40801]);
  assert.deepEqual(service.logLines(), [GOOD.body]);
});

test("a request that takes too long gets 40801, and its connection closes", async (t) => {
  const service = await startService(t, LIMITS);
  const whole = encodeRequest(service, GOOD);
  const headers = { "Transfer-Encoding": "chunked" };
  const cases: readonly [what: string, bytes: Buffer, ...results: number[]][] = [
    ["half a head", whole.subarray(0, 30), 40801],
    ["a head without its body", whole.subarray(0, -GOOD.body.length), 40801],
    ["half a chunk", encodeRequest(service, { headers, body: "2\r\n{}\r\n" }), 40801],
    ["half of a second one", Buffer.concat([whole, whole.subarray(0, -1)]), 200, 40801],
    ["a bad token", encodeRequest(service, { ...NO_TOKEN, ...GOOD }).subarray(0, -1), 40101],
  ];
  const sending = cases.map(async ([what, bytes, ...results]) => {
    assert.deepEqual((await sendRaw(service.port, bytes)).map(resultOf), results, what);
  });
  await Promise.all(sending);
  assertPlant(await service.post(plantBody(9)), { name: "plant 9" });
});

test("an idle connection is closed without a response, and one with a create in flight is not", async (t) => {
  const service = await startService(t, { keepAliveTimeoutMs: 500 });
  const { release, count } = holdCreates(t, service);
  const client = await Client.connect(service.port);
  await client.send(encodeRequest(service, GOOD));
  await until("it is in flight", () => count() === 1);
  const idle = await Client.connect(service.port);
  assert.deepEqual(await idle.rest(), []); // so the other one had its time
  release();
  assertPlant(await client.next(), { name: "plant 1" });
  assert.deepEqual(await client.rest(), []);
});
