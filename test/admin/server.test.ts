import assert from "node:assert/strict";
import { lookup } from "node:dns/promises";
import { once } from "node:events";
import fs, { existsSync, linkSync, mkdirSync, renameSync, statSync, writeFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import net from "node:net";
import { hostname } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { requests } from "../../src/core/channels.ts";
import { AdminServer, OPENAPI, type ServiceState } from "../../src/index.ts";
import { startAdmin, TestStatus } from "../support/admin.ts";
import { makeFolder } from "../support/folders.ts";
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
    assert.equal(answer.headers["cross-origin-resource-policy"], "same-origin");
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

test("the name that the listener was started with is accepted as Host", async (t) => {
  const host = hostname();
  const address = await lookup(host).catch(() => undefined);
  if (address === undefined) return t.skip("the name of this machine has no address");
  const admin = await startAdmin(t, { host, port: 0 });
  for (const [name, status] of [
    [host, 200],
    ["plant-store", 400],
  ] as const) {
    const answer = await admin.get("/metrics", { headers: { Host: `${name}:9180` } });
    assert.equal(answer.status, status, name);
  }
});

const RAW: readonly [says: string, bytes: string, status: number, error: number | undefined][] = [
  ["text that is not HTTP", "nonsense\r\n\r\n", 400, 40001],
  ["HTTP/1.1 without a Host", "GET /healthz HTTP/1.1\r\n\r\n", 400, 40001],
  ["two Hosts", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400, 40001],
  ["too many headers", `GET / HTTP/1.1\r\nX: ${"x".repeat(20_000)}\r\n\r\n`, 431, 43101],
  [
    "a second Host as the 150th header",
    `GET / HTTP/1.1\r\nHost: localhost\r\n${"a:\r\n".repeat(148)}Host: localhost\r\n\r\n`,
    431,
    43101,
  ],
  ["HTTP/1.0 without a Host, a balancer's check", "GET /healthz HTTP/1.0\r\n\r\n", 200, undefined],
];

for (const [says, bytes, status, error] of RAW) {
  test(`${says} is answered ${status}${error === undefined ? "" : " with the Error body"}`, async (t) => {
    const admin = await startAdmin(t);
    const socket = net.connect(Number(new URL(admin.server.url).port), "127.0.0.1");
    socket.write(bytes);
    let text = "";
    socket
      .on("error", () => {})
      .on("data", (chunk) => {
        text += chunk;
        if (/\}\n?$/.test(text)) socket.destroy();
      });
    await once(socket, "close");
    const [head = "", body = ""] = text.split("\r\n\r\n");
    assert.equal(Number(head.split(" ")[1]), status);
    if (error !== undefined) assert.equal(errorNumber({ text: body }), error);
  });
}

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
    const refuse = (refusedMsAgo: number | undefined) => {
      admin.wait();
      admin.status.known = { plants: 7, queueBytes: 0, refusedMsAgo };
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
  for (const error of [50302, 50305]) requests.publish({ ...REFUSED, error });
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

const WRONG_OPTIONS: readonly [says: string, options: object, name: string, fault: string][] = [
  ["no address", { address: undefined }, "address.host", "TypeError"],
  ["null for an address", { address: null }, "address.host", "TypeError"],
  ["an address as text", { address: "127.0.0.1:0" }, "address.host", "TypeError"],
  ["an address without a host", { address: { port: 39_181 } }, "address.host", "TypeError"],
  ["an empty host", { address: { host: "", port: 0 } }, "address.host", "RangeError"],
  ["an address without a port", { address: { host: "127.0.0.1" } }, "port", "TypeError"],
  ["a port as text", { address: { host: "127.0.0.1", port: "0" } }, "port", "TypeError"],
  ["no port", { address: { host: "127.0.0.1", port: 65_536 } }, "port", "RangeError"],
  [
    "a path that is not a string",
    { address: { socketPath: 7 } },
    "address.socketPath",
    "TypeError",
  ],
  ["an empty path", { address: { socketPath: "" } }, "address.socketPath", "RangeError"],
  [
    "a path that is too long for a socket",
    { address: { socketPath: `/${"x".repeat(107)}` } },
    "address.socketPath",
    "RangeError",
  ],
  ["no status", { status: undefined }, "status", "TypeError"],
  ["a status that lacks a method", { status: { state() {} } }, "status", "TypeError"],
  ["no version", { version: undefined }, "version", "TypeError"],
];

for (const [says, wrong, name, fault] of WRONG_OPTIONS) {
  test(`${says} is a ${fault} that names ${name}, before anything is opened`, async (t) => {
    const listen = t.mock.method(net.Server.prototype, "listen");
    const address = { host: "127.0.0.1", port: 0 };
    const options = { address, status: new TestStatus(), version: "1.2.3", ...wrong };
    await assert.rejects(AdminServer.start(options as never), {
      name: fault,
      message: new RegExp(`^${name}: expected `),
    });
    assert.equal(listen.mock.callCount(), 0);
  });
}

async function listenAt(t: TestContext, socketPath: string): Promise<AdminServer> {
  const address = { socketPath };
  const server = await AdminServer.start({ address, status: new TestStatus(), version: "1.2.3" });
  t.after(() => server.close());
  return server;
}

test("a socket has mode 0600, answers, and is removed by the stop", async (t) => {
  const path = join(makeFolder(t), "admin.sock");
  const admin = await startAdmin(t, { socketPath: path });
  assert.equal(admin.server.url, `unix:${path}`);
  assert.equal(statSync(path).mode & 0o777, 0o600);
  assert.equal((await admin.get("/healthz", { headers: { Host: "whatever" } })).status, 200);
  await admin.server.close();
  assert.equal(existsSync(path), false);
});

test("a socket has mode 0600 from the moment it exists", async (t) => {
  const path = join(makeFolder(t), "admin.sock");
  const modes: number[] = [];
  const listen = net.Server.prototype.listen;
  t.mock.method(
    net.Server.prototype,
    "listen",
    function (this: net.Server, options: net.ListenOptions) {
      const server = listen.call(this, options);
      modes.push(statSync(path).mode & 0o077);
      return server;
    },
  );
  const before = process.umask(0);
  try {
    await listenAt(t, path);
    assert.equal(process.umask(), 0); // unchanged
  } finally {
    process.umask(before);
  }
  assert.deepEqual(modes, [0]);
});

/** The path of a socket that a dead process left. */
async function leaveSocket(t: TestContext): Promise<string> {
  const path = join(makeFolder(t), "admin.sock");
  const dead = net.createServer().listen(path);
  await once(dead, "listening");
  linkSync(path, `${path}.kept`); // Node removes only the name that it made
  dead.close();
  await once(dead, "close");
  renameSync(`${path}.kept`, path);
  return path;
}

test("the socket of a dead process is replaced; the socket of a living process is not", async (t) => {
  const path = await leaveSocket(t);
  await listenAt(t, path);
  await assert.rejects(listenAt(t, path), { code: "EADDRINUSE" });
  assert.ok(existsSync(path));
});

test("if three servers find the socket of a dead process, one of them listens and is reached", async (t) => {
  const path = await leaveSocket(t);
  const starts = await Promise.allSettled([1, 2, 3].map(() => listenAt(t, path)));
  const faults = starts.map((start) => start.status === "rejected" && start.reason.code);
  assert.deepEqual(faults.toSorted(), ["EADDRINUSE", "EADDRINUSE", false]);
  await once(net.connect(path).unref(), "connect");
});

test("a listener that cannot set the mode of its socket closes it", async (t) => {
  const path = join(makeFolder(t), "admin.sock");
  // FAKE: some mounts of containers refuse to change the mode of a socket.
  const refused = t.mock.method(fs, "chmodSync", () => {
    throw Object.assign(new Error("not permitted"), { code: "EPERM" });
  });
  syncBuiltinESMExports();
  try {
    await assert.rejects(listenAt(t, path), { code: "EPERM" });
  } finally {
    refused.mock.restore();
    syncBuiltinESMExports();
  }
  assert.equal(existsSync(path), false);
});

test("a file at the path that is not a socket is left alone", async (t) => {
  const folder = makeFolder(t);
  writeFileSync(join(folder, "file"), "kept", { mode: 0o644 });
  mkdirSync(join(folder, "folder"));
  for (const name of ["file", "folder"]) {
    const before = statSync(join(folder, name)).mode;
    await assert.rejects(listenAt(t, join(folder, name)), { code: "EADDRINUSE" });
    assert.equal(statSync(join(folder, name)).mode, before);
  }
});

test("a listener that other machines can reach logs a warning", async (t) => {
  const warnings = collectWarnings(t, "0.0.0.0");
  await startAdmin(t, { host: "0.0.0.0", port: 0 });
  assert.equal(warnings.length, 1);
  await startAdmin(t, { host: "127.0.0.1", port: 0 });
  assert.equal(warnings.length, 1);
});
