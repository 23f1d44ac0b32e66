/** The client: what it sends and returns, when it sends again, and how it gives up. */
import assert from "node:assert/strict";
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { type TestContext, test } from "node:test";
import {
  type ClientOptions,
  encodeNewPlant,
  type NewPlant,
  PlantClient,
  PlantStoreError,
} from "../../src/client.ts";
import { createToken } from "../../src/index.ts";
import { manyPlants, startReadable } from "../support/reading.ts";
import { serve } from "../support/serve.ts";
import { collect } from "../support/stores.ts";
import { makeLatch, until } from "../support/watch.ts";

const FERN: NewPlant = { id: 7n, name: "Fern", tag: "indoor" };
const FERN_ANSWER = '{"name":"Fern","tag":"indoor"}';
const HTML = "<html><h1>502 Bad Gateway</h1></html>";

/** A client of a real service, whose token may do everything. */
async function startClient(t: TestContext, plants: readonly NewPlant[] = []) {
  let token = "";
  const service = await startReadable(t, plants, {
    prepare: async (folder) => {
      token = await createToken(folder, { name: "all", scopes: ["write", "read"] });
    },
  });
  return { service, token, client: new PlantClient(service.url, { token }) };
}

/** One attempt: an answer, or a failure of the connection. */
type Attempt = (() => Response) | Error;

const answer = (status: number, body: string, headers = {}) => {
  return () => new Response(body, { status, headers });
};
const OK = answer(200, FERN_ANSWER);

/** A client whose attempts end like this, one after the other; the last one is repeated. */
function scripted(attempts: readonly Attempt[], options: Partial<ClientOptions> = {}) {
  const requests: (readonly [url: string, init: RequestInit])[] = [];
  const client = new PlantClient("http://plants.example", {
    token: "t",
    fetch: async (url, init = {}) => {
      const attempt = attempts[Math.min(requests.length, attempts.length - 1)];
      requests.push([String(url), init]);
      init.signal?.throwIfAborted();
      if (typeof attempt === "function") return attempt();
      throw attempt;
    },
    ...options,
  });
  return { client, requests };
}

/** Has every wait end at once, and notes how long each was to be. */
function skipWaits(t: TestContext, random = 1): number[] {
  const waits: number[] = [];
  const original = setTimeout;
  t.mock.method(Math, "random", () => random);
  t.mock.method(globalThis, "setTimeout", (work: () => void, ms: number) => {
    if (ms >= 30_000) return original(work, ms); // the deadline
    waits.push(ms);
    return original(work, 0);
  });
  return waits;
}

const isFailure = (code: string, number?: number) => (error: unknown) => {
  assert.ok(error instanceof PlantStoreError, String(error));
  assert.deepEqual([error.code, error.number], [code, number]);
  return true;
};

test("what is created comes back exactly: ids, unusual text, absent and empty tags", async (t) => {
  const { client, service } = await startClient(t);
  const plants: NewPlant[] = [
    { id: 9223372036854775807n, name: "Ficus" },
    { id: -9223372036854775808n, name: "", tag: "" },
    { id: 9007199254740993n, name: 'half \ud800 "quoted"\u2028', tag: "🌱" },
  ];
  for (const { id, ...plant } of plants) {
    assert.deepEqual(await client.create({ id, ...plant }), plant);
    assert.deepEqual(await client.create({ id, ...plant }), plant, "also if it is sent again");
    assert.deepEqual(await client.get(id), { id, ...plant });
  }
  assert.equal(await client.get(1n), undefined);
  assert.deepEqual(await collect(client.list()), plants);
  assert.deepEqual(await collect(client.list({ after: 9223372036854775807n })), plants.slice(1));
  assert.deepEqual(service.logLines(), plants.map(encodeNewPlant));
});

test("a plant and an id are read in any spelling", async () => {
  const body = '{"\\u0069d": 90071992547409930e-1, "more": [1], "name": "a"}';
  const { client } = scripted([answer(200, body)]);
  assert.deepEqual(await client.get(1n), { id: 9007199254740993n, name: "a" });
});

test("encodeNewPlant makes JSON of a plant, which JSON.stringify cannot", () => {
  assert.throws(() => JSON.stringify(FERN), TypeError);
  assert.equal(encodeNewPlant(FERN), '{"id":7,"name":"Fern","tag":"indoor"}');
});

