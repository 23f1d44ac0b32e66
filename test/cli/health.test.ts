import assert from "node:assert/strict";
import { once } from "node:events";
import http from "node:http";
import net, { type AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { ask } from "../support/admin.ts";
import { makeCertificate, NEEDS_OPENSSL } from "../support/certificates.ts";
import { runCli, startServer } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { freePort } from "../support/serve.ts";
import { startService } from "../support/service.ts";

/** A run mostly waits for its process to start, so several run at once. */
const AT_ONCE = { concurrency: 3 };

async function listen(t: TestContext, server: net.Server): Promise<string> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  return String((server.address() as AddressInfo).port);
}

describe("health reports in one line, and by its status, whether a store answers", AT_ONCE, () => {
  test("a running server: 0, by address, by URL and by the variables of serve", async (t) => {
    const { port, url } = await startService(t, { basePath: "/garden" });
    const env = { PLANT_STORE_HOST: "0.0.0.0", PLANT_STORE_PORT: String(port) };
    const ends = await Promise.all([
      runCli(["health", "--port", String(port), "--base-path", "/garden"]),
      runCli(["health", "--url", `${url}/`]),
      runCli(["health"], { env: { ...env, PLANT_STORE_BASE_PATH: "/garden" } }),
    ]);
    for (const end of ends) {
      assert.deepEqual([end.status, end.stdout, end.stderr], [0, `${url} answers\n`, ""]);
    }
  });

  test("a server neither logs nor counts it", async (t) => {
    const admin = join(makeFolder(t), "admin.sock");
    const server = await startServer(t, ["--data", makeFolder(t), "--admin", admin]);
    const end = await runCli(["health", "--url", server.url]);
    assert.deepEqual([end.status, end.stderr], [0, ""]);
    const { text } = await ask(`unix:${admin}`, "/status.json");
    assert.deepEqual(JSON.parse(text).errors, []);
    assert.doesNotMatch(server.stderr(), /"event":"request"/);
  });

  test("a server with a certificate: 0", NEEDS_OPENSSL, async (t) => {
    const { certPath, keyPath } = makeCertificate(t, "plants.example");
    const tls = ["--tls-cert", certPath, "--tls-key", keyPath];
    const server = await startServer(t, ["--data", makeFolder(t), ...tls]);
    const wait = ["--timeout-ms", "60000"]; // on a busy machine 2 s may pass
    const secured = ["--port", String(server.port), "--tls-cert", certPath];
    const end = await runCli(["health", ...secured, ...wait]);
    assert.deepEqual([end.status, end.stdout], [0, `${server.url} answers\n`]);
    const plain = await runCli(["health", "--port", String(server.port), ...wait]);
    assert.equal(plain.status, 1);
    assert.match(plain.stderr, /HTTPS/);
    const { port } = await startService(t);
    const secure = await runCli(["health", "--url", `https://127.0.0.1:${port}`, ...wait]);
    assert.equal(secure.status, 1);
    assert.match(secure.stderr, /plain HTTP/);
  });

  // Node 22.21, 24.5 and later heed these variables.
  test("the proxy of the environment is not used", async (t) => {
    let asked = 0;
    const proxy = http.createServer((_, res) => res.end(String(asked++)));
    proxy.on("connect", (_, socket) => socket.end(String(asked++)));
    const proxyUrl = `http://127.0.0.1:${await listen(t, proxy)}`;
    const env = { NODE_USE_ENV_PROXY: "1", HTTP_PROXY: proxyUrl, HTTPS_PROXY: proxyUrl };
    const noExceptions = { http_proxy: "", https_proxy: "", NO_PROXY: "", no_proxy: "" };
    const { url } = await startService(t);
    const admin = `127.0.0.1:${await freePort()}`;
    await startServer(t, ["--data", makeFolder(t), "--admin", admin]);
    for (const args of [
      ["--url", url],
      ["--admin", admin],
    ]) {
      const end = await runCli(["health", ...args], { env: { ...noExceptions, ...env } });
      assert.equal(end.status, 0, end.stderr);
    }
    await runCli(["health", "--url", "https://127.0.0.1:1"], { env: { ...noExceptions, ...env } });
    assert.equal(asked, 0);
  });

  const OTHERS: readonly [who: string, make: () => net.Server][] = [
    ["a server that is not a store", () => http.createServer((_, res) => res.end("hello"))],
    [
      "a server whose 401 is not that of a store",
      () => http.createServer((_, res) => res.writeHead(401).end('{"error":"who are you"}')),
    ],
    ["an answer that is too long", () => http.createServer((_, res) => res.end("x".repeat(1e6)))],
    ["a server that never answers", () => net.createServer((socket) => socket.resume())],
    ["a server that hangs up", () => net.createServer((socket) => socket.destroy())],
  ];
  for (const [who, make] of OTHERS) {
    test(`${who}: 1`, async (t) => {
      const port = await listen(t, make());
      const end = await runCli(["health", "--port", port, "--timeout-ms", "300"]);
      assert.deepEqual([end.status, end.stdout], [1, ""]);
      assert.match(end.stderr, /^plant-store: [^\n]+\n$/);
    });
  }

  test("no server: 1", async (t) => {
    const server = net.createServer();
    const port = await listen(t, server);
    server.close();
    const end = await runCli(["health", "--port", port]);
    assert.deepEqual([end.status, end.stdout], [1, ""]);
    assert.match(end.stderr, new RegExp(`^plant-store: [^\\n]*:${port} [^\\n]+\\n$`));
  });

  const NO_BASE_URLS = [
    ...["127.0.0.1:8080", "ftp://x", "http://", "http:///x"],
    ...["http://a/?", "http://a?b=c", "http://a/#b", "http://b@a", "http://b:c@a/d"],
  ];
  for (const url of NO_BASE_URLS) {
    test(`no base URL, ${url}: 2`, async () => {
      assert.equal((await runCli(["health", "--url", url])).status, 2);
    });
  }

  test("the URL is used first, then the admin listener, then the other options", async (t) => {
    const { folder, port, url } = await startService(t, { basePath: "/garden@home" });
    const nowhere = join(folder, "admin.sock");
    const service = { PLANT_STORE_BASE_PATH: "/garden@home", PLANT_STORE_PORT: String(port) };
    const admin = { PLANT_STORE_ADMIN: nowhere };
    const asked: readonly [args: string[], env: Record<string, string>, answers: boolean][] = [
      [["--url", url], admin, true],
      [["--url", url, "--admin", nowhere], {}, true],
      [[], service, true],
      [[], { ...service, ...admin }, false],
      [["--admin", nowhere], service, false],
    ];
    for (const [args, env, answers] of asked) {
      const end = await runCli(["health", ...args], { env });
      const said = answers ? [0, `${url} answers\n`] : [1, ""];
      assert.deepEqual([end.status, end.stdout], said, args.join(" "));
      assert.equal(end.stderr.includes(nowhere), !answers, end.stderr);
    }
  });
});
