/** What many or hostile clients of the admin listener may cost. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { DropMessage, RequestMessage } from "../../src/index.ts";
import { startAdmin } from "../support/admin.ts";
import { Client } from "../support/client.ts";
import { assertError } from "../support/contract.ts";
import { errorNumber } from "../support/service.ts";
import { collectMessages, collectWarnings } from "../support/watch.ts";

const CONNECTIONS_MAX = 100;

async function connectTo(t: TestContext, url: string): Promise<Client> {
  const client = await Client.connect(Number(new URL(url).port));
  t.after(() => client.destroy());
  return client;
}

function get(path: string): string {
  return `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`;
}

for (const path of ["/openapi.json", "/metrics"]) {
  test(`of 1,600 requests for ${path} in one packet the first is answered and the second refused`, async (t) => {
    const admin = await startAdmin(t);
    const client = await connectTo(t, admin.server.url);
    await client.send(get(path).repeat(1600));
    assert.equal((await client.next()).status, 200);
    const refusal = await client.next();
    assertError(refusal, 50301);
    assert.equal(refusal.headers.get("connection"), "close");
    assert.deepEqual(await client.rest(), []);
  });
}

test("requests that follow each other on one connection are all answered", async (t) => {
  const admin = await startAdmin(t);
  const client = await connectTo(t, admin.server.url);
  for (let time = 0; time < 3; time++) {
    await client.send(get("/metrics"));
    assert.equal((await client.next()).status, 200);
  }
});

for (const path of ["/metrics", "/status.json"]) {
  test(`${path} is made once for all who ask within a tenth of a second`, async (t) => {
    let now = Math.ceil(performance.now()); // else a difference of 100 may be a little less
    t.mock.method(performance, "now", () => now);
    const admin = await startAdmin(t);
    const listed = t.mock.method(admin.status, "tokens");
    const asked = t.mock.method(admin.status, "free");
    for (const [laterMs, made] of [
      [0, 1],
      [99, 1],
      [1, 2],
      [99, 2],
    ] as const) {
      now += laterMs;
      const answers = await Promise.all([admin.get(path), admin.get(path)]);
      for (const { status } of answers) assert.equal(status, 200);
      assert.deepEqual([listed.mock.callCount(), asked.mock.callCount()], [made, made]);
    }
  });
}

test("/readyz asks the disk once for all who ask within a tenth of a second", async (t) => {
  const now = performance.now();
  t.mock.method(performance, "now", () => now);
  const admin = await startAdmin(t);
  admin.status.known = { plants: 7, queueBytes: 0, refusedMsAgo: 0 };
  const asked = t.mock.method(admin.status, "free");
  for (let time = 0; time < 3; time++) assert.equal((await admin.get("/readyz")).status, 503);
  assert.equal(asked.mock.callCount(), 1);
});

test("when all connections are open, the one that was silent longest makes room", async (t) => {
  const drops = collectMessages<DropMessage>(t, "plant-store:drop");
  const warnings = collectWarnings(t, "connectionsMax");
  const admin = await startAdmin(t);
  const talking = await connectTo(t, admin.server.url);
  const [oldest, ...silent] = await Promise.all(
    Array.from({ length: CONNECTIONS_MAX - 1 }, () => connectTo(t, admin.server.url)),
  );
  await talking.send(get("/healthz"));
  assert.equal((await talking.next()).status, 200);
  assert.equal((await admin.get("/readyz")).status, 200);
  await oldest?.rest().catch(() => {});
  assert.equal(drops.length, 1);
  assert.equal(warnings.length, 1);
  await talking.send(get("/healthz"));
  assert.equal((await talking.next()).status, 200);
  assert.equal(silent.filter(({ isClosed }) => isClosed).length, 0);
});

const SITES: readonly [site: string, status: number][] = [
  ["cross-site", 400],
  ["same-site", 200],
  ["same-origin", 200],
  ["none", 200],
];

for (const [site, expected] of SITES) {
  test(`a browser's request whose Sec-Fetch-Site is ${site} is answered ${expected} on every path`, async (t) => {
    const admin = await startAdmin(t);
    for (const path of ["/", "/metrics", "/status.json", "/openapi.json", "/healthz", "/readyz"]) {
      const answer = await admin.get(path, { headers: { "Sec-Fetch-Site": site } });
      assert.equal(answer.status, expected);
      if (expected === 400) assert.equal(errorNumber(answer), 40001);
    }
  });
}

test("its requests and refusals are no requests of the service", async (t) => {
  const requests = collectMessages<RequestMessage>(t, "plant-store:request");
  const admin = await startAdmin(t);
  const bad = "GET /healthz HTTP/1.1\r\n\r\n";
  const texts = [get("/nowhere"), "RUBBISH\r\n\r\n", bad, get("/healthz").repeat(2)];
  for (const text of texts) {
    const client = await connectTo(t, admin.server.url);
    await client.send(text);
    await client.next();
    client.halfClose();
    await client.rest();
  }
  assert.deepEqual(requests, []);
});
