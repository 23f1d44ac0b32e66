/** What a connection is allowed: how long it may make no progress, what may wait on it, and what is said to it. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { IncomingMessage, ServerResponse } from "node:http";
import { connect, createServer, type Socket } from "node:net";
import { describe, type TestContext, test } from "node:test";
import { Budget, Lease } from "../../src/http/body.ts";
import { Connection } from "../../src/http/connections.ts";
import { PlantServer } from "../../src/index.ts";
import { createTestStore } from "../../src/testing.ts";
import { makeCertificate, NEEDS_OPENSSL } from "../support/certificates.ts";
import { Client } from "../support/client.ts";
import {
  assertError,
  assertPlant,
  chunked,
  encodeRequest,
  plantBody,
  resultOf,
} from "../support/contract.ts";
import { usedBytes } from "../support/memory.ts";
import { sendRaw } from "../support/raw.ts";
import { startReadable } from "../support/reading.ts";
import { holdCreates, startService } from "../support/service.ts";
import { makeLatch, until } from "../support/watch.ts";

const IDLE_MS = 600_000;
/** A client that sends within the advertised time never finds its connection closed. */
const IDLE = IDLE_MS + 1000;
const STALL = 700_000;
const NONE = 0;
const LIMITS = { idleMs: IDLE_MS, stallMs: STALL, unansweredMax: 2 };
const WAITING = new Budget(1024);
const lend = () => new Lease(WAITING, "a");

/** Both ends of a connection. */
async function accept(t: TestContext): Promise<{ socket: Socket; client: Socket }> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  const client = connect(port, "127.0.0.1");
  const [socket] = (await once(server, "connection")) as [Socket];
  t.after(() => {
    client.destroy();
    socket.destroy();
    server.close();
  });
  return { socket, client };
}

/** A request begins with the arrival of its bytes. */
type Step = "look" | "begin" | "end";
const LIVES: readonly [says: string, steps: readonly [Step, timeout: number][]][] = [
  [
    "before the first request, as one on which an answer is due",
    [
      ["look", NONE],
      ["look", STALL],
      ["look", STALL],
    ],
  ],
  [
    "with each look between which a request begins, without a timer",
    [
      ["begin", NONE],
      ["look", NONE],
      ["end", NONE],
      ["begin", NONE],
      ["look", NONE],
      ["end", NONE],
      ["begin", NONE],
      ["look", NONE],
    ],
  ],
  [
    "while an answer is due, then between two requests",
    [
      ["begin", NONE],
      ["look", NONE],
      ["look", STALL],
      ["end", STALL],
      ["look", IDLE],
      ["look", IDLE],
      ["begin", NONE],
      ["look", NONE],
      ["look", STALL],
    ],
  ],
  [
    "with one of two answers sent, as one on which an answer is due",
    [
      ["begin", NONE],
      ["begin", NONE],
      ["end", NONE],
      ["look", NONE],
      ["look", STALL],
    ],
  ],
];

for (const [says, steps] of LIVES) {
  test(`a connection is timed ${says}`, async (t) => {
    const { socket, client } = await accept(t);
    socket.on("data", () => {});
    const connection = new Connection(socket, LIMITS, lend);
    const answers: ServerResponse[] = [];
    const take: Record<Step, () => unknown> = {
      look: () => connection.look(),
      begin: async () => {
        client.write("x");
        await once(socket, "data");
        const res = new ServerResponse(new IncomingMessage(socket));
        answers.push(res);
        connection.begin(res, 100);
      },
      end: () => answers.shift()?.emit("close"),
    };
    const seen: [Step, number][] = [];
    for (const [step] of steps) {
      await take[step]();
      seen.push([step, socket.timeout ?? NONE]);
    }
    assert.deepEqual(seen, steps);
  });
}

describe("on a connection", () => {
  test("the seventeenth unanswered request is answered 50301, and nothing after it is carried out", async (t) => {
    const service = await startService(t);
    const { release } = holdCreates(t, service);
    const requests = Array.from({ length: 20 }, (_, id) =>
      encodeRequest(service, { body: plantBody(id) }),
    );
    const client = await Client.connect(service.port);
    await client.send(Buffer.concat(requests));
    release();
    const results = (await client.rest()).map(resultOf);
    assert.deepEqual(results, [...new Array(16).fill(200), 50301]);
    assert.equal(service.logLines().length, 16);
  });

  test("what reads hold is given back if CONNECT follows them", async (t) => {
    const { port, readToken: token } = await startReadable(t, [{ id: 1n, name: "a" }]);
    const list = encodeRequest({ token }, { method: "GET" });
    const connect = encodeRequest({ token }, { method: "CONNECT", target: "a:1" });
    const requests = Buffer.concat([...new Array(15).fill(list), connect]);
    for (let count = 0; count < 40; count++) await sendRaw(port, requests).catch(() => {});
    const answers = await sendRaw(port, Buffer.concat([list, list]), 2);
    assert.deepEqual(
      answers.map(({ status }) => status),
      [200, 200],
    );
  });
});

