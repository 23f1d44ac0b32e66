import assert from "node:assert/strict";
import diagnostics from "node:diagnostics_channel";
import http from "node:http";
import net from "node:net";
import { type TestContext, test } from "node:test";
import { isLoopback, isSafeHost } from "../../src/admin/server.ts";
import { OPENAPI } from "../../src/index.ts";
import { startAdmin } from "../support/admin.ts";
import { errorNumber } from "../support/service.ts";
import { collectWarnings } from "../support/watch.ts";

for (const [path, type, refresh, links] of [
  ["/", "text/html; charset=utf-8", "5", "?refresh=0 healthz metrics openapi.json readyz"],
  ["/?refresh=0", "text/html; charset=utf-8", undefined, "? healthz metrics openapi.json readyz"],
  ["/openapi.json?x=1", "application/json"],
  ["/healthz", "application/json"],
  ["/readyz", "application/json"],
  ["/metrics", "text/plain; version=0.0.4; charset=utf-8"],
] as const) {
  test(`GET ${path} needs no token, HEAD has no body, POST gets 405; each closes the connection`, async (t) => {
    const admin = await startAdmin(t);
    const methods = ["GET", "HEAD", "POST"].map((method) => admin.get(path, { method }));
    const [get, head, post] = await Promise.all(methods);
    assert.deepEqual([get?.status, head?.status, head?.text], [200, 200, ""]);
    assert.ok(Number(head?.headers["content-length"]) > 0);
    assert.deepEqual([get?.headers["content-type"], get?.headers.refresh], [type, refresh]);
    assert.deepEqual([post && errorNumber(post), post?.headers.allow], [40501, "GET, HEAD"]);
    const places = Array.from(get?.text.matchAll(/<a href="([^"]*)"/g) ?? [], ([, place]) => place);
    assert.equal(places.sort().join(" "), links ?? "");
    for (const { headers } of [get, head, post].filter((response) => response !== undefined)) {
      assert.equal(headers.connection, "close");
      assert.equal(headers["cache-control"], "no-store");
      assert.equal(headers["x-content-type-options"], "nosniff");
      const policy = "default-src 'none'; style-src 'unsafe-inline'";
      assert.equal(headers["content-security-policy"], policy);
    }
  });
}

test("/openapi.json is the document that the library exports; other paths get 404", async (t) => {
  const { get } = await startAdmin(t);
  assert.equal((await get("/openapi.json")).text, `${JSON.stringify(OPENAPI)}\n`);
  for (const path of ["/nowhere", "/metrics/", "//", "*"]) {
    assert.equal(errorNumber(await get(path)), 40401);
  }
});

test("a page that cannot be rendered gets 500 and a warning, and the server continues", async (t) => {
  const admin = await startAdmin(t);
  const warnings = collectWarnings(t, "/metrics");
  admin.status.tokens = () => assert.fail("a defect");
  assert.deepEqual([errorNumber(await admin.get("/metrics")), warnings.length], [50001, 1]);
  assert.equal((await admin.get("/healthz")).status, 200);
});

test("a connection that cannot be accepted is a warning, and the server continues", async (t) => {
  const { mock } = t.mock.method(http, "createServer");
  const { get } = await startAdmin(t);
  const warnings = collectWarnings(t, "admin");
  mock.calls[0]?.result?.emit("error", new Error("EMFILE"));
  assert.deepEqual([warnings.length, (await get("/healthz")).status], [1, 200]);
});

test("an IP address and a name without a dot are safe as a Host; no other name is", () => {
  const safe = [undefined, "127.0.0.1:9180", "[::1]:9180", "192.0.2.7", "LOCALHOST", "store:9180"];
  for (const host of safe) assert.equal(isSafeHost(host), true, host);
  const names = ["evil.example:9180", "evil.localhost", "127.0.0.1.evil.example", "evil.example."];
  for (const host of [...names, "evil.example:127.0.0.1", "[::1].evil.example", ""]) {
    assert.equal(isSafeHost(host), false, host);
  }
});

