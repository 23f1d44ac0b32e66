/** When the client sends a request again, and how it gives up. */
import assert from "node:assert/strict";
import { getEventListeners, once } from "node:events";
import https from "node:https";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import { encodeNewPlant, PlantClient } from "../../src/client.ts";
import { makeCertificate, NEEDS_OPENSSL } from "../support/certificates.ts";
import { freePort, serve } from "../support/serve.ts";
import { collect } from "../support/stores.ts";
import { makeLatch, until } from "../support/watch.ts";
import type * as script from "./scripted.ts";
import {
  BROKEN,
  FERN,
  HTML,
  isError,
  OK,
  passDeadline,
  respond,
  scripted,
  skipWaits,
} from "./scripted.ts";

const FULL = respond(503, '{"error":50302,"message":"the disk is full"}');

const REPEATED: readonly [after: string, attempt: script.Attempt][] = [
  ["a broken connection", BROKEN],
  ["10 s without a response", () => new Promise(() => {})],
  ["a response that was cut", respond(200, '{"name":"Fe')],
  ["408", respond(408, '{"error":40801,"message":"slow"}')],
  ["503 write_failed", FULL],
  ["503 with a number to come", respond(503, '{"error":50399,"message":"new"}')],
  ["500 with a number of another status", respond(500, '{"error":50302,"message":""}')],
  ...[425, 429, 460, 500, 502, 503, 504, 520, 529, 530].map((status): [string, script.Attempt] => [
    `${status} of a proxy`,
    respond(status, HTML),
  ]),
];

for (const [after, attempt] of REPEATED) {
  test(`the identical request is sent again after ${after}`, async (t) => {
    skipWaits(t, 0);
    const { client, requests } = scripted([attempt, attempt, attempt, OK]);
    assert.deepEqual(await client.create(FERN), { name: "Fern", tag: "indoor" });
    assert.equal(requests.length, 4);
    for (const [url, { method, headers, body }] of requests) {
      assert.equal(url, "http://plants.example/garden/plants");
      const sent = { "Content-Type": "application/json", Authorization: "Bearer t" };
      assert.deepEqual([method, headers, body], ["POST", sent, encodeNewPlant(FERN)]);
    }
  });
}

const FINAL: readonly [what: string, attempt: script.Attempt, code: string, number?: number][] = [
  ["500", respond(500, '{"error":50001,"message":"defect"}'), "internal", 50001],
  ["400 to come", respond(400, '{"error":40099,"message":""}'), "unexpected_answer", 40099],
  ["413 of a proxy", respond(413, HTML), "unexpected_answer"],
  ["501 of a proxy", respond(501, HTML), "unexpected_answer"],
  ["531 of a proxy", respond(531, HTML), "unexpected_answer"],
  ["an error number of another status", respond(400, '{"error":50302}'), "unexpected_answer"],
  ["200 with a page", respond(200, HTML), "unexpected_answer"],
  ["200 with another plant", respond(200, '{"name":"Fern"}'), "unexpected_answer"],
  ["200 with null", respond(200, "null"), "unexpected_answer"],
];

for (const [what, attempt, code, number] of FINAL) {
  test(`nothing is sent again after ${what}, and the failure before is the cause`, async (t) => {
    skipWaits(t, 0);
    const { client, requests } = scripted([BROKEN, attempt, OK]);
    await assert.rejects(client.create(FERN), isError(code, number, "", BROKEN));
    assert.equal(requests.length, 2);
  });
}

test("it waits up to 100 ms, which doubles to 5 s, with full jitter", async (t) => {
  const attempts = [...Array<script.Attempt>(9).fill(FULL), OK];
  for (const random of [1, 0.5]) {
    const waits = skipWaits(t, random);
    await scripted(attempts, 60_000).client.create(FERN);
    const most = [100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000];
    assert.deepEqual(
      waits,
      most.map((ms) => ms * random),
    );
  }
});

test("no wait is longer than what is left of the deadline", async (t) => {
  const timers = skipWaits(t);
  let now = 0;
  t.mock.method(performance, "now", () => now);
  t.mock.method(Math, "random", () => {
    now += 100;
    return 1;
  });
  await assert.rejects(scripted([FULL], 150).client.create(FERN), isError("outcome_unknown"));
  assert.deepEqual(timers, [150, 50, 50, -50]); // attempts and waits
});

test("Retry-After comes first if it is a time that fits the deadline of 30 s", async (t) => {
  const dates = [20_000, 40_000].map((ms) => new Date(Date.now() + ms).toUTCString());
  const waits: (number | undefined)[] = [];
  for (const value of ["3", ...dates, "31", "0", "soon", "Thu, 01 Jan 1970 00:00:00 GMT"]) {
    const made = skipWaits(t);
    await scripted([respond(503, "", { "Retry-After": value }), OK]).client.create(FERN);
    waits.push(...made);
  }
  const [date = 0] = waits.splice(1, 1);
  assert.ok(date > 15_000 && date <= 20_000, `${date}`);
  assert.deepEqual(waits, [3000, 100, 100, 100, 100, 100]);
});

