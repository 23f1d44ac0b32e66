/** The AsyncLocalStorage of the code around a request reaches everything that the request calls. */
import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import net from "node:net";
import { type TestContext, test } from "node:test";
import {
  createRequestListener,
  type ListenerOptions,
  type NewPlant,
  subscribe,
} from "../../src/index.ts";
import { encodeRequest, type RequestParts } from "../support/contract.ts";
import { makeFolder } from "../support/folders.ts";
import { serve } from "../support/serve.ts";
import { openStore } from "../support/stores.ts";
import { until } from "../support/watch.ts";

const storage = new AsyncLocalStorage<unknown>();
const idOf = ({ headers }: IncomingMessage) => headers["x-request-id"];

async function serveMounted(t: TestContext, options: ListenerOptions): Promise<number> {
  const listener = createRequestListener(options);
  const { port } = await serve(t, (req, res) => {
    storage.run(idOf(req), () => listener(req, res));
  });
  return port;
}

const create = (body: string, headers: RequestParts["headers"] = {}) => ({ body, headers });
const read = (target: string, headers: RequestParts["headers"] = {}) => ({
  method: "GET",
  target,
  headers,
});
const plant = (id: number) => `{"id":${id},"name":"Fern"}`;
const CHUNKED = { "Transfer-Encoding": "chunked" };
const CREATE = ["verify", "create", "channel request"];
const REFUSED = ["verify", "channel request"];

/** In this order; what each one calls. */
const REQUESTS: readonly [what: string, request: RequestParts, calls: readonly string[]][] = [
  ["a create", create(plant(1)), CREATE],
  ["a create with a long body", create(plant(2).padEnd(40_000)), CREATE],
  ["a repeat", create(plant(1)), CREATE],
  ["a conflict", create('{"id":1,"name":""}'), CREATE],
  ["a body that is no plant", create("{}"), REFUSED],
  ["a body that is too long", create(`ffff\r\n${"a".repeat(65_000)}`, CHUNKED), REFUSED],
  ["a create that fails", create(plant(0)), CREATE],
  ["a plant", read("/plants/1"), ["verify", "getLine", "channel request"]],
  ["a page", read("/plants"), ["verify", "listLines", "channel request"]],
  [
    "a stream",
    read("/plants", { Accept: "application/x-ndjson" }),
    ["verify", "listLines", "channel request"],
  ],
];

test("a context around a mounted listener reaches the store, the token check and the channels", async (t) => {
  const calls: string[] = [];
  const note = (call: string) => {
    const seen = `${call} of ${storage.getStore()}`;
    if (!calls.includes(seen)) calls.push(seen);
  };
  const port = await serveMounted(t, await noteCalls(t, note));
  for (const [what, parts, expected] of REQUESTS) {
    calls.length = 0;
    const id = what.replaceAll(" ", "-");
    const headers = { "X-Request-Id": id, Connection: "close", ...parts.headers };
    const bytes = encodeRequest({ token: "secret" }, { ...parts, headers });
    const isHeadRead = () => calls.includes(`verify of ${id}`);
    const socket = await sendInTwo(port, bytes, isHeadRead);
    if (what.endsWith("breaks off")) socket.destroy();
    await until(`the answer to ${what} was read`, () => socket.closed);
    await until(`the end of ${what}`, () => calls.length >= expected.length);
    assert.deepEqual(
      calls,
      expected.map((call) => `${call} of ${id}`),
    );
  }
});

/** A store and a token check that note each call, and a subscriber of each channel that does. */
async function noteCalls(t: TestContext, note: (call: string) => void): Promise<ListenerOptions> {
  const store = await openStore(t, makeFolder(t));
  t.after(subscribe("plant-store:request", () => note("channel request")));
  const sender = { name: "test", scopes: ["write", "read"] } as const;
  return {
    plants: {
      async create(plant: NewPlant) {
        note("create");
        if (plant.id === 0n) throw new Error("a fault of this store");
        return store.create(plant);
      },
      async getLine(id) {
        note("getLine");
        return store.getLine(id);
      },
      async *listLines(options) {
        note("listLines");
        yield* store.listLines(options);
      },
    },
    tokens: {
      verify() {
        note("verify");
        return sender;
      },
    },
    bodyBytesMax: 64_000,
  };
}

/** Sends the body after the server has read the head, and so in another turn. */
async function sendInTwo(port: number, bytes: Buffer, isHeadRead: () => boolean) {
  const socket = net.connect({ port, host: "127.0.0.1", noDelay: true });
  await once(socket, "connect");
  const bodyStart = bytes.indexOf("\r\n\r\n") + 4;
  socket.on("error", () => {}); // a server that refuses a body may reset the connection
  socket.resume().write(bytes.subarray(0, bodyStart));
  await until("the server has read the head", isHeadRead);
  socket.write(bytes.subarray(bodyStart));
  return socket;
}
