/**
 * The headers that describe the body of a request (Content-Type, Content-Encoding, Expect), and
 * those of every answer.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Client } from "../support/client.ts";
import {
  assertCommonHeaders,
  assertError,
  assertPlant,
  assertServes,
  encodeRequest,
  exchange,
  ownLines,
  type RequestParts,
} from "../support/contract.ts";
import { startService } from "../support/service.ts";

const BODY = '{"id":1,"name":"x"}';

const JSON_TYPES = [
  "application/json",
  "Application/JSON",
  "application/json;charset=utf-8",
  "application/json; charset=UTF-8",
  'application/json; charset="utf-8"',
  "application/json \t;\tCharset=utf-8",
  "application/json; version=1",
  'application/json; profile="https://plants.example/a b"; charset=utf-8',
  'application/json; x="; charset=latin1"',
  'application/json; x="\\"; charset=latin1"',
  "application/json; xcharset=latin1",
  "application/json;",
];

test("application/json is accepted with any parameter except another charset", async (t) => {
  const service = await startService(t);
  for (const type of JSON_TYPES) {
    await t.test(`Content-Type: ${type}`, async () => {
      const headers = { "Content-Type": type };
      assertPlant(await exchange(service, { headers, body: BODY }), { name: "x" });
    });
  }
  assert.deepEqual(ownLines(service), [BODY]);
});

const OTHER_TYPES = [
  undefined,
  "",
  ";charset=utf-8",
  "text/plain",
  "text/plain;application/json",
  "text/json",
  "application/x-www-form-urlencoded",
  "multipart/form-data; boundary=application/json",
  "application/jsonx",
  "application/json5",
  "application/json-patch+json",
  "application/vnd.plant+json",
  "application/x-json",
  "application/javascript",
  "application/*",
  "*/*",
  "json",
  "application / json",
  "application/json, text/plain",
  "text/plain, application/json",
  "application/json text/plain",
  "application/json; charset=latin1",
  "application/json; charset=iso-8859-1",
  'application/json; charset="iso-8859-1"',
  "application/json; CHARSET=UTF-16",
  "application/json; charset=us-ascii",
  "application/json; charset=",
  'application/json; charset=""',
  "application/json; charset=utf-8; charset=latin1",
  "application/json; charset=latin1; charset=utf-8",
  "application/json; charset",
  'application/json; x="unclosed',
  // A no-break space is not optional whitespace (RFC 9110 section 5.6.3).
  "application/json\u00a0",
  "application/json;\u00a0",
  "application/json;\u00a0charset=utf-8",
  `application/json${";\u00a0".repeat(3000)}`,
];

test("any other content type, or none, is answered 41501", async (t) => {
  const service = await startService(t);
  for (const type of OTHER_TYPES) {
    await t.test(`Content-Type: ${type}`, async () => {
      const headers = { "Content-Type": type };
      const answer = await exchange(service, { headers, body: BODY });
      const got = type === undefined ? "none" : JSON.stringify(type.slice(0, 10)).slice(0, -1);
      assert.ok(assertError(answer, 41501).includes(`got ${got}`), answer.text);
      assert.equal(answer.headers.get("accept"), "application/json");
    });
  }
  assert.deepEqual(ownLines(service), []);
});

test("a body in any content coding except identity is answered 41502", async (t) => {
  const service = await startService(t);
  for (const coding of ["identity", "Identity"]) {
    const headers = { "Content-Encoding": coding };
    assertPlant(await exchange(service, { headers, body: BODY }), { name: "x" });
  }
  for (const coding of [
    "gzip",
    "GZIP",
    "x-gzip",
    "deflate",
    "br",
    "zstd",
    "aes128gcm",
    "utf-8",
    "gzip, identity",
    "identity, gzip",
    ["identity", "gzip"],
  ]) {
    await t.test(`Content-Encoding: ${coding}`, async () => {
      const headers = { "Content-Encoding": coding };
      const answer = await exchange(service, { headers, body: '{"id":2,"name":"x"}' });
      assertError(answer, 41502);
      assert.equal(answer.headers.get("accept-encoding"), "identity");
    });
  }
  assert.deepEqual(ownLines(service), [BODY]);
});

