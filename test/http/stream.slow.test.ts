/** All plants as JSON lines: whole, resumed, and with clients that do not read or that leave. */
import assert from "node:assert/strict";
import { once } from "node:events";
import net from "node:net";
import { type TestContext, test } from "node:test";
import type { ReadLease } from "../../src/http/body.ts";
import { ListPace, type Slices } from "../../src/http/stream.ts";
import {
  createRequestListener,
  type NewPlant,
  PlantServer,
  type PlantService,
  PlantStoreError,
  type RequestMessage,
  type ServerOptions,
} from "../../src/index.ts";
import { Client } from "../support/client.ts";
import { assertError, assertPlant, encodeRequest, type Target } from "../support/contract.ts";
import { encodeLines, NO_READS } from "../support/plants.ts";
import { manyPlants, read, startReadable } from "../support/reading.ts";
import { serve } from "../support/serve.ts";
import { send } from "../support/service.ts";
import { collectMessages, collectWarnings, makeLatch, until } from "../support/watch.ts";

const NDJSON = { Accept: "application/x-ndjson" };
const PAGE = { Accept: "application/json" };

/** A service with an empty store. */
const EMPTY: PlantService = { create: async () => "created", ...NO_READS };

test("the stream is the log, line by line", async (t) => {
  const odd = [
    { id: -(2n ** 63n), name: "a\n\u2028b", tag: "" },
    { id: 2n ** 63n - 1n, name: "\ud800" },
    { id: 0n, name: "n".repeat(300_000) },
  ];
  const service = await startReadable(t, [...odd, ...manyPlants(5000)]);
  const answer = await read(service, "/plants", NDJSON);
  assert.equal(answer.status, 200);
  assert.equal(answer.headers.get("content-type"), "application/x-ndjson");
  assert.equal(answer.headers.get("cache-control"), "no-store");
  assert.equal(answer.headers.get("x-content-type-options"), "nosniff");
  assert.deepEqual(answer.text.split("\n").slice(0, -1), service.logLines());
});

test("the stream of an empty store is empty", async (t) => {
  const answer = await read(await startReadable(t, []), "/plants", NDJSON);
  assert.deepEqual([answer.status, answer.text], [200, ""]);
  assert.equal(answer.headers.get("content-type"), "application/x-ndjson");
});

test("a stream starts after a plant, and ends at its limit", async (t) => {
  const service = await startReadable(t, manyPlants(3000));
  const lines = service.logLines();
  for (const [query, expected] of [
    ["?after=2000", lines.slice(2000)],
    ["?limit=3", lines.slice(0, 3)],
    ["?limit=1000&after=2", lines.slice(2, 1002)],
    ["?after=3000", []],
  ] as const) {
    const { text } = await read(service, `/plants${query}`, NDJSON);
    assert.deepEqual(text.split("\n").slice(0, -1), expected);
  }
});

test("HEAD of a stream has its headers, and reads at most one slice", async (t) => {
  const source = new Source();
  const target = await startWith(t, source);
  const answer = await send(`${target.url}/plants`, { method: "HEAD", headers: headersOf(target) });
  assert.equal(answer.status, 200);
  assert.equal(answer.headers.get("content-type"), "application/x-ndjson");
  assert.ok(source.given < 100);
  assert.equal(source.open, 0);
});

const NAME = "n".repeat(2000);

/** FAKE: plants without end, counted; no real store is so large, or fails when a test needs it. */
class Source {
  given = 0;
  /** Lists that are being read. */
  open = 0;
  readonly #failure: (given: number) => void;

  constructor(failure: (given: number) => void = () => {}) {
    this.#failure = failure;
  }

  async *list(): AsyncGenerator<NewPlant> {
    this.open++;
    try {
      for (;;) {
        this.#failure(this.given);
        if (this.given % 20 === 0) await new Promise(setImmediate); // as a disk would
        yield { id: BigInt(this.given++), name: NAME };
      }
    } finally {
      this.open--;
    }
  }

