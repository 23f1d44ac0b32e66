/** When a token is verified, and verdicts that come late. */
import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { PlantServer, PlantStoreError, type TokenVerifier, type Verdict } from "../../src/index.ts";
import { Client } from "../support/client.ts";
import { chunked, encodeRequest, resultOf } from "../support/contract.ts";
import { makeFolder } from "../support/folders.ts";
import { openStore } from "../support/stores.ts";
import { until } from "../support/watch.ts";

const CALLER = { name: "test", scopes: ["write", "read"] as const };
const BODY = '{"id":1,"name":"x"}';

/** A server with this token check, and one connection to it. */
async function connect(t: TestContext, tokens: TokenVerifier) {
  const plants = await openStore(t, makeFolder(t));
  const server = await PlantServer.start({ port: 0, plants, tokens });
  t.after(() => server.close(0));
  const port = Number(new URL(server.url).port);
  const open = async () => {
    const client = await Client.connect(port);
    t.after(() => client.destroy());
    return client;
  };
  return { client: await open(), open, plants, server };
}

const create = (token: string, id: number, name = "x") =>
  encodeRequest({ token }, { body: `{"id":${id},"name":"${name}"}` });

test("a token is verified with every request", async (t) => {
  let isGood = true;
  const { client } = await connect(t, { verify: () => (isGood ? CALLER : undefined) });
  for (isGood of [true, false, true]) {
    await client.send(create("good", 1));
    assert.equal(resultOf(await client.next()), isGood ? 200 : 40102);
  }
});

const UNREADABLE = new PlantStoreError("tokens_unreadable", "cannot poll");

for (const [says, second, result] of [
  ["is still good", CALLER, 200],
  ["is still good, which takes a moment", Promise.resolve(CALLER), 200],
  ["was revoked meanwhile", undefined, 40102],
  ["cannot be verified", UNREADABLE, 50306],
] as const) {
  test(`a create whose body comes late and whose token ${says} gets ${result}`, async (t) => {
    let asked = 0;
    const verify = (): Verdict | Promise<Verdict> => {
      if (asked++ === 0) return CALLER;
      if (second instanceof Error) throw second;
      return second;
    };
    const { client, plants } = await connect(t, { verify });
    const whole = encodeRequest({ token: "good" }, { body: BODY });
    await client.send(whole.subarray(0, -5));
    await until("the head was read", () => asked === 1);
    await client.send(whole.subarray(-5));
    assert.equal(resultOf(await client.next()), result);
    assert.equal((await plants.get(1n))?.name, result === 200 ? "x" : undefined);
  });
}

/** A token check whose verdicts wait until the test gives them. */
class WaitingVerifier implements TokenVerifier {
  readonly waiting: (() => void)[] = [];

  verify(token: string): Promise<Verdict> {
    return new Promise((resolve) => {
      this.waiting.push(() => resolve(token === "good" ? CALLER : undefined));
    });
  }

  release(): void {
    for (const resolve of this.waiting.splice(0)) resolve();
  }
}

describe("while a token is verified", () => {
  test("pipelined requests wait, and get their responses in order", async (t) => {
    const tokens = new WaitingVerifier();
    const { client } = await connect(t, tokens);
    const get = encodeRequest({ token: "good" }, { method: "GET", target: "/plants/1" });
    await client.send(Buffer.concat([get, create("bad", 1)]));
    await until("both wait", () => tokens.waiting.length === 2);
    assert.equal(client.text, "");
    tokens.release();
    assert.equal(resultOf(await client.next()), 40402);
    assert.equal(resultOf(await client.next()), 40102);
  });

  /** A create in chunks of one byte. */
  const headers = { "Transfer-Encoding": "chunked" };
  const inBytes = (token: string, body: string) =>
    encodeRequest({ token }, { headers, body: chunked(...body) });

  setFlagsFromString("--expose-gc");
  const gc: () => void = runInNewContext("gc");
  /** The bytes of objects, buffers and long texts. */
  const usedBytes = () => {
    for (let round = 0; round < 2; round++) gc(); // the second waits for the thread that frees buffers
    const { heapUsed, external } = process.memoryUsage();
    return heapUsed + external;
  };

  test("a body takes no more memory than its length", async (t) => {
    const tokens = new WaitingVerifier();
    const { open } = await connect(t, tokens);
    const request = inBytes("bad", "x".repeat(50_000));
    const before = usedBytes();
    const clients = await Promise.all(Array.from({ length: 50 }, open));
    for (const client of clients) await client.send(request);
    await until("all have arrived", () => tokens.waiting.length === clients.length);
    await new Promise(setImmediate);
    const each = (usedBytes() - before) / clients.length;
    assert.ok(each < 300_000, `${each} bytes`);
    tokens.release();
    for (const client of clients) assert.equal(resultOf(await client.next()), 40102);
  });

  test("a body arrives whole, however it is cut", async (t) => {
    const tokens = new WaitingVerifier();
    const { open, plants } = await connect(t, tokens);
    const long = create("good", 2, "y".repeat(300_000));
    const cases: readonly [whole: Buffer, cut: number, result: number][] = [
      [inBytes("good", BODY), 1e6, 200],
      [long, 100_000, 200],
      [create("bad", 4), 1e6, 40102],
      [create("bad", 5), -5, 40102],
    ];
    for (const [whole, cut, result] of cases) {
      const client = await open();
      await client.send(whole.subarray(0, cut));
      await until("it waits", () => tokens.waiting.length === 1);
      await new Promise(setImmediate);
      tokens.release();
      await client.send(whole.subarray(cut));
      const answer = client.next();
      while (client.text === "") {
        await new Promise(setImmediate);
        tokens.release(); // a late body is verified once more
      }
      assert.equal(resultOf(await answer), result);
    }
    assert.equal((await plants.get(2n))?.name.length, 300_000);
  });
});
