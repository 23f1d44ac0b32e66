/** What other code of a program does to a request before the mounted listener gets it, and around it. */
import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { EventEmitter, once } from "node:events";
import { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { PassThrough } from "node:stream";
import { type TestContext, test } from "node:test";
import { createRequestListener, subscribe, type TokenVerifier } from "../../src/index.ts";
import { createTestStore } from "../../src/testing.ts";
import { Client, sendRaw } from "../support/client.ts";
import { encodeRequest, type RequestParts, resultOf } from "../support/contract.ts";
import { send, serve } from "../support/service.ts";
import { linesOf } from "../support/stores.ts";
import { collectWarnings, until } from "../support/watch.ts";

const BODY = '{"id":1,"name":"Färn"}';
const LONG = `{"id":1,"name":"${"ä".repeat(150_000)}"}`;
const MEMBER = { name: "test", scopes: ["read", "write"] } as const;
const token = "good";
const GOOD = `Bearer ${token}`;
const CHECK: TokenVerifier = { verify: (sent) => (sent === token ? MEMBER : undefined) };

/** Code before the listener, which is called by `next` if the code takes it, or else after the code. */
type Touch = (req: IncomingMessage, res: ServerResponse, next: () => void) => unknown;

async function mount(t: TestContext, touch: Touch, tokens = CHECK) {
  const { plants } = createTestStore();
  const listener = createRequestListener({ plants, tokens, corsOrigins: ["*"] });
  const { port, url } = await serve(t, (req, res) => {
    const next = () => listener(req, res);
    touch(req, res, next);
    if (touch.length < 3) next();
  });
  return { plants, port, url, lines: () => linesOf(plants.listLines()) };
}

/** Sets a header as code before the listener does. */
const setting = (name: string, value: string | string[]): Touch => {
  return (req, _) => Object.assign(req.headers, { [name]: value });
};

const TOUCHES: readonly [what: string, touch: Touch, parts: RequestParts, result: number][] = [
  ["has paused a body", (req) => req.pause(), {}, 200],
  ["has paused a long body", (req) => req.pause(), { body: LONG }, 200],
  ["has made text of the body", (req) => req.setEncoding("utf8"), { body: LONG }, 50001],
  [
    "wants text when some has come",
    (req) => setImmediate(() => req.setEncoding("utf8")),
    { body: LONG },
    50001,
  ],
  ["has read some", (req, _, next) => req.once("data", next), {}, 50001],
  ["has read all", (req, _, next) => req.once("end", next).resume(), {}, 50001],
  ["sets Authorization", setting("authorization", GOOD), { headers: { Authorization: "x" } }, 200],
  ["sets a wrong Authorization", setting("authorization", "Bearer x"), {}, 40102],
  ["sets two", setting("authorization", [GOOD, GOOD]), {}, 40102],
  ["sets Content-Type", setting("content-type", "text/plain"), {}, 41501],
];

for (const [what, touch, parts, result] of TOUCHES) {
  test(`if other code ${what}, a create gets ${result}`, async (t) => {
    const warnings = collectWarnings(t, "A request failed with 500");
    const { port, lines } = await mount(t, touch);
    const request = encodeRequest({ token }, { body: BODY, ...parts });
    assert.deepEqual((await sendRaw(port, request, 1)).map(resultOf), [result]);
    assert.deepEqual(await lines(), result === 200 ? [parts.body ?? BODY] : []);
    assert.equal(warnings.length, result === 50001 ? 1 : 0);
  });
}

test("responses are sent whole through middleware that drops the callbacks of writes, as compression may", async (t) => {
  const { port } = await mount(t, (_, res) => {
    const write = res.write.bind(res) as (chunk: Uint8Array) => boolean;
    res.write = (chunk: Uint8Array) => write(chunk);
  });
  const request = encodeRequest({ token }, { body: BODY });
  const answers = await sendRaw(port, Buffer.concat([request, request]), 2);
  assert.deepEqual(answers.map(resultOf), [200, 200]);
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const client = await Client.connect(port);
  await client.send(encodeRequest({ token: "bad" }, { body: "x".repeat(100_000) }));
  assert.equal(resultOf(await client.next()), 40102);
  t.mock.timers.tick(2000);
  assert.deepEqual(await client.rest(), []); // the connection has ended
});

test("a request without a connection, as test tools make it, gets its response", async () => {
  const socket = new PassThrough();
  const req = new IncomingMessage(socket as unknown as Socket);
  const res = new ServerResponse(Object.assign(req, { method: "POST", url: "/plants" }));
  res.assignSocket(socket as unknown as Socket);
  createRequestListener(createTestStore())(req, res);
  const [head] = await once(socket, "data");
  assert.match(`${head}`, /^HTTP\/1\.1 401 /);
});

for (const isLate of [false, true]) {
  const when = isLate ? "while its token is verified" : "before it comes to the listener";
  test(`a request that other code responds to ${when} gets no second response`, async (t) => {
    const warnings = collectWarnings(t);
    const responded = new EventEmitter();
    const verify = () => (isLate ? once(responded, "finish").then(() => MEMBER) : MEMBER);
    const touch: Touch = (_, res) => {
      res.once("finish", () => responded.emit("finish"));
      const respond = () => res.writeHead(503).end();
      if (isLate) setImmediate(respond);
      else respond();
    };
    const { url, lines } = await mount(t, touch, { verify });
    const headers = { Authorization: GOOD, "Content-Type": "application/json" };
    const [wrong, create] = [{ method: "PUT" }, { method: "POST", body: BODY }];
    // Each is sent twice: if the first left anything undone, the second would show it.
    for (const request of [wrong, create, wrong, create]) {
      assert.equal((await send(`${url}/plants`, { headers, ...request })).status, 503);
    }
    assert.deepEqual([await lines(), warnings], [[], []]);
  });
}

test("a create that other code responds to while its body arrives is not stored", async (t) => {
  const responses: ServerResponse[] = [];
  const { port, lines } = await mount(t, (_, res) => responses.push(res));
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
  assert.deepEqual(await lines(), [second]);
});

const CALLS: readonly [parts: RequestParts, ...calls: string[]][] = [
  [{ body: LONG }, "verify", "create"],
  [{ method: "GET", target: "/plants/1" }, "verify", "getLine"],
  [{ method: "GET" }, "verify", "listLines"],
];

test("the AsyncLocalStorage around a request reaches the store, the token check and the channels", async (t) => {
  const storage = new AsyncLocalStorage<unknown>();
  const calls = new Set<string>();
  const note = <T>(call: string, value?: T) => {
    calls.add(`${call} of ${storage.getStore()}`);
    return value as T;
  };
  const verify = () => note("verify", MEMBER);
  t.after(subscribe("plant-store:request", () => note("channel")));
  const touch: Touch = (req, _, next) => storage.run(req.headers["x-request-id"], next);
  const { plants, port } = await mount(t, touch, { verify });
  for (const name of ["create", "getLine", "listLines"] as const) {
    const method = plants[name].bind(plants) as (argument: unknown) => never;
    t.mock.method(plants, name, (argument: unknown) => note(name, method(argument)));
  }
  for (const [id, [parts, ...expected]] of CALLS.entries()) {
    calls.clear();
    const headers = { "X-Request-Id": `${id}`, Connection: "close" };
    const bytes = encodeRequest({ token }, { ...parts, headers });
    const bodyStart = bytes.indexOf("\r\n\r\n") + 4;
    const client = await Client.connect(port);
    await client.send(bytes.subarray(0, bodyStart));
    await until("the head was read", () => calls.has(`verify of ${id}`));
    await client.send(bytes.subarray(bodyStart));
    await client.rest();
    await until("the end", () => calls.size > expected.length);
    assert.deepEqual(
      [...calls],
      [...expected, "channel"].map((call) => `${call} of ${id}`),
    );
  }
});
