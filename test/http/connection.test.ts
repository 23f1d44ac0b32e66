/** What a connection is allowed, and what is said on it. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, test } from "node:test";
import { makeCertificate, NEEDS_OPENSSL } from "../support/certificates.ts";
import { Client } from "../support/client.ts";
import { assertError, encodeRequest, plantBody, resultOf } from "../support/contract.ts";
import { sendRaw } from "../support/raw.ts";
import { startReadable } from "../support/reading.ts";
import { holdCreates, startService } from "../support/service.ts";
import { until } from "../support/watch.ts";

test("the seventeenth unanswered request gets 50301, and nothing after it is carried out", async (t) => {
  const service = await startService(t);
  const { release } = holdCreates(t, service);
  const requests = Array.from({ length: 20 }, (_, id) =>
    encodeRequest(service, { body: plantBody(id) }),
  );
  const client = await Client.connect(service.port);
  await client.send(Buffer.concat(requests));
  release();
  assert.deepEqual((await client.rest()).map(resultOf), [...new Array(16).fill(200), 50301]);
  assert.equal(service.logLines().length, 16);
});

test("what reads hold is given back if CONNECT follows them", async (t) => {
  const { port, readToken: token } = await startReadable(t, [{ id: 1n, name: "a" }]);
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

describe("a message says what is wrong", () => {
  for (const [what, parts, error, says] of [
    ["an empty body", {}, 40003, /empty/],
    ["a byte order mark", { body: '\ufeff{"id":1,"name":"a"}' }, 40003, /U\+FEFF/],
    ["an id with leading zeros", { method: "GET", target: "/plants/007" }, 40401, /leading zeros/],
    ["no token", { headers: { Authorization: undefined } }, 40101, /got nothing$/],
    [
      "a token of another form",
      { headers: { Authorization: "Bearer pst_…" } },
      40102,
      /another form/,
    ],
    [
      "an unknown token",
      { headers: { Authorization: `Bearer pst_${"a".repeat(43)}` } },
      40102,
      /unknown, expired or revoked$/,
    ],
  ] as const) {
    test(`about ${what}`, async (t) => {
      const { port, token, readToken } = await startReadable(t, []);
      const isRead = "method" in parts;
      const request = encodeRequest({ token: isRead ? readToken : token }, parts);
      const [answer] = await sendRaw(port, request, 1);
      assert.ok(answer);
      assert.match(assertError(answer, error), says);
    });
  }

  test("without a token that was sent by mistake", async (t) => {
    const { port, token, readToken } = await startReadable(t, []);
    for (const target of [`limit=${token}`, `after=${token}`, `${token}=1`]) {
      const parts = { method: "GET", target: `/plants?${target}` };
      const [answer] = await sendRaw(port, encodeRequest({ token: readToken }, parts), 1);
      assert.equal(answer?.text.includes(token.slice(10, 30)), false);
    }
  });
});
