/** The answers to creates that leave as one text, beside those that Node puts together. */
import assert from "node:assert/strict";
import { createServer, IncomingMessage, ServerResponse } from "node:http";
import net from "node:net";
import { type TestContext, test } from "node:test";
import { okReply } from "../../src/http/reply.ts";
import { trySendWhole } from "../../src/http/whole-answer.ts";
import { createRequestListener } from "../../src/index.ts";
import { Client } from "../support/client.ts";
import { encodeRequest, type RequestParts } from "../support/contract.ts";
import { serve } from "../support/serve.ts";
import { type Service, startService } from "../support/service.ts";

/** Told in whole seconds, so as Node's own default is. */
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
/** Its answer closes the connection, so no other request is sent behind it. */
const OFFERS = { Connection: "upgrade", Upgrade: "h2c" };
/** Answered 404, and the connection closes. */
const LAST: RequestParts = { ...create("", CLOSES), target: "/none" };

const CREATES: readonly [what: string, requests: readonly RequestParts[], isWhole: boolean][] = [
  ["a name", [create(ASCII), LAST], true],
  ["a name and a tag", [create('{"id":1,"name":"a\\"b","tag":"c"}'), LAST], true],
  ["a long name", [create(`{"id":1,"name":"${"a".repeat(100_000)}"}`), LAST], true],
  ["several plants", [create(ASCII), create('{"id":2,"name":"b"}'), create(ASCII), LAST], true],
  ["a client that expects 100", [create(ASCII), create(ASCII, EXPECTS), LAST], true],
  ["a name in Latin-1", [create('{"id":1,"name":"Fenêtre"}'), LAST], false],
  ["a name beyond Latin-1", [create('{"id":1,"name":"植物"}'), LAST], false],
  [REFUSED, [create('{"id":1}'), LAST], false],
  ["HTTP/1.0 that stays", [{ ...create(ASCII, STAYS), version: "HTTP/1.0" }, LAST], true],
  ["HTTP/1.0", [{ ...create(ASCII), version: "HTTP/1.0" }], false],
  ["a connection that closes", [create(ASCII, CLOSES)], false],
  ["an offer of another protocol", [create(ASCII, OFFERS)], false],
];

