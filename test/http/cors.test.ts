/** Pages of other origins: which of them are allowed, and the headers of preflights and answers. */
import assert from "node:assert/strict";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { EventEmitter, once } from "node:events";
import { test } from "node:test";
import { assertOrigins } from "../../src/core/options.ts";
import { createRequestListener, PlantServer } from "../../src/index.ts";
import { Client } from "../support/client.ts";
import { assertError, encodeRequest, exchange, type RequestParts } from "../support/contract.ts";
import type { RawAnswer } from "../support/raw.ts";
import { read, startReadable } from "../support/reading.ts";
import { serve } from "../support/serve.ts";
import { type Service, send } from "../support/service.ts";

const APP = "https://app.example";
const OTHER = "http://localhost:3000";
const STRANGER = "https://stranger.example";
const EXPOSED = "Link, Retry-After, WWW-Authenticate, X-Request-Id";

const ALLOWED = "authorization, content-type, x-request-id";

/** The headers of the answer that matter to a browser. */
function marksOf({ headers }: Pick<RawAnswer, "headers">): Record<string, string> {
  return Object.fromEntries([...headers].filter(([name]) => name.startsWith("access-control")));
}

const MARKED = {
  "access-control-allow-origin": APP,
  "access-control-expose-headers": EXPOSED,
};

const MARKED_FOR_ALL = {
  "access-control-allow-origin": "*",
  "access-control-expose-headers": EXPOSED,
};

/** The answer to these bytes, which need not be a valid request. */
async function ask(service: Service, parts: RequestParts | Buffer): Promise<RawAnswer> {
  const client = await Client.connect(service.port);
  await client.send(Buffer.isBuffer(parts) ? parts : encodeRequest(service, parts));
  const answer = await client.next();
  client.destroy();
  return answer;
}

function preflightFrom(origin: string, target = "/plants"): RequestParts {
  const headers = {
    Origin: origin,
    Authorization: undefined,
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type",
  };
  return { method: "OPTIONS", target, headers };
}

for (const target of [
  "/plants",
  "/plants?limit=1",
  "/plants/7",
  "/plants/007",
  "/plants/",
  "/",
  "http://localhost/nowhere?x",
]) {
  test(`a preflight of ${target} is answered 204 without a token, with all methods and headers`, async (t) => {
    const service = await startReadable(t, [], { corsOrigins: [APP, OTHER] });
    for (const origin of [APP, OTHER]) {
      const answer = await ask(service, preflightFrom(origin, target));
      assert.equal(answer.status, 204);
      assert.equal(answer.text, "");
      assert.equal(answer.headers.get("content-length"), undefined);
      assert.equal(answer.headers.get("content-type"), undefined);
      assert.deepEqual(marksOf(answer), {
        ...MARKED,
        "access-control-allow-origin": origin,
        "access-control-allow-methods": "GET, HEAD, POST",
        "access-control-allow-headers": ALLOWED,
        "access-control-max-age": "7200",
      });
    }
  });
}

const LONG_NAME = "x".repeat(1025);

for (const [asked, more] of [
  ["authorization,baggage,sentry-trace,traceparent", ", baggage, sentry-trace, traceparent"],
  ["X-B3-TraceId ,\tx-b3-traceid, Authorization", ", x-b3-traceid"],
  ["traceparent,,a b,x:y,caf\u00e9,*", ", traceparent, *"],
  [LONG_NAME, ""],
  ["", ""],
  [undefined, ""],
] as const) {
  test(`a page that asks for ${asked?.slice(0, 46)} is allowed the headers with valid names`, async (t) => {
    for (const origins of [[APP], ["*"]]) {
      const service = await startReadable(t, [], { corsOrigins: origins });
      const { headers } = preflightFrom(APP);
      const parts = { ...headers, "Access-Control-Request-Headers": asked };
      const answer = await ask(service, { method: "OPTIONS", headers: parts });
      assert.equal(answer.headers.get("access-control-allow-headers"), ALLOWED + more);
    }
  });
}

test("a preflight is answered below a base path and beside it", async (t) => {
  const service = await startReadable(t, [], { corsOrigins: [APP], basePath: "/garden" });
  for (const target of ["/garden/plants", "/garden/nowhere", "/plants", "*"]) {
    assert.equal((await ask(service, preflightFrom(APP, target))).status, 204, target);
  }
});

