/** Who is calling: the address in the message of a request. What a trusted proxy may send is in test/cases/requests. */
import assert from "node:assert/strict";
import { once } from "node:events";
import http, { type RequestListener } from "node:http";
import net, { BlockList } from "node:net";
import { type TestContext, test } from "node:test";
import {
  createRequestListener,
  type PlantService,
  type RequestMessage,
  type TrustedProxies,
} from "../../src/index.ts";
import { startService } from "../support/service.ts";
import { collectMessages, until } from "../support/watch.ts";

type Header = readonly [name: string, value: string];

const LIST = "X-Forwarded-For";

/** Proxies on this machine, in 10.0.0.0/8 and in fd00::/8. */
function ourProxies(): BlockList {
  const proxies = new BlockList();
  proxies.addAddress("127.0.0.1");
  proxies.addSubnet("10.0.0.0", 8);
  proxies.addSubnet("fd00::", 8, "ipv6");
  return proxies;
}

const unused = () => assert.fail("no token is good");
const PLANTS: PlantService = { create: unused, getLine: unused, listLines: unused };
const TOKENS = { verify: () => undefined };

function listen(trustedProxies?: TrustedProxies): RequestListener {
  return createRequestListener({ plants: PLANTS, tokens: TOKENS, trustedProxies });
}

/** Sends a request with these header lines to a server at an address, and returns what it published. */
async function clientSeenAt(
  t: TestContext,
  where: net.ListenOptions,
  listener: RequestListener,
  headers: readonly Header[],
): Promise<string | undefined> {
  const server = http.createServer(listener).listen(where);
  await once(server, "listening");
  t.after(() => server.close());
  const messages = collectMessages<RequestMessage>(t, "plant-store:request");
  const address = server.address();
  const target = typeof address === "string" ? { path: address } : { ...address, host: where.host };
  const socket = net.connect(target as net.NetConnectOpts);
  t.after(() => socket.destroy());
  const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(`GET /plants HTTP/1.1\r\nHost: a\r\n${lines.join("")}\r\n`);
  await until("it is published", () => messages.length > 0);
  return messages[0]?.client;
}

const HERE = { host: "127.0.0.1", port: 0 };

const CLAIM: Header = [LIST, "6.6.6.6"];

test("X-Forwarded-For of a peer that is no trusted proxy is ignored", async (t) => {
  const others = new BlockList();
  others.addSubnet("10.0.0.0", 8);
  assert.equal(await clientSeenAt(t, HERE, listen(others), [CLAIM]), "127.0.0.1");
});

test("an IPv4 peer of a server that listens on IPv6 is an IPv4 address, and trusted as such", async (t) => {
  const server = http.createServer(listen(ourProxies())).listen({ host: "::", port: 0 });
  await once(server, "listening");
  t.after(() => server.close());
  const messages = collectMessages<RequestMessage>(t, "plant-store:request");
  const { port } = server.address() as net.AddressInfo;
  const socket = net.connect(port, "127.0.0.1");
  t.after(() => socket.destroy());
  socket.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  socket.write(`GET / HTTP/1.1\r\nHost: a\r\n${LIST}: 192.0.2.1\r\n\r\n`);
  await until("both are published", () => messages.length > 1);
  assert.deepEqual(
    messages.map(({ client }) => client),
    ["127.0.0.1", "192.0.2.1"],
  );
});

test("a peer that resets its connection after a request does not count as a proxy", async (t) => {
  const server = http.createServer(listen(ourProxies())).listen({ host: "127.0.0.2", port: 0 });
  await once(server, "listening");
  t.after(() => server.close());
  const messages = collectMessages<RequestMessage>(t, "plant-store:request");
  const { port } = server.address() as net.AddressInfo;
  const socket = net.connect({ port, host: "127.0.0.2", localAddress: "127.0.0.9" });
  await once(socket, "connect");
  socket.write(`GET / HTTP/1.1\r\nHost: a\r\n${LIST}: 6.6.6.6\r\n\r\n`);
  socket.resetAndDestroy();
  await until("it is published", () => messages.length > 0);
  assert.equal(messages[0]?.client, undefined);
});

test("a request that is refused for its framing has a client, and so have bytes that are no request", async (t) => {
  const service = await startService(t, { trustedProxies: ourProxies() });
  const messages = collectMessages<RequestMessage>(t, "plant-store:request");
  for (const [at, text] of [
    `GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n${LIST}: 192.0.2.1\r\n\r\n`,
    "garbage\r\n\r\n",
  ].entries()) {
    const socket = net.connect(service.port, "127.0.0.1").end(text);
    t.after(() => socket.destroy());
    await until("it is published", () => messages.length > at);
  }
  assert.deepEqual(
    messages.map(({ client }) => client),
    ["192.0.2.1", "127.0.0.1"],
  );
});
