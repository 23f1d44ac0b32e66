/**
 * The paths of the operations, compared exactly, below an optional base path, and the methods on them.
 * (Reading is in contract-read.test.ts.)
 */
import assert from "node:assert/strict";
import { METHODS } from "node:http";
import { test } from "node:test";
import { PlantServer } from "../../src/index.ts";
import { Client } from "../support/client.ts";
import {
  assertError,
  assertPlant,
  encodeRequest,
  exchange,
  ownLines,
} from "../support/contract.ts";
import { startService } from "../support/service.ts";

const BODY = '{"id":1,"name":"x"}';

for (const [target, allowed] of [
  ["/plants", ["GET", "HEAD", "POST"]],
  ["/plants/7", ["GET", "HEAD"]],
] as const) {
  test(`every other method on ${target} is answered 40501 with Allow`, async (t) => {
    const service = await startService(t);
    // Every method the parser of this Node knows; CONNECT has a test of its own.
    const known: readonly string[] = [...allowed, "CONNECT"];
    for (const method of METHODS.filter((method) => !known.includes(method))) {
      await t.test(`${method} ${target}`, async () => {
        const answer = await exchange(service, { method, target, body: BODY });
        assertError(answer, 40501);
        assert.equal(answer.headers.get("allow"), allowed.join(", "));
      });
    }
    assert.deepEqual(ownLines(service), []);
  });
}

for (const [target, status] of [
  ["/plants", 403],
  ["/plants/7", 403],
  ["/nowhere", 404],
] as const) {
  test(`HEAD ${target} is answered ${status} without a body`, async (t) => {
    const service = await startService(t);
    const client = await Client.connect(service.port);
    await client.send(encodeRequest(service, { method: "HEAD", target }));
    const head = await client.head();
    assert.match(head, new RegExp(`^HTTP/1\\.1 ${status} `));
    assert.match(head, /\r\nContent-Length: [1-9][0-9]*\r\n/);
    // The connection stays open, and the next answer follows at once.
    await client.send(encodeRequest(service, { body: BODY, headers: { Connection: "close" } }));
    await client.rest();
    assert.match(client.text, /\r\n\r\nHTTP\/1\.1 200 OK\r\n[^{]*\r\n\r\n\{"name":"x"\}$/);
    client.destroy();
  });
}

const UNKNOWN_PATHS = [
  "/",
  "/plants/",
  "/Plants",
  "/PLANTS",
  "/plant",
  "/plantsx",
  "/plants/x",
  "/plants/1/",
  "/plants/{id}",
  "/plants;a=b",
  "/plants,",
  "//plants",
  "/./plants",
  "/x/../plants",
  "/plants/.",
  "/%70lants",
  "/plants%20",
  "/plants%00",
  "/plants%2f",
  "/plants%3Fx",
  "/plants#x",
  "/garden/plants",
  "/health",
  "/__proto__",
  "/constructor",
  "/?/plants",
  "*",
  "http://localhost",
  "http://localhost/",
  "http://localhost//plants",
  "http://localhost/plants/",
  "http://localhost?/plants",
  "ftp://localhost/plants",
];

test("every other path is answered 40401, with any method", async (t) => {
  const service = await startService(t);
  for (const target of UNKNOWN_PATHS) {
    await t.test(target, async () => {
      for (const method of ["POST", "GET"]) {
        const answer = await exchange(service, { method, target, body: BODY });
        assertError(answer, 40401);
        assert.equal(answer.headers.get("allow"), undefined);
      }
    });
  }
  assert.deepEqual(ownLines(service), []);
});

const KNOWN_TARGETS = [
  "/plants",
  "/plants?",
  "/plants?x=1&y",
  "/plants?/nowhere",
  "/plants??#x",
  "http://localhost/plants",
  "http://localhost/plants?x",
  "http://other.example:8080/plants",
  "HTTPS://LOCALHOST/plants",
  "http://[::1]:80/plants",
];

test("the query is ignored, and the absolute form means the same path", async (t) => {
  for (const target of KNOWN_TARGETS) {
    await t.test(`POST ${target} creates a plant`, async (t) => {
      const service = await startService(t);
      assertPlant(await exchange(service, { target, body: BODY }), { name: "x" });
      assert.deepEqual(ownLines(service), [BODY]);
    });
  }
});

const BASE_PATHS: readonly [option: string, basePath: string][] = [
  ["/garden", "/garden"],
  ["/garden/", "/garden"],
  ["/a/b-c/~d", "/a/b-c/~d"],
  ["/plants", "/plants"],
  ["/%C3%A9", "/%C3%A9"],
  ["/", ""],
  ["", ""],
];

test("the operation is below the base path only", async (t) => {
  for (const [option, basePath] of BASE_PATHS) {
    await t.test(`the base path "${option}"`, async (t) => {
      const service = await startService(t, { basePath: option });
      assert.equal(service.url, `http://127.0.0.1:${service.port}${basePath}`);
      for (const prefix of [basePath, `http://localhost${basePath}`]) {
        for (const suffix of ["/plants", "/plants?x"]) {
          const answer = await exchange(service, { target: prefix + suffix, body: BODY });
          assertPlant(answer, { name: "x" });
        }
      }
      for (const target of [`${basePath}/`, `${basePath}/plants/`, `/x${basePath}/plants`]) {
        assertError(await exchange(service, { target, body: BODY }), 40401);
      }
      if (basePath !== "") {
        for (const target of ["/plants", "/", basePath, `${basePath}plants`]) {
          assertError(await exchange(service, { target, body: BODY }), 40401);
        }
      }
      assertPlant(await service.post(BODY), { name: "x" });
      assert.deepEqual(ownLines(service), [BODY]);
    });
  }
});

for (const basePath of ["garden", "//", "/a b", "/a?b", "/a#b", "/a//b", "/ä", "http://x/a"]) {
  test(`the base path "${basePath}" is refused at the start`, async () => {
    const noToken = { verify: () => undefined };
    const nothing = { create: unused, get: unused, list: unused };
    const options = { port: 0, basePath, plants: nothing, tokens: noToken };
    await assert.rejects(PlantServer.start(options), RangeError);
  });
}

function unused(): never {
  throw new Error("no request gets here");
}