test("a request that is no preflight from a named origin needs a token", async (t) => {
  const service = await startReadable(t, [], { corsOrigins: [APP] });
  const { headers } = preflightFrom(APP);
  for (const [error, parts] of [
    [40101, preflightFrom(STRANGER)],
    [40101, preflightFrom("null")],
    [40101, preflightFrom(APP.toUpperCase())],
    [40101, preflightFrom(STRANGER, "/nowhere")],
    [
      40101,
      { method: "OPTIONS", headers: { ...headers, "Access-Control-Request-Method": undefined } },
    ],
    [40101, { method: "OPTIONS", headers: { ...headers, Origin: undefined } }],
    [40501, { method: "OPTIONS", headers: { Origin: APP } }],
    [40001, { ...preflightFrom(APP), headers: { ...headers, Host: ["a", "b"] } }],
  ] as const) {
    assertError(await ask(service, parts), error);
  }
});

const ANSWERS: readonly [status: number, parts: RequestParts | Buffer][] = [
  [200, { body: '{"id":1,"name":"x"}' }],
  [400, { body: "{}" }],
  [401, { headers: { Authorization: undefined } }],
  [401, { headers: { Authorization: "Bearer x" } }],
  [403, { method: "GET" }],
  [404, { target: "/nowhere" }],
  [405, { method: "PUT" }],
  [413, { headers: { "Content-Length": "1048577" } }],
  [415, { headers: { "Content-Type": "text/plain" } }],
  [417, { headers: { Expect: "x" } }],
  [400, { headers: { Host: undefined } }],
  [400, { headers: { "Transfer-Encoding": "chunked" }, body: "no chunk" }],
];

function fromApp(parts: RequestParts | Buffer): RequestParts | Buffer {
  if (Buffer.isBuffer(parts)) return parts;
  return { ...parts, headers: { Origin: APP, ...parts.headers } };
}

for (const origins of [[APP], [OTHER, APP]]) {
  test(`every answer to a page of one of ${origins.length} named origins names that origin, also a refusal`, async (t) => {
    const service = await startReadable(t, [], { corsOrigins: origins });
    for (const [status, parts] of ANSWERS) {
      const answer = await ask(service, fromApp(parts));
      assert.equal(answer.status, status);
      assert.deepEqual(marksOf(answer), MARKED, String(status));
    }
  });
}

test("with the origin * every answer allows any page", async (t) => {
  const service = await startReadable(t, [], { corsOrigins: ["*"] });
  for (const [status, parts] of ANSWERS) {
    const answer = await ask(service, fromApp(parts));
    assert.equal(answer.status, status);
    assert.deepEqual(marksOf(answer), MARKED_FOR_ALL);
  }
});

test("an answer to any other origin has no headers of CORS", async (t) => {
  const service = await startReadable(t, [], { corsOrigins: [APP, OTHER] });
  for (const origin of [undefined, STRANGER, "null", `${APP}.stranger.example`, `${APP}, ${APP}`]) {
    const answer = await ask(service, { headers: { Origin: origin }, body: '{"id":1,"name":"x"}' });
    assert.equal(answer.status, 200);
    assert.deepEqual(marksOf(answer), {});
  }
});

test("the 408 for a slow request names its origin", async (t) => {
  const service = await startReadable(t, [], {
    corsOrigins: [OTHER, APP],
    headerTimeoutMs: 500, // much longer than its headers take
    requestTimeoutMs: 500,
  });
  const headers = { Origin: APP, "Content-Length": "10" };
  const answer = await ask(service, { headers, body: "{" });
  assertError(answer, 40801);
  assert.deepEqual(marksOf(answer), MARKED);
});

const NO_REQUESTS: readonly (RequestParts | Buffer)[] = [
  { headers: { Origin: APP, X: "x".repeat(20_000) } },
  { headers: { Origin: APP, "Content-Length": "x" } },
  Buffer.from("x\r\n\r\n"),
];

for (const [origins, marks] of [
  [[APP], MARKED],
  [["*"], MARKED_FOR_ALL],
  [[APP, OTHER], {}],
] as const) {
  test(`with ${origins.join(" and ")} allowed, an answer to bytes that are no request names ${origins.length === 1 ? "the origin" : "none"}`, async (t) => {
    const service = await startReadable(t, [], { corsOrigins: origins });
    for (const parts of NO_REQUESTS) assert.deepEqual(marksOf(await ask(service, parts)), marks);
  });
}

test("a refusal of a body names the origin of its request, no matter what the body contains", async (t) => {
  const service = await startReadable(t, [], { corsOrigins: [APP] });
  for (const origin of [STRANGER, undefined]) {
    const headers = { Origin: origin, "Transfer-Encoding": "chunked" };
    const answer = await ask(service, { headers, body: `no chunk\nOrigin: ${APP}\r\n` });
    assertError(answer, 40001);
    assert.deepEqual(marksOf(answer), {});
  }
});

