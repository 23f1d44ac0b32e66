/** When the client sends a request again, and how it gives up. */
import assert from "node:assert/strict";
import { getEventListeners, once } from "node:events";
import https from "node:https";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import { encodeNewPlant, PlantClient, type PlantStoreError } from "../../src/client.ts";
import { makeCertificate, NEEDS_OPENSSL } from "../support/certificates.ts";
import { freePort, serve } from "../support/serve.ts";
import { collect } from "../support/stores.ts";
import { makeLatch, until } from "../support/watch.ts";
import {
  type Attempt,
  BROKEN,
  HTML,
  isError,
  OK,
  respond,
  scripted,
  skipWaits,
} from "./scripted.ts";

const FERN = { id: 7n, name: "Fern", tag: "indoor" };

const REPEATED: readonly [after: string, attempt: Attempt][] = [
  ["a broken connection", BROKEN],
  ["10 s without a response", () => new Promise(() => {})],
  ["a response that was cut", respond(200, '{"name":"Fe')],
  ["408", respond(408, '{"error":40801,"message":"slow"}')],
  ["503 write_failed", respond(503, '{"error":50302,"message":"full"}')],
  ["503 closed", respond(503, '{"error":50304,"message":"closed"}')],
  ["503 with a number to come", respond(503, '{"error":50399,"message":"new"}')],
  ["500 with a number of another status", respond(500, '{"error":50302,"message":""}')],
  ...[425, 429, 460, 500, 502, 503, 504, 520, 529, 530].map(
    (status) => [`${status} of a proxy`, respond(status, HTML)] as [string, Attempt],
  ),
];

for (const [after, attempt] of REPEATED) {
  test(`the identical request is sent again after ${after}`, async (t) => {
    skipWaits(t, 0);
    const { client, requests } = scripted([attempt, attempt, attempt, OK]);
    assert.deepEqual(await client.create(FERN), { name: "Fern", tag: "indoor" });
    assert.equal(requests.length, 4);
    for (const [url, { method, headers, body }] of requests) {
      assert.equal(url, "http://plants.example/plants");
      const sent = { "Content-Type": "application/json", Authorization: "Bearer t" };
      assert.deepEqual([method, headers, body], ["POST", sent, encodeNewPlant(FERN)]);
    }
  });
}

const FINAL: readonly [what: string, attempt: Attempt, code: string, number?: number][] = [
  ["a conflict", respond(400, '{"error":40006,"message":"taken"}'), "conflict", 40006],
  ["500", respond(500, '{"error":50001,"message":"defect"}'), "internal", 50001],
  ["400 to come", respond(400, '{"error":40099,"message":""}'), "unexpected_answer", 40099],
  ["501 of a proxy", respond(501, HTML), "unexpected_answer"],
  ["413 of a proxy", respond(413, HTML), "unexpected_answer"],
  ["531 of a proxy", respond(531, HTML), "unexpected_answer"],
  ["an error number of another status", respond(400, '{"error":50302}'), "unexpected_answer"],
  ["200 with a page", respond(200, HTML), "unexpected_answer"],
  ["200 with another plant", respond(200, '{"name":"Fern"}'), "unexpected_answer"],
  ["200 with null", respond(200, "null"), "unexpected_answer"],
];

for (const [what, attempt, code, number] of FINAL) {
  test(`nothing is sent again after ${what}`, async () => {
    const { client, requests } = scripted([attempt, OK]);
    await assert.rejects(client.create(FERN), isError(code, number));
    assert.equal(requests.length, 1);
  });
}

test("a refusal after a repeat has the failure before as its cause", async (t) => {
  skipWaits(t);
  const { client } = scripted([BROKEN, respond(401, '{"error":40102,"message":"revoked"}')]);
  await assert.rejects(client.create(FERN), (error: PlantStoreError) => {
    assert.equal(error.cause, BROKEN);
    return isError("invalid_token", 40102)(error);
  });
});