  /** Waits until no more plants are requested. */
  async settle(): Promise<void> {
    let before = -1;
    await until("nothing more is read", async () => {
      const isQuiet = before === this.given;
      before = this.given;
      await new Promise((resolve) => setTimeout(resolve, 100));
      return isQuiet && before > 0;
    });
  }
}

async function startWith(
  t: TestContext,
  source: { list(): AsyncIterable<NewPlant> } | Partial<PlantService>,
  options: Partial<ServerOptions> = {},
): Promise<Target> {
  const server = await PlantServer.start({
    port: 0,
    tokens: { verify: () => ({ name: "test", scopes: ["read", "write"] }) },
    ...options,
    plants: {
      ...EMPTY,
      ...("list" in source ? { listLines: () => encodeLines(source.list()) } : source),
    },
  });
  t.after(() => server.close(0));
  return { url: server.url, port: Number(new URL(server.url).port), token: "any" };
}

function headersOf({ token }: Target): Record<string, string> {
  return { ...NDJSON, Authorization: `Bearer ${token}` };
}

/** Requests streams on one connection, and reads nothing. */
function askAndWait(t: TestContext, target: Target, requests = 1): Promise<net.Socket> {
  const request = encodeRequest(target, { method: "GET", headers: NDJSON });
  return sendAndWait(t, target, Buffer.concat(Array.from({ length: requests }, () => request)));
}

async function sendAndWait(t: TestContext, target: Target, bytes: Buffer): Promise<net.Socket> {
  const socket = net.connect(target.port, "127.0.0.1");
  t.after(() => socket.destroy());
  socket.pause();
  socket.on("error", () => {});
  await once(socket, "connect");
  socket.write(bytes);
  return socket;
}

async function assertCreates(target: Target): Promise<void> {
  const headers = { ...headersOf(target), "Content-Type": "application/json" };
  const body = '{"id":1,"name":"x"}';
  assertPlant(await send(`${target.url}/plants`, { method: "POST", headers, body }), { name: "x" });
}

test("nothing is read ahead for a client that does not read, and reading ends when it leaves", async (t) => {
  const source = new Source();
  const target = await startWith(t, source);
  const socket = await askAndWait(t, target);
  await source.settle();
  // As much as the buffers of the sockets hold, some MiB, and no more.
  assert.ok(source.given < 10_000, `${source.given} were read`);
  assert.equal(source.open, 1);
  await assertCreates(target);
  socket.destroy();
  await until("the reading has ended", () => source.open === 0);
});

test("a stream ends at once when its client leaves, even if no more lists may be read", async (t) => {
  const source = new Source();
  const held = new HeldSource();
  let lists = 0;
  const list = () => (lists++ === 0 ? source : held).list();
  const target = await startWith(t, { list });
  const socket = await askAndWait(t, target);
  await source.settle();
  for (let count = 0; count < 8; count++) await askAndWait(t, target);
  await until("eight are read", () => held.begun === 8);
  socket.destroy();
  await until("the reading has ended", () => source.open === 0);
});

test("a stream that is read continues, and creates are answered meanwhile", async (t) => {
  const source = new Source();
  const target = await startWith(t, source);
  const socket = await askAndWait(t, target);
  await source.settle();
  const before = source.given;
  socket.resume();
  await until("more is read", () => source.given > 2 * before);
  await assertCreates(target);
});

test("a stream that fails is cut, and a warning names its request", async (t) => {
  const warnings = collectWarnings(t, "stream");
  const requests = collectMessages<RequestMessage>(t, "plant-store:request");
  const source = new Source((given) => {
    if (given === 500) throw new Error("the disk is gone");
  });
  const target = await startWith(t, source);
  await assert.rejects(send(`${target.url}/plants`, { headers: headersOf(target) }));
  assert.equal(warnings.length, 1);
  assert.equal(source.open, 0);
  // A stream of another test may be published late.
  const published = requests.find(({ operation }) => operation === "listPlants");
  assert.deepEqual([published?.status, published?.cut], [200, true]);
  assert.equal(warnings[0]?.requestId, published?.requestId);
});

