/** What a connection remembers about an accepted token, and for how long. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { createRequestListener, PlantServer, type TokenVerifier } from "../../src/index.ts";
import { Client } from "../support/client.ts";
import { encodeRequest, type RequestParts } from "../support/contract.ts";
import { makeFolder } from "../support/folders.ts";
import type { RawAnswer } from "../support/raw.ts";
import { serve } from "../support/serve.ts";
import { openStore } from "../support/stores.ts";

const VERIFIED = { name: "test", scopes: ["write"] as const };

/** A token check that records its calls, and whose verdicts a test can revoke. */
class Verifier implements TokenVerifier {
  readonly asked: string[] = [];
  readonly good = new Set(["good", "other"]);

  verify(token: string) {
    this.asked.push(token);
    return this.good.has(token) ? VERIFIED : undefined;
  }
}

class RememberedVerifier extends Verifier {
  isGoodStill = true;

  isCurrent(): boolean {
    return this.isGoodStill;
  }
}

/** One connection to a server with this token check. */
async function connect(t: TestContext, tokens: TokenVerifier) {
  const plants = await openStore(t, makeFolder(t));
  const server = await PlantServer.start({ port: 0, plants, tokens });
  t.after(() => server.close(0));
  const client = await Client.connect(Number(new URL(server.url).port));
  t.after(() => client.destroy());
  let id = 0;
  const create = async (token: string, parts: RequestParts = {}): Promise<RawAnswer> => {
    const body = `{"id":${++id},"name":"x"}`;
    await client.send(encodeRequest({ token }, { body, ...parts }));
    return client.next();
  };
  return { client, create, plants };
}

test("a token is verified once a connection while its verdict is current", async (t) => {
  const tokens = new RememberedVerifier();
  const { create } = await connect(t, tokens);
  for (let time = 0; time < 3; time++) assert.equal((await create("good")).status, 200);
  assert.deepEqual(tokens.asked, ["good"]);
});

test("a token whose verdict is no longer current is verified again with the next request", async (t) => {
  const tokens = new RememberedVerifier();
  const { create } = await connect(t, tokens);
  assert.equal((await create("good")).status, 200);
  tokens.isGoodStill = false;
  tokens.good.delete("good");
  assert.equal((await create("good")).status, 401);
  assert.deepEqual(tokens.asked, ["good", "good"]);
});

test("a connection that sent a valid token must still send a valid one", async (t) => {
  const tokens = new RememberedVerifier();
  const { create } = await connect(t, tokens);
  assert.equal((await create("good")).status, 200);
  for (const other of ["gooe", "goo", "goodd", "Good", "other"]) {
    assert.equal((await create(other)).status, other === "other" ? 200 : 401, other);
  }
  assert.equal((await create("good", { headers: { Authorization: undefined } })).status, 401);
  assert.equal((await create("good")).status, 200);
});

test("a verifier without isCurrent is asked with every request", async (t) => {
  const tokens = new Verifier();
  const { create } = await connect(t, tokens);
  for (let time = 0; time < 3; time++) assert.equal((await create("good")).status, 200);
  assert.deepEqual(tokens.asked, ["good", "good", "good"]);
});

test("two listeners on one connection do not share verdicts", async (t) => {
  const plants = await openStore(t, makeFolder(t));
  const strict = new RememberedVerifier();
  strict.good.clear();
  const open = createRequestListener({ plants, tokens: new RememberedVerifier() });
  const closed = createRequestListener({ plants, tokens: strict });
  const { port } = await serve(t, (req, res) => {
    if (req.headers["x-listener"] === "closed") closed(req, res);
    else open(req, res);
  });
  const client = await Client.connect(port);
  t.after(() => client.destroy());
  const create = async (listener: string) => {
    const headers = { "X-Listener": listener };
    const body = '{"id":1,"name":"x"}';
    await client.send(encodeRequest({ token: "good" }, { headers, body }));
    return (await client.next()).status;
  };
  assert.equal(await create("open"), 200);
  assert.equal(await create("closed"), 401);
});

/** Verdicts that come after the body, or a part of it, has arrived. */
const LATE: readonly [says: string, verify: TokenVerifier["verify"]][] = [
  ["a promise", (token) => later(() => (token === "good" ? VERIFIED : undefined))],
  [
    "another library's promise",
    // biome-ignore lint/suspicious/noThenProperty: a foreign thenable is what is tested
    () => ({ then: (tell: (v: unknown) => void) => setImmediate(tell, VERIFIED) }) as never,
  ],
];

function later<T>(make: () => T): Promise<T> {
  return new Promise((resolve) => setImmediate(() => setImmediate(() => resolve(make()))));
}

for (const [says, verify] of LATE) {
  test(`a verdict may be ${says}, and a body that arrived earlier is read`, async (t) => {
    const { client, create, plants } = await connect(t, { verify });
    const name = "x".repeat(100_000);
    assert.equal((await create("good", { body: `{"id":1,"name":"${name}"}` })).status, 200);
    assert.equal((await plants.get(1n))?.name, name);
    const whole = encodeRequest({ token: "good" }, { body: '{"id":2,"name":"two"}' });
    await client.send(whole.subarray(0, -10), whole.subarray(-10));
    assert.equal((await client.next()).status, 200);
    assert.equal((await create("good", { body: "" })).status, 400);
    assert.equal((await create("good", { body: '{"id":3,"name":"three"}' })).status, 200);
  });
}

test("a late negative verdict is answered 401", async (t) => {
  const { create } = await connect(t, { verify: () => later(() => undefined) });
  assert.equal((await create("bad")).status, 401);
});