test("a refusal rejects with its code and number, and is not sent again", async (t) => {
  const { client, service, token } = await startClient(t, [FERN]);
  const requests: unknown[] = [];
  const options = {
    fetch: (...request: Parameters<typeof fetch>) => {
      requests.push(request);
      return fetch(...request);
    },
  };
  const other = new PlantClient(service.url, { token: "wrong", ...options });
  const writer = new PlantClient(service.url, { token: service.token, ...options });
  const lost = new PlantClient(`${service.url}/garden/`, { token, ...options });
  await assert.rejects(client.create({ id: 7n, name: "Ivy" }), isFailure("conflict", 40006));
  await assert.rejects(other.create(FERN), isFailure("invalid_token", 40102));
  await assert.rejects(collect(writer.list()), isFailure("insufficient_scope", 40301));
  await assert.rejects(lost.get(7n), isFailure("not_found", 40401));
  await assert.rejects(collect(client.list({ after: 1n })), isFailure("unknown_cursor", 40008));
  assert.equal(requests.length, 3);
});

const REPEATED: readonly [what: string, attempt: Attempt][] = [
  ["a broken connection", new TypeError("fetch failed")],
  ["408", answer(408, '{"error":40801,"message":"slow"}')],
  ["429 of a proxy", answer(429, HTML)],
  ["502 of a proxy", answer(502, HTML)],
  ["503 of a proxy", answer(503, HTML)],
  ["504 of a proxy", answer(504, "")],
  ["503 write_failed", answer(503, '{"error":50302,"message":"full"}')],
  ["503 closed", answer(503, '{"error":50304,"message":"closed"}')],
  ["503 with a number to come", answer(503, '{"error":50399,"message":"new"}')],
];

for (const [what, attempt] of REPEATED) {
  test(`the identical request is sent again after ${what}`, async (t) => {
    skipWaits(t);
    const { client, requests } = scripted([attempt, attempt, attempt, OK]);
    assert.deepEqual(await client.create(FERN), { name: "Fern", tag: "indoor" });
    assert.equal(requests.length, 4);
    for (const [url, { method, headers, body }] of requests) {
      assert.equal(url, "http://plants.example/plants");
      const sent = { "Content-Type": "application/json", Authorization: "Bearer t" };
      assert.deepEqual([method, headers, body], ["POST", sent, encodeNewPlant(FERN)]);
    }
  });
}

const FINAL: readonly [what: string, attempt: Attempt, code: string, number?: number][] = [
  ["500", answer(500, '{"error":50001,"message":"defect"}'), "internal", 50001],
  ["500 of a proxy", answer(500, HTML), "unexpected_answer"],
  ["501 of a proxy", answer(501, HTML), "unexpected_answer"],
  [
    "400 with a number to come",
    answer(400, '{"error":40099,"message":"new"}'),
    "unexpected_answer",
    40099,
  ],
  ["413 of a proxy", answer(413, HTML), "unexpected_answer"],
  [
    "an error number of another status",
    answer(400, '{"error":50302,"message":""}'),
    "unexpected_answer",
  ],
  ["200 with a page", answer(200, HTML), "unexpected_answer"],
  ["200 with another plant", answer(200, '{"name":"Fern"}'), "unexpected_answer"],
  ["200 with null", answer(200, "null"), "unexpected_answer"],
];

for (const [what, attempt, code, number] of FINAL) {
  test(`nothing is sent again after ${what}`, async () => {
    const { client, requests } = scripted([attempt, OK]);
    await assert.rejects(client.create(FERN), isFailure(code, number));
    assert.equal(requests.length, 1);
  });
}

test("the message of an answer of another program shows its beginning, and no token", async () => {
  const { client } = scripted([answer(404, `pst_secret ${"x".repeat(1000)}`)]);
  await assert.rejects(client.create(FERN), ({ message }: Error) => {
    assert.match(
      message,
      /^expected an answer of a plant store, got status 404 and "pst_\.\.\. x+…"$/,
    );
    return message.length < 200;
  });
});

