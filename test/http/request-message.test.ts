/** The messages on `plant-store:request` about every answer, in our own server and in another one. */
import assert from "node:assert/strict";
import net from "node:net";
import { type TestContext, test } from "node:test";
import { createRequestListener, type RequestMessage } from "../../src/index.ts";
import { Client } from "../support/client.ts";
import { chunked, encodeRequest, type RequestParts } from "../support/contract.ts";
import { type Served, serve } from "../support/serve.ts";
import { type Service, startService } from "../support/service.ts";
import { collectMessages, until } from "../support/watch.ts";

const BODY = '{"id":1,"name":"a"}';

interface Published {
  readonly method?: string;
  readonly path?: string;
  readonly client?: string | undefined;
  readonly status: number;
  readonly error?: number;
  readonly bodyBytes?: number;
  readonly cut?: boolean;
  readonly token?: string | undefined;
  readonly operation?: RequestMessage["operation"];
  /** It began before the first subscription. */
  readonly isUntimed?: boolean;
}

const SENT = { method: "POST", path: "/plants", token: "test" };
const GOOD = { ...SENT, operation: "createPlant" } as const;

const REQUESTS: readonly [says: string, parts: RequestParts, published: Published][] = [
  ["a create", { body: BODY }, { ...GOOD, status: 200, bodyBytes: BODY.length }],
  ["a body that is no plant", { body: "{}" }, { ...GOOD, status: 400, error: 40005, bodyBytes: 2 }],
  [
    "a create in chunks",
    { headers: { "Transfer-Encoding": "chunked" }, body: chunked(BODY) },
    { ...GOOD, status: 200, bodyBytes: BODY.length },
  ],
  [
    "a query, which may hold a secret",
    { target: "/plants?access_token=secret", body: BODY },
    { ...GOOD, status: 200, bodyBytes: BODY.length },
  ],
  [
    "the absolute form",
    { target: "http://localhost/plants", body: BODY },
    { ...GOOD, status: 200, bodyBytes: BODY.length },
  ],
  [
    "a bad token",
    { headers: { Authorization: "Bearer wrong" }, body: BODY },
    { ...SENT, token: undefined, status: 401, error: 40102 },
  ],
  [
    "another path",
    { method: "GET", target: "/elsewhere" },
    { ...SENT, method: "GET", path: "/elsewhere", status: 404, error: 40401 },
  ],
  [
    "another method",
    { method: "DELETE" },
    { ...SENT, method: "DELETE", status: 405, error: 40501 },
  ],
  [
    "a read that its token may not do",
    { method: "GET", target: "/plants/7" },
    { ...SENT, method: "GET", path: "/plants/7", operation: "getPlant", status: 403, error: 40301 },
  ],
  [
    "a body that is too long",
    { headers: { "Content-Length": "2000000" } },
    { ...GOOD, status: 413, error: 41301 },
  ],
];

const OURS_ALONE: readonly [says: string, request: RequestParts | string, published: Published][] =
  [
    ["two hosts", { headers: { Host: ["a", "b"] } }, { ...SENT, ...refused(400, 40001) }],
    ["what is no HTTP", "GARDEN\r\n\r\n", refused(400, 40001)],
    ["too many headers", { headers: { X: "x".repeat(20_000) } }, refused(431, 43101)],
  ];

function refused(status: number, error: number) {
  return { status, error, token: undefined };
}

function mount(t: TestContext, { store, token }: Service): Promise<Served> {
  const tokens = {
    verify: (sent: string) =>
      sent === token ? { name: "test", scopes: ["write"] as const } : null,
  };
  return serve(t, createRequestListener({ plants: store, tokens }));
}

async function send(service: Service, port: number, request: RequestParts | string) {
  const client = await Client.connect(port);
  try {
    await client.send(typeof request === "string" ? request : encodeRequest(service, request));
    return await client.next();
  } finally {
    client.destroy();
  }
}

function assertPublished(
  messages: readonly RequestMessage[],
  { isUntimed = false, ...published }: Published,
) {
  assert.deepEqual(
    messages.map(({ durationMs, requestId: _, ...message }) => ({
      ...message,
      isUntimed: !(Number(durationMs) > 0),
    })),
    [
      {
        method: undefined,
        path: undefined,
        client: "127.0.0.1",
        error: undefined,
        token: undefined,
        operation: undefined,
        bodyBytes: 0,
        cut: false,
        ...published,
        isUntimed,
      },
    ],
  );
}

