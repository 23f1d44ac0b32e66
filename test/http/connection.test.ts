/** What a connection is allowed, and what is said on it. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { makeCertificate, NEEDS_OPENSSL } from "../support/certificates.ts";
import { sendRaw } from "../support/client.ts";
import { encodeRequest, resultOf } from "../support/contract.ts";
import { startService } from "../support/service.ts";
import { until } from "../support/watch.ts";

test("what reads hold is given back if CONNECT follows them", async (t) => {
  const { port, token } = await startService(t);
  const list = encodeRequest({ token }, { method: "GET" });
  const connect = encodeRequest({ token }, { method: "CONNECT", target: "a:1" });
  const requests = Buffer.concat([...new Array(15).fill(list), connect]);
  for (let count = 0; count < 40; count++) await sendRaw(port, requests).catch(() => {});
  const answers = await sendRaw(port, Buffer.concat([list, list]), 2);
  assert.deepEqual(answers.map(resultOf), [200, 200]);
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
