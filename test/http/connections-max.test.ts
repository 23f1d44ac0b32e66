/** How many connections our own server has open at once. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { connectionsThatFit } from "../../src/http/listen.ts";
import type { DropMessage } from "../../src/index.ts";
import { startAdmin } from "../support/admin.ts";
import { makeCertificate, NEEDS_OPENSSL } from "../support/certificates.ts";
import { Client } from "../support/client.ts";
import { assertPlant, encodeRequest } from "../support/contract.ts";
import { startService } from "../support/service.ts";
import { collectMessages, collectWarnings, until } from "../support/watch.ts";

const KIB = 1024;
const MIB = 1024 * KIB;

const FITTING: readonly [files: number, heapMiB: number, connections: number][] = [
  [1024, 2048, 864],
  [65_536, 2048, 21_845],
  [65_536, 256, 2730],
  [1_048_576, 4096, 43_690],
  [Number.POSITIVE_INFINITY, 2048, 21_845],
  [320, 2048, 160],
  [120, 2048, 60],
  [1, 2048, 1],
];

for (const [files, heapMiB, connections] of FITTING) {
  test(`${files} open files and a heap of ${heapMiB} MiB allow ${connections} connections`, () => {
    assert.equal(connectionsThatFit(files, heapMiB * MIB, 48 * KIB), connections);
  });
}

test("connections beyond the limit are closed and counted, and the others are served", async (t) => {
  const admin = await startAdmin(t);
  const drops = collectMessages<DropMessage>(t, "plant-store:drop");
  const warnings = collectWarnings(t, "connectionsMax");
  const service = await startService(t, { connectionsMax: 2 });
  const clients = [await Client.connect(service.port), await Client.connect(service.port)] as const;
  for (let time = 0; time < 3; time++) {
    const late = await Client.connect(service.port);
    await late.rest().catch(() => {}); // closed, perhaps by a reset
  }
  assert.deepEqual(
    drops,
    Array.from({ length: 3 }, () => ({ connectionsMax: 2 })),
  );
  assert.equal(warnings.length, 1, "one warning for all");
  const { text } = await admin.get("/metrics");
  assert.match(text, /^plant_store_connections_dropped_total 3$/m);
  for (const client of clients) {
    await client.send(encodeRequest(service, { body: '{"id":1,"name":"x"}' }));
    assertPlant(await client.next(), { name: "x" });
  }
  clients[0].destroy();
  await until("there is room again", async () => {
    const next = await Client.connect(service.port);
    await next.send(encodeRequest(service, { body: '{"id":1,"name":"x"}' }));
    return next.next().then(
      () => true,
      () => false,
    );
  });
  clients[1].destroy();
});

test("a connection before the end of its TLS handshake counts", NEEDS_OPENSSL, async (t) => {
  const tls = makeCertificate(t, "localhost");
  const drops = collectMessages<DropMessage>(t, "plant-store:drop");
  const service = await startService(t, { connectionsMax: 1, tls });
  const silent = await Client.connect(service.port);
  await assert.rejects(Client.connectSecurely(service.port, tls.cert));
  assert.equal(drops.length, 1);
  silent.destroy();
});
