/** What requests hold in memory until the system has their responses: how it is given back, and refused with 50301. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, sendRaw } from "../support/client.ts";
import {
  assertError,
  assertPlant,
  chunked,
  encodeRequest,
  holdRoom,
  plantBody,
  resultOf,
} from "../support/contract.ts";
import { startService } from "../support/service.ts";

/** A plant in exactly this many bytes. */
function plantOf(bytes: number): string {
  return '{"id":1,"name":"x"}'.padEnd(bytes);
}

/** More than half of this cannot be held by one token. */
const KIB = 1024;

test("a body that needs more than its share of pendingBytesMax is accepted, and gets 50301 beside another one", async (t) => {
  const service = await startService(t, { pendingBytesMax: 32 * KIB });
  const body = plantOf(20 * KIB);
  assertPlant(await service.post(body), { name: "x" });
  const chunks = { headers: { "Transfer-Encoding": "chunked" }, body: chunked(body, body) };
  const [refused] = await sendRaw(service.port, encodeRequest(service, chunks), 1);
  assert.equal(refused && resultOf(refused), 40003);
  const finish = await holdRoom(t, service);
  assertError(await service.post(body), 50301);
  assertPlant(await finish(), { name: "held" });
  assertPlant(await service.post(body), { name: "x" });
});

test("an unauthenticated body gets its response before it is sent, and is never read to its end", async (t) => {
  const service = await startService(t);
  const total = 256 * 1024 * 1024;
  const block = Buffer.alloc(64 * 1024, " ");
  for (const [headers, part] of [
    [{ "Content-Length": String(total) }, block],
    [{ "Transfer-Encoding": "chunked" }, chunked(block).subarray(0, -5)],
  ] as const) {
    const client = await Client.connect(service.port);
    const request = { headers: { ...headers, Authorization: undefined } };
    await client.send(encodeRequest(service, request));
    assertError(await client.next(), 40101);
    let sent = 0;
    while (sent < total && !client.isGone) {
      await client.send(part);
      sent += block.length;
    }
    client.destroy();
    assert.ok(sent < total, "the server read all of it");
    assertPlant(await service.post(plantBody(9)), { name: "plant 9" });
  }
});