test("a stream is published as cut if its client leaves, and not if it is sent whole", async (t) => {
  const requests = collectMessages<RequestMessage>(t, "plant-store:request");
  const service = await startReadable(t, manyPlants(3));
  await read(service, "/plants", NDJSON);
  assert.deepEqual(
    requests.map(({ cut }) => cut),
    [false],
  );
  const source = new Source();
  const target = await startWith(t, source);
  const socket = await askAndWait(t, target);
  await source.settle();
  socket.destroy();
  await until("it is published", () => requests.length === 2);
  assert.equal(requests[1]?.cut, true);
});

test("a stream whose client leaves before it begins is published as cut, without a warning", async (t) => {
  const requests = collectMessages<RequestMessage>(t, "plant-store:request");
  const warnings = collectWarnings(t, "stream");
  const departure = makeLatch();
  let hasBegun = false;
  const listener = createRequestListener({
    plants: {
      ...EMPTY,
      async *listLines() {
        hasBegun = true;
        await departure.released;
        yield* [];
        throw new Error("the disk is gone");
      },
    },
    tokens: { verify: () => ({ name: "test", scopes: ["read"] }) },
  });
  const target = await serve(t, (req, res) => {
    res.once("close", departure.release);
    listener(req, res);
  });
  const socket = await askAndWait(t, { ...target, token: "any" });
  await until("the list was begun", () => hasBegun);
  socket.destroy();
  await until("it is published", () => requests.length === 1);
  assert.deepEqual([requests[0]?.status, requests[0]?.cut], [0, true]);
  assert.deepEqual(warnings, []);
});

test("lists take turns, and those of different clients alternate", async () => {
  const pace = new ListPace({ count: 0, underWay: 0 });
  const order: string[] = [];
  const read = async (name: string, client: string, isOver = false) => {
    async function* slices(): Slices {
      order.push(name);
      yield new Uint8Array();
    }
    const readIn: ReadLease["readIn"] = (gate, work) =>
      gate.pass(async () => (isOver ? undefined : work()), client);
    const next = await pace.read(slices(), { readIn });
    if (next === undefined) order.push(`${name} is over`);
  };
  await Promise.all([
    read("1 of a", "a"),
    read("2 of a", "a", true),
    read("3 of a", "a"),
    read("4 of a", "a"),
    read("1 of b", "b"),
  ]);
  assert.deepEqual(order, ["1 of a", "2 of a is over", "1 of b", "3 of a", "4 of a"]);
});

/** A rest lasts 16 ms if there is a reason for all of it; timers may be a little early. */
const REST_MS_MIN = 12;
/** So many that a request without rests takes a fraction of the time. */
const SLICES = 40;

test("a list rests for the creates since its last rest, or while one is under way", async () => {
  const creates = { count: 0, underWay: 1 };
  const pace = new ListPace(creates);
  async function* nothing(): Slices {}
  const restMs = async () => {
    const begun = performance.now();
    await pace.read(nothing(), { readIn: (gate, work) => gate.pass(work) });
    return performance.now() - begun;
  };
  assert.ok((await restMs()) > REST_MS_MIN, "it ends, although the create does not");
  Object.assign(creates, { count: 100, underWay: 0 });
  assert.ok((await restMs()) > REST_MS_MIN);
});

for (const [says, accept] of [
  ["page", PAGE],
  ["stream", NDJSON],
] as const) {
  test(`while a create is under way a ${says} rests before each slice, also before an empty one`, async (t) => {
    async function* listLines() {
      for (let slice = 0; slice < SLICES; slice++) {
        yield new TextEncoder().encode(slice % 2 === 0 ? "" : `{"id":${slice},"name":"a"}\n`);
      }
    }
    const { released, release } = makeLatch();
    let isUnderWay = false;
    const create = async () => {
      isUnderWay = true;
      await released;
      return "created" as const;
    };
    const target = await startWith(t, { create, listLines });
    const creating = assertCreates(target);
    await until("the create is under way", () => isUnderWay);
    const begun = performance.now();
    const headers = { ...headersOf(target), ...accept };
    const { text } = await send(`${target.url}/plants`, { headers });
    assert.equal(text.split("name").length - 1, SLICES / 2);
    assert.ok(performance.now() - begun > SLICES * REST_MS_MIN);
    release();
    await creating;
  });
}