for (const [what, requests, isWhole] of CREATES) {
  test(`the answer to a create of ${what} is byte for byte Node's`, async (t) => {
    const service = await startService(t, { keepAliveTimeoutMs: KEEP_ALIVE_MS });
    const plain = await mount(t, service);
    const wrapped = await mount(t, service, { prepare: wrapEnd });
    const takeHeads = watchHeads(t);
    const own = await readAnswers(service, service.port, requests);
    assert.equal(own.includes("HTTP/1.1 200 OK\r\n"), what !== REFUSED);
    assert.equal(takeHeads().some(isOfCreate), !isWhole);
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
  ["tells how many requests it takes", (res) => Object.assign(res, { _maxRequestsPerSocket: 9 })],
  ["is to tell no date", (res) => Object.assign(res, { sendDate: false })],
  ["is to say nothing of its connection", (res) => res.removeHeader("Connection")],
  ["waits for a 100 that nobody sent", (res) => Object.assign(res, { _expect_continue: true })],
  ["has a reason phrase", (res) => Object.assign(res, { statusMessage: "Lost" })],
  ["has a header", (res) => res.setHeader("X-Powered-By", "a framework")],
  ["has somebody's writeHead", (res) => Object.assign(res, { writeHead: res.writeHead.bind(res) })],
  ["has somebody's end", wrapEnd],
];

for (const [what, prepare] of TOUCHED) {
  test(`where a response ${what}, the answer to a create is Node's to write`, async (t) => {
    const service = await startService(t);
    const touched = await mount(t, service, { prepare });
    const both = await mount(t, service, {
      prepare: (res) => {
        prepare(res);
        wrapEnd(res);
      },
    });
    const takeHeads = watchHeads(t);
    const answers = await readAnswers(service, touched.port, [create(ASCII), LAST]);
    assert.ok(takeHeads().some(isOfCreate));
    assert.equal(answers, await readAnswers(service, both.port, [create(ASCII), LAST]));
  });
}

test("an answer that leaves as one text has its own status, whatever was set before", async (t) => {
  const service = await startService(t);
  const responses: ServerResponse[] = [];
  const { port } = await mount(t, service, {
    prepare: (res) => {
      responses.push(Object.assign(res, { statusCode: 404 }));
    },
  });
  const takeHeads = watchHeads(t);
  assert.match(await readAnswers(service, port, [create(ASCII), LAST]), /^HTTP\/1\.1 200 OK\r\n/);
  assert.deepEqual(takeHeads(), [404]);
  assert.deepEqual([responses[0]?.statusCode, responses[0]?.statusMessage], [200, "OK"]);
});

test("an answer that leaves as one text tells the time of day, and that of its server", async (t) => {
  const service = await startService(t, { keepAliveTimeoutMs: 7000 });
  const { port } = await mount(t, service);
  t.mock.timers.enable({ apis: ["Date"], now: Date.UTC(2026, 0, 1) });
  const takeHeads = watchHeads(t);
  const answers: string[] = [];
  for (const [each, ms] of [
    [service.port, 0],
    [service.port, 1000],
    [port, 0],
  ] as const) {
    t.mock.timers.tick(ms);
    const client = await Client.connect(each);
    await client.send(encodeRequest(service, create(ASCII)));
    const { headers } = await client.next();
    answers.push(`${headers.get("date")} ${headers.get("keep-alive")}`);
    client.destroy();
  }
  const seconds = createServer().keepAliveTimeout / 1000;
  assert.deepEqual(answers, [
    "Thu, 01 Jan 2026 00:00:00 GMT timeout=7",
    "Thu, 01 Jan 2026 00:00:01 GMT timeout=7",
    `Thu, 01 Jan 2026 00:00:01 GMT timeout=${Math.floor(seconds)}`,
  ]);
  assert.deepEqual(takeHeads(), []);
});

for (const name of ["writeHead", "end"] as const) {
  test(`where ${name} of every response was wrapped before, answers are Node's to write`, async (t) => {
    t.mock.method(ServerResponse.prototype, name);
    const loaded = `../../src/http/whole-answer.ts?${name}`;
    const { trySendWhole: tryLate } = (await import(loaded)) as {
      trySendWhole: typeof trySendWhole;
    };
    const { url } = await serve(t, (_, res) => {
      if (!tryLate(res, okReply("{}"), "one")) res.end("Node's");
    });
    assert.equal(await (await fetch(url, { method: "POST" })).text(), "Node's");
  });
}

/** Not documented. */
interface Guts {
  _header: string;
  _storeHeader(first: string, headers: unknown): void;
  _send(...given: unknown[]): boolean;
}

/** FAKE: what a Node of another time may do. */
const OTHER_NODES: readonly [does: string, patch: (t: TestContext, nodes: Guts) => void][] = [
  [
    "sends a header more",
    (t, nodes) => {
      const { _storeHeader } = nodes;
      t.mock.method(nodes, "_storeHeader", function (this: Guts, first: string, rest: unknown) {
        _storeHeader.call(this, first, rest);
        this._header = this._header.replace("\r\n\r\n", "\r\nX-New: 1\r\n\r\n");
      });
    },
  ],
  [
    "sends no head that it did not make",
    (t, nodes) => {
      const { _storeHeader, _send } = nodes;
      const made = new WeakSet<Guts>();
      t.mock.method(nodes, "_storeHeader", function (this: Guts, first: string, rest: unknown) {
        made.add(this);
        _storeHeader.call(this, first, rest);
      });
      t.mock.method(nodes, "_send", function (this: Guts, ...given: unknown[]) {
        if (!made.has(this)) this._header = "";
        return _send.apply(this, given);
      });
    },
  ],
  [
    "throws at a head that it did not make",
    (t, nodes) => {
      const { _send } = nodes;
      t.mock.method(nodes, "_send", function (this: Guts, ...given: unknown[]) {
        if (this._header.endsWith("}")) throw new TypeError("a head with a body");
        return _send.apply(this, given);
      });
    },
  ],
];

for (const [does, patch] of OTHER_NODES) {
  test(`if Node ${does}, answers to creates are Node's to write`, async (t) => {
    patch(t, ServerResponse.prototype as unknown as Guts);
    const loaded = `../../src/http/whole-answer.ts?${does}`;
    const { trySendWhole: tryThere } = (await import(loaded)) as {
      trySendWhole: typeof trySendWhole;
    };
    const { url } = await serve(t, (_, res) => {
      if (!tryThere(res, okReply("{}"), "one")) res.end("Node's");
    });
    assert.equal(await (await fetch(url, { method: "POST" })).text(), "Node's");
  });
}

for (const [what, method, reply, answered] of [
  ["a plain 200 to a POST", "POST", okReply("{}"), "{}"],
  ["one with a header of its own", "POST", okReply("{}", { ETag: "1" }), "Node's"],
  ["one to a GET", "GET", okReply("{}"), "Node's"],
  ["one with another status", "POST", { ...okReply("{}"), status: 202 }, "Node's"],
] as const) {
  test(`${what} is answered by ${answered === "{}" ? "us" : "Node"}`, async (t) => {
    const { url } = await serve(t, (_, res) => {
      if (!trySendWhole(res, reply, "one")) res.end("Node's");
    });
    const response = await fetch(url, { method });
    assert.equal(await response.text(), answered);
  });
}

const A = "https://a.test";
const VARIES = (res: ServerResponse) => void res.setHeader("vary", "Accept");
const CORS: readonly [
  what: string,
  corsOrigins: readonly string[],
  headers: RequestParts["headers"] & object,
  prepare: ((res: ServerResponse) => void) | undefined,
  isWhole: boolean,
][] = [
  ["a page of a named origin", [A], { Origin: A }, undefined, true],
  ["a page of another origin", [A], { Origin: "https://b.test" }, undefined, true],
  ["no page", [A], {}, undefined, true],
  ["a page if every origin is allowed", ["*"], { Origin: A }, undefined, true],
  ["a page of any origin, beside a header of other code", ["*"], { Origin: A }, VARIES, false],
  ["a page of a named origin, beside a header of other code", [A], { Origin: A }, VARIES, false],
  ["a page beyond ASCII", ["x://\u00fc"], { Origin: "x://\u00fc" }, undefined, false],
];

for (const [what, corsOrigins, headers, prepare, isWhole] of CORS) {
  test(`what CORS adds to the answer for ${what} is byte for byte as Node writes it`, async (t) => {
    const options = { keepAliveTimeoutMs: KEEP_ALIVE_MS, corsOrigins };
    const service = await startService(t, options);
    const mounted = await mount(t, service, { prepare, corsOrigins });
    const wrapped = await mount(t, service, {
      prepare: (res) => {
        prepare?.(res);
        wrapEnd(res);
      },
      corsOrigins,
    });
    const takeHeads = watchHeads(t);
    const requests = [create(ASCII, headers), LAST];
    const answers = await readAnswers(service, mounted.port, requests);
    assert.equal(takeHeads().some(isOfCreate), !isWhole);
    assert.match(answers, /^HTTP\/1\.1 200 OK\r$/m);
    assert.equal(answers, await readAnswers(service, wrapped.port, requests));
    if (prepare !== undefined) return;
    takeHeads();
    assert.equal(answers, await readAnswers(service, service.port, requests));
    assert.equal(takeHeads().some(isOfCreate), !isWhole);
  });
}

/** As middleware does that wants to know of the end of an answer: Node puts it together then. */
function wrapEnd(res: ServerResponse): void {
  Object.assign(res, { end: res.end.bind(res) });
}

interface MountOptions {
  /** What is done with a response before the listener has it. */
  readonly prepare?: ((res: ServerResponse) => void) | undefined;
  readonly corsOrigins?: readonly string[];
}

/** The listener in a plain server. */
function mount(t: TestContext, { store, token }: Service, options: MountOptions = {}) {
  const { prepare, corsOrigins = [] } = options;
  const verified = { name: "test", scopes: ["write"] as const };
  const tokens = { verify: (sent: string) => (sent === token ? verified : undefined) };
  const listener = createRequestListener({ plants: store, tokens, corsOrigins });
  return serve(t, (req, res) => {
    prepare?.(res);
    listener(req, res);
  });
}

/** What heads Node has put together since it was asked last, in every server of this process. */
function watchHeads(t: TestContext): () => readonly number[] {
  compareOnce();
  // Not documented, but what it puts together is told nowhere else.
  const nodes = ServerResponse.prototype as unknown as { _storeHeader(first: string): void };
  const { mock } = t.mock.method(nodes, "_storeHeader");
  return () => {
    const statuses = mock.calls.map(({ arguments: [first] }) => Number(first.split(" ")[1]));
    mock.resetCalls();
    return statuses;
  };
}

/** Has the process compare both ways now, if it has not yet: Node puts a head together then. */
function compareOnce(): void {
  const req = new IncomingMessage(new net.Socket());
  Object.assign(req, { method: "POST", httpVersionMajor: 1, httpVersionMinor: 1 });
  trySendWhole(new ServerResponse(req), okReply("{}"), "one");
}

/** Whether a status is that of a create, and not of what ends a connection here. */
function isOfCreate(status: number): boolean {
  return status !== 404;
}

/** What comes until the server closes, but for the time of day. */
async function readAnswers(service: Service, port: number, requests: readonly RequestParts[]) {
  const socket = net.connect({ port, host: "127.0.0.1" });
  socket.write(Buffer.concat(requests.map((each) => encodeRequest(service, each))));
  const bytes = Buffer.concat(await socket.toArray());
  return bytes.toString("latin1").replaceAll(/^Date: .{29}\r$/gm, "Date\r");
}