test("it waits up to 100 ms, which doubles to 5 s, with full jitter", async (t) => {
  const attempts = [...Array<Attempt>(9).fill(respond(503, "")), OK];
  const most = [100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000];
  for (const random of [1, 0.5]) {
    const waits = skipWaits(t, random);
    await scripted(attempts, { deadlineMs: 60_000 }).client.create(FERN);
    assert.deepEqual(
      waits,
      most.map((ms) => ms * random),
    );
    t.mock.restoreAll();
  }
});

const inTwentySeconds = () => new Date(Date.now() + 20_000).toUTCString();

const RETRY_AFTER: readonly [value: () => string, isObeyed: (ms: number) => boolean][] = [
  [() => "3", (ms) => ms === 3000],
  [inTwentySeconds, (ms) => ms > 15_000 && ms <= 20_000],
  ...["31", "0", "soon", "Thu, 01 Jan 1970 00:00:00 GMT"].map((value): (typeof RETRY_AFTER)[0] => [
    () => value,
    (ms) => ms === 100,
  ]),
];

test("Retry-After comes first if it is a time that fits the deadline", async (t) => {
  for (const [value, isObeyed] of RETRY_AFTER) {
    const waits = skipWaits(t);
    const headers = { "Retry-After": value() };
    await scripted([respond(503, "", headers), OK]).client.create(FERN);
    assert.equal(waits.length, 1);
    assert.ok(isObeyed(waits[0] ?? 0), `${value()}: ${waits}`);
    t.mock.restoreAll();
  }
});

const create = (client: PlantClient) => client.create(FERN);
const get = (client: PlantClient) => client.get(7n);
const list = (client: PlantClient) => collect(client.list());
const FULL = respond(503, '{"error":50302,"message":"the disk is full"}');
const BUSY = respond(503, '{"error":50301,"message":"busy"}');
const REFUSED = new TypeError("fetch failed", { cause: new Error("connect ECONNREFUSED ::1:80") });

const GIVEN_UP: readonly [
  what: string,
  call: (client: PlantClient) => Promise<unknown>,
  attempts: readonly Attempt[],
  code: string,
  text: string,
][] = [
  ["a create that may be stored", create, [FULL], "outcome_unknown", "the disk is full"],
  [
    "a create with one such attempt",
    create,
    [BROKEN, REFUSED],
    "outcome_unknown",
    "ECONNREFUSED ::1:80",
  ],
  ["a create that is refused for now", create, [BUSY], "outcome_unknown", "busy"],
  ["a create that was never sent", create, [REFUSED], "unavailable", "ECONNREFUSED ::1:80"],
  ["a get", get, [FULL], "unavailable", "the disk is full"],
  ["a list", list, [BROKEN], "unavailable", "fetch failed"],
];

for (const [what, call, attempts, code, text] of GIVEN_UP) {
  test(`at the deadline ${what} rejects with ${code} and the last failure`, async (t) => {
    const { client, requests } = scripted(attempts);
    let now = 0;
    t.mock.method(performance, "now", () => now);
    t.mock.method(Math, "random", () => {
      if (requests.length > attempts.length) now = 30_000; // during the wait
      return 0;
    });
    await assert.rejects(call(client), isError(code, undefined, text));
  });
}

test("a server that never responds is given up at the deadline", async (t) => {
  const { url } = await serve(t, () => {});
  const client = new PlantClient(url, { token: "t", deadlineMs: 50 });
  await assert.rejects(client.create(FERN), isError("outcome_unknown", undefined, "no response"));
});

test("a port on which nobody listens is named, and nothing is unknown", async () => {
  const url = `http://127.0.0.1:${await freePort()}`;
  const client = new PlantClient(url, { token: "t", deadlineMs: 50 });
  await assert.rejects(client.create(FERN), isError("unavailable", undefined, "ECONNREFUSED"));
});

