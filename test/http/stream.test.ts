/** Lists: what is read for a client, in which order, and how a stream or a page ends that cannot go on. */
import assert from "node:assert/strict";
import { once } from "node:events";
import net from "node:net";
import { type TestContext, test } from "node:test";
import type { PlantService, RequestMessage, TokenVerifier } from "../../src/index.ts";
import { PlantServer } from "../../src/index.ts";
import { assertError, encodeRequest, plantBody } from "../support/contract.ts";
import { send } from "../support/service.ts";
import { NO_READS } from "../support/stores.ts";
import { collectMessages, collectWarnings, makeLatch, until } from "../support/watch.ts";

const STREAM = { Authorization: "Bearer any", Accept: "application/x-ndjson" };
const PAGE = { Authorization: "Bearer any", Accept: "application/json" };
const BOTH = [
  ["a page", PAGE],
  ["a stream", STREAM],
] as const;
const GOOD = { name: "test", scopes: ["read", "write"] as const };

type List = PlantService["listLines"];

interface Options {
  readonly keepAliveTimeoutMs?: number;
  readonly verify?: TokenVerifier["verify"];
  readonly getLine?: PlantService["getLine"];
  readonly pendingBytesMax?: number;
}

/** A server whose store reads so. */
async function startWith(
  t: TestContext,
  listLines: List,
  { verify = () => GOOD, getLine = NO_READS.getLine, ...limits }: Options = {},
) {
  const plants = { create: async () => "created" as const, getLine, listLines };
  const server = await PlantServer.start({ port: 0, plants, tokens: { verify }, ...limits });
  t.after(() => server.close(0));
  const { url } = server;
  const ask = (headers: Record<string, string>, path = "/plants") => send(url + path, { headers });
  const port = Number(new URL(url).port);
  /** Sends requests on one connection, and reads nothing. */
  const askOnly = async (headers: Record<string, string>, count = 1, target = "/plants") => {
    const request = encodeRequest({ token: "any" }, { method: "GET", target, headers });
    const socket = net.connect(port, "127.0.0.1").on("error", () => {});
    t.after(() => socket.destroy());
    await once(socket.pause(), "connect");
    socket.write(Buffer.concat(Array<Buffer>(count).fill(request)));
    return socket;
  };
  return { url, ask, askOnly };
}

const slice = (...ids: number[]) => Buffer.from(ids.map((id) => `${plantBody(id)}\n`).join(""));
const SLICES = 4000;
const LONG = Buffer.from(`{"id":1,"name":"${"n".repeat(32_000)}"}\n`);

/** FAKE: a list that is longer than what sockets hold, counted. */
class Long {
  given = 0;
  open = 0;

  readonly list = async function* (this: Long) {
    this.open++;
    try {
      while (this.given < SLICES) {
        this.given++;
        yield LONG;
      }
    } finally {
      this.open--;
    }
  }.bind(this);

  /** Nothing is read for a while, because the socket takes no more. */
  async settle(): Promise<void> {
    for (let [before, same] = [0, 0]; same < 10; before = this.given) {
      await until("something is read", () => this.given > 0);
      await new Promise((resolve) => setTimeout(resolve, 10));
      same = this.given === before ? same + 1 : 0;
    }
  }
}

/** FAKE: lists of one plant, which arrives when the test releases it. */
class Held {
  begun = 0;
  readonly #latch = makeLatch();
  readonly release = this.#latch.release;

  readonly list = async function* (this: Held) {
    this.begun++;
    await this.#latch.released;
    yield slice(1);
  }.bind(this);
}

test("nothing is read ahead of a client that does not read its streams, and reading ends when it leaves", async (t) => {
  const source = new Long();
  const { url, askOnly } = await startWith(t, source.list);
  const socket = await askOnly(STREAM, 2);
  await source.settle();
  assert.ok(source.given < SLICES / 4, `${source.given} were read`); // the sockets hold some MiB
  assert.equal(source.open, 2);
  const headers = { ...PAGE, "Content-Type": "application/json" };
  const created = await send(`${url}/plants`, { method: "POST", headers, body: plantBody(1) });
  assert.equal(created.status, 200);
  const before = source.given;
  socket.resume();
  await until("more is read", () => source.given > 2 * before);
  socket.destroy();
  await until("the reading has ended", () => source.open === 0);
});

