import assert from "node:assert/strict";
import diagnostics from "node:diagnostics_channel";
import net from "node:net";
import { type TestContext, test } from "node:test";
import { isLoopback, isSafeHost } from "../../src/admin/server.ts";
import type { ServiceState } from "../../src/admin/status.ts";
import { OPENAPI } from "../../src/index.ts";
import { startAdmin } from "../support/admin.ts";
import { errorNumber } from "../support/service.ts";
import { collectWarnings } from "../support/watch.ts";

for (const [path, type] of [
  ["/", "text/html; charset=utf-8"],
  ["/openapi.json", "application/json"],
  ["/healthz", "application/json"],
  ["/readyz", "application/json"],
  ["/metrics", "text/plain; version=0.0.4; charset=utf-8"],
] as const) {
  test(`GET ${path} needs no token, HEAD has no body, POST gets 405; each closes the connection`, async (t) => {
    const admin = await startAdmin(t);
    const [get, head, post] = await Promise.all([
      admin.get(`${path}?x=1`),
      admin.get(path, { method: "HEAD" }),
      admin.get(path, { method: "POST" }),
    ]);
    assert.deepEqual([get.status, head.status, head.text], [200, 200, ""]);
    assert.ok(Number(head.headers["content-length"]) > 0);
    assert.deepEqual(
      [post.status, errorNumber(post), post.headers.allow],
      [405, 40501, "GET, HEAD"],
    );
    for (const { headers } of [get, head]) assert.equal(headers["content-type"], type);
    for (const { headers } of [get, head, post]) {
      assert.equal(headers.connection, "close");
      assert.equal(headers["cache-control"], "no-store");
      assert.equal(headers["x-content-type-options"], "nosniff");
      assert.equal(headers["access-control-allow-origin"], undefined);
      const policy = "default-src 'none'; style-src 'unsafe-inline'";
      assert.equal(headers["content-security-policy"], policy);
    }
  });
}

test("/openapi.json is the document that the library exports", async (t) => {
  const { text } = await (await startAdmin(t)).get("/openapi.json");
  assert.deepEqual(JSON.parse(text), JSON.parse(JSON.stringify(OPENAPI)));
});

for (const path of ["/nowhere", "/metrics/", "/status.json", "//", "*"]) {
  test(`${path} gets 404 with the Error body`, async (t) => {
    const response = await (await startAdmin(t)).get(path);
    assert.deepEqual([response.status, errorNumber(response)], [404, 40401]);
  });
}

test("the browser reloads the page every 5 s, unless its address has refresh=0", async (t) => {
  const admin = await startAdmin(t);
  const refreshOf = async (path: string) => (await admin.get(path)).headers.refresh;
  assert.deepEqual([await refreshOf("/"), await refreshOf("/?refresh=0")], ["5", undefined]);
});

test("a page that cannot be made gets 500 and is a warning, and the server continues", async (t) => {
  const admin = await startAdmin(t);
  const warnings = collectWarnings(t, "/metrics");
  admin.status.tokens = () => assert.fail("a defect");
  const response = await admin.get("/metrics");
  assert.deepEqual([response.status, errorNumber(response), warnings.length], [500, 50001, 1]);
  assert.equal((await admin.get("/healthz")).status, 200);
});

test("an IP address and a name without a dot are safe as a Host; no other name is", () => {
  const safe = [
    "127.0.0.1:9180",
    "127.0.0.1",
    "[::1]:9180",
    "192.0.2.7:9180",
    "LOCALHOST",
    "plant-store:9180",
  ];
  for (const host of [...safe, undefined]) assert.equal(isSafeHost(host), true, host);
  const names = ["evil.example:9180", "evil.localhost", "127.0.0.1.evil.example", "evil.example."];
  for (const host of [...names, "evil.example:127.0.0.1", "[::1].evil.example", ""]) {
    assert.equal(isSafeHost(host), false, host);
  }
});

test("only this machine reaches an address of loopback, and localhost", () => {
  for (const host of ["127.0.0.1", "127.1.2.3", "::1", "LocalHost"])
    assert.ok(isLoopback(host), host);
  for (const host of ["0.0.0.0", "::", "127.evil.example", "vm"])
    assert.ok(!isLoopback(host), host);
});

test("a listener that other machines reach logs a warning and accepts every Host; one on loopback does not", async (t) => {
  const warnings = collectWarnings(t, "other machines");
  const foreign = { headers: { Host: "evil.example:9180" } };
  const everywhere = await startAdmin(t, { host: "0.0.0.0", port: 0 });
  assert.deepEqual([(await everywhere.get("/healthz", foreign)).status, warnings.length], [200, 1]);
  const loopback = await startAdmin(t);
  for (const path of ["/", "/metrics", "/nowhere"]) {
    const response = await loopback.get(path, foreign);
    assert.deepEqual([response.status, errorNumber(response)], [400, 40001]);
  }
  assert.equal(warnings.length, 1);
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
  test(`of the body of ${line}, 30 MB in chunks of a byte, at most what came with the head is read`, async (t) => {
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

const STATES: readonly [state: ServiceState, readyz: number][] = [
  ["ready", 200],
  ["tokens-unreadable", 503],
  ["database-away", 503],
  ["draining", 503],
  ["failed", 503],
];

for (const [state, expected] of STATES) {
  test(`while it is ${state}, /readyz gets ${expected} and /healthz 200, with the same body`, async (t) => {
    const admin = await startAdmin(t);
    admin.status.now.state = state;
    const [ready, health] = [await admin.get("/readyz"), await admin.get("/healthz")];
    assert.deepEqual([ready.status, health.status], [expected, 200]);
    assert.deepEqual([JSON.parse(ready.text).state, health.text], [state, ready.text]);
    const { text } = await admin.get("/metrics");
    const lines = text.match(/^plant_store_state\{.*\} 1$/gm);
    assert.deepEqual(lines, [`plant_store_state{state="${state}"} 1`]);
  });
}

const ROOM = 2 * 1024 * 1024;
const REFUSALS = [
  [undefined, 0, "ready"],
  [0, 9 * ROOM, "out-of-disk"],
  [9_999, 9 * ROOM, "out-of-disk"],
  [10_000, ROOM, "ready"],
  [10_000, ROOM - 1, "out-of-disk"], // less than the longest batch
  [10_000, undefined, "ready"],
] as const;

for (const [msSinceRefusal, freeBytes, state] of REFUSALS) {
  test(`a store whose last write was refused ${msSinceRefusal} ms ago, with ${freeBytes} bytes free, is ${state}`, async (t) => {
    const { status, get } = await startAdmin(t);
    status.now.store = { plants: 7, queueBytes: 0, msSinceRefusal };
    status.disk = freeBytes === undefined ? undefined : { freeBytes, totalBytes: 1e9 };
    assert.equal(JSON.parse((await get("/readyz")).text).state, state);
  });
}