/** An address that no repeat helps; what it shows is a part of the message. */
const MISTAKES: readonly [what: string, text: string, url: (t: TestContext) => Promise<string>][] =
  [
    ["a port that fetch blocks", "bad port", async () => "http://127.0.0.1:6000"],
    [
      "an untrusted certificate",
      "self-signed certificate",
      async (t) => {
        const { cert, key } = makeCertificate(t, "plants");
        const server = https.createServer({ cert, key }).listen(0, "127.0.0.1");
        t.after(() => server.close());
        await once(server, "listening");
        return `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
      },
    ],
  ];

for (const [what, text, urlOf] of MISTAKES) {
  test(`${what} ends a call at once: nothing was sent`, NEEDS_OPENSSL, async (t) => {
    const requests: unknown[] = [];
    const count: typeof fetch = (...request) => {
      requests.push(request);
      return fetch(...request);
    };
    const client = new PlantClient(await urlOf(t), { token: "t", fetch: count });
    await assert.rejects(client.create(FERN), isError("unavailable", undefined, text));
    assert.equal(requests.length, 1);
  });
}

test("a redirect is not followed: a create would become a list", async (t) => {
  const requests: unknown[] = [];
  const { url } = await serve(t, (req, res) => {
    requests.push(req.method);
    res.writeHead(301, { Location: "/elsewhere/plants", "X-Request-Id": "r1" }).end();
  });
  const client = new PlantClient(url, { token: "t" });
  await assert.rejects(client.create(FERN), (error: PlantStoreError) => {
    assert.equal(error.requestId, "r1");
    return isError("unexpected_answer", undefined, "a redirect")(error);
  });
  assert.deepEqual(requests, ["POST"]);
});

test("an abort ends a call at once: before it, during a request, during a wait", async (t) => {
  const reason = Object.assign(new Error("connect ECONNREFUSED"), { code: "CERT_OTHER" }); // of another call
  const isAborted = (code: string, cause: unknown) => (error: PlantStoreError) => {
    assert.equal(error.cause, cause);
    return isError(code)(error);
  };
  const { client, requests } = scripted([OK]);
  const signal = AbortSignal.abort(reason);
  await assert.rejects(client.create(FERN, { signal }), isAborted("unavailable", reason));
  await assert.rejects(client.get(7n, { signal }), isAborted("unavailable", reason));
  await assert.rejects(collect(client.list({ signal })), isAborted("unavailable", reason));
  assert.equal(requests.length, 0);

  const arrival = makeLatch();
  const { url } = await serve(t, () => arrival.release());
  const during = new AbortController();
  const call = new PlantClient(url, { token: "t" }).create(FERN, { signal: during.signal });
  await arrival.released;
  during.abort(reason);
  await assert.rejects(call, isAborted("outcome_unknown", reason));

  t.mock.method(Math, "random", () => 1);
  const waiting = scripted([BROKEN]);
  const controller = new AbortController();
  const wait = waiting.client.create(FERN, { signal: controller.signal });
  await until("it waits", () => waiting.requests.length === 4); // the next is in 800 ms
  controller.abort(reason);
  await assert.rejects(wait, isAborted("outcome_unknown", BROKEN));
});

test("a call that has ended leaves no timer and no listener, and 60 with one signal no warning", async (t) => {
  const warnings: Error[] = [];
  const warn = (warning: Error) => warnings.push(warning);
  process.on("warning", warn);
  t.after(() => process.off("warning", warn));
  const { signal } = new AbortController();
  const timers = new Set<unknown>();
  const { setTimeout: set, clearTimeout: clear } = globalThis;
  t.mock.method(globalThis, "setTimeout", (...args: Parameters<typeof set>) => {
    const timer = set(...args);
    timers.add(timer);
    return timer;
  });
  t.mock.method(globalThis, "clearTimeout", (timer: NodeJS.Timeout) => {
    timers.delete(timer);
    clear(timer);
  });
  t.mock.method(Math, "random", () => 0);
  const calls = Array.from({ length: 60 }, () =>
    scripted([BROKEN, OK]).client.create(FERN, { signal }),
  );
  await Promise.all(calls);
  await new Promise(setImmediate);
  assert.deepEqual([warnings, timers.size], [[], 0]);
  assert.equal(getEventListeners(signal, "abort").length, 0);
});
