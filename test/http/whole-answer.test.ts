/** Compares answers to creates that are sent as one text with those that Node sends. */
import assert from "node:assert/strict";
import { createServer, ServerResponse } from "node:http";
import net from "node:net";
import { type TestContext, test } from "node:test";
import { answer, Lingering, okReply, replyHeaders } from "../../src/http/answer.ts";
import { sendAsOneText } from "../../src/http/node-internals.ts";
import { createRequestListener, createToken } from "../../src/index.ts";
import { Client } from "../support/client.ts";
import { encodeRequest, type RequestParts } from "../support/contract.ts";
import { serve } from "../support/serve.ts";
import { type Service, startService } from "../support/service.ts";

/** In whole seconds, like Node's own default. */
const KEEP_ALIVE_MS = createServer().keepAliveTimeout + 900;
const NAMED = { "X-Request-Id": "one" };

function create(body: string, headers: RequestParts["headers"] = {}): RequestParts {
  return { headers: { ...NAMED, ...headers }, body };
}

const ASCII = '{"id":1,"name":"a"}';
const STAYS = { Connection: "keep-alive" };
const REFUSED = "a plant that is refused";
const EXPECTS = { Expect: "100-continue" };
const CLOSES = { Connection: "close" };
/** Its answer closes the connection, so no other request is sent after it. */
const OFFERS = { Connection: "upgrade", Upgrade: "h2c" };
/** Answered 404, and the connection closes. */
const LAST: RequestParts = { ...create("", CLOSES), target: "/none" };

const CREATES: readonly [what: string, requests: readonly RequestParts[], isWhole: boolean][] = [
  ["a name", [create(ASCII), LAST], true],
  ["a name and a tag", [create('{"id":1,"name":"a\\"b","tag":"c"}'), LAST], true],
  ["a long name", [create(`{"id":1,"name":"${"a".repeat(60_000)}"}`), LAST], true],
  ["a longer name", [create(`{"id":1,"name":"${"a".repeat(66_000)}"}`), LAST], false],
  ["several plants", [create(ASCII), create('{"id":2,"name":"b"}'), create(ASCII), LAST], true],
  ["a client that expects 100", [create(ASCII), create(ASCII, EXPECTS), LAST], true],
  ["a name in Latin-1", [create('{"id":1,"name":"Fenêtre"}'), LAST], true],
  ["a name beyond Latin-1", [create('{"id":1,"name":"植物\\ud800"}'), LAST], true],
  [REFUSED, [create('{"id":1}'), LAST], false],
  ["HTTP/1.0 that stays", [{ ...create(ASCII, STAYS), version: "HTTP/1.0" }, LAST], true],
  ["HTTP/1.0", [{ ...create(ASCII), version: "HTTP/1.0" }], false],
  ["a connection that closes", [create(ASCII, CLOSES)], false],
  ["an offer of another protocol", [create(ASCII, OFFERS)], false],
];

const SCOPES = ["write", "read"] as const;

const STORED = [
  { id: 11n, name: "a" },
  { id: 12n, name: "b", tag: "c" },
  { id: 13n, name: "植物" },
];

function read(id: number, more: RequestParts["headers"] = {}, method = "GET"): RequestParts {
  const headers = { ...NAMED, ...more };
  return { method, target: `/plants/${id}`, headers };
}

const READS: typeof CREATES = [
  ["reads of plants", [read(11), read(12), create(ASCII), read(11), LAST], true],
  ["a read of a name beyond Latin-1", [read(13), LAST], true],
  ["a HEAD of a plant", [read(11, {}, "HEAD"), LAST], false],
];

const ANSWERS = [
  ...CREATES.map(([what, ...rest]) => [`a create of ${what}`, ...rest] as const),
  ...READS,
];

