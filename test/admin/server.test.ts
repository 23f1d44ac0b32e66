import assert from "node:assert/strict";
import diagnostics from "node:diagnostics_channel";
import net from "node:net";
import { type TestContext, test } from "node:test";
import { isLoopback, isSafeHost } from "../../src/admin/server.ts";
import type { ServiceState } from "../../src/admin/status.ts";
import { OPENAPI, type RequestMessage } from "../../src/index.ts";
import { startAdmin } from "../support/admin.ts";
import { errorNumber } from "../support/service.ts";
import { collectMessages, collectWarnings } from "../support/watch.ts";

const JSON_TYPE = "application/json";

const PAGES: readonly [path: string, type: string][] = [
  ["/", "text/html; charset=utf-8"],
  ["/openapi.json", JSON_TYPE],
  ["/healthz", JSON_TYPE],
  ["/readyz", JSON_TYPE],
  ["/metrics", "text/plain; version=0.0.4; charset=utf-8"],
];

for (const [path, type] of PAGES) {
  test(`GET ${path} needs no token, HEAD has the same headers and no body, POST gets 405`, async (t) => {
    const admin = await startAdmin(t);
    const response = await admin.get(`${path}?x=1`);
    assert.deepEqual([response.status, response.headers["content-type"]], [200, type]);
    assert.equal(response.headers["cache-control"], "no-store");
    assert.equal(response.headers["x-content-type-options"], "nosniff");
    assert.equal(response.headers.connection, "close");
    assert.equal(response.headers["access-control-allow-origin"], undefined);
    const policy = "default-src 'none'; style-src 'unsafe-inline'";
    assert.equal(response.headers["content-security-policy"], policy);

    const head = await admin.get(path, { method: "HEAD" });
    assert.deepEqual([head.status, head.text], [200, ""]);
    assert.ok(Number(head.headers["content-length"]) > 0);

    const post = await admin.get(path, { method: "POST" });
    assert.deepEqual(
      [post.status, errorNumber(post), post.headers.allow],
      [405, 40501, "GET, HEAD"],
    );
  });
}

test("/openapi.json is the document that the library exports", async (t) => {
  const { text } = await (await startAdmin(t)).get("/openapi.json");
  assert.deepEqual(JSON.parse(text), JSON.parse(JSON.stringify(OPENAPI)));
});

