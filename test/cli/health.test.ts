import assert from "node:assert/strict";
import { once } from "node:events";
import http from "node:http";
import net, { type AddressInfo } from "node:net";
import { describe, type TestContext, test } from "node:test";
import { makeCertificate, NEEDS_OPENSSL } from "../support/certificates.ts";
import { runCli, startServer } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { startService } from "../support/service.ts";

/** A run mostly waits for its process to start, so several run at once. */
const AT_ONCE = { concurrency: 3 };

async function listen(t: TestContext, server: net.Server): Promise<string> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  return String((server.address() as AddressInfo).port);
}

describe("health reports in one line, and by its status, whether a store responds", AT_ONCE, () => {
  test("a running server: 0, by its address and by the variables of serve", async (t) => {
    const { port, url } = await startService(t, { basePath: "/garden" });
    const env = { PLANT_STORE_HOST: "0.0.0.0", PLANT_STORE_PORT: String(port) };
    const ends = await Promise.all([
      runCli(["health", "--port", String(port), "--base-path", "/garden"]),
      runCli(["health"], { env: { ...env, PLANT_STORE_BASE_PATH: "/garden" } }),
    ]);
    for (const end of ends) {
      assert.deepEqual([end.status, end.stdout, end.stderr], [0, `${url} responds\n`, ""]);
    }
  });

  test("a server with a certificate: 0", NEEDS_OPENSSL, async (t) => {
    const { certPath, keyPath } = makeCertificate(t, "plants.example");
    const tls = ["--tls-cert", certPath, "--tls-key", keyPath];
    const server = await startServer(t, ["--data", makeFolder(t), ...tls]);
    const end = await runCli(["health", "--port", String(server.port), "--tls-cert", certPath]);
    assert.deepEqual([end.status, end.stdout], [0, `${server.url} responds\n`]);
    assert.equal((await runCli(["health", "--port", String(server.port)])).status, 1);
  });

  const OTHERS: readonly [who: string, make: () => net.Server][] = [
    ["a server that is not a store", () => http.createServer((_, res) => res.end("hello"))],
    [
      "a server whose 401 is not that of a store",
      () => http.createServer((_, res) => res.writeHead(401).end('{"error":"who are you"}')),
    ],
    ["a server that never responds", () => net.createServer((socket) => socket.resume())],
    ["a server that hangs up", () => net.createServer((socket) => socket.destroy())],
  ];
  for (const [who, make] of OTHERS) {
    for (const option of ["--port", "--admin"]) {
      test(`${who}, asked by ${option}: 1`, async (t) => {
        const end = await runCli(["health", option, await listen(t, make())]);
        assert.deepEqual([end.status, end.stdout], [1, ""]);
        assert.match(end.stderr, /^plant-store: [^\n]+\n$/);
      });
    }
  }

  test("no server: 1", async (t) => {
    const server = net.createServer();
    const port = await listen(t, server);
    server.close();
    const end = await runCli(["health", "--port", port]);
    assert.deepEqual([end.status, end.stdout], [1, ""]);
    assert.match(end.stderr, new RegExp(`^plant-store: [^\\n]*:${port} [^\\n]+\\n$`));
  });

  test("with --admin, or its variable, the admin listener is asked instead of the service", async (t) => {
    const { port } = await startService(t);
    const service = { PLANT_STORE_PORT: String(port) };
    const nowhere = "127.0.0.1:1";
    const ends = await Promise.all([
      runCli(["health", "--admin", nowhere], { env: service }),
      runCli(["health"], { env: { ...service, PLANT_STORE_ADMIN: nowhere } }),
    ]);
    for (const { status, stderr } of ends) {
      assert.equal(status, 1);
      assert.ok(stderr.includes(nowhere), stderr);
    }
  });
});
