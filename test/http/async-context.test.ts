/** The AsyncLocalStorage of the code around a request reaches everything that the request calls. */
import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { test } from "node:test";
import { createRequestListener, subscribe } from "../../src/index.ts";
import { createTestStore } from "../../src/testing.ts";
import { Client } from "../support/client.ts";
import { chunked, encodeRequest, type RequestParts } from "../support/contract.ts";
import { serve } from "../support/serve.ts";
import { until } from "../support/watch.ts";

const LONG = "a".repeat(70_000);
const CHUNKED = { "Transfer-Encoding": "chunked" };

/** In this order; what each one calls. */
const REQUESTS: readonly [what: string, parts: RequestParts, ...calls: string[]][] = [
  ["a create", { body: '{"id":1,"name":"Fern"}' }, "verify", "create"],
  ["a long body", { body: `{"id":2,"name":"${LONG}"}` }, "verify", "create"],
  ["a body that is too long", { headers: CHUNKED, body: chunked(LONG, LONG) }, "verify"],
  ["a plant", { method: "GET", target: "/plants/1" }, "verify", "getLine"],
  ["a page", { method: "GET" }, "verify", "listLines"],
];

test("a context around a mounted listener reaches the store, the token check and the channels", async (t) => {
  const storage = new AsyncLocalStorage<unknown>();
  const calls = new Set<string>();
  const note = (call: string) => void calls.add(`${call} of ${storage.getStore()}`);
  const { plants } = createTestStore();
  for (const name of ["create", "getLine", "listLines"] as const) {
    const method = plants[name].bind(plants) as (argument: unknown) => never;
    t.mock.method(plants, name, (argument: unknown) => {
      note(name);
      return method(argument);
    });
  }
  const verify = () => {
    note("verify");
    return { name: "test", scopes: ["write", "read"] } as const;
  };
  t.after(subscribe("plant-store:request", () => note("channel")));
  const listener = createRequestListener({ plants, tokens: { verify }, bodyBytesMax: 100_000 });
  const { port } = await serve(t, (req, res) => {
    storage.run(req.headers["x-request-id"], () => listener(req, res));
  });
  for (const [what, { headers, ...parts }, ...expected] of REQUESTS) {
    calls.clear();
    const id = what.replaceAll(" ", "-");
    const given = { "X-Request-Id": id, Connection: "close", ...headers };
    const bytes = encodeRequest({ token: "any" }, { ...parts, headers: given });
    const bodyStart = bytes.indexOf("\r\n\r\n") + 4;
    const client = await Client.connect(port);
    await client.send(bytes.subarray(0, bodyStart));
    await until("the head was read", () => calls.has(`verify of ${id}`));
    await client.send(bytes.subarray(bodyStart));
    await client.rest();
    await until(`the end of ${what}`, () => calls.size > expected.length);
    const all = [...expected, "channel"].map((call) => `${call} of ${id}`);
    assert.deepEqual([...calls], all);
    client.destroy();
  }
});