test("a refusal after a repeat has the failure before as its cause", async (t) => {
  skipWaits(t);
  const broken = new TypeError("fetch failed");
  const refused = answer(401, '{"error":40102,"message":"revoked"}');
  const { client } = scripted([broken, refused]);
  await assert.rejects(client.create(FERN), (error: PlantStoreError) => {
    assert.deepEqual([error.code, error.cause], ["invalid_token", broken]);
    return true;
  });
});

test("it waits up to 100 ms, which doubles to 5 s, with full jitter", async (t) => {
  const busy = answer(503, "");
  const attempts = [...Array<Attempt>(9).fill(busy), OK];
  const most = [100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000];
  const waits = skipWaits(t);
  await scripted(attempts, { deadlineMs: 60_000 }).client.create(FERN);
  assert.deepEqual(waits, most);
  t.mock.restoreAll();
  const half = skipWaits(t, 0.5);
  await scripted(attempts, { deadlineMs: 60_000 }).client.create(FERN);
  assert.deepEqual(
    half,
    most.map((ms) => ms / 2),
  );
});

const IN_20_S = "the date in 20 s";

const RETRY_AFTER: readonly [value: string, isObeyed: (ms: number) => boolean][] = [
  ["3", (ms) => ms === 3000],
  [IN_20_S, (ms) => ms > 15_000 && ms <= 20_000],
  ["31", (ms) => ms === 100],
  ["0", (ms) => ms === 100],
  ["soon", (ms) => ms === 100],
  ["Thu, 01 Jan 1970 00:00:00 GMT", (ms) => ms === 100],
];

for (const [value, isObeyed] of RETRY_AFTER) {
  test(`Retry-After: ${value} comes first if it fits the deadline`, async (t) => {
    const waits = skipWaits(t);
    const sent = value === IN_20_S ? new Date(Date.now() + 20_000).toUTCString() : value;
    const { client } = scripted([answer(503, "", { "Retry-After": sent }), OK]);
    await client.create(FERN);
    assert.equal(waits.length, 1);
    assert.ok(isObeyed(waits[0] ?? 0), `${waits}`);
  });
}

test("at the deadline a call rejects with outcome_unknown and the last cause", async () => {
  const deadlineMs = 50;
  const full = answer(503, '{"error":50302,"message":"full"}');
  const calls: readonly ((client: PlantClient) => Promise<unknown>)[] = [
    (client) => client.create(FERN),
    (client) => client.get(7n),
    (client) => collect(client.list()),
  ];
  for (const call of calls) {
    const begunAt = performance.now();
    await assert.rejects(
      call(scripted([full], { deadlineMs }).client),
      (error: PlantStoreError) => {
        isFailure("outcome_unknown")(error);
        return isFailure("write_failed", 50302)(error.cause);
      },
    );
    assert.ok(performance.now() - begunAt >= deadlineMs - 2);
  }
});

/** A client of a server of `node:http`. */
async function clientOf(t: TestContext, listener: RequestListener, options = {}) {
  const { url } = await serve(t, listener);
  return new PlantClient(url, { token: "t", ...options });
}

test("a server that never answers is given up at the deadline", async (t) => {
  const client = await clientOf(t, () => {}, { deadlineMs: 50 });
  await assert.rejects(client.create(FERN), (error: PlantStoreError) => {
    assert.match(String(error.cause), /deadline/);
    return isFailure("outcome_unknown")(error);
  });
});

test("an abort ends a call at once: before it, amid a request, amid a wait", async (t) => {
  const reason = new PlantStoreError("conflict", "of another call");
  const { client, requests } = scripted([OK]);
  const isAborted = (cause: unknown) => (error: PlantStoreError) => {
    assert.equal(error.cause, cause);
    return isFailure("outcome_unknown")(error);
  };
  const signal = AbortSignal.abort(reason);
  await assert.rejects(client.create(FERN, { signal }), isAborted(reason));
  await assert.rejects(client.get(7n, { signal }), isAborted(reason));
  await assert.rejects(collect(client.list({ signal })), isAborted(reason));
  assert.equal(requests.length, 0);

  const arrival = makeLatch();
  const hanging = await clientOf(t, () => arrival.release());
  const amid = new AbortController();
  const call = hanging.create(FERN, { signal: amid.signal });
  await arrival.released;
  amid.abort(reason);
  await assert.rejects(call, isAborted(reason));

  const broken = new TypeError("fetch failed");
  t.mock.method(Math, "random", () => 1);
  const waiting = scripted([broken], { deadlineMs: 1000 });
  const controller = new AbortController();
  const wait = waiting.client.create(FERN, { signal: controller.signal });
  await until("it waits", () => waiting.requests.length === 4); // the next is in 800 ms
  controller.abort(reason);
  await assert.rejects(wait, isAborted(broken));
});

