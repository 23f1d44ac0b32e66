/** The messages on `plant-store:request` about every response, in our own server and in another one. */
import assert from "node:assert/strict";
import { BlockList } from "node:net";
import { type TestContext, test } from "node:test";
import { createRequestListener, type RequestMessage } from "../../src/index.ts";
import { Client } from "../support/client.ts";
import { encodeRequest, type RequestParts } from "../support/contract.ts";
import { type Service, serve, startService } from "../support/service.ts";
import { collectMessages, until } from "../support/watch.ts";

const BODY = '{"id":1,"name":"a"}';
const SENT = { method: "POST", path: "/plants", token: "test" };
const GOOD = { ...SENT, operation: "createPlant" } as const;
const READ = { ...SENT, method: "GET", path: "/plants/7", operation: "getPlant" } as const;
const NOBODY = { token: undefined };
const STORED = { ...GOOD, status: 200, bodyBytes: BODY.length };
const refused = (error: number) => ({ status: Math.floor(error / 100), error });

/** What is published of a request; another server responds to the last two itself. */
const REQUESTS: readonly [RequestParts | string, Partial<RequestMessage>, isOursAlone?: boolean][] =
  [
    [{ body: "{}" }, { ...GOOD, ...refused(40005), bodyBytes: 2 }],
    [{ target: "/plants?token=secret", body: BODY }, STORED], // without its query
    [{ headers: { Authorization: "Bearer x" } }, { ...SENT, ...NOBODY, ...refused(40102) }],
    [
      { method: "GET", target: "/plants/7" },
      { ...READ, ...refused(40402) },
    ],
    [{ headers: { Host: ["a", "b"] } }, { ...SENT, ...NOBODY, ...refused(40001) }, true],
    ["GARDEN\r\n\r\n", refused(40001), true],
  ];

/** The same listener in another server. */
function mount(t: TestContext, { store: plants, tokens }: Service) {
  return serve(t, createRequestListener({ plants, tokens }));
}

async function connect(t: TestContext, port: number): Promise<Client> {
  const client = await Client.connect(port);
  t.after(() => client.destroy());
  return client;
}

const encode = (service: Service, request: RequestParts | string) => {
  return typeof request === "string" ? request : encodeRequest(service, request);
};

function assertPublished(messages: readonly RequestMessage[], published: Partial<RequestMessage>) {
  const [{ durationMs, requestId: _, ...message } = {} as RequestMessage, ...others] = messages;
  const none = { method: undefined, path: undefined, error: undefined, token: undefined };
  const usual = { client: "127.0.0.1", operation: undefined, bodyBytes: 0, cut: false };
  assert.deepEqual(message, { ...none, ...usual, ...published });
  assert.equal(durationMs === undefined, message.client === undefined);
  assert.deepEqual(others, []);
}

for (const isMounted of [false, true]) {
  test(`every response is published once, mounted: ${isMounted}`, async (t) => {
    const service = await startService(t);
    const { port } = isMounted ? await mount(t, service) : service;
    const messages = collectMessages<RequestMessage>(t, "plant-store:request");
    for (const [request, published, isOursAlone] of REQUESTS) {
      if (isMounted && isOursAlone === true) continue;
      const before = messages.length;
      const client = await connect(t, port);
      await client.send(encode(service, request));
      assert.equal((await client.next()).status, published.status);
      assertPublished(messages.slice(before), published);
    }
  });
}

/** Begins a create, and waits until its body may be sent. */
async function begin(t: TestContext, service: Service, headers = {}): Promise<Client> {
  const client = await connect(t, service.port);
  const parts = { headers: { Expect: "100-continue", ...headers }, body: BODY };
  await client.send(encodeRequest(service, parts).subarray(0, -BODY.length));
  assert.equal((await client.next()).status, 100);
  return client;
}

test("a body that the parser refuses is published with its request", async (t) => {
  const service = await startService(t);
  const messages = collectMessages<RequestMessage>(t, "plant-store:request");
  const client = await begin(t, service, { "Transfer-Encoding": "chunked" });
  await client.send("zzz\r\n");
  assert.equal((await client.next()).status, 400);
  assertPublished(messages, { ...GOOD, ...refused(40001) });
});

for (const isMounted of [false, true]) {
  test(`a client that resets its connection in a body is published once, mounted: ${isMounted}`, async (t) => {
    const service = await startService(t);
    const { port } = isMounted ? await mount(t, service) : service;
    const begun = collectMessages(t, "http.server.request.start");
    const messages = collectMessages<RequestMessage>(t, "plant-store:request");
    const client = await connect(t, port);
    await client.send(encodeRequest(service, { body: BODY }).subarray(0, -1));
    await until("the request has begun", () => begun.length > 0);
    client.reset();
    await until("it is published", () => messages.length > 0);
    await service.server.close();
    assertPublished(messages, { ...GOOD, status: 0, cut: true });
  });
}

test("a request that began before the first subscription is published without duration and client", async (t) => {
  const service = await startService(t);
  const client = await begin(t, service);
  const messages = collectMessages<RequestMessage>(t, "plant-store:request");
  await client.send(BODY);
  assert.equal((await client.next()).status, 200);
  assertPublished(messages, { ...STORED, client: undefined });
});

// What a trusted proxy may send is in test/cases/requests.
const FROM = { "X-Forwarded-For": "192.0.2.1" };
for (const [says, trusted, request, client] of [
  ["a peer that is no trusted proxy", "10.0.0.1", { headers: FROM }, "127.0.0.1"],
  ["a trusted proxy", "127.0.0.1", { headers: { ...FROM, Host: "a b" } }, "192.0.2.1"],
  ["a trusted proxy that sends what is no request", "127.0.0.1", "garbage\r\n\r\n", "127.0.0.1"],
] as const) {
  test(`the client of ${says} is ${client}`, async (t) => {
    const trustedProxies = new BlockList();
    trustedProxies.addAddress(trusted);
    const service = await startService(t, { trustedProxies, host: "::" });
    const messages = collectMessages<RequestMessage>(t, "plant-store:request");
    const peer = await connect(t, service.port);
    await peer.send(encode(service, request));
    await peer.next();
    assert.equal(messages[0]?.client, client);
  });
}
