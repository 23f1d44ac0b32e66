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

function limits(files: number | "unlimited"): string {
  return `Limit                     Soft Limit           Hard Limit           Units
Max processes             7                    7                    processes
Max open files            ${String(files).padEnd(20)} 1048576              files
`;
}

const FITTING: readonly [limits: string, heapMiB: number, connections: number][] = [
  [limits(1024), 2048, 864],
  [limits(65_536), 2048, 21_845],
  [limits(65_536), 256, 2730],
  [limits(1_048_576), 4096, 43_690],
  [limits("unlimited"), 2048, 21_845],
  ["", 2048, 21_845],
  [limits(320), 2048, 160],
  [limits(120), 2048, 60],
  [limits(1), 2048, 1],
];

for (const [text, heapMiB, connections] of FITTING) {
  const files = /open files +(\w+)/.exec(text)?.[1] ?? "an unknown number of";
  test(`${files} open files and a heap of ${heapMiB} MiB allow ${connections} connections`, () => {
    assert.equal(connectionsThatFit(text, heapMiB * MIB, 48 * KIB), connections);
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
