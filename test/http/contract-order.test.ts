/**
 * Which of several faults is answered, and how failures of the server are answered.
 */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { createToken, PlantServer, PlantStoreError } from "../../src/index.ts";
import { Client } from "../support/client.ts";
import {
  assertCommonHeaders,
  assertError,
  assertPlant,
  encodeRequest,
  exchange,
  ownLines,
  type RequestParts,
  type Target,
} from "../support/contract.ts";
import { startService } from "../support/service.ts";

const STORED = '{"id":1,"name":"x"}';

/** Replaced by a header with a token that has only the scope `read`. */
const READ_ONLY = "read-only";

/** In the order in which they are answered. Each request of the test has one of these faults and all later ones. */
const FAULTS: readonly [what: string, error: number, parts: RequestParts][] = [
  ["headers too large", 43101, { headers: { X: "x".repeat(20 * 1024) } }],
  ["two hosts", 40001, { headers: { Host: ["a", "b"] } }],
  ["no token", 40101, { headers: { Authorization: undefined } }],
  ["a bad token", 40102, { headers: { Authorization: "Bearer x" } }],
  ["an unknown path", 40401, { target: "/nowhere" }],
  ["another method", 40501, { method: "PUT" }],
  ["a token without the scope", 40301, { headers: { Authorization: READ_ONLY } }],
  ["an unknown expectation", 41701, { headers: { Expect: "x" } }],
  ["another content type", 41501, { headers: { "Content-Type": "text/plain" } }],
  ["a content coding", 41502, { headers: { "Content-Encoding": "gzip" } }],
  ["a length beyond the limit", 41301, { headers: { "Content-Length": "1048577" } }],
  ["bytes that are not UTF-8", 40002, { body: Buffer.from('{"id":"7","id":1,"x":\xff', "latin1") }],
  ["malformed JSON", 40003, { body: '{"id":"7","id":1,"x":' }],
  ["a member given twice", 40004, { body: '{"id":"7","id":1,"x":1}' }],
  ["no plant", 40005, { body: '{"id":"7"}' }],
];

/** A request with every fault from `first` on. */
function faultyFrom(first: number, readOnly: string): RequestParts {
  const parts: RequestParts = {};
  const headers: Record<string, string | readonly string[] | undefined> = {};
  // If two faults are in the same place, the earlier one is kept.
  for (const [, , fault] of FAULTS.slice(first).reverse()) {
    Object.assign(parts, fault);
    Object.assign(headers, fault.headers);
  }
  if (headers.Authorization === READ_ONLY) headers.Authorization = `Bearer ${readOnly}`;
  return { ...parts, headers };
}

for (const isClosed of [false, true]) {
  const state = isClosed ? " of a store that is closed" : "";
  test(`the faults of a request${state} are answered in a fixed order`, async (t) => {
    let readOnly = "";
    const service = await startService(t, {
      prepare: async (folder) => {
        readOnly = await createToken(folder, { name: "read-only", scopes: ["read"] });
      },
    });
    assertPlant(await service.post(STORED), { name: "x" });
    if (isClosed) await service.store.close();

    for (const [index, [what, error]] of FAULTS.entries()) {
      await t.test(`${what} is answered before all later faults`, async () => {
        const parts = faultyFrom(index, readOnly);
        if (!isClosed) {
          assertError(await exchange(service, parts), error);
          return;
        }
        const client = await Client.connect(service.port);
        await client.send(encodeRequest(service, parts));
        assertError(await client.next(), error);
        client.destroy();
      });
    }
    const conflict = await service.post('{"id":1,"name":"y"}');
    assertError(conflict, isClosed ? 50304 : 40006);
    assertCommonHeaders(conflict);
    assert.equal(conflict.headers.get("retry-after"), isClosed ? "1" : null);
    assert.deepEqual(ownLines(service), [STORED]);
  });
}

type Fault = (() => never) | (() => Promise<never>);

/** A server whose store fails only for the plant "x", and whose token check fails only for one token. */
async function startFailing(t: TestContext, onCreate: Fault, onVerify?: Fault): Promise<Target> {
  const server = await PlantServer.start({
    port: 0,
    plants: {
      create: async ({ name }) => (name === "x" ? onCreate() : "created"),
      get: async () => undefined,
      list: async function* () {},
    },
    tokens: {
      verify: (token) => {
        if (token === "failing") return onVerify?.();
        return token === "good" ? { name: "test", scopes: ["write"] } : undefined;
      },
    },
  });
  t.after(() => server.close(0));
  return { url: server.url, port: Number(new URL(server.url).port), token: "good" };
}

/** Text that only the operator may see. */
const SECRET = "/srv/plants/plants.jsonl";

function throwing(error: unknown): () => never {
  return () => {
    throw error;
  };
}

const STORE_FAILURES: readonly [what: string, cause: unknown, error: number][] = [
  ["a TypeError", new TypeError(`no such property of ${SECRET}`), 50001],
  ["a system error", Object.assign(new Error(SECRET), { code: "EIO" }), 50001],
  ["a string", SECRET, 50001],
  ["nothing", undefined, 50001],
  ["corruption", new PlantStoreError("corruption", SECRET), 50001],
  ["io_error", new PlantStoreError("io_error", SECRET), 50001],
  ["locked", new PlantStoreError("locked", SECRET), 50001],
  ["internal", new PlantStoreError("internal", "of its own"), 50001],
  ["overloaded", new PlantStoreError("overloaded", "later", { cause: SECRET }), 50301],
  ["write_failed", new PlantStoreError("write_failed", "later", { cause: SECRET }), 50302],
  ["store_failed", new PlantStoreError("store_failed", "later", { cause: SECRET }), 50303],
  ["closed", new PlantStoreError("closed", "later", { cause: SECRET }), 50304],
  ["read_failed", new PlantStoreError("read_failed", "later", { cause: SECRET }), 50307],
  ["not_stored", new PlantStoreError("not_stored", "full", { cause: SECRET }), 50305],
  ["conflict", new PlantStoreError("conflict", "taken", { cause: SECRET }), 40006],
];

test("a failure of the store is answered with its own number, and without a path", async (t) => {
  for (const [what, cause, error] of STORE_FAILURES) {
    await t.test(`a create that fails with ${what} is answered ${error}`, async (t) => {
      const target = await startFailing(t, throwing(cause));
      const answer = await exchange(target, { body: STORED });
      assertError(answer, error);
      assert.ok(!answer.text.includes(SECRET), answer.text);
      assert.doesNotMatch(answer.text, /\.ts\b|node:|\bat /);
      const isFull = cause instanceof PlantStoreError && cause.message === "full";
      const isWorthARetry = answer.status === 503 && !isFull;
      assert.equal(answer.headers.get("retry-after"), isWorthARetry ? "1" : undefined);
    });
  }
});

for (const [how, fault] of [
  ["throws", throwing(new Error(SECRET))],
  ["rejects", () => Promise.reject(new Error(SECRET))],
] as const) {
  test(`a token check that ${how} is answered 50001, without a path`, async (t) => {
    const target = await startFailing(t, throwing("unused"), fault);
    const headers = { Authorization: "Bearer failing" };
    const answer = await exchange(target, { headers, body: STORED });
    assertError(answer, 50001);
    assert.ok(!answer.text.includes(SECRET), answer.text);
  });
}