for (const path of ["/nowhere", "/metrics/", "/__proto__", "/status.json", "//", "*"]) {
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

const HOSTS: readonly [host: string | undefined, isSafe: boolean][] = [
  ["127.0.0.1:9180", true],
  ["127.0.0.1", true],
  ["[::1]:9180", true],
  ["192.0.2.7:9180", true], // an address, not a name: no page can make it resolve to this machine
  ["LOCALHOST", true],
  ["plant-store:9180", true],
  ["evil.example:9180", false],
  ["evil-localhost.example:9180", false],
  ["evil.localhost", false],
  ["127.0.0.1.evil.example", false],
  ["evil.example:127.0.0.1", false],
  ["[::1].evil.example", false],
  ["evil.example.", false],
  ["", false],
  [undefined, true], // HTTP/1.0, which no browser sends
];

for (const [host, isSafe] of HOSTS) {
  test(`the Host ${host} is ${isSafe ? "accepted" : "refused"} on loopback`, () => {
    assert.equal(isSafeHost(host), isSafe);
  });
}

for (const [host, isLocal] of [
  ["127.1.2.3", true],
  ["::1", true],
  ["LocalHost", true],
  ["0.0.0.0", false],
  ["::", false],
  ["127.evil.example", false],
] as const) {
  test(`only this machine reaches ${host}: ${isLocal}`, () => {
    assert.equal(isLoopback(host), isLocal);
  });
}

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

/** The responses to these bytes, and how many bytes the listener has read by the time it closes. */
async function exchange(t: TestContext, bytes: string): Promise<{ text: string; read: number }> {
  const admin = await startAdmin(t);
  const sockets: net.Socket[] = [];
  const onRequest = (message: unknown) => sockets.push((message as { socket: net.Socket }).socket);
  diagnostics.subscribe("http.server.request.start", onRequest);
  t.after(() => diagnostics.unsubscribe("http.server.request.start", onRequest));
  const socket = net.connect(Number(new URL(admin.server.url).port), "127.0.0.1");
  socket.write(bytes);
  let text = "";
  await new Promise((resolve) => {
    socket
      .on("error", () => {}) // it is still sending
      .on("data", (chunk) => {
        text += chunk;
      })
      .on("close", resolve);
  });
  return { text, read: sockets[0]?.bytesRead ?? 0 };
}

const HEAD = "Host: localhost\r\n";
const RAW: readonly [says: string, bytes: string, status: number][] = [
  ["text that is not HTTP", "nonsense\r\n\r\n", 400],
  ["HTTP/1.1 without a Host", "GET /healthz HTTP/1.1\r\n\r\n", 400],
  ["too many headers", `GET / HTTP/1.1\r\nX: ${"x".repeat(20_000)}\r\n\r\n`, 431],
  ["HTTP/1.0 without a Host, a balancer's check", "GET /healthz HTTP/1.0\r\n\r\n", 200],
];

for (const [says, bytes, status] of RAW) {
  test(`${says} gets ${status}, and the connection closes`, async (t) => {
    const { text } = await exchange(t, bytes);
    assert.equal(Number(text.split(" ")[1]), status);
  });
}

const CHUNKED = `${HEAD}Transfer-Encoding: chunked\r\n\r\n${"1\r\na\r\n".repeat(5_000_000)}`;
for (const line of ["POST /metrics", "POST /nowhere", "GET /metrics"]) {
  test(`the body of ${line} is not read: of 30 MB at most what came with its head`, async (t) => {
    const { read } = await exchange(t, `${line} HTTP/1.1\r\n${CHUNKED}`);
    assert.ok(read > 0 && read < 1_000_000, `${read}`);
  });
}

test("the first of several requests in one packet is carried out, and the connection closes", async (t) => {
  const { text } = await exchange(t, `GET /healthz HTTP/1.1\r\n${HEAD}\r\n`.repeat(1600));
  assert.equal(text.match(/^HTTP\/1\.1 200/gm)?.length, 1);
});

test("its requests and refusals are no requests of the service", async (t) => {
  const requests = collectMessages<RequestMessage>(t, "plant-store:request");
  const admin = await startAdmin(t);
  for (const path of ["/healthz", "/nowhere"]) await admin.get(path);
  await admin.get("/", { method: "POST" });
  assert.deepEqual(requests, []);
});

const STATES: readonly [state: ServiceState, readyz: number][] = [
  ["starting", 503],
  ["ready", 200],
  ["tokens-unreadable", 503],
  ["database-away", 503],
  ["draining", 503],
  ["failed", 503],
];

for (const [state, expected] of STATES) {
  test(`a server that is ${state} gets ${expected} from /readyz and 200 from /healthz, with the same body`, async (t) => {
    const admin = await startAdmin(t);
    Object.assign(admin.status.now, { state, ...(state === "starting" && { store: undefined }) });
    const [ready, health] = [await admin.get("/readyz"), await admin.get("/healthz")];
    assert.deepEqual([ready.status, health.status], [expected, 200]);
    assert.equal(JSON.parse(ready.text).state, state);
    assert.equal(health.text, ready.text);
    const { text } = await admin.get("/metrics");
    assert.deepEqual(text.match(/^plant_store_state\{.*\} 1$/gm), [
      `plant_store_state{state="${state}"} 1`,
    ]);
    assert.ok((await admin.get("/")).text.includes(`<b class="state ${state}">`));
  });
}

test("during a start the message says how much of the log is read", async (t) => {
  const admin = await startAdmin(t);
  const message = async () => JSON.parse((await admin.get("/readyz")).text).message;
  admin.status.now.state = "starting";
  assert.doesNotMatch(await message(), /%/);
  admin.status.progress = { bytes: 429, total: 1000 };
  assert.match(await message(), /\b42 %/);
  admin.status.now.state = "draining";
  assert.doesNotMatch(await message(), /%/);
});

const MIB = 1024 * 1024;
const REFUSALS: readonly [
  msSinceRefusal: number | undefined,
  free: number | undefined,
  state: string,
][] = [
  [undefined, 0, "ready"],
  [0, 9 * MIB, "out-of-disk"],
  [9_999, 9 * MIB, "out-of-disk"],
  [10_000, 2 * MIB, "ready"],
  [10_000, 2 * MIB - 1, "out-of-disk"], // less than the longest batch
  [86_400_000, 0, "out-of-disk"],
  [10_000, undefined, "ready"],
];

for (const [msSinceRefusal, freeBytes, state] of REFUSALS) {
  test(`a write refused ${msSinceRefusal} ms ago, with ${freeBytes} bytes free now, is ${state}`, async (t) => {
    const { status, get } = await startAdmin(t);
    status.now.store = { plants: 7, queueBytes: 0, msSinceRefusal };
    status.disk = freeBytes === undefined ? undefined : { freeBytes, totalBytes: 1e9 };
    assert.equal(JSON.parse((await get("/readyz")).text).state, state);
  });
}
