import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync, rmSync } from "node:fs";
import net, { type AddressInfo } from "node:net";
import { test } from "node:test";
import { createToken } from "../../src/index.ts";
import { ask } from "../support/admin.ts";
import { type RunningServer, runCli, startServer } from "../support/cli.ts";
import { Client } from "../support/client.ts";
import { encodeRequest } from "../support/contract.ts";
import { makeFolder } from "../support/folders.ts";
import { logLinesOf, messagesOf } from "../support/messages.ts";
import { postPlant } from "../support/post.ts";
import { logPath } from "../support/stores.ts";
import { until } from "../support/watch.ts";

test("npm start has the admin listener where the documentation says", () => {
  const manifest = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  assert.match(JSON.parse(manifest).scripts.start, / serve .*--admin 127\.0\.0\.1:9180( |$)/);
});

const PORT_0 = ["--admin", "127.0.0.1:0"];

async function adminUrl(server: RunningServer): Promise<string> {
  await until("the log says where", () => /"event":"listening".*\n/.test(server.stderr()));
  return String(logLinesOf(server.stderr()).find(({ event }) => event === "listening")?.admin);
}

test("serve --admin shows the real store: plants, bytes, tokens, requests", async (t) => {
  const folder = makeFolder(t);
  const token = await createToken(folder, { name: "gardener", expiresAt: Date.now() + 86_400_000 });
  const server = await startServer(t, ["--data", folder, ...PORT_0]);
  const url = await adminUrl(server);
  await postPlant(server.url, token, '{"id":1,"name":"a"}');
  await postPlant(server.url, token, '{"id":1,"name":"b"}');
  const { text } = await ask(url, "/metrics");
  for (const sample of [
    "plant_store_plants 1",
    `plant_store_log_bytes ${'{"id":1,"name":"a"}\n'.length}`,
    "plant_store_tokens 1",
    'plant_store_http_requests_total{operation="create",status="200",error=""} 1',
    'plant_store_http_requests_total{operation="create",status="400",error="40006"} 1',
    "plant_store_sync_duration_seconds_count 1",
  ]) {
    assert.ok(text.includes(`\n${sample}\n`), sample);
  }
  const { text: page } = await ask(url, "/");
  for (const shown of ["<dd>1</dd>", "40006 conflict, create", "<b>gardener</b>", folder]) {
    assert.ok(page.includes(shown), shown);
  }
  await until("the disk was polled", async () => {
    return /^plant_store_disk_free_bytes [1-9]/m.test((await ask(url, "/metrics")).text);
  });
  assert.doesNotMatch(page + text, /pst_|[0-9a-f]{64}/);
});

test("the admin listener answers while the server drains, and closes with it", async (t) => {
  const folder = makeFolder(t);
  const token = await createToken(folder, { name: "gardener" });
  const server = await startServer(t, ["--data", folder, ...PORT_0, "--drain-timeout-ms=60000"]);
  const url = await adminUrl(server);
  const admin = new URL(url).host;
  assert.equal((await ask(url, "/readyz")).status, 200);
  const health = await runCli(["health", "--admin", admin]);
  assert.deepEqual([health.status, health.stdout], [0, `${url} is ready\n`]);

  const client = await Client.connect(server.port);
  t.after(() => client.destroy());
  const request = encodeRequest({ token }, { body: '{"id":1,"name":"a"}' });
  await client.send(request.subarray(0, -1)); // it stays in flight until the test sends the last byte
  const ended = server.stop();
  await until("it drains", async () => (await ask(url, "/readyz")).status === 503);
  assert.equal(JSON.parse((await ask(url, "/readyz")).text).state, "draining");
  assert.equal((await ask(url, "/healthz")).status, 200);
  const draining = await runCli(["health", "--admin", admin]);
  assert.equal(draining.status, 1);
  assert.match(draining.stderr, /\bdraining\b/);

  await client.send(request.subarray(-1));
  assert.equal((await client.next()).status, 200);
  assert.equal((await ended).status, 0);
  assert.equal((await runCli(["health", "--admin", admin])).status, 1);
});

test("a server that cannot start names the holder of the directory, not the address", async (t) => {
  const folder = makeFolder(t);
  const first = await startServer(t, ["--data", folder, ...PORT_0]);
  const taken = new URL(await adminUrl(first)).host;
  const second = await runCli(["serve", "--port", "0", "--data", folder, "--admin", taken]);
  assert.equal(second.status, 1);
  assert.match(messagesOf(second.stderr).join("\n"), new RegExp(`\\b${first.process.pid}\\b`));
});

test("an admin port that is taken ends the start with status 1, naming it and the option", async (t) => {
  const folder = makeFolder(t);
  const taken = net.createServer().listen(0, "127.0.0.1");
  await once(taken, "listening");
  t.after(() => taken.close());
  const address = `127.0.0.1:${(taken.address() as AddressInfo).port}`;
  const end = await runCli(["serve", "--port", "0", "--data", folder, "--admin", address]);
  assert.equal(end.status, 1);
  const [message = ""] = messagesOf(end.stderr);
  assert.ok(message.includes(address) && message.includes("--admin"), message);
});

test("a failed store is reported by /readyz and in the log before the server ends", async (t) => {
  const folder = makeFolder(t);
  const token = await createToken(folder, { name: "gardener" });
  const server = await startServer(t, ["--data", folder, ...PORT_0]);
  const url = await adminUrl(server);
  const ended = once(server.process, "close");
  const client = await Client.connect(server.port);
  await client.send(encodeRequest({ token }, { body: '{"id":2,"name":"b"}' }).subarray(0, -1));
  rmSync(logPath(folder));
  assert.equal((await postPlant(server.url, token, '{"id":1,"name":"a"}')).status, 503);
  await until("a probe sees the failure", async () => {
    return JSON.parse((await ask(url, "/readyz")).text).state === "failed";
  });
  assert.equal((await ask(url, "/readyz")).status, 503);
  client.destroy(); // the server waited for the request in flight
  assert.deepEqual(await ended, [1, null]);
  const events = logLinesOf(server.stderr()).map(({ event, level }) => `${event},${level}`);
  assert.ok(events.includes("failed,error"), events.join(" "));
  assert.equal(events.at(-1), "stopped,info");
});