for (const expect of ["100-continue", "100-Continue"]) {
  test(`Expect: ${expect} is answered 100 after the token was accepted, then 200`, async (t) => {
    const service = await startService(t);
    const client = await Client.connect(service.port);
    const request = encodeRequest(service, { headers: { Expect: expect }, body: BODY });
    await client.send(request.subarray(0, -BODY.length));
    const interim = await client.next();
    assert.equal(interim.status, 100);
    assert.equal(interim.text, "");
    await client.send(BODY);
    assertPlant(await client.next(), { name: "x" });
    await assertServes(service, client);
    client.destroy();
    assert.deepEqual(ownLines(service), [BODY]);
  });
}

const REFUSED_BEFORE_100: readonly [what: string, parts: RequestParts, error: number][] = [
  ["no token", { headers: { Authorization: undefined } }, 40101],
  ["a bad token", { headers: { Authorization: "Bearer x" } }, 40102],
  ["an unknown path", { target: "/nowhere" }, 40401],
  ["another method", { method: "PUT" }, 40501],
  ["two content types", { headers: { "Content-Type": ["application/json", "text/plain"] } }, 41501],
  ["another content type", { headers: { "Content-Type": "text/plain" } }, 41501],
  ["a content coding", { headers: { "Content-Encoding": "gzip" } }, 41502],
  ["a length beyond the limit", { headers: { "Content-Length": "1048577" } }, 41301],
  ["two hosts", { headers: { Host: ["a", "b"] } }, 40001],
];

test("Expect: 100-continue gets no 100 if the answer is known before the body", async (t) => {
  const service = await startService(t);
  for (const [what, parts, error] of REFUSED_BEFORE_100) {
    await t.test(`a request with ${what} is answered ${error} alone`, async () => {
      const headers = { "Content-Length": "19", ...parts.headers, Expect: "100-continue" };
      // exchange() returns the first answer, interim or not.
      const answer = await exchange(service, { ...parts, headers });
      assertError(answer, error);
      assert.equal(answer.headers.get("connection"), "close");
    });
  }
  assert.deepEqual(ownLines(service), []);
});

for (const expect of ["200-ok", "100-continue, 200-ok", "100-continue-x", "x-100-continue"]) {
  test(`Expect: ${expect} is answered 41701 without a 100`, async (t) => {
    const service = await startService(t);
    const headers = { Expect: expect };
    assertError(await exchange(service, { headers, body: BODY }), 41701);
    assert.deepEqual(ownLines(service), []);
  });
}

test("HTTP/1.0 has no 100: its Expect: 100-continue is ignored", async (t) => {
  const service = await startService(t);
  const parts = { version: "HTTP/1.0", headers: { Expect: "100-continue" }, body: BODY };
  assertPlant(await exchange(service, parts), { name: "x" });
});

const ANSWERS: readonly [parts: RequestParts, status: number, more: readonly string[]][] = [
  [{ body: BODY }, 200, []],
  [{ body: BODY.replace("x", "y") }, 400, []],
  [{ body: "{}" }, 400, []],
  [{ headers: { Authorization: undefined } }, 401, ["www-authenticate"]],
  [{ target: "/nowhere" }, 404, []],
  [{ method: "PUT" }, 405, ["allow"]],
  [{ method: "GET" }, 403, ["www-authenticate"]],
  [{ headers: { "Content-Length": "1048577" } }, 413, []],
  [{ headers: { "Content-Type": "text/plain" } }, 415, ["accept"]],
  [{ headers: { Expect: "x" } }, 417, []],
  [{ headers: { X: "x".repeat(20 * 1024) } }, 431, []],
  [{ headers: { Host: undefined } }, 400, []],
  [{ version: "x" }, 400, []],
];

test("every answer has the headers it should, and no others", async (t) => {
  const service = await startService(t);
  for (const [parts, status, more] of ANSWERS) {
    await t.test(`${JSON.stringify(parts).slice(0, 60)} is answered ${status}`, async () => {
      const answer = await exchange(service, parts);
      assert.equal(answer.status, status);
      assertCommonHeaders(answer);
      const expected = [
        "cache-control",
        "connection",
        "content-length",
        "content-type",
        "date",
        "x-content-type-options",
        "x-request-id",
        ...(answer.headers.get("connection") === "close" ? [] : ["keep-alive"]),
        ...more,
      ];
      assert.deepEqual([...answer.headers.keys()].sort(), expected.sort());
    });
  }
});
