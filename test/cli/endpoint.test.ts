import assert from "node:assert/strict";
import { copyFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { createToken } from "../../src/index.ts";
import { ask } from "../support/admin.ts";
import { makeCertificate, NEEDS_OPENSSL } from "../support/certificates.ts";
import { runCli, startServer } from "../support/cli.ts";
import { Client } from "../support/client.ts";
import { encodeRequest } from "../support/contract.ts";
import { makeFolder } from "../support/folders.ts";
import { messagesOf } from "../support/messages.ts";
import { postPlant } from "../support/post.ts";
import { TIMEOUT, until } from "../support/watch.ts";

describe("serve with a certificate", { ...NEEDS_OPENSSL, ...TIMEOUT }, () => {
  test("SIGHUP reloads it: new connections get it, open ones stay open, and an invalid one changes nothing", async (t) => {
    const folder = makeFolder(t);
    const token = await createToken(folder, { name: "gardener" });
    const [first, second] = [makeCertificate(t, "first"), makeCertificate(t, "second")];
    const files = makeFolder(t);
    const [cert, key] = [join(files, "cert.pem"), join(files, "key.pem")];
    copyFileSync(first.certPath, cert);
    copyFileSync(first.keyPath, key);
    const socket = join(files, "admin.sock");
    const args = ["--tls-cert", cert, "--tls-key", key, "--admin", socket];
    const server = await startServer(t, ["--data", folder, ...args]);
    assert.equal(server.url, `https://127.0.0.1:${server.port}`);
    let id = 0;
    const serves = async (client: Client) => {
      await client.send(encodeRequest({ token }, { body: `{"id":${id++},"name":"Fern"}` }));
      assert.equal((await client.next()).status, 200);
    };
    const open = await Client.connectSecurely(server.port, first.cert);
    await serves(open);

    const reports = () => server.stderr().match(/"event":"(warning|reloaded)".*\n/g)?.length ?? 0;
    const reload = async () => {
      const before = reports();
      server.process.kill("SIGHUP");
      await until("the reload is reported", () => reports() > before);
    };
    copyFileSync(second.certPath, cert); // with the key of the first
    await reload();
    assert.equal(messagesOf(server.stderr()).length, 1);
    const { text } = await ask(`unix:${socket}`, "/metrics");
    assert.match(text, /^plant_store_warnings_total 1$/m);
    assert.equal((await Client.connectSecurely(server.port, first.cert)).peerName, "first");
    rmSync(key);
    await reload();
    assert.equal((await Client.connectSecurely(server.port, first.cert)).peerName, "first");

    copyFileSync(second.keyPath, key);
    await reload();
    const fresh = await Client.connectSecurely(server.port, second.cert);
    assert.equal(fresh.peerName, "second");
    await serves(open);
    await serves(fresh);
    assert.equal((await server.stop()).status, 0);
  });

  test("files that are missing or do not fit each other: status 1 and one line", async (t) => {
    const [first, second] = [makeCertificate(t, "first"), makeCertificate(t, "second")];
    const files = makeFolder(t);
    writeFileSync(join(files, "rubbish"), "rubbish");
    const [gone, rubbish] = [join(files, "gone"), join(files, "rubbish")];
    const pairs = [
      [first.certPath, second.keyPath, "another certificate"],
      [first.certPath, gone, `--tls-key "${gone}"`],
      [rubbish, first.keyPath, `--tls-cert "${rubbish}"`],
      [first.certPath, rubbish, `--tls-key "${rubbish}"`],
      [first.keyPath, first.certPath, `--tls-cert "${first.keyPath}"`],
    ] as const;
    for (const [cert, key, named] of pairs) {
      const args = ["--tls-cert", cert, "--tls-key", key, "--port=0", "--data", makeFolder(t)];
      const end = await runCli(["serve", ...args]);
      const messages = messagesOf(end.stderr);
      assert.deepEqual([end.status, end.stdout, messages.length], [1, "", 1]);
      assert.ok(messages[0]?.includes(named), messages[0]);
    }
  });
});

test("a certificate without its key, or a key without its certificate: status 2", async (t) => {
  for (const [given, missing] of [
    ["--tls-cert", "--tls-key"],
    ["--tls-key", "--tls-cert"],
  ] as const) {
    const end = await runCli(["serve", "--port=0", given, "x.pem"], { cwd: makeFolder(t) });
    assert.equal(end.status, 2);
    assert.ok(end.stderr.includes(given) && end.stderr.includes(missing), end.stderr);
  }
});

test("SIGHUP does not end a server without a certificate", TIMEOUT, async (t) => {
  const folder = makeFolder(t);
  const token = await createToken(folder, { name: "gardener" });
  const server = await startServer(t, ["--data", folder, "--log", "off"]);
  server.process.kill("SIGHUP");
  assert.equal((await postPlant(server.url, token, '{"id":1,"name":"Fern"}')).status, 200);
  assert.deepEqual(await server.stop(), {
    status: 0,
    signal: null,
    stdout: server.stdout(),
    stderr: "",
  });
});