test("a call that has ended leaves no timer", async (t) => {
  const open = new Set<unknown>();
  const { setTimeout: set, clearTimeout: clear } = globalThis;
  t.mock.method(globalThis, "setTimeout", (...args: Parameters<typeof set>) => {
    const timer = set(...args);
    open.add(timer);
    return timer;
  });
  t.mock.method(globalThis, "clearTimeout", (timer: NodeJS.Timeout) => {
    open.delete(timer);
    clear(timer);
  });
  t.mock.method(Math, "random", () => 1);
  const { client, requests } = scripted([new TypeError("fetch failed"), OK]);
  await client.create(FERN);
  assert.equal(open.size, 0);
  const controller = new AbortController();
  const { signal } = controller;
  const call = scripted([new TypeError("fetch failed")]).client.create(FERN, { signal });
  setImmediate(() => controller.abort()); // amid the first wait
  await assert.rejects(call, isFailure("outcome_unknown"));
  assert.deepEqual([requests.length, open.size], [2, 0]);
});

test("a signal that many calls have used keeps none of them", async () => {
  const { signal } = new AbortController();
  let listeners = 0;
  const add = signal.addEventListener.bind(signal);
  signal.addEventListener = (...args: Parameters<typeof add>) => {
    listeners++;
    (args[2] as { signal?: AbortSignal }).signal?.addEventListener("abort", () => listeners--);
    add(...args);
  };
  const { client } = scripted([OK]);
  for (let call = 0; call < 100; call++) await client.create(FERN, { signal });
  assert.equal(listeners, 0);
});

/** The lines of these plants as a server streams them. */
const lines = (plants: readonly NewPlant[]) => plants.map((plant) => `${encodeNewPlant(plant)}\n`);
const STREAM = { "Content-Type": "application/x-ndjson" };

/** Answers a list with the plants after the cursor; `send` sends the lines. */
function streaming(
  plants: readonly NewPlant[],
  queries: string[],
  send: (lines: string[], res: ServerResponse) => void,
) {
  return ({ url = "" }: IncomingMessage, res: ServerResponse) => {
    const after = /after=(.*)/.exec(url)?.[1];
    queries.push(url);
    res.writeHead(200, STREAM);
    const start = plants.findIndex(({ id }) => String(id) === after) + 1;
    send(lines(plants.slice(start)), res);
  };
}

test("a list continues a stream that breaks, amid a line and amid a character, with no plant twice", async (t) => {
  t.mock.method(Math, "random", () => 0);
  const plants = manyPlants(20).map(({ id }) => ({ id, name: `🌱 ${id}` }));
  const queries: string[] = [];
  const listener = streaming(plants, queries, (rest, res) => {
    const [first = "", second] = rest;
    if (second === undefined) res.end(first);
    else {
      const amidCharacter = Buffer.from(first).length + '{"id":1,"name":"'.length + 2;
      res.write(Buffer.from(first + second).subarray(0, amidCharacter), () => res.destroy());
    }
  });
  assert.deepEqual(await collect((await clientOf(t, listener)).list()), plants);
  const expected = plants.slice(0, -1).map(({ id }) => `/plants?after=${id}`);
  assert.deepEqual(queries, ["/plants", ...expected]);
});

test("a stream may arrive in parts that end amid a character", async () => {
  const plants: NewPlant[] = [{ id: 1n, name: "🌱" }];
  const bytes = Buffer.from(lines(plants).join(""));
  const parts = [...bytes].map((byte) => Uint8Array.of(byte));
  const attempt = () =>
    new Response(ReadableStream.from(parts) as ReadableStream, { headers: STREAM });
  assert.deepEqual(await collect(scripted([attempt]).client.list()), plants);
});