for (const [what, requests, isWhole] of ANSWERS) {
  test(`the answer to ${what} has the same bytes as Node's`, async (t) => {
    let token = "";
    const started = await startService(t, {
      keepAliveTimeoutMs: KEEP_ALIVE_MS,
      prepare: async (folder) => {
        token = await createToken(folder, { name: "both", scopes: SCOPES });
      },
    });
    const service = { ...started, token };
    await Promise.all(STORED.map((plant) => service.store.create(plant)));
    const plain = await mount(t, service);
    const wrapped = await mount(t, service, { prepare: wrapEnd });
    const takeHeads = watchHeads(t);
    await readAnswers(service, service.port, requests); // Node makes the first head
    takeHeads();
    const own = await readAnswers(service, service.port, requests);
    const isOk = !what.endsWith(REFUSED);
    assert.equal(own.includes("HTTP/1.1 200 OK\r\n"), isOk);
    assert.equal(takeHeads().some(isOfCreate), !isWhole);
    await readAnswers(service, plain.port, requests);
    takeHeads();
    const mounted = await readAnswers(service, plain.port, requests);
    assert.equal(takeHeads().some(isOfCreate), !isWhole);
    const nodes = await readAnswers(service, wrapped.port, requests);
    assert.ok(takeHeads().some(isOfCreate));
    assert.deepEqual([own, mounted], [nodes, nodes]);
  });
}

const TOUCHED: readonly [what: string, prepare: (res: ServerResponse) => void][] = [
  ["is without Node's head", (res) => Object.assign(res, { _header: undefined })],
  ["is kept alive without a time", (res) => Object.assign(res, { _keepAliveTimeout: 0 })],
  ["does not know that time", (res) => Object.assign(res, { _keepAliveTimeout: undefined })],
  [
    "announces how many requests it accepts",
    (res) => Object.assign(res, { _maxRequestsPerSocket: 9 }),
  ],
  ["is to tell no date", (res) => Object.assign(res, { sendDate: false })],
  ["is to say nothing of its connection", (res) => res.removeHeader("Connection")],
  ["waits for a 100 that was not sent", (res) => Object.assign(res, { _expect_continue: true })],
  ["has a reason phrase", (res) => Object.assign(res, { statusMessage: "Lost" })],
  ["has a header", (res) => res.setHeader("X-Powered-By", "a framework")],
  ["has another writeHead", (res) => Object.assign(res, { writeHead: res.writeHead.bind(res) })],
  ["has another end", wrapEnd],
];

for (const [what, prepare] of TOUCHED) {
  test(`if a response ${what}, Node writes the answer to a create`, async (t) => {
    const service = await startService(t);
    const plain = await mount(t, service);
    const touched = await mount(t, service, { prepare });
    const both = await mount(t, service, {
      prepare: (res) => {
        prepare(res);
        wrapEnd(res);
      },
    });
    const takeHeads = watchHeads(t);
    await readAnswers(service, plain.port, [create(ASCII), LAST]);
    takeHeads();
    const answers = await readAnswers(service, touched.port, [create(ASCII), LAST]);
    assert.ok(takeHeads().some(isOfCreate));
    assert.equal(answers, await readAnswers(service, both.port, [create(ASCII), LAST]));
  });
}

test("an answer sent as one text has its own status, even if another was set before", async (t) => {
  const service = await startService(t);
  const responses: ServerResponse[] = [];
  const { port } = await mount(t, service, {
    prepare: (res) => {
      responses.push(Object.assign(res, { statusCode: 404 }));
    },
  });
  const takeHeads = watchHeads(t);
  await readAnswers(service, port, [create(ASCII), LAST]);
  takeHeads();
  assert.match(await readAnswers(service, port, [create(ASCII), LAST]), /^HTTP\/1\.1 200 OK\r\n/);
  assert.deepEqual(takeHeads(), [404]);
  assert.deepEqual([responses[2]?.statusCode, responses[2]?.statusMessage], [200, "OK"]);
});

test("a response that stays on its connection does not keep its body", async (t) => {
  const held: ServerResponse[] = [];
  const body = "x".repeat(60_000);
  const { url } = await serve(t, (_req, res) => {
    // Twice: Node makes the first head, and the next one is a copy of it.
    assert.equal(sendAsOneText(res, okReply(body), "one", replyHeaders), true);
    held.push(res);
  });
  for (let sent = 0; sent < 2; sent++) assert.equal((await fetch(url)).status, 200);
  for (const res of held) {
    assert.equal(res.headersSent, true);
    assert.ok(String(Reflect.get(res, "_header")).length < 1000);
  }
});

test("the head is made again each second, and for a server with another keep-alive time", async (t) => {
  const service = await startService(t, { keepAliveTimeoutMs: 7000 });
  const { port } = await mount(t, service);
  const takeHeads = watchHeads(t);
  for (const [each, ms, statuses, seconds] of [
    [service.port, 0, [200], 7],
    [service.port, 0, [], 7],
    [service.port, 1000, [200], 7],
    [port, 0, [200], Math.floor(createServer().keepAliveTimeout / 1000)],
  ] as const) {
    t.mock.timers.tick(ms);
    const client = await Client.connect(each);
    await client.send(encodeRequest(service, create(ASCII)));
    const { headers } = await client.next();
    client.destroy();
    assert.deepEqual(takeHeads(), statuses);
    assert.equal(headers.get("keep-alive"), `timeout=${seconds}`);
  }
});

