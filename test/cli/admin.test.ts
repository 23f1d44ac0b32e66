import assert from "node:assert/strict";
import { once } from "node:events";
import { rmSync } from "node:fs";
import http from "node:http";
import net, { type AddressInfo } from "node:net";
import { test } from "node:test";
import { createToken } from "../../src/index.ts";
import { ask } from "../support/admin.ts";
import { logLinesOf, type RunningServer, runCli, startServer } from "../support/cli.ts";
import { Client } from "../support/client.ts";
import { encodeRequest } from "../support/contract.ts";
import { makeFolder } from "../support/folders.ts";
import { postPlant } from "../support/service.ts";
import { logPath } from "../support/stores.ts";
import { until } from "../support/watch.ts";

const PORT_0 = ["--admin", "127.0.0.1:0"];

function adminUrl(server: RunningServer): string {
  return String(logLinesOf(server.stderr()).find(({ event }) => event === "listening")?.admin);
}

test("serve --admin shows the real store: plants, bytes, tokens, requests", async (t) => {
  const folder = makeFolder(t);
  const token = await createToken(folder, { name: "gardener", expiresAt: Date.now() + 86_400_000 });
  const server = await startServer(t, ["--data", folder, ...PORT_0]);
  const url = adminUrl(server);
  await postPlant(server.url, token, '{"id":1,"name":"a"}');
  await postPlant(server.url, token, '{"id":1,"name":"b"}');
  const { text } = await ask(url, "/metrics");
  for (const sample of [
    "plant_store_plants 1",
    `plant_store_log_bytes ${'{"id":1,"name":"a"}\n'.length}`,
    "plant_store_tokens 1",
    'plant_store_http_requests_total{operation="create",status="400",error="40006"} 1',
    "plant_store_sync_duration_seconds_count 1",
  ]) {
    assert.ok(text.includes(`\n${sample}\n`), sample);
  }
  assert.match(text, /^plant_store_disk_free_bytes [1-9]/m);
  const { text: page } = await ask(url, "/");
  for (const shown of ["<b>gardener</b>", folder]) assert.ok(page.includes(shown), shown);
  assert.doesNotMatch(page + text, /pst_|[0-9a-f]{64}/);
});

test("the admin listener responds while the server drains, and closes with it", async (t) => {
  const folder = makeFolder(t);
  const token = await createToken(folder, { name: "gardener" });
  const server = await startServer(t, ["--data", folder, ...PORT_0, "--drain-timeout-ms=60000"]);
  const url = adminUrl(server);
  const admin = new URL(url).host;
  assert.equal((await ask(url, "/readyz")).status, 200);
  const health = await runCli(["health", "--admin", admin]);
  assert.deepEqual([health.status, health.stdout], [0, `${url} is ready\n`]);

  const client = await Client.connect(server.port);
  t.after(() => client.destroy());
  const request = encodeRequest({ token }, { body: '{"id":1,"name":"a"}' });
  await client.send(request.subarray(0, -1)); // it stays in flight until the test sends the last byte
  const ended = server.stop();
  await until("it drains", async () => (await ask(url, "/readyz")).text.includes('"draining"'));
  await client.send(request.subarray(-1));
  assert.equal((await client.next()).status, 200);
  assert.equal((await ended).status, 0);
  const gone = await runCli(["health", "--admin", admin]);
  assert.equal(gone.status, 1);
  assert.match(gone.stderr, /ECONNREFUSED .*; serve needs --admin with this address/);
});

test("a failed store is reported by /readyz and in the log before the server ends", async (t) => {
  const folder = makeFolder(t);
  const token = await createToken(folder, { name: "gardener" });
  const server = await startServer(t, ["--data", folder, ...PORT_0]);
  const url = adminUrl(server);
  const ended = once(server.process, "close");
  const client = await Client.connect(server.port);
  await client.send(encodeRequest({ token }, { body: '{"id":2,"name":"b"}' }).subarray(0, -1));
  rmSync(logPath(folder));
  assert.equal((await postPlant(server.url, token, '{"id":1,"name":"a"}')).status, 503);
  await until("a probe sees the failure", async () => {
    return JSON.parse((await ask(url, "/readyz")).text).state === "failed";
  });
  client.destroy(); // the server waited for the request in flight
  assert.deepEqual(await ended, [1, null]);
  const events = logLinesOf(server.stderr()).map(({ event, level }) => `${event},${level}`);
  assert.ok(events.includes("failed,error"), events.join(" "));
  assert.equal(events.at(-1), "stopped,info");
});

const OTHERS: readonly [says: string, make: () => net.Server, expected: RegExp][] = [
  [
    "drains",
    () => http.createServer((_, res) => res.end('{"state":"draining","message":"x"}')),
    /is not ready, it is draining: x\n$/,
  ],
  ["has no JSON", () => http.createServer((_, res) => res.end("{hello")), /not a plant store/],
  ["never responds", () => net.createServer((socket) => socket.resume()), /within 2000 ms; serve/],
  ["hangs up", () => net.createServer((socket) => socket.destroy()), /does not respond: /],
];

for (const [says, make, expected] of OTHERS) {
  test(`health of a server that ${says} ends with 1, and names it`, async (t) => {
    const server = make().listen(0, "127.0.0.1");
    await once(server, "listening");
    t.after(() => server.close());
    const { port } = server.address() as AddressInfo;
    const end = await runCli(["health"], { env: { PLANT_STORE_ADMIN: `${port}` } });
    assert.deepEqual([end.status, end.stdout], [1, ""]);
    assert.match(end.stderr, /^plant-store: http:[^\n]+\n$/);
    assert.ok(end.stderr.includes(`127.0.0.1:${port} `) && expected.test(end.stderr), end.stderr);
  });
}
