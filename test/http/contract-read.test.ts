/** Reading one plant: paths, entity tag, scopes, and the order of faults. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createToken } from "../../src/index.ts";
import { Client } from "../support/client.ts";
import { assertCommonHeaders, assertError, encodeRequest, exchange } from "../support/contract.ts";
import { manyPlants, read, startReadable } from "../support/reading.ts";

const FERN = { id: 7n, name: "Fern", tag: "indoor" };

const PLANTS = [
  [FERN, '{"id":7,"name":"Fern","tag":"indoor"}'],
  [{ id: 0n, name: "" }, '{"id":0,"name":""}'],
  [{ id: -1n, name: "x", tag: "" }, '{"id":-1,"name":"x","tag":""}'],
  [{ id: 9007199254740993n, name: "🌱" }, '{"id":9007199254740993,"name":"🌱"}'],
  [{ id: 2n ** 63n - 1n, name: "a\0\u2028b" }, undefined],
  [{ id: -(2n ** 63n), name: "\ud800" }, undefined],
] as const;

test("a plant is read back exactly, every digit and character", async (t) => {
  const service = await startReadable(
    t,
    PLANTS.map(([plant]) => plant),
  );
  for (const [plant, body] of PLANTS) {
    const answer = await read(service, `/plants/${plant.id}`);
    assert.equal(answer.status, 200);
    const { id, ...members } = plant;
    assert.ok(answer.text.startsWith(`{"id":${id},`), answer.text);
    if (body !== undefined) assert.equal(answer.text, body);
    const { id: _, ...got } = JSON.parse(answer.text);
    assert.deepEqual(got, members);
  }
});

for (const id of ["007", "+7", "7.0", "70e-1", "-0", "00", "", "x", "%37", "7 ", "７", "0x7"]) {
  test(`the spelling "${id}" of an id is answered 40401`, async (t) => {
    const service = await startReadable(t, [FERN, { id: 0n, name: "zero" }]);
    const answer = await read(service, `/plants/${id.replaceAll(" ", "%20")}`);
    assertError(answer, 40401);
  });
}

for (const id of ["9223372036854775808", "-9223372036854775809", "1".repeat(5000)]) {
  test(`an id beyond int64 is answered 40401: ${id.slice(0, 30)}`, async (t) => {
    assertError(await read(await startReadable(t, []), `/plants/${id}`), 40401);
  });
}

test("an unknown id is answered 40402 with any store", async (t) => {
  const service = await startReadable(t, [FERN]);
  for (const id of ["8", "-7", "9223372036854775807", "-9223372036854775808"]) {
    assertError(await read(service, `/plants/${id}`), 40402);
  }
});

test("the query is ignored, and the absolute form means the same path", async (t) => {
  const service = await startReadable(t, [FERN]);
  const headers = { Authorization: `Bearer ${service.readToken}` };
  for (const target of [
    "/plants/7?x",
    "http://other.example/plants/7",
    "http://localhost/plants/7?",
  ]) {
    const client = await Client.connect(service.port);
    await client.send(encodeRequest(service, { method: "GET", target, headers }));
    assert.equal((await client.next()).text, '{"id":7,"name":"Fern","tag":"indoor"}');
    client.destroy();
  }
});

test("HEAD is answered like GET, without the body", async (t) => {
  const service = await startReadable(t, manyPlants(10));
  for (const path of [
    "/plants/7",
    "/plants/99",
    "/plants/007",
    "/plants",
    "/plants?limit=3",
    "/plants?limit=x",
  ]) {
    await t.test(path, async () => {
      const get = await read(service, path);
      const head = await read(service, path, {}, "HEAD");
      assert.equal(head.status, get.status);
      assert.equal(head.text, "");
      // The client announces that it closes after a HEAD.
      const others = ["date", "connection", "keep-alive", "x-request-id"];
      const [ofGet, ofHead] = [get, head].map(({ headers }) =>
        [...headers].filter(([name]) => !others.includes(name)),
      );
      assert.deepEqual(ofHead, ofGet);
    });
  }
});

test("a write token can do exactly what the interface says, and no more", async (t) => {
  const service = await startReadable(t, [FERN]);
  const writer = { ...service, readToken: service.token };
  for (const path of ["/plants/7", "/plants/99", "/plants", "/plants?limit=x"]) {
    for (const accept of ["*/*", "application/x-ndjson"]) {
      const answer = await read(writer, path, { Accept: accept });
      assertError(answer, 40301);
      assertCommonHeaders(answer);
      assert.equal(
        answer.headers.get("www-authenticate"),
        'Bearer realm="plant-store", error="insufficient_scope", scope="read"',
      );
    }
  }
});

test("a token with both scopes may do both, and a request without a token nothing", async (t) => {
  let both = "";
  const service = await startReadable(t, [FERN], {
    prepare: async (folder) => {
      both = await createToken(folder, { name: "both", scopes: ["read", "write"] });
    },
  });
  assert.equal((await read({ ...service, readToken: both }, "/plants/7")).status, 200);
  const body = '{"id":8,"name":"Ivy"}';
  const headers = { Authorization: `Bearer ${both}` };
  assert.equal((await exchange(service, { headers, body })).text, '{"name":"Ivy"}');
  for (const path of ["/plants/7", "/plants/007", "/plants?limit=x"]) {
    assertError(await read(service, path, { Authorization: "" }), 40101);
  }
});

test("of several faults of a read the first in the order is answered", async (t) => {
  const service = await startReadable(t, []);
  const reader = { Authorization: `Bearer ${service.readToken}` };
  const other = { Authorization: `Bearer ${service.token}` };
  for (const [error, method, target, headers] of [
    [40102, "PUT", "/plants/007", { Authorization: "Bearer x", Expect: "x" }],
    [40401, "PUT", "/plants/007", { ...other, Expect: "x" }],
    [40501, "PUT", "/plants/7", { ...other, Expect: "x" }],
    [40301, "GET", "/plants/7", { ...other, Expect: "x" }],
    [41701, "GET", "/plants?limit=x", { ...reader, Expect: "x" }],
    [40007, "GET", "/plants?limit=x&after=1", reader],
    [40008, "GET", "/plants?limit=1&after=1", reader],
    [40402, "GET", "/plants/7", reader],
  ] as const) {
    const client = await Client.connect(service.port);
    await client.send(encodeRequest(service, { method, target, headers }));
    assertError(await client.next(), error);
    client.destroy();
  }
});

test("a store that is closed answers every read 50304", async (t) => {
  const service = await startReadable(t, [FERN]);
  await service.store.close();
  for (const path of ["/plants/7", "/plants", "/plants?after=7"]) {
    for (const accept of ["application/json", "application/x-ndjson"]) {
      const answer = await read(service, path, { Accept: accept });
      assertError(answer, 50304);
      assert.equal(answer.headers.get("retry-after"), "1");
    }
  }
});
