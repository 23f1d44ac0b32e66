/** When the client sends a request again, and how it gives up. */
import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { test } from "node:test";
import { encodeNewPlant } from "../../src/client.ts";
import { freePort } from "../support/service.ts";
import { BROKEN, FERN, isError, OK, respond, STORED, scripted, skipWaits } from "./scripted.ts";

const HANGING = () => new Promise<Response>(() => {});
const FULL = respond(503, '{"error":50302,"message":"the disk is full"}');

/** What follows a response: statuses, body, and the code and number with which the call rejects. */
const RESPONSES = `
200 {"name":"Fe = another request
408 {"error":40801,"message":"slow"} = another request
500 {"error":50302,"message":"of another status"} = another request
503 {"error":50302,"message":"the disk is full"} = another request
503 {"error":50399,"message":"a number to come"} = another request
425,429,460,500,502,503,504,520,529,530 <html> = another request
500 {"error":50001,"message":"defect"} = internal 50001
400 {"error":40099,"message":"a number to come"} = unexpected_response 40099
400 {"error":50302,"message":"of another status"} = unexpected_response
200 {"name":"Fern"} = unexpected_response
200 null = unexpected_response
200,413,501,531 <html> = unexpected_response`;

for (const [row, statuses = "", body = "", code = "", number] of RESPONSES.matchAll(
  /^([\d,]+) (.*) = (\S+) ?(\d+)?.*$/gm,
)) {
  test(`after a broken connection, a wait of 10 s, and ${row}`, async (t) => {
    for (const status of statuses.split(",")) {
      skipWaits(t, 0);
      const { client, requests } = scripted([HANGING, BROKEN, respond(Number(status), body), OK]);
      const created = client.create(FERN);
      const expected = isError(code, number ? Number(number) : undefined, "", BROKEN);
      if (code === "another") assert.deepEqual(await created, STORED);
      else await assert.rejects(created, expected);
      assert.equal(requests.length, code === "another" ? 4 : 3);
      for (const [url, { method, headers, body }] of requests) {
        assert.equal(url, "http://plants.example/garden/plants");
        const sent = { "Content-Type": "application/json", Authorization: "Bearer t" };
        assert.deepEqual([method, headers, body], ["POST", sent, encodeNewPlant(FERN)]);
      }
    }
  });
}

test("it waits up to 100 ms, which doubles to 5 s, with full jitter, but never beyond the deadline", async (t) => {
  const waits = skipWaits(t, 0.5);
  await scripted([...Array(9).fill(FULL), OK], 60_000).client.create(FERN);
  const expected = [50, 100, 200, 400, 800, 1600, 2500, 2500, 2500];
  assert.deepEqual(waits, [...expected.flatMap((ms) => [20_000, ms]), 20_000]); // a third of the deadline
  const timers = skipWaits(t);
  let now = 0;
  t.mock.method(performance, "now", () => now);
  t.mock.method(Math, "random", () => {
    now += 100;
    return 1;
  });
  await assert.rejects(scripted([FULL], 150).client.create(FERN), isError("outcome_unknown"));
  assert.deepEqual(timers, [150, 50, 50, 0]); // attempts and waits
});

test("Retry-After comes first if it is a time that fits the deadline of 30 s", async (t) => {
  const now = Date.parse("2026-11-29");
  const dates = [-1000, 20_000, 40_000].map((ms) => new Date(now + ms).toUTCString());
  const waits: (number | undefined)[] = [];
  for (const value of ["3", ...dates, "31", "0", "soon"]) {
    const made = skipWaits(t);
    t.mock.method(Date, "now", () => now);
    await scripted([respond(503, "", { "Retry-After": value }), OK]).client.create(FERN);
    waits.push(...made);
  }
  assert.deepEqual(waits, [3000, 100, 20_000, 100, 100, 100, 100]);
});

const REFUSED = async () => fetch(`http://127.0.0.1:${await freePort()}`);
const BLOCKED = () => fetch("http://127.0.0.1:6000");
const UNTRUSTED = new TypeError("fetch failed", { cause: { code: "DEPTH_ZERO_SELF_SIGNED_CERT" } });

/** The deadline of 30 s passes during the wait after the last attempt, or no repeat helps. */
for (const [call, attempts, code, text, made = attempts.length] of [
  ["create", [FULL], "outcome_unknown", "the disk is full"],
  ["create", [BROKEN, REFUSED], "outcome_unknown", "ECONNREFUSED"],
  ["create", [REFUSED], "unavailable", "ECONNREFUSED"],
  ["get", [FULL], "unavailable", "the disk is full"],
  ["create", [BLOCKED, OK], "unavailable", "bad port", 1],
  ["create", [UNTRUSTED, OK], "unavailable", "SELF_SIGNED", 1],
  ["create", [respond(301, ""), OK], "unexpected_response", "a redirect", 1],
] as const) {
  test(`a ${call} rejects with ${code} and "${text}" after ${made} attempts`, async (t) => {
    let now = 0;
    t.mock.method(performance, "now", () => now);
    t.mock.method(Math, "random", () => {
      if (requests.length === made) now = 30_000;
      return 0;
    });
    const { client, requests } = scripted(attempts);
    const called = call === "create" ? client.create(FERN) : client.get(7n);
    await assert.rejects(called, isError(code, undefined, text));
    assert.deepEqual([requests.length, requests[0]?.[1].redirect], [made, "manual"]);
  });
}

const REASON = new Error("connect ECONNREFUSED, CERT_, of another call");

for (const [when, attempts, code, cause] of [
  ["before it", [], "unavailable", REASON],
  ["during a request", [HANGING], "outcome_unknown", REASON],
  ["during a wait", [BROKEN], "outcome_unknown", BROKEN],
] as const) {
  test(`an abort ${when} ends a call at once`, async (t) => {
    t.mock.method(Math, "random", () => 1);
    const controller = new AbortController();
    const { client, requests } = scripted(attempts);
    if (attempts.length === 0) controller.abort(REASON);
    const call = client.create(FERN, { signal: controller.signal });
    const rejected = assert.rejects(call, isError(code, undefined, "", cause));
    await new Promise(setImmediate);
    controller.abort(REASON);
    await rejected;
    assert.equal(requests.length, attempts.length);
  });
}

test("a server that never responds is given up at the deadline", async () => {
  const call = scripted([HANGING], 50).client.create(FERN);
  await assert.rejects(call, isError("outcome_unknown", undefined, "no response"));
});

test("60 calls with one signal leave no listener, no timer and no warning", async (t) => {
  const warned = t.mock.method(process, "emitWarning");
  t.mock.method(Math, "random", () => 0);
  const set = t.mock.method(globalThis, "setTimeout");
  const clear = t.mock.method(globalThis, "clearTimeout");
  const { signal } = new AbortController();
  const create = () => scripted([BROKEN, OK]).client.create(FERN, { signal });
  await Promise.all(Array.from({ length: 60 }, create));
  assert.deepEqual([warned.mock.callCount(), getEventListeners(signal, "abort")], [0, []]);
  const cleared = clear.mock.calls.map(({ arguments: [timer] }) => timer);
  assert.ok(set.mock.calls.every(({ result }) => cleared.includes(result)));
});