const CALLS = {
  create: (client: PlantClient) => client.create(FERN),
  get: (client: PlantClient) => client.get(7n),
  list: (client: PlantClient) => collect(client.list()),
};
const REFUSED = new TypeError("fetch failed", { cause: new Error("connect ECONNREFUSED ::1:80") });

type GivenUp = [call: keyof typeof CALLS, attempts: script.Attempt[], code: string, text: string];
const GIVEN_UP: readonly GivenUp[] = [
  ["create", [FULL], "outcome_unknown", "the disk is full"],
  ["create", [BROKEN, REFUSED], "outcome_unknown", "ECONNREFUSED ::1:80"],
  ["create", [REFUSED], "unavailable", "ECONNREFUSED ::1:80"],
  ["get", [FULL], "unavailable", "the disk is full"],
  ["list", [BROKEN], "unavailable", "fetch failed"],
];

for (const [call, attempts, code, text] of GIVEN_UP) {
  test(`at the deadline a ${call} rejects with ${code} and "${text}"`, async (t) => {
    passDeadline(t, attempts.length + 1);
    const { client } = scripted(attempts);
    await assert.rejects(CALLS[call](client), isError(code, undefined, text));
  });
}

type Address = [what: string, url: (t: TestContext) => Promise<string>, code: string, text: string];
const ADDRESSES: readonly Address[] = [
  ["that nobody serves", async () => `http://0:${await freePort()}`, "unavailable", "REFUSED"],
  ["that fetch blocks", async () => "http://127.0.0.1:6000", "unavailable", "bad port"],
  ["with an untrusted certificate", serveTls, "unavailable", "self-signed certificate"],
  ["that redirects", serveRedirect, "unexpected_answer", "a redirect"],
];

/** Of a redirect that is followed, 301 to 303 make a list of a create. */
async function serveRedirect(t: TestContext): Promise<string> {
  const served = await serve(t, (_, res) => res.writeHead(301, { Location: "/else/plants" }).end());
  return served.url;
}

async function serveTls(t: TestContext): Promise<string> {
  const server = https.createServer(makeCertificate(t, "plants")).listen(0, "127.0.0.1");
  t.after(() => server.close());
  await once(server, "listening");
  return `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

for (const [what, urlOf, code, text] of ADDRESSES) {
  test(
    `a create to an address ${what} rejects with ${code} after one attempt`,
    NEEDS_OPENSSL,
    async (t) => {
      const attempts = t.mock.method(globalThis, "fetch");
      if (text === "REFUSED") passDeadline(t, 1); // the others are mistakes that no repeat cures
      const client = new PlantClient(await urlOf(t), { token: "t" });
      await assert.rejects(client.create(FERN), isError(code, undefined, text));
      assert.equal(attempts.mock.callCount(), 1);
    },
  );
}

test("a server that never responds is given up at the deadline", async (t) => {
  const { url } = await serve(t, () => {});
  const client = new PlantClient(url, { token: "t", deadlineMs: 50 });
  await assert.rejects(client.create(FERN), isError("outcome_unknown", undefined, "no response"));
});

test("an abort ends a call at once: before it, during a request, during a wait", async (t) => {
  const reason = new Error("connect ECONNREFUSED, CERT_, of another call");
  const isAborted = (code: string, cause: unknown) => isError(code, undefined, "", cause);
  const { client, requests } = scripted([OK]);
  const before = client.create(FERN, { signal: AbortSignal.abort(reason) });
  await assert.rejects(before, isAborted("unavailable", reason));
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

test("60 calls with one signal leave no listener, no timer and no warning", async (t) => {
  const warnings: string[] = [];
  const warn = ({ name }: Error) => name.startsWith("MaxListeners") && warnings.push(name);
  process.on("warning", warn);
  t.after(() => process.off("warning", warn));
  t.mock.method(Math, "random", () => 0);
  const set = t.mock.method(globalThis, "setTimeout");
  const clear = t.mock.method(globalThis, "clearTimeout");
  const { signal } = new AbortController();
  const create = () => scripted([BROKEN, OK]).client.create(FERN, { signal });
  await Promise.all(Array.from({ length: 60 }, create));
  await new Promise(setImmediate);
  assert.deepEqual([warnings, getEventListeners(signal, "abort")], [[], []]);
  const cleared = clear.mock.calls.map(({ arguments: [timer] }) => timer);
  assert.ok(set.mock.calls.every(({ result }) => cleared.includes(result)));
});
