/** What a connection is allowed, and what is said on it. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import net from "node:net";
import { test } from "node:test";
import { promisify } from "node:util";
import { makeCertificate, NEEDS_OPENSSL } from "../support/certificates.ts";
import { sendRaw } from "../support/client.ts";
import { chunked, encodeRequest, plantBody, resultOf } from "../support/contract.ts";
import { parseAnswers } from "../support/raw.ts";
import { holdCreates, startService } from "../support/service.ts";
import { collectMessages, until } from "../support/watch.ts";

/** A request that is refused before its body arrives, with a response that closes the connection. */
const REFUSED = {
  headers: { Authorization: undefined, "Transfer-Encoding": "chunked" },
  body: chunked("{}"),
};

test("a client that sends all before it reads gets the responses up to a refusal that closes, and nothing after it is read", async (t) => {
  const service = await startService(t);
  const started = collectMessages(t, "http.server.request.start");
  const rest = Array.from({ length: 2000 }, () => ({ body: plantBody(2) }));
  const long = { body: Buffer.alloc(32 * 1024 * 1024) };
  const requests = [{ body: plantBody(1) }, REFUSED, ...rest, long];
  const bytes = Buffer.concat(requests.map((each) => encodeRequest(service, each)));
  const socket = net.connect(service.port, "127.0.0.1").pause();
  await promisify<Buffer, void>(socket.write).call(socket, bytes);
  const answers = parseAnswers(Buffer.concat(await socket.toArray()));
  assert.deepEqual(answers.map(resultOf), [200, 40101]);
  assert.equal(started.length, 2);
});

test("the memory of reads is returned if CONNECT follows them", async (t) => {
  const { port, token } = await startService(t);
  const list = encodeRequest({ token }, { method: "GET" });
  const connect = encodeRequest({ token }, { method: "CONNECT", target: "a:1" });
  const requests = Buffer.concat([...new Array(15).fill(list), connect]);
  for (let count = 0; count < 40; count++) await sendRaw(port, requests).catch(() => {});
  const answers = await sendRaw(port, Buffer.concat([list, list]), 2);
  assert.deepEqual(answers.map(resultOf), [200, 200]);
});

test("a client that sends garbage after a create and resets the connection harms nobody", async (t) => {
  const service = await startService(t);
  const { release, count } = holdCreates(t, service);
  const socket = net.connect(service.port, "127.0.0.1");
  const create = encodeRequest(service, { body: plantBody(1) });
  socket.write(Buffer.concat([create, Buffer.from("garbage\r\n\r\n")]));
  await until("the create is in flight", () => count() === 1);
  socket.resetAndDestroy();
  release();
  const answers = await sendRaw(service.port, encodeRequest(service, { body: plantBody(2) }), 1);
  assert.deepEqual(answers.map(resultOf), [200]);
});

test(
  "a client that changes its TLS keys sixteen times is disconnected",
  NEEDS_OPENSSL,
  async (t) => {
    const tls = makeCertificate(t, "a");
    const service = await startService(t, { tls });
    const at = ["-connect", `127.0.0.1:${service.port}`, "-crlf"];
    const client = spawn("openssl", ["s_client", ...at], { stdio: "pipe" });
    t.after(() => client.kill());
    client.stdin.on("error", () => {});
    let [said, got] = ["", ""];
    client.stderr.on("data", (text) => {
      said += text;
    });
    client.stdout.on("data", (text) => {
      got += text;
    });
    const isConnected = () =>
      got.includes("---\nread R BLOCK") || got.includes("Verify return code");
    await until("it is connected", isConnected);
    for (let count = 1; count <= 16; count++) {
      client.stdin.write("k\n");
      const isChanged = () => said.split("KEYUPDATE").length > count || client.exitCode !== null;
      await until("the keys are changed", isChanged);
    }
    client.stdin.write("GET / HTTP/1.1\nHost: a\nConnection: close\n\n");
    if (client.exitCode === null) await once(client, "exit");
    assert.doesNotMatch(got, /HTTP\/1\.1 /);
  },
);
