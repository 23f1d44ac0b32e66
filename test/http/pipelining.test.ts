/** What happens on one connection while something else does: a reset, a revocation, a create that takes long. */
import assert from "node:assert/strict";
import net from "node:net";
import { test } from "node:test";
import { promisify } from "node:util";
import { Client } from "../support/client.ts";
import { assertPlant, chunked, encodeRequest, plantBody, resultOf } from "../support/contract.ts";
import { parseAnswers } from "../support/raw.ts";
import { holdCreates, startService } from "../support/service.ts";
import { collectMessages } from "../support/watch.ts";

const GOOD = { body: plantBody(1) };
const SECOND = { body: plantBody(2) };
/** A request that is refused before its body arrives, with a response that closes the connection. */
const AMID = {
  headers: { Authorization: undefined, "Transfer-Encoding": "chunked" },
  body: chunked("{}"),
};
const OFFER = { headers: { Connection: "upgrade", Upgrade: "websocket" } };

test("a request that follows a refusal during a body is not read", async (t) => {
  const service = await startService(t);
  const started = collectMessages(t, "http.server.request.start");
  const rest = Array.from({ length: 2000 }, () => SECOND);
  const client = await Client.connect(service.port);
  await client.send(
    Buffer.concat([GOOD, AMID, ...rest].map((each) => encodeRequest(service, each))),
  );
  assert.deepEqual((await client.rest()).map(resultOf), [200, 40101]);
  assert.equal(started.length, 2);
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

test("a request after an offer that is not answered yet is not carried out either", async (t) => {
  const service = await startService(t);
  const { release } = holdCreates(t, service);
  const client = await Client.connect(service.port);
  await client.send(encodeRequest(service, { ...OFFER, ...GOOD }), encodeRequest(service, SECOND));
  release();
  assertPlant(await client.next(), { name: "plant 1" });
  assert.deepEqual(await client.rest(), []);
  assert.deepEqual(service.logLines(), [plantBody(1)]);
});