for (const [says, request, published] of [...REQUESTS, ...OURS_ALONE]) {
  test(`our server publishes ${says} once`, async (t) => {
    const service = await startService(t);
    const messages = collectMessages<RequestMessage>(t, "plant-store:request");
    const answer = await send(service, service.port, request);
    assert.equal(answer.status, published.status);
    assertPublished(messages, published);
  });
}

for (const [says, request, published] of REQUESTS) {
  test(`a mounted listener publishes ${says} once`, async (t) => {
    const service = await startService(t);
    const { port } = await mount(t, service);
    const messages = collectMessages<RequestMessage>(t, "plant-store:request");
    const answer = await send(service, port, request);
    assert.equal(answer.status, published.status);
    assertPublished(messages, published);
  });
}

test("a body that breaks off in the parser is published with its request", async (t) => {
  const service = await startService(t);
  const messages = collectMessages<RequestMessage>(t, "plant-store:request");
  const client = await Client.connect(service.port);
  t.after(() => client.destroy());
  const headers = { "Transfer-Encoding": "chunked", Expect: "100-continue" };
  await client.send(encodeRequest(service, { headers }));
  assert.equal((await client.next()).status, 100);
  await client.send("zzz\r\n");
  assert.equal((await client.next()).status, 400);
  assertPublished(messages, { ...GOOD, status: 400, error: 40001 });
});

/** Sends a create without the end of its body, and leaves once the server has begun to read the body. */
async function leaveInBody(
  t: TestContext,
  service: Service,
  port: number,
  leave: (socket: net.Socket) => void,
): Promise<readonly RequestMessage[]> {
  const messages = collectMessages<RequestMessage>(t, "plant-store:request");
  const begun = collectMessages(t, "http.server.request.start");
  const socket = net.connect(port, "127.0.0.1").pause(); // unread data makes its close a reset
  t.after(() => socket.destroy());
  const request = encodeRequest(service, { headers: { Expect: "100-continue" }, body: BODY });
  socket.write(request.subarray(0, -1));
  await until("the request has begun", () => begun.length > 0);
  leave(socket);
  await until("it is published", () => messages.length > 0);
  socket.destroy();
  return messages;
}

const CUT = { ...GOOD, status: 0, cut: true };

const LEAVES: readonly [
  says: string,
  leave: (socket: net.Socket) => void,
  ours: Published,
  mounted: Published,
][] = [
  ["resets its connection", (socket) => socket.destroy(), CUT, CUT],
  ["closes its side", (socket) => socket.end(), { ...GOOD, status: 400, error: 40001 }, CUT],
];

for (const [says, leave, ours, mounted] of LEAVES) {
  test(`our server publishes a client that ${says} in the body once`, async (t) => {
    const service = await startService(t);
    const messages = await leaveInBody(t, service, service.port, leave);
    await service.server.close();
    assertPublished(messages, ours);
  });

  test(`a mounted listener publishes a client that ${says} in the body once`, async (t) => {
    const service = await startService(t);
    const { port } = await mount(t, service);
    assertPublished(await leaveInBody(t, service, port, leave), mounted);
  });
}

test("a request that began before the first subscription is published without its duration", async (t) => {
  const service = await startService(t);
  const client = await Client.connect(service.port);
  t.after(() => client.destroy());
  const request = encodeRequest(service, { headers: { Expect: "100-continue" }, body: BODY });
  await client.send(request.subarray(0, request.length - BODY.length));
  assert.equal((await client.next()).status, 100);
  const messages = collectMessages<RequestMessage>(t, "plant-store:request");
  await client.send(BODY);
  assert.equal((await client.next()).status, 200);
  const published = { ...GOOD, status: 200, bodyBytes: BODY.length };
  assertPublished(messages, { ...published, client: undefined, isUntimed: true });
});

test("a request lasts from its headers to its answer", async (t) => {
  const service = await startService(t);
  const messages = collectMessages<RequestMessage>(t, "plant-store:request");
  const client = await Client.connect(service.port);
  t.after(() => client.destroy());
  const request = encodeRequest(service, { headers: { Expect: "100-continue" }, body: BODY });
  const before = performance.now();
  await client.send(request.subarray(0, request.length - BODY.length));
  assert.equal((await client.next()).status, 100);
  const begun = performance.now();
  await new Promise((resolve) => setTimeout(resolve, 50));
  const sent = performance.now();
  await client.send(BODY);
  assert.equal((await client.next()).status, 200);
  const [{ durationMs = 0 } = {}] = messages;
  assert.ok(durationMs > sent - begun && durationMs < performance.now() - before, `${durationMs}`);
});