test("answers to reads name the origin too: a plant, a page and a stream", async (t) => {
  const service = await startReadable(t, [{ id: 7n, name: "Fern" }], { corsOrigins: [APP] });
  for (const [path, more] of [
    ["/plants/7", {}],
    ["/plants", {}],
    ["/plants", { Accept: "application/x-ndjson" }],
  ] as const) {
    const answer = await read(service, path, { Origin: APP, ...more });
    assert.deepEqual(marksOf({ headers: new Map([...answer.headers]) }), MARKED);
  }
});

for (const origins of [undefined, []]) {
  test(`with ${origins === undefined ? "nothing" : "no origin"} named there are no CORS headers`, async (t) => {
    const service = await startReadable(
      t,
      [],
      origins === undefined ? {} : { corsOrigins: origins },
    );
    for (const [status, parts] of ANSWERS) {
      const answer = await ask(service, fromApp(parts));
      assert.equal(answer.status, status);
      assert.deepEqual(marksOf(answer), {});
    }
    assertError(await exchange(service, preflightFrom(APP)), 40101);
  });
}

test("a listener in another server answers preflights and names the origin in its answers", async (t) => {
  const tokens = { verify: () => undefined };
  const { store } = await startReadable(t, []);
  const listener = createRequestListener({ plants: store, tokens, corsOrigins: [APP] });
  const { url: base } = await serve(t, listener);
  const url = `${base}/plants`;
  const headers = { Origin: APP, "Access-Control-Request-Method": "POST" };
  const preflight = await send(url, { method: "OPTIONS", headers });
  assert.equal(preflight.status, 204);
  const refusal = await send(url, { headers });
  assertError(refusal, 40101);
  assert.deepEqual(marksOf({ headers: new Map([...refusal.headers]) }), MARKED);
});

for (const [when, isLate] of [
  ["before it came to the listener", false],
  ["while its token was looked up", true],
] as const) {
  test(`a request that other code answered ${when} is not answered again`, async (t) => {
    const { store } = await startReadable(t, []);
    const warnings: unknown[] = [];
    const hear = (message: unknown) => warnings.push(message);
    subscribe("plant-store:warning", hear);
    t.after(() => unsubscribe("plant-store:warning", hear));
    const sender = { name: "test", scopes: ["write"] as const };
    const answered = new EventEmitter();
    const lookUp = () => once(answered, "finish").then(() => sender);
    const tokens = { verify: () => (isLate ? lookUp() : sender) };
    const listener = createRequestListener({ plants: store, tokens, corsOrigins: [APP] });
    const { url } = await serve(t, (req, res) => {
      const answer = () => res.writeHead(503).end();
      if (isLate) setImmediate(answer);
      else answer();
      listener(req, res);
      res.once("finish", () => answered.emit("finish"));
    });
    const headers = {
      Origin: APP,
      Authorization: "Bearer any",
      "Content-Type": "application/json",
    };
    const wrongMethod = { method: "PUT", headers };
    const create = { method: "POST", headers, body: '{"id":1,"name":"Rose"}' };
    const preflight = {
      method: "OPTIONS",
      headers: { Origin: APP, "Access-Control-Request-Method": "POST" },
    };
    // Each is sent twice: if the first left anything undone, the second would show it.
    for (const request of [wrongMethod, create, preflight, wrongMethod, create, preflight]) {
      if (isLate && request === preflight) continue; // a preflight has no token
      assert.equal((await send(`${url}/plants`, request)).status, 503);
    }
    assert.equal(store.size, 0);
    assert.deepEqual(warnings, []);
  });
}

const NO_ORIGINS = [
  "",
  "app.example",
  "https://app.example/",
  "https://app.example/path",
  "https://App.example",
  "https://app.example:443",
  "http://app.example:80",
  "https://app.example, https://b.example",
  "https://user@app.example",
  "https://*.example",
  "null",
  "**",
];

for (const origin of NO_ORIGINS) {
  test(`"${origin}" is refused as an origin`, async () => {
    assert.throws(() => assertOrigins([APP, origin]), RangeError);
    const plants = { create: unused, get: unused, list: unused };
    const options = { port: 0, plants, tokens: { verify: () => undefined } };
    await assert.rejects(PlantServer.start({ ...options, corsOrigins: [origin] }), RangeError);
  });
}

test("origins that are no array of strings are a TypeError", () => {
  assertOrigins([APP, OTHER, "*", "http://[::1]:8080", "capacitor://localhost"]);
  assert.throws(() => assertOrigins("*" as unknown as string[]), TypeError);
  assert.throws(() => assertOrigins([7] as unknown as string[]), RangeError);
});

function unused(): never {
  throw new Error("no request gets here");
}