test("a stream is cut when its token is revoked", async (t) => {
  const source = new Source();
  let isRevoked = false;
  const target = await startWith(t, source, {
    tokens: {
      verify: () => ({ name: "test", scopes: ["read"] }),
      isCurrent: () => !isRevoked,
    },
  });
  const answer = await fetch(`${target.url}/plants`, { headers: headersOf(target) });
  const reading = (async () => {
    let chunks = 0;
    for await (const _ of answer.body ?? []) {
      isRevoked = true;
      assert.ok(++chunks < 1000, "it goes on");
    }
  })();
  await assert.rejects(reading, TypeError); // the error of fetch for an answer that breaks off
  assert.equal(source.open, 0);
});

test("a stream whose token is revoked after its last plant is cut", async (t) => {
  let isRevoked = false;
  async function* listLines() {
    yield new TextEncoder().encode("line\n");
    isRevoked = true;
  }
  const target = await startWith(
    t,
    { listLines },
    { tokens: { verify: () => ({ name: "a", scopes: ["read"] }), isCurrent: () => !isRevoked } },
  );
  await assert.rejects(send(`${target.url}/plants`, { headers: headersOf(target) }));
  assert.ok(isRevoked);
});

test("HTTP/1.0, which cannot notice a cut stream, gets a page", async (t) => {
  const service = await startReadable(t, manyPlants(2000));
  const client = await Client.connect(service.port);
  t.after(() => client.destroy());
  const parts = { version: "HTTP/1.0", method: "GET", headers: NDJSON };
  await client.send(encodeRequest({ token: service.readToken }, parts));
  const answer = await client.next();
  assert.equal(answer.status, 200);
  assert.equal(answer.headers.get("content-type"), "application/json");
  assert.equal(JSON.parse(answer.text).length, 100);
});

/** FAKE: lists of one plant, which arrive when the test releases them; no real disk waits for a test. */
class HeldSource {
  begun = 0;
  readonly #name: string;
  readonly #held: (() => void)[] = [];

  constructor(name = "a") {
    this.#name = name;
  }