describe("while a token is looked up", () => {
  /** A server whose token check waits for `release`. */
  async function startSlow(t: TestContext) {
    const { plants } = createTestStore();
    const { released, release } = makeLatch();
    let asked = 0;
    const verify = async (token: string) => {
      asked++;
      await released;
      return token === "good" ? ({ name: "a", scopes: ["write"] } as const) : undefined;
    };
    const server = await PlantServer.start({ port: 0, plants, tokens: { verify } });
    t.after(() => server.close(0));
    return { port: Number(new URL(server.url).port), plants, release, asked: () => asked };
  }

  /** A create in chunks of one byte. */
  function inBytes(token: string, body: string): Buffer {
    const headers = { "Transfer-Encoding": "chunked" };
    return encodeRequest({ token }, { headers, body: chunked(...body) });
  }

  test("a body takes no more memory than its length", async (t) => {
    const { port, release, asked } = await startSlow(t);
    const request = inBytes("bad", "x".repeat(8000));
    const before = usedBytes();
    const clients = [];
    for (let count = 0; count < 50; count++) {
      const client = await Client.connect(port);
      t.after(() => client.destroy());
      await client.send(request);
      clients.push(client);
    }
    await until("all have arrived", () => asked() === clients.length);
    await new Promise(setImmediate);
    const each = (usedBytes() - before) / clients.length;
    assert.ok(each < 500_000, `${each} bytes`);
    release();
    for (const client of clients) assertError(await client.next(), 40102);
  });

  test("a body arrives whole, however it is cut, and a read with a body is refused", async (t) => {
    const { port, plants, release, asked } = await startSlow(t);
    const good = await Client.connect(port);
    const cut = await Client.connect(port);
    const bad = await Client.connect(port);
    t.after(() => [good, cut, bad].map((client) => client.destroy()));
    await good.send(inBytes("good", plantBody(1)));
    const second = encodeRequest({ token: "good" }, { body: plantBody(2) });
    await cut.send(second.subarray(0, -5));
    await bad.send(encodeRequest({ token: "bad" }, { body: plantBody(3) }));
    await until("all are asked for", () => asked() === 3);
    release();
    assertPlant(await good.next(), { name: "plant 1" });
    await cut.send(second.subarray(-5));
    assertPlant(await cut.next(), { name: "plant 2" });
    assertError(await bad.next(), 40102);
    // The connections go on.
    await bad.send(encodeRequest({ token: "good" }, { body: plantBody(4) }));
    assertPlant(await bad.next(), { name: "plant 4" });
    await good.send(inBytes("good", plantBody(5)));
    assertPlant(await good.next(), { name: "plant 5" });
    assert.match(String(await plants.getLine(2n)), /plant 2/);
  });
});

test(
  "a client that changes its TLS keys sixteen times is disconnected",
  NEEDS_OPENSSL,
  async (t) => {
    const tls = makeCertificate(t, "a");
    const service = await startService(t, { tls });
    const at = ["-connect", `127.0.0.1:${service.port}`, "-crlf"];
    const client = spawn("openssl", ["s_client", ...at], { stdio: "pipe" });
    t.after(() => client.kill());
    client.stdin.on("error", () => {});
    let [said, got] = ["", ""];
    client.stderr.on("data", (text) => {
      said += text;
    });
    client.stdout.on("data", (text) => {
      got += text;
    });
    await until(
      "it is connected",
      () => got.includes("---\nread R BLOCK") || got.includes("Verify return code"),
    );
    for (let count = 1; count <= 16; count++) {
      client.stdin.write("k\n");
      await until(
        "the keys are changed",
        () => said.split("KEYUPDATE").length > count || client.exitCode !== null,
      );
    }
    client.stdin.write("GET / HTTP/1.1\nHost: a\nConnection: close\n\n");
    if (client.exitCode === null) await once(client, "exit");
    assert.doesNotMatch(got, /HTTP\/1\.1 /);
  },
);

describe("a message says what is wrong", () => {
  const preflight = { Origin: "https://a.example", "Access-Control-Request-Method": "POST" };
  const none = { Authorization: undefined };
  for (const [what, parts, error, says] of [
    ["an empty body", {}, 40003, /empty/],
    ["a byte order mark", { body: '\ufeff{"id":1,"name":"a"}' }, 40003, /U\+FEFF/],
    ["an id with leading zeros", { method: "GET", target: "/plants/007" }, 40401, /leading zeros/],
    [
      "a parameter that there is not",
      { method: "GET", target: "/plants?name=a" },
      40007,
      /limit and after/,
    ],
    ["two of them", { method: "GET", target: "/plants?page=1&limit=x" }, 40007, /page.*limit: /],
    [
      "a token of another form",
      { headers: { Authorization: "Bearer pst_…" } },
      40102,
      /pst_ and 43/,
    ],
    ["a short token", { headers: { Authorization: "Bearer x" } }, 40102, /pst_ and 43/],
    [
      "an unknown token",
      { headers: { Authorization: `Bearer pst_${"a".repeat(43)}` } },
      40102,
      /unknown, expired or revoked$/,
    ],
    [
      "a preflight",
      { method: "OPTIONS", headers: { ...none, ...preflight } },
      40101,
      /--cors-origin/,
    ],
  ] as const) {
    test(`about ${what}`, async (t) => {
      const { port, token, readToken } = await startReadable(t, []);
      const isRead = "method" in parts && parts.method === "GET";
      const request = encodeRequest({ token: isRead ? readToken : token }, parts);
      const [answer] = await sendRaw(port, request, 1);
      assert.ok(answer);
      assert.match(assertError(answer, error), says);
    });
  }

  test("without a token that was sent by mistake", async (t) => {
    const { port, token, readToken } = await startReadable(t, []);
    for (const target of [`limit=${token}`, `after=${token}`, `${token}=1`]) {
      const parts = { method: "GET", target: `/plants?${target}` };
      const [answer] = await sendRaw(port, encodeRequest({ token: readToken }, parts), 1);
      assert.equal(answer?.text.includes(token.slice(10, 30)), false);
    }
    const body = JSON.stringify({ id: token, name: "a" });
    const [answer] = await sendRaw(port, encodeRequest({ token }, { body }), 1);
    assert.equal(answer?.text.includes(token.slice(10, 30)), false);
  });
});
