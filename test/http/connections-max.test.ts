/** How many connections our own server has open at once, and which one makes room. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { createToken } from "../../src/index.ts";
import { makeCertificate, NEEDS_OPENSSL } from "../support/certificates.ts";
import { Client } from "../support/client.ts";
import { assertError, assertPlant, encodeRequest } from "../support/contract.ts";
import type { RawAnswer } from "../support/raw.ts";
import { type Service, startService } from "../support/service.ts";
import { collectWarnings } from "../support/watch.ts";

function create(service: Service, token = service.token): Buffer {
  return encodeRequest({ token }, { body: '{"id":1,"name":"x"}' });
}

/** Sends a create, and returns its answer. */
async function ask(client: Client, request: Buffer): Promise<RawAnswer> {
  await client.send(request);
  return client.next();
}

async function closed(client: Client): Promise<void> {
  await client.rest().catch(() => {}); // perhaps by a reset
}

/** Connects, and shows a token. */
async function connectKnown(t: TestContext, service: Service, token?: string): Promise<Client> {
  const client = await Client.connect(service.port);
  t.after(() => client.destroy());
  assertPlant(await ask(client, create(service, token)), { name: "x" });
  return client;
}

test("when connections are full, the oldest without a good token makes room", async (t) => {
  const warnings = collectWarnings(t, "connectionsMax");
  const service = await startService(t, { connectionsMax: 5 });
  const good = [await connectKnown(t, service), await connectKnown(t, service)];
  const silent = await Client.connect(service.port);
  const bad = await Client.connect(service.port);
  assertError(await ask(bad, create(service, "pst_unknown")), 40102);
  const late = await Client.connect(service.port);
  good.push(await connectKnown(t, service));
  await closed(silent);
  const later = await Client.connect(service.port);
  await closed(bad);
  for (const client of good) assertPlant(await ask(client, create(service)), { name: "x" });
  assert.equal(warnings.length, 1, "one warning for all");
  for (const client of [late, later]) client.destroy();
});

test("the client with the most connections loses its oldest", async (t) => {
  const service = await startService(t, { connectionsMax: 5 });
  const other = await createToken(service.folder, { name: "other" });
  await service.tokens.refresh();
  const many: Client[] = [];
  for (let n = 0; n < 5; n++) many.push(await connectKnown(t, service));
  const others = [await connectKnown(t, service, other), await connectKnown(t, service, other)];
  for (const client of many.slice(0, 2)) await closed(client);
  for (const client of many.slice(2))
    assertPlant(await ask(client, create(service)), { name: "x" });
  for (const client of others) {
    assertPlant(await ask(client, create(service, other)), { name: "x" });
  }
});

test("of clients with one connection each, the oldest makes room", async (t) => {
  const service = await startService(t, { connectionsMax: 2 });
  const oldest = await connectKnown(t, service);
  for (const name of ["a", "b"]) {
    const token = await createToken(service.folder, { name });
    await service.tokens.refresh();
    await connectKnown(t, service, token);
  }
  await closed(oldest);
});

test(
  "under TLS a silent handshake makes room, then a finished one without a good token",
  NEEDS_OPENSSL,
  async (t) => {
    const tls = makeCertificate(t, "localhost");
    const service = await startService(t, { connectionsMax: 2, tls });
    const known = await Client.connectSecurely(service.port, tls.cert);
    assertPlant(await ask(known, create(service)), { name: "x" });
    const shaking = await Client.connect(service.port);
    const finished = await Client.connectSecurely(service.port, tls.cert);
    await closed(shaking);
    const last = await Client.connectSecurely(service.port, tls.cert);
    await closed(finished);
    for (const client of [last, known]) {
      assertPlant(await ask(client, create(service)), { name: "x" });
    }
    for (const client of [last, known]) client.destroy();
  },
);
