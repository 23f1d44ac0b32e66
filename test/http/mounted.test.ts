/** What other code of a program does to a request before the mounted listener gets it. */
import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { PassThrough } from "node:stream";
import { type TestContext, test } from "node:test";
import { createRequestListener } from "../../src/index.ts";
import { createTestStore } from "../../src/testing.ts";
import { Client, sendRaw } from "../support/client.ts";
import { assertError, encodeRequest, type RequestParts } from "../support/contract.ts";
import { serve } from "../support/serve.ts";
import { send, startService } from "../support/service.ts";
import { collectWarnings, until } from "../support/watch.ts";

const BODY = '{"id":1,"name":"Färn"}';
const LONG = `{"id":1,"name":"${"ä".repeat(150_000)}"}`;

type Touch = (req: IncomingMessage, token: string) => void;

/** Sends one create to a listener that gets each request after `touch`. */
async function create(t: TestContext, touch: Touch, parts: RequestParts = {}) {
  const { store: plants, token, logLines } = await startService(t);
  const verified = { name: "test", scopes: ["write"] as const };
  const tokens = { verify: (sent: string) => (sent === token ? verified : undefined) };
  const listener = createRequestListener({ plants, tokens });
  const { port } = await serve(t, (req, res) => {
    touch(req, token);
    listener(req, res);
  });
  const [answer] = await sendRaw(port, encodeRequest({ token }, { body: BODY, ...parts }), 1);
  assert.ok(answer);
  return { answer, lines: logLines() };
}

const DECODED: Readonly<Record<string, Touch>> = {
  "has made text of the body": (req) => req.setEncoding("utf8"),
  "wants text when some has come": (req) => setImmediate(() => req.setEncoding("utf8")),
};

for (const [what, touch] of Object.entries(DECODED)) {
  test(`if other code ${what}, the response names the mistake, and nothing is stored`, async (t) => {
    const warnings = collectWarnings(t, "A request failed with 500");
    const { answer, lines } = await create(t, touch, { body: LONG });
    assert.match(assertError(answer, 50001), /before any body parser/);
    assert.deepEqual(lines, []);
    assert.equal(warnings.length, 1);
  });
}

test("responses are sent whole through middleware that drops the callbacks of writes, as compression may", async (t) => {
  const { store: plants, token } = await startService(t);
  const verified = { name: "test", scopes: ["write"] as const };
  const listener = createRequestListener({ plants, tokens: { verify: () => verified } });
  const { port } = await serve(t, (req, res) => {
    const write = res.write.bind(res) as (chunk: Uint8Array) => boolean;
    res.write = (chunk: Uint8Array) => write(chunk);
    listener(req, res);
  });
  const request = encodeRequest({ token }, { body: BODY });
  const answers = await sendRaw(port, Buffer.concat([request, request]), 2);
  assert.deepEqual(
    answers.map(({ status }) => status),
    [200, 200],
  );
});

test("a body that other code has paused is read", async (t) => {
  for (const body of [BODY, LONG]) {
    const { answer, lines } = await create(t, (req) => void req.pause(), { body });
    assert.deepEqual([answer.status, lines], [200, [body]]);
  }
});

/** Sets a header as code before the listener does. */
const setting = (name: string, value: (token: string) => string | string[]): Touch => {
  return (req, token) => Object.assign(req.headers, { [name]: value(token) });
};

const SET: readonly [what: string, touch: Touch, sent: string, status: number][] = [
  ["sets Authorization", setting("authorization", (token) => `Bearer ${token}`), "x", 200],
  ["sets a wrong one", setting("authorization", () => "Bearer x"), "", 401],
  ["sets two", setting("authorization", (token) => Array(2).fill(`Bearer ${token}`)), "", 401],
  ["sets Content-Type", setting("content-type", () => "text/plain"), "", 415],
];

for (const [what, touch, sent, status] of SET) {
  test(`if other code ${what}, the response is ${status}`, async (t) => {
    const headers = sent === "" ? {} : { Authorization: sent };
    const { answer, lines } = await create(t, touch, { headers });
    assert.equal(answer.status, status, answer.text);
    assert.deepEqual(lines, status === 200 ? [BODY] : []);
  });
}

test("a request without a connection, as test tools make it, gets its response", async () => {
  const socket = new PassThrough();
  const req = new IncomingMessage(socket as unknown as Socket);
  const res = new ServerResponse(Object.assign(req, { method: "POST", url: "/plants" }));
  res.assignSocket(socket as unknown as Socket);
  const { plants, tokens } = createTestStore();
  createRequestListener({ plants, tokens })(req, res);
  const [head] = await once(socket, "data");
  assert.match(`${head}`, /^HTTP\/1\.1 401 /);
});

for (const isLate of [false, true]) {
  const when = isLate ? "while its token is verified" : "before it comes to the listener";
  test(`a request that other code responds to ${when} gets no second response`, async (t) => {
    const { store: plants } = await startService(t);
    const warnings = collectWarnings(t);
    const caller = { name: "test", scopes: ["write"] as const };
    const responded = new EventEmitter();
    const verify = () => (isLate ? once(responded, "finish").then(() => caller) : caller);
    const listener = createRequestListener({ plants, tokens: { verify }, corsOrigins: ["*"] });
    const { url } = await serve(t, (req, res) => {
      res.once("finish", () => responded.emit("finish"));
      const respond = () => res.writeHead(503).end();
      if (isLate) setImmediate(respond);
      else respond();
      listener(req, res);
    });
    const headers = { Authorization: "Bearer any", "Content-Type": "application/json" };
    const wrongMethod = { method: "PUT", headers };
    const create = { method: "POST", headers, body: '{"id":1,"name":"Rose"}' };
    // Each is sent twice: if the first left anything undone, the second would show it.
    for (const request of [wrongMethod, create, wrongMethod, create]) {
      assert.equal((await send(`${url}/plants`, request)).status, 503);
    }
    assert.equal(plants.status().plants, 0);
    assert.deepEqual(warnings, []);
  });
}

test("a create that other code responds to while its body arrives is not stored", async (t) => {
  const { store: plants, token, tokens, logLines } = await startService(t);
  const listener = createRequestListener({ plants, tokens });
  const { port, responses } = await serve(t, listener);
  const client = await Client.connect(port);
  t.after(() => client.destroy());
  const request = encodeRequest({ token }, { body: BODY });
  await client.send(request.subarray(0, -1));
  await until("it has begun", () => responses.length === 1);
  responses[0]?.writeHead(503, { "Content-Length": 0 }).end();
  const second = '{"id":2,"name":"two"}';
  await client.send(request.subarray(-1), encodeRequest({ token }, { body: second }));
  assert.equal((await client.next()).status, 503);
  assert.equal((await client.next()).status, 200);
  assert.deepEqual(logLines(), [second]);
});