test("a listener that other machines reach logs a warning and accepts every Host; one on loopback does not", async (t) => {
  const warnings = collectWarnings(t, "0.0.0.0");
  const foreign = { headers: { Host: "evil.example:9180" } };
  const everywhere = await startAdmin(t, { host: "0.0.0.0", port: 0 });
  assert.deepEqual([(await everywhere.get("/healthz", foreign)).status, warnings.length], [200, 1]);
  const loopback = await startAdmin(t);
  for (const path of ["/", "/metrics", "/nowhere"]) {
    assert.equal(errorNumber(await loopback.get(path, foreign)), 40001);
  }
  assert.equal(warnings.length, 1);
  assert.ok(["127.1.2.3", "::1", "LocalHost"].every(isLoopback));
  assert.ok(!["::", "127.evil.example", "vm"].some(isLoopback));
});

/** The responses to these bytes, and how many of them the listener has read when it closes. */
async function exchange(t: TestContext, bytes: string): Promise<{ text: string; read: number }> {
  const admin = await startAdmin(t);
  let accepted: net.Socket | undefined;
  const onRequest = (message: unknown) => {
    accepted = (message as { socket: net.Socket }).socket;
  };
  diagnostics.subscribe("http.server.request.start", onRequest);
  t.after(() => diagnostics.unsubscribe("http.server.request.start", onRequest));
  const socket = net.connect(Number(new URL(admin.server.url).port), "127.0.0.1");
  socket.write(bytes);
  let text = "";
  socket.on("error", () => {}); // it is still sending
  socket.on("data", (chunk) => {
    text += chunk;
  });
  await new Promise((resolve) => socket.on("close", resolve));
  return { text, read: accepted?.bytesRead ?? 0 };
}

const HEAD = "Host: localhost\r\n";

for (const line of ["POST /metrics", "POST /nowhere", "GET /metrics"]) {
  test(`of 30 MB in one-byte chunks after ${line}, only what came with the head is read`, async (t) => {
    const body = "1\r\na\r\n".repeat(5_000_000);
    const head = `${line} HTTP/1.1\r\n${HEAD}Transfer-Encoding: chunked\r\n\r\n`;
    const { read } = await exchange(t, head + body);
    assert.ok(read > 0 && read < 1_000_000, `${read}`);
  });
}

test("the first of several requests in one packet is carried out, and the connection closes", async (t) => {
  const { text } = await exchange(t, `GET /healthz HTTP/1.1\r\n${HEAD}\r\n`.repeat(1600));
  assert.equal(text.match(/^HTTP\/1\.1 200/gm)?.length, 1);
});

const ROOM = 2 * 1024 * 1024;
const STATES = [
  ["ready", 200],
  ["tokens-unreadable", 503],
  ["database-away", 503],
  ["draining", 503],
  ["failed", 503],
  ["ready", 503, "out-of-disk", 0, 9 * ROOM],
  ["ready", 503, "out-of-disk", 9_999, 9 * ROOM],
  ["ready", 200, "ready", 10_000, ROOM],
  ["ready", 503, "out-of-disk", 10_000, ROOM - 1], // less than the longest batch
  ["ready", 200, "ready", 10_000, undefined],
] as const;

for (const [own, expected, state = own, msSinceRefusal, freeBytes] of STATES) {
  test(`a server that is ${own}, ${msSinceRefusal} ms after a refused write with ${freeBytes} bytes free, shows ${state}, and /readyz gets ${expected}`, async (t) => {
    const { status, get } = await startAdmin(t);
    status.now.state = own;
    status.now.store = { plants: 7, queueBytes: 0, msSinceRefusal };
    status.disk = freeBytes === undefined ? undefined : { freeBytes, totalBytes: 1e9 };
    const [ready, health] = [await get("/readyz"), await get("/healthz")];
    assert.deepEqual([ready.status, health.status, health.text], [expected, 200, ready.text]);
    assert.equal(JSON.parse(ready.text).state, state);
    const lines = (await get("/metrics")).text.match(/^plant_store_state\{.*\} 1$/gm);
    assert.deepEqual(lines, [`plant_store_state{state="${state}"} 1`]);
  });
}