test("a connection whose client takes nothing of a stream is closed", async (t) => {
  const source = new Long();
  const { askOnly } = await startWith(t, source.list, { keepAliveTimeoutMs: 500 });
  await askOnly(STREAM);
  await until("the reading has begun", () => source.open === 1);
  await until("the reading has ended", () => source.open === 0);
  assert.ok(source.given < SLICES);
});

test("one slice of one list is read at a time, and none for a client that has left", async (t) => {
  const source = new Held();
  const requests = collectMessages<RequestMessage>(t, "plant-store:request");
  const { ask, askOnly } = await startWith(t, source.list);
  const first = ask(STREAM);
  await until("it is read", () => source.begun === 1);
  for (const [, headers] of BOTH) (await askOnly(headers)).destroy();
  await until("they have left", () => requests.length === 2);
  const last = ask(PAGE);
  source.release();
  assert.deepEqual(
    [(await first).text, (await last).text],
    [`${plantBody(1)}\n`, `[${plantBody(1)}]`],
  );
  assert.equal(source.begun, 2);
});

test("a read whose client has left holds its memory until the store has read", async (t) => {
  const { released, release } = makeLatch();
  const getLine = async () => {
    await released;
    return slice(1).subarray(0, -1);
  };
  const requests = collectMessages<RequestMessage>(t, "plant-store:request");
  const options = { getLine, pendingBytesMax: 80 * 1024 }; // a token has room for five reads
  const { ask, askOnly } = await startWith(t, NO_READS.listLines, options);
  const socket = await askOnly({}, 5, "/plants/1");
  await until(
    "the next has no room",
    async () => (await ask(PAGE, "/plants?limit=1")).status === 503,
  );
  socket.destroy();
  await until("it has left", () => requests.filter(({ cut }) => cut).length === 5);
  assertError(await ask(PAGE, "/plants?limit=1"), 50301);
  release();
  await until("the room is free", async () => (await ask(PAGE, "/plants/1")).status === 200);
});

for (const [says, cause, isRevoked, isCut] of [
  ["is whole, with an empty slice in it", undefined, false, false],
  ["whose store fails is cut, and a warning has its request", new Error("gone"), false, true],
  ["whose token is revoked after its last plant is cut", undefined, true, true],
] as const) {
  test(`a stream ${says}`, async (t) => {
    const warnings = collectWarnings(t, "stream");
    const requests = collectMessages<RequestMessage>(t, "plant-store:request");
    let asked = 0;
    const verify = () => (isRevoked && ++asked > 2 ? undefined : GOOD);
    const list = async function* () {
      yield* [slice(1), Buffer.alloc(0), slice(2)];
      if (cause !== undefined) throw cause;
    };
    const { ask } = await startWith(t, list, { verify });
    if (isCut) await assert.rejects(ask(STREAM));
    else assert.equal((await ask(STREAM)).text, `${slice(1, 2)}`);
    const [published] = requests;
    assert.deepEqual([published?.status, published?.cut, requests.length], [200, isCut, 1]);
    const warned = warnings.map(({ requestId }) => requestId);
    assert.deepEqual(warned, cause === undefined ? [] : [published?.requestId]);
  });
}

for (const [what, headers] of BOTH) {
  test(`${what} whose token is revoked while the store reads is 40102`, async (t) => {
    const source = new Held();
    let isRevoked = false;
    const { ask } = await startWith(t, source.list, {
      verify: () => (isRevoked ? undefined : GOOD),
    });
    const response = ask(headers);
    await until("it is read", () => source.begun === 1);
    isRevoked = true;
    source.release();
    assertError(await response, 40102);
  });
}
