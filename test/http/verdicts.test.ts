/** What a connection remembers about an accepted token, and for how long. */
import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { describe, type TestContext, test } from "node:test";
import {
  createRequestListener,
  PlantServer,
  PlantStoreError,
  type TokenVerifier,
  type Verdict,
} from "../../src/index.ts";
import { Client } from "../support/client.ts";
import { encodeRequest, type RequestParts } from "../support/contract.ts";
import { makeFolder } from "../support/folders.ts";
import type { RawAnswer } from "../support/raw.ts";
import { serve } from "../support/serve.ts";
import { openStore } from "../support/stores.ts";
import { until } from "../support/watch.ts";

const VERIFIED = { name: "test", scopes: ["write", "read"] as const };

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
  const port = Number(new URL(server.url).port);
  const client = await Client.connect(port);
  t.after(() => client.destroy());
  let id = 0;
  const create = async (token: string, parts: RequestParts = {}): Promise<RawAnswer> => {
    const body = `{"id":${++id},"name":"x"}`;
    await client.send(encodeRequest({ token }, { body, ...parts }));
    return client.next();
  };
  return { client, create, plants, port, server };
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

/** A token check whose verdicts wait until the test gives them. */
class WaitingVerifier implements TokenVerifier {
  readonly waiting: (() => void)[] = [];

  verify(token: string): Promise<Verdict> {
    return new Promise((resolve) => {
      this.waiting.push(() => resolve(token === "good" ? VERIFIED : undefined));
    });
  }

  look(): void {
    for (const resolve of this.waiting.splice(0)) resolve();
  }
}

const get = (token: string) => encodeRequest({ token }, { method: "GET" });

describe("while a verdict waits", () => {
  test("pipelined requests are answered in their order", async (t) => {
    const tokens = new WaitingVerifier();
    const { client } = await connect(t, tokens);
    await client.send(Buffer.concat([get("good"), get("good")]));
    await until("both wait", () => tokens.waiting.length === 2);
    assert.equal(client.text, "");
    tokens.look();
    for (let answers = 0; answers < 2; answers++) assert.equal((await client.next()).status, 200);
  });

  test("and its client leaves, nothing is stored", async (t) => {
    const tokens = new WaitingVerifier();
    const { port, plants } = await connect(t, tokens);
    const naked = encodeRequest({ token: "" }, { headers: { Authorization: undefined } });
    /** The server has read what was sent before, once it has answered this. */
    const askMore = async () => {
      const other = await Client.connect(port);
      await other.send(naked);
      assert.equal((await other.next()).status, 401);
      other.destroy();
    };
    const whole = encodeRequest({ token: "good" }, { body: '{"id":1,"name":"gone"}' });
    for (const bytes of [whole, whole.subarray(0, -5)]) {
      const leaving = await Client.connect(port);
      await leaving.send(bytes);
      await until("it waits", () => tokens.waiting.length === 1);
      leaving.reset();
      await askMore();
      tokens.look();
      await askMore();
    }
    assert.equal(await plants.get(1n), undefined);
  });

  test("a server that stops waits for it", async (t) => {
    const tokens = new WaitingVerifier();
    const { client, server } = await connect(t, tokens);
    await client.send(encodeRequest({ token: "good" }, { body: '{"id":1,"name":"x"}' }));
    await until("it waits", () => tokens.waiting.length === 1);
    const closed = server.close();
    tokens.look();
    const { status, headers } = await client.next();
    assert.deepEqual([status, headers.get("connection")], [200, "close"]);
    await closed;
  });
});

/** A token check whose earlier verdicts are only confirmed after a wait, which may end with any of these. */
class OldVerifier extends Verifier {
  isOld = false;
  readonly waiting: ((isStill: boolean | PlantStoreError) => void)[] = [];

  isCurrent(): boolean | Promise<boolean> {
    if (!this.isOld) return true;
    return new Promise((resolve, reject) => {
      this.waiting.push((end) => (typeof end === "boolean" ? resolve(end) : reject(end)));
    });
  }
}

const UNREADABLE = new PlantStoreError("tokens_unreadable", "cannot look");

for (const [end, status] of [
  [true, 200],
  [false, 401],
  [UNREADABLE, 503],
] as const) {
  for (const [what, body, good] of [
    ["create", '{"id":1,"name":"x"}', 200],
    ["invalid create", '{"id":1,"name":8}', 400],
  ] as const) {
    const answered = end === true ? good : status;
    test(`a verdict that became old before the body of the ${what} arrived is waited for: ${answered}`, async (t) => {
      const tokens = new OldVerifier();
      const { client, plants } = await connect(t, tokens);
      const whole = encodeRequest({ token: "good" }, { body });
      await client.send(whole.subarray(0, -5));
      await until("the head was judged", () => tokens.asked.length === 1);
      tokens.isOld = true;
      await client.send(whole.subarray(-5));
      await until("it waits", () => tokens.waiting.length === 1);
      assert.equal(client.text, "");
      tokens.waiting[0]?.(end);
      assert.equal((await client.next()).status, answered);
      assert.equal((await plants.get(1n))?.name, answered === 200 ? "x" : undefined);
    });
  }

  for (const [what, target, accept] of [
    ["plant", "/plants/1", "*/*"],
    ["page", "/plants", "*/*"],
    ["stream", "/plants", "application/x-ndjson"],
  ] as const) {
    test(`a verdict that became old while a ${what} was read is waited for: ${status}`, async (t) => {
      const tokens = new OldVerifier();
      const { client, plants } = await connect(t, tokens);
      await plants.create({ id: 1n, name: "x" });
      const headers = { Accept: accept };
      await client.send(encodeRequest({ token: "good" }, { method: "GET", target, headers }));
      tokens.isOld = true; // the head is judged by verify, and only the answer by isCurrent
      await until("it waits", () => tokens.waiting.length > 0);
      assert.equal(client.text, "");
      tokens.isOld = false;
      tokens.waiting[0]?.(end);
      assert.equal((await client.next()).status, status);
    });
  }
}

test("nothing is stored if the request was answered while its verdict waits", async (t) => {
  const tokens = new OldVerifier();
  tokens.isOld = true;
  const plants = await openStore(t, makeFolder(t));
  const listener = createRequestListener({ plants, tokens });
  const responses: ServerResponse[] = [];
  const { port } = await serve(t, (req, res) => {
    responses.push(res);
    listener(req, res);
  });
  const client = await Client.connect(port);
  t.after(() => client.destroy());
  const send = (id: number) =>
    client.send(encodeRequest({ token: "good" }, { body: `{"id":${id},"name":"x"}` }));
  await send(1);
  await until("it waits", () => tokens.waiting.length === 1);
  responses[0]?.writeHead(504, { "Content-Length": 0 }).end();
  assert.equal((await client.next()).status, 504);
  tokens.waiting[0]?.(true);
  tokens.isOld = false;
  await send(2);
  assert.equal((await client.next()).status, 200);
  assert.deepEqual([await plants.get(1n), (await plants.get(2n))?.name], [undefined, "x"]);
});

test("an isCurrent that returns nothing refuses the token", async (t) => {
  const tokens = { verify: () => VERIFIED, isCurrent: () => undefined as never };
  const { create } = await connect(t, tokens);
  assert.equal((await create("good")).status, 401);
});
