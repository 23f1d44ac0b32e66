/** The answers to creates that our own server puts together, beside those that Node does. */
import assert from "node:assert/strict";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { createServer, type RequestListener, ServerResponse } from "node:http";
import net from "node:net";
import { type TestContext, test } from "node:test";
import { DirectResponse } from "../../src/http/direct-response.ts";
import { okReply } from "../../src/http/reply.ts";
import { createRequestListener } from "../../src/index.ts";
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
/** Answered 404, and the connection closes. */
const LAST: RequestParts = { ...create("", CLOSES), target: "/none" };

const CREATES: readonly [what: string, requests: readonly RequestParts[], isDirect: boolean][] = [
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
];

for (const [what, requests, isDirect] of CREATES) {
  test(`the answer to a create of ${what} is byte for byte Node's`, async (t) => {
    const service = await startService(t, { keepAliveTimeoutMs: KEEP_ALIVE_MS });
    const { port } = await mount(t, service);
    const heads = t.mock.method(ServerResponse.prototype, "writeHead").mock;
    const own = await readAnswers(service, service.port, requests);
    assert.equal(own.includes("HTTP/1.1 200 OK\r\n"), what !== REFUSED);
    assert.equal(
      heads.calls.every((head) => head.arguments[0] === 404),
      isDirect,
    );
    assert.equal(own, await readAnswers(service, port, requests));
  });
}

for (const members of [
  { _header: undefined },
  { _keepAliveTimeout: undefined },
  { sendDate: false },
]) {
  const [name] = Object.keys(members);
  test(`where a response has another ${name}, its answer is Node's to write`, async (t) => {
    const service = await startService(t, { keepAliveTimeoutMs: KEEP_ALIVE_MS });
    const { port } = await mount(t, service);
    const change = (message: unknown) => {
      Object.assign((message as { response: object }).response, members);
    };
    subscribe("http.server.request.start", change);
    t.after(() => unsubscribe("http.server.request.start", change));
    const heads = t.mock.method(ServerResponse.prototype, "writeHead").mock;
    const own = await readAnswers(service, service.port, [create(ASCII), LAST]);
    assert.ok(heads.calls.some((head) => head.arguments[0] === 200));
    assert.equal(own, await readAnswers(service, port, [create(ASCII), LAST]));
  });
}

for (const [what, method, reply, answered] of [
  ["a plain 200 to a POST", "POST", okReply("{}"), "{}"],
  ["one with a header of its own", "POST", okReply("{}", { ETag: "1" }), "Node's"],
  ["one to a GET", "GET", okReply("{}"), "Node's"],
  ["one with another status", "POST", { ...okReply("{}"), status: 202 }, "Node's"],
] as const) {
  test(`${what} is answered by ${answered === "{}" ? "us" : "Node"}`, async (t) => {
    const listener: RequestListener = (_, res) => {
      if (!(res instanceof DirectResponse && res.trySendWhole(reply, "one"))) res.end("Node's");
    };
    const { url } = await serve(t, listener, { ServerResponse: DirectResponse });
    const response = await fetch(url, { method });
    assert.equal(await response.text(), answered);
  });
}

test("the answer to a create tells what CORS adds to every one", async (t) => {
  const corsOrigins = ["https://a.test"];
  const service = await startService(t, { keepAliveTimeoutMs: KEEP_ALIVE_MS, corsOrigins });
  const { port } = await mount(t, service, corsOrigins);
  const requests = [create(ASCII, { Origin: "https://a.test" }), LAST];
  const own = await readAnswers(service, service.port, requests);
  assert.match(own, /^HTTP\/1\.1 200 OK\r$/m);
  assert.match(own, /^Access-Control-Allow-Origin: https:\/\/a\.test\r$/m);
  assert.equal(own, await readAnswers(service, port, requests));
});

/** The listener in a plain server: Node puts every answer together there. */
function mount(t: TestContext, { store, token }: Service, corsOrigins: readonly string[] = []) {
  const verified = { name: "test", scopes: ["write"] as const };
  const tokens = { verify: (sent: string) => (sent === token ? verified : undefined) };
  return serve(t, createRequestListener({ plants: store, tokens, corsOrigins }));
}

/** What comes until the server closes, but for the time of day. */
async function readAnswers(service: Service, port: number, requests: readonly RequestParts[]) {
  const socket = net.connect({ port, host: "127.0.0.1" });
  socket.write(Buffer.concat(requests.map((each) => encodeRequest(service, each))));
  const bytes = Buffer.concat(await socket.toArray());
  return bytes.toString("latin1").replaceAll(/^Date: .{29}\r$/gm, "Date\r");
}