  async *list(): AsyncGenerator<NewPlant> {
    this.begun++;
    await new Promise<void>((resolve) => this.#held.push(resolve));
    yield { id: 1n, name: this.#name };
  }

  async releaseOne(): Promise<void> {
    await until("a list is read", () => this.#held.length > 0);
    this.#held.shift()?.();
  }

  /** The list that was begun last is read first. */
  releaseLast(): void {
    this.#held.pop()?.();
  }
}

test("at most eight lists are read at once", async (t) => {
  const source = new HeldSource();
  const target = await startWith(t, source);
  const answers = Array.from({ length: 30 }, (_, index) => {
    const headers = { ...headersOf(target), ...(index % 2 === 0 ? NDJSON : PAGE) };
    return send(`${target.url}/plants`, { headers });
  });
  for (let ended = 0; ended < answers.length; ended++) {
    await until(
      "as many lists as allowed are read",
      () => source.begun === Math.min(30, ended + 8),
    );
    await source.releaseOne();
  }
  for (const { status } of await Promise.all(answers)) assert.equal(status, 200);
});

function countSockets(): number {
  return process.getActiveResourcesInfo().filter((name) => name === "TCPSocketWrap").length;
}

test("a list is not read if its client left before its turn", async (t) => {
  const requests = collectMessages<RequestMessage>(t, "plant-store:request");
  const source = new HeldSource();
  const target = await startWith(t, source);
  for (let index = 0; index < 8; index++) await askAndWait(t, target);
  await until("eight are read", () => source.begun === 8);
  // A client that leaves with an answer unread resets the connection.
  const leaving = [];
  for (let index = 0; index < 20; index++) {
    const headers = index % 2 === 0 ? NDJSON : PAGE;
    const parts = ["/nowhere", "/plants"].map((path) => {
      return encodeRequest(target, { method: "GET", target: path, headers });
    });
    leaving.push(await sendAndWait(t, target, Buffer.concat(parts)));
  }
  await until("all requests have arrived", () => requests.length === 20);
  const before = countSockets();
  for (const socket of leaving) socket.destroy();
  await until("both ends are gone", () => countSockets() <= before - 40);
  let status: number | undefined;
  const headers = { ...headersOf(target), ...PAGE };
  const asking = send(`${target.url}/plants`, { headers }).then((answer) => {
    status = answer.status;
  });
  for (let ended = 0; ended < 9; ended++) await source.releaseOne();
  await until("the client that stayed is answered", () => status === 200);
  await asking;
  assert.equal(source.begun, 9);
  const published = requests.filter(({ operation }) => operation === "listPlants");
  assert.equal(published.filter(({ status, cut }) => status === 0 && cut).length, 20);
});

for (const [says, accept] of [
  ["a page", PAGE],
  ["a stream", NDJSON],
] as const) {
  test(`${says} is answered also if other code has read the request to its end`, async (t) => {
    const source = new HeldSource();
    const listener = createRequestListener({
      plants: {
        ...EMPTY,
        listLines: () => encodeLines(source.list()),
      },
      tokens: { verify: () => ({ name: "test", scopes: ["read"] }) },
    });
    let isClosed = false;
    const { url } = await serve(t, (req, res) => {
      req.once("close", () => {
        isClosed = true;
      });
      listener(req, res);
      req.resume();
    });
    const headers = { ...accept, Authorization: "Bearer any" };
    let text: string | undefined;
    const asking = send(`${url}/plants`, { headers }).then((answer) => {
      text = answer.text;
    });
    await until("it is closed", () => isClosed && source.begun === 1);
    await source.releaseOne();
    await until("it is answered", () => text !== undefined);
    await asking;
    assert.match(text ?? "", /"id":1/);
  });

  test(`${says} is refused if the token is revoked while it is read`, async (t) => {
    const source = new HeldSource();
    let isRevoked = false;
    const target = await startWith(t, source, {
      tokens: { verify: () => ({ name: "a", scopes: ["read"] }), isCurrent: () => !isRevoked },
    });
    const headers = { ...headersOf(target), ...accept };
    const answer = send(`${target.url}/plants`, { headers });
    await until("it is read", () => source.begun === 1);
    isRevoked = true;
    await source.releaseOne();
    assertError(await answer, 40102);
  });
}

test("a stream that fails before its first plant is answered with the error", async (t) => {
  async function* listLines() {
    yield new Uint8Array();
    throw new PlantStoreError("store_failed", "gone");
  }
  const target = await startWith(t, { listLines });
  assertError(await send(`${target.url}/plants`, { headers: headersOf(target) }), 50303);
});

for (const [error, failure] of [
  [50303, new PlantStoreError("store_failed", "gone")],
  [50001, new Error("the disk is gone")],
] as const) {
  test(`a stream that fails at its start is answered ${error}`, async (t) => {
    const source = new Source(() => {
      throw failure;
    });
    const target = await startWith(t, source);
    assertError(await send(`${target.url}/plants`, { headers: headersOf(target) }), error);
  });
}

test("a server that stops cuts a stream that does not end in time", async (t) => {
  const source = new Source();
  const server = await PlantServer.start({
    port: 0,
    plants: {
      ...EMPTY,
      listLines: () => encodeLines(source.list()),
    },
    tokens: { verify: () => ({ name: "test", scopes: ["read"] }) },
  });
  const port = Number(new URL(server.url).port);
  await askAndWait(t, { url: server.url, port, token: "any" });
  await source.settle();
  await server.close(50);
  await until("the reading has ended", () => source.open === 0);
});