for (const name of ["writeHead", "end"] as const) {
  test(`if ${name} of every response was wrapped before, Node writes the answers`, async (t) => {
    t.mock.method(ServerResponse.prototype, name);
    const late: typeof import("../../src/http/node-internals.ts") = await import(
      `../../src/http/node-internals.ts?${name}`
    );
    assert.equal(late.serverSettings(7000).keepAliveTimeout, 0, "the rest is on");
    const { url } = await serve(t, (_, res) => {
      if (!late.sendAsOneText(res, okReply("{}"), "one", replyHeaders)) res.end("Node's");
    });
    assert.equal(await (await fetch(url, { method: "POST" })).text(), "Node's");
  });
}

for (const [what, method, reply, isOurs] of [
  ["a plain 200 to a POST", "POST", okReply('{"a":1}'), true],
  ["one with a header of its own", "POST", okReply("{}", { Link: "1" }), false],
  ["one to a GET", "GET", okReply('{"a":1}'), true],
  ["a plant", "GET", okReply('{"id":1}'), true],
  ["one with another status", "POST", { ...okReply("{}"), status: 202 }, false],
] as const) {
  test(`${what} is answered by ${isOurs ? "us" : "Node"}`, async (t) => {
    const lingering = new Lingering();
    const { url } = await serve(t, (req, res) => answer({ req, res, lingering }, reply));
    const takeHeads = watchHeads(t);
    await fetch(url, { method }); // Node makes the first head
    takeHeads();
    assert.equal(await (await fetch(url, { method })).text(), reply.body);
    assert.equal(takeHeads().length, isOurs ? 0 : 1);
  });
}

test("Node writes an answer with CORS headers", async (t) => {
  const service = await startService(t, { corsOrigins: ["https://a.test"] });
  const takeHeads = watchHeads(t);
  await readAnswers(service, service.port, [create(ASCII), LAST]);
  takeHeads();
  await readAnswers(service, service.port, [create(ASCII, { Origin: "https://a.test" }), LAST]);
  assert.ok(takeHeads().some(isOfCreate));
});

/** Listens for the end of an answer, as middleware may; then Node assembles the answer. */
function wrapEnd(res: ServerResponse): void {
  Object.assign(res, { end: res.end.bind(res) });
}

/** The listener in a plain server; `prepare` is called with a response before the listener is. */
function mount(
  t: TestContext,
  { store, token }: Service,
  { prepare }: { readonly prepare?: (res: ServerResponse) => void } = {},
) {
  const verified = { name: "test", scopes: SCOPES };
  const tokens = { verify: (sent: string) => (sent === token ? verified : undefined) };
  const listener = createRequestListener({ plants: store, tokens });
  return serve(t, (req, res) => {
    prepare?.(res);
    listener(req, res);
  });
}

/** Stops the clock; returns the statuses of the heads that Node has made since the last call. */
function watchHeads(t: TestContext): () => readonly number[] {
  t.mock.timers.enable({ apis: ["Date"], now: Date.now() });
  // Not documented, but heads can be seen nowhere else.
  const nodes = ServerResponse.prototype as unknown as { _storeHeader(first: string): void };
  const { mock } = t.mock.method(nodes, "_storeHeader");
  return () => {
    const statuses = mock.calls.map(({ arguments: [first] }) => Number(first.split(" ")[1]));
    mock.resetCalls();
    return statuses;
  };
}

/** Whether a status is that of a create, and not of the request that ends a connection here. */
function isOfCreate(status: number): boolean {
  return status !== 404;
}

/** All bytes until the server closes, without the time of day. */
async function readAnswers(service: Service, port: number, requests: readonly RequestParts[]) {
  const socket = net.connect({ port, host: "127.0.0.1" });
  socket.write(Buffer.concat(requests.map((each) => encodeRequest(service, each))));
  const bytes = Buffer.concat(await socket.toArray());
  return bytes.toString("latin1").replaceAll(/^Date: .{29}\r$/gm, "Date\r");
}