test("a stream that ends within a line is read again from there", async (t) => {
  t.mock.method(Math, "random", () => 0);
  const plants = manyPlants(3);
  const queries: string[] = [];
  const listener = streaming(plants, queries, (rest, res) => {
    res.end(rest.length < 3 ? rest.join("") : rest.join("").slice(0, 40));
  });
  assert.deepEqual(await collect((await clientOf(t, listener)).list()), plants);
  assert.deepEqual(queries, ["/plants", "/plants?after=1"]);
});

test("a list is given up if no plant comes before the deadline, however long its reader takes", async (t) => {
  const plants = manyPlants(3);
  const listener = streaming(plants, [], (rest, res) => {
    res.write(rest.slice(0, 2).join(""));
  });
  const client = await clientOf(t, listener, { deadlineMs: 100 });
  const read: bigint[] = [];
  await assert.rejects(async () => {
    for await (const { id } of client.list()) {
      read.push(id);
      await new Promise((resolve) => setTimeout(resolve, 120));
    }
  }, isFailure("outcome_unknown"));
  assert.deepEqual(read, [1n, 2n]);
});

test("a list that is left, or aborted between two plants, ends its request", async (t) => {
  const plants = manyPlants(3);
  let [open, closed] = [0, 0];
  const listener = streaming(plants, [], (rest, res) => {
    open++;
    res.on("close", () => closed++);
    res.write(rest.join(""));
  });
  const client = await clientOf(t, listener);
  for await (const { id } of client.list()) if (id === 2n) break;
  await until("the first request is over", () => open === 1 && closed === 1);
  const controller = new AbortController();
  const read: bigint[] = [];
  await assert.rejects(async () => {
    for await (const { id } of client.list({ signal: controller.signal })) {
      read.push(id);
      if (id === 2n) controller.abort();
    }
  }, isFailure("outcome_unknown"));
  assert.deepEqual(read, [1n, 2n]);
  await until("the second request is over", () => open === 2 && closed === 2);
});

test("a list that a proxy answers with a page rejects", async () => {
  const page = answer(200, '[{"id":1,"name":"a"}]', { "Content-Type": "application/json" });
  await assert.rejects(collect(scripted([page]).client.list()), isFailure("unexpected_answer"));
});

test("a wrong argument is refused before anything is sent", async () => {
  const make = (url: string, options: object = {}) => {
    return () => new PlantClient(url, { token: "t", ...options });
  };
  const urls = ["", "plants.example", "ftp://a", "http://", "http://a/?b", "http://a/#b"];
  for (const url of [...urls, "http://me:secret@a", "http://[::1"]) {
    assert.throws(make(url), TypeError, url);
  }
  for (const token of [undefined, "", "two words", "line\n"]) {
    assert.throws(make("http://a", { token }), {
      name: "TypeError",
      message: "token: expected a bearer token",
    });
  }
  for (const deadlineMs of [0, -1, Number.NaN, 2 ** 31, "5 s"]) {
    assert.throws(make("http://a", { deadlineMs }), RangeError);
  }
  const { client, requests } = scripted([OK]);
  const plant = (members: object) => ({ ...FERN, ...members }) as NewPlant;
  await assert.rejects(client.create(plant({ id: 7 })), TypeError);
  await assert.rejects(client.create(plant({ id: 2n ** 63n })), RangeError);
  await assert.rejects(client.create(plant({ name: 7 })), TypeError);
  await assert.rejects(client.create(plant({ tag: null })), TypeError);
  await assert.rejects(client.get(2n ** 63n), RangeError);
  await assert.rejects(collect(client.list({ after: 2n ** 63n })), RangeError);
  assert.equal(requests.length, 0);
});

test("a URL may have a base path, with or without a slash at its end", async () => {
  for (const path of ["", "/", "/garden", "/garden/"]) {
    const urls: string[] = [];
    const client = new PlantClient(`https://plants.example${path}`, {
      token: "t",
      fetch: async (url) => {
        urls.push(String(url));
        return OK();
      },
    });
    await client.create(FERN);
    assert.deepEqual(urls, [`https://plants.example${path.replace(/\/$/, "")}/plants`]);
  }
});
