import assert from "node:assert/strict";
import diagnostics from "node:diagnostics_channel";
import net from "node:net";
import { type TestContext, test } from "node:test";
import { requests } from "../../src/core/channels.ts";
import type { ServiceState } from "../../src/core/services.ts";
import { OPENAPI } from "../../src/index.ts";
import { startAdmin } from "../support/admin.ts";
import { errorNumber } from "../support/service.ts";
import { collectWarnings } from "../support/watch.ts";

const JSON_TYPE = "application/json";

const ROUTES: readonly [path: string, type: string][] = [
  ["/", "text/html; charset=utf-8"],
  ["/openapi.json", JSON_TYPE],
  ["/healthz", JSON_TYPE],
  ["/readyz", JSON_TYPE],
  ["/metrics", "text/plain; version=0.0.4; charset=utf-8"],
  ["/status.json", JSON_TYPE],
];

for (const [path, type] of ROUTES) {
  test(`GET ${path} needs no token, HEAD has the same headers and no body, POST is answered 405`, async (t) => {
    const admin = await startAdmin(t);
    const answer = await admin.get(`${path}?x=1`);
    assert.deepEqual([answer.status, answer.headers["content-type"]], [200, type]);
    assert.equal(answer.headers["cache-control"], "no-store");
    assert.equal(answer.headers["x-content-type-options"], "nosniff");
    assert.equal(answer.headers.connection, "close");
    assert.equal(answer.headers["access-control-allow-origin"], undefined);
    assert.match(String(answer.headers["content-security-policy"]), /default-src 'none'/);

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

for (const path of ["/nowhere", "/metrics/", "/__proto__", "//", "*"]) {
  test(`${path} is answered 404 with the Error body`, async (t) => {
    const answer = await (await startAdmin(t)).get(path);
    assert.deepEqual([answer.status, errorNumber(answer)], [404, 40401]);
  });
}

test("a target in absolute form, as sent to a proxy, finds the same path", async (t) => {
  const admin = await startAdmin(t);
  assert.equal((await admin.get(`${admin.server.url}/healthz?x=1`)).text, '{"status":"ok"}\n');
  assert.equal((await admin.get(`${admin.server.url}/nowhere`)).status, 404);
});

test("a request whose Host is a foreign name is refused on every path", async (t) => {
  const admin = await startAdmin(t);
  for (const path of ["/", "/metrics", "/nowhere"]) {
    const answer = await admin.get(path, { headers: { Host: "evil.example:9180" } });
    assert.deepEqual([answer.status, errorNumber(answer)], [400, 40001]);
  }
});

/** The responses to these bytes, and how many bytes the listener has read by the time it closes. */
async function exchange(t: TestContext, bytes: string): Promise<{ text: string; read: number }> {
  const admin = await startAdmin(t);
  admin.status.free = () => new Promise(() => {}); // so that /metrics waits for a second
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
  test(`${says} is answered ${status}, and the connection closes`, async (t) => {
    const { text } = await exchange(t, bytes);
    assert.equal(Number(text.split(" ")[1]), status);
  });
}

const CHUNKED = `${HEAD}Transfer-Encoding: chunked\r\n\r\n${"1\r\na\r\n".repeat(5_000_000)}`;
for (const [says, line, status] of [
  ["a method that is refused", "POST /metrics HTTP/1.1", 405],
  ["a path that is refused", "POST /nowhere HTTP/1.1", 404],
  ["a read", "GET /metrics HTTP/1.1", 200],
] as const) {
  test(`the body of ${says} is not read: of 30 MB at most what had come with its head`, async (t) => {
    const { text, read } = await exchange(t, `${line}\r\n${CHUNKED}`);
    assert.equal(Number(text.split(" ")[1]), status);
    assert.ok(read > 0 && read < 1_000_000, `${read}`);
  });
}

test("of requests in one packet the first is answered, and the connection closes", async (t) => {
  const { text } = await exchange(t, `GET /healthz HTTP/1.1\r\n${HEAD}\r\n`.repeat(1600));
  assert.equal(text.match(/^HTTP\/1\.1 200/gm)?.length, 1);
});

const STATES: readonly [state: ServiceState, status: number][] = [
  ["starting", 503],
  ["ready", 200],
  ["draining", 503],
  ["failed", 503],
];

for (const [state, expected] of STATES) {
  test(`a server that is ${state} is healthy, and answers ${expected} to /readyz, naming it`, async (t) => {
    const admin = await startAdmin(t);
    admin.status.current = state;
    if (state === "starting") admin.status.known = undefined;
    assert.equal((await admin.get("/healthz")).status, 200);
    const { status, text } = await admin.get("/readyz");
    assert.deepEqual([status, JSON.parse(text).state], [expected, state]);
    const { text: metrics } = await admin.get("/metrics");
    assert.ok(metrics.includes(`plant_store_state{state="${state}"} 1\n`));
  });
}

test("during a start, /readyz and the status page show how much of the log is read", async (t) => {
  const admin = await startAdmin(t);
  admin.status.current = "starting";
  admin.status.known = undefined;
  const messages = async () => {
    admin.wait();
    return [
      JSON.parse((await admin.get("/readyz")).text).message,
      JSON.parse((await admin.get("/status.json")).text).message,
    ];
  };
  for (const message of await messages()) assert.equal(message.includes("%"), false);
  admin.status.read = { bytes: 429, total: 1000 };
  for (const message of await messages()) assert.match(message, /\b42 %/);
  admin.status.current = "draining";
  for (const message of await messages()) assert.equal(message.includes("%"), false);
});

const MIB = 1024 * 1024;
const FREE_LATER: readonly [says: string, free: number | undefined, state: string][] = [
  ["a disk that still has no room is out of disk", 0, "out-of-disk"],
  ["a disk with less room than a batch takes is out of disk", 2 * MIB - 1, "out-of-disk"],
  ["a disk with room is ready", 2 * MIB, "ready"],
  ["a disk whose room is unknown is ready", undefined, "ready"],
];

for (const [says, free, later] of FREE_LATER) {
  test(`a refused write counts as out of disk for ten seconds; after that ${says}`, async (t) => {
    const admin = await startAdmin(t);
    admin.status.free = async () => free;
    const paths = ["/readyz", "/status.json"];
    const states = async () =>
      Promise.all(paths.map(async (path) => JSON.parse((await admin.get(path)).text).state));
    const refuse = (msSinceRefusal: number | undefined) => {
      admin.wait();
      admin.status.known = { plants: 7, queueBytes: 0, msSinceRefusal };
    };
    refuse(0);
    assert.deepEqual(await states(), ["out-of-disk", "out-of-disk"]);
    assert.equal((await admin.get("/readyz")).status, 503);
    refuse(9_999);
    assert.deepEqual(await states(), ["out-of-disk", "out-of-disk"]);
    refuse(10_000);
    assert.deepEqual(await states(), [later, later]);
    const { text } = await admin.get("/metrics");
    assert.ok(text.includes(`plant_store_state{state="${later}"} 1\n`));
    refuse(undefined);
    assert.deepEqual(await states(), ["ready", "ready"]);
  });
}

test("creates that are answered 503 leave the server ready unless the disk refused a write", async (t) => {
  const admin = await startAdmin(t);
  for (const error of [50302, 50303]) requests.publish({ ...REFUSED, error });
  assert.equal((await admin.get("/readyz")).status, 200);
});

const REFUSED = {
  method: "POST",
  path: "/plants",
  status: 503,
  durationMs: 1,
  bodyBytes: 9,
  requestId: "a-1",
  token: "gardener",
};

test("/readyz does not ask the disk unless a write was refused", async (t) => {
  const admin = await startAdmin(t);
  admin.status.free = () => assert.fail("the disk was asked");
  assert.equal((await admin.get("/readyz")).status, 200);
});

test("a listener that other machines can reach logs a warning", async (t) => {
  const warnings = collectWarnings(t, "0.0.0.0");
  await startAdmin(t, { host: "0.0.0.0", port: 0 });
  assert.equal(warnings.length, 1);
  await startAdmin(t, { host: "127.0.0.1", port: 0 });
  assert.equal(warnings.length, 1);
});
