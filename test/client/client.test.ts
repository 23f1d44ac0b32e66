/** The client: what it sends, what it returns, and what it needs of the program around it. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { buildSync } from "esbuild";
import {
  encodeNewPlant,
  type NewPlant,
  PlantClient,
  type PlantStoreError,
} from "../../src/client.ts";
import { ROOT } from "../support/package.ts";
import { serve } from "../support/serve.ts";
import { startService } from "../support/service.ts";
import { collect } from "../support/stores.ts";
import { FERN, isError, OK, respond, scripted } from "./scripted.ts";

const STORED = { name: "Fern", tag: "indoor" };

/** A client of a real service, whose token may do everything. */
async function startClient(t: TestContext) {
  const service = await startService(t);
  const { token } = service;
  return { service, token, client: new PlantClient(service.url, { token }) };
}

test("what is created comes back exactly: ids, unusual text, absent and empty tags", async (t) => {
  const { client, service } = await startClient(t);
  const plants: NewPlant[] = [
    { id: 9223372036854775807n, name: "Ficus" },
    { id: -9223372036854775808n, name: "", tag: "" },
    { id: 9007199254740993n, name: 'half \ud800 "quoted"\u2028,{"id":1', tag: "🌱" },
    { id: -7n, name: "Fern" },
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
  // An id may be a safe integer, and the members may be inherited.
  const model = Object.create({ id: -7, name: "Fern" });
  assert.deepEqual(await client.create(model), { name: "Fern" });
  assert.deepEqual(await client.get(-7), plants[3]);
  assert.deepEqual(await collect(client.list({ after: -7 })), []);
});

test("a plant is read in any spelling, and its id is compared", async () => {
  const body = '{"\\u0069d": 90071992547409930e-1, "more": [1], "name": "a"}';
  const { client } = scripted([respond(200, body)]);
  assert.deepEqual(await client.get(9007199254740993n), { id: 9007199254740993n, name: "a" });
  await assert.rejects(client.get(9007199254740992n), isError("unexpected_answer"));
});

test("a refusal rejects with its code, its number and the id of the request", async (t) => {
  const { client, service, token } = await startClient(t);
  await client.create(FERN);
  const other = new PlantClient(service.url, { token: "wrong" });
  const lost = new PlantClient(`${service.url}/garden/`, { token });
  const refusals: readonly [call: () => Promise<unknown>, code: string, number: number][] = [
    [() => client.create({ id: 7n, name: "Ivy" }), "conflict", 40006],
    [() => other.create(FERN), "invalid_token", 40102],
    [() => lost.get(7n), "not_found", 40401],
    [() => collect(client.list({ after: 1n })), "unknown_cursor", 40008],
  ];
  for (const [call, code, number] of refusals) {
    await assert.rejects(call(), (error: PlantStoreError) => {
      return isError(code, number)(error) && /^[\w-]{8,}$/.test(error.requestId ?? "");
    });
  }
});

test("the message of a response of another program shows its beginning, and no token", async () => {
  const { client } = scripted([respond(404, `pst_secret ${"x".repeat(1000)}`)]);
  await assert.rejects(client.create(FERN), ({ message }: Error) => {
    return /got status 404 and "pst_\.\.\. x+…"$/.test(message) && message.length < 200;
  });
});

/** A client of pages of two plants, each passed through `pass`, and the queries that it sent. */
async function startPages(t: TestContext, plants: readonly NewPlant[], pass = Buffer.from) {
  const queries: string[] = [];
  const { url } = await serve(t, (req, res) => {
    const { searchParams } = new URL(req.url ?? "", "http://plants.example");
    queries.push(`${searchParams}`);
    const start = plants.findIndex(({ id }) => String(id) === searchParams.get("after")) + 1;
    res.end(pass(`[${plants.slice(start, start + 2).map(encodeNewPlant)}]`));
  });
  return { client: new PlantClient(url, { token: "t" }), queries };
}

test("a list is read in pages, until one is empty, however short they are", async (t) => {
  const plants = [1n, 2n, 3n, 4n, 5n].map((id) => ({ id, name: "xxxx" }));
  const { client, queries } = await startPages(t, plants);
  assert.deepEqual(await collect(client.list()), plants);
  const cursors = ["", "&after=2", "&after=4", "&after=5"].map((cursor) => `limit=1000${cursor}`);
  assert.deepEqual(queries, cursors);
});

test("a page that was cut anywhere is read again, and never taken for a short one", async (t) => {
  t.mock.method(Math, "random", () => 0);
  const plants = [1n, 2n].map((id) => ({ id, name: `[🌱],{"id":${id}]}` }));
  const { length } = Buffer.from(`[${plants.map(encodeNewPlant)}]`);
  let bytes = -1;
  const { client } = await startPages(t, plants, ((page: string) => {
    return Buffer.from(page).subarray(0, ++bytes < length ? bytes : undefined);
  }) as typeof Buffer.from);
  assert.deepEqual(await collect(client.list()), plants);
  assert.equal(bytes, length + 1);
});

test("a list that is aborted between two plants yields no more", async (t) => {
  const { client } = await startPages(
    t,
    [1n, 2n].map((id) => ({ id, name: "xxxx" })),
  );
  const controller = new AbortController();
  const list = client.list({ signal: controller.signal });
  assert.deepEqual(await list.next(), { done: false, value: { id: 1n, name: "xxxx" } });
  controller.abort();
  await assert.rejects(list.next(), isError("unavailable"));
});

test("a list rejects if 200 comes with anything but plants", async () => {
  for (const body of ["<html>", "{}", '""', "[7]", '[{"id":"7","name":"a"}]']) {
    const { client } = scripted([respond(200, body)]);
    await assert.rejects(collect(client.list()), isError("unexpected_answer"), body);
  }
});

test("of a response no more than 5 MiB are read", async (t) => {
  let sent = 0;
  const { url } = await serve(t, (_, res) => {
    const send = () => {
      while (res.write("x".repeat(65_536))) sent += 65_536;
    };
    res.on("drain", send);
    send();
  });
  const client = new PlantClient(url, { token: "t" });
  await assert.rejects(client.get(7n), isError("unexpected_answer", undefined, "more than"));
  assert.ok(sent < 16 * 1024 * 1024, `${sent} bytes`);
});

test("a signal of another realm ends calls, and fetch may refuse those of this one", async (t) => {
  const listeners = new Set<() => void>();
  const other = {
    aborted: false,
    addEventListener: (_: string, listener: () => void) => listeners.add(listener),
    removeEventListener: (_: string, listener: () => void) => listeners.delete(listener),
  };
  const signal = other as unknown as AbortSignal;
  const { fetch } = globalThis;
  t.mock.method(globalThis, "fetch", async (url: string, init: RequestInit) => {
    if (init.signal) throw new TypeError("RequestInit: Expected signal to be an AbortSignal");
    return fetch(url, init);
  });
  const { client, service } = await startClient(t);
  assert.deepEqual(await client.create(FERN, { signal }), STORED);
  assert.deepEqual([service.logLines().length, listeners.size], [1, 0]);
  const { url } = await serve(t, () => {
    other.aborted = true;
    for (const listener of listeners) listener();
  });
  const hanging = new PlantClient(url, { token: "t" }).create(FERN, { signal });
  await assert.rejects(hanging, isError("outcome_unknown", undefined, "aborted"));
});

test("a fetch without streams is enough, and the global one is looked up at each call", async (t) => {
  const client = new PlantClient("http://plants.example", { token: "t" });
  const response = {
    status: 200,
    headers: new Headers(),
    text: async () => JSON.stringify(STORED),
  };
  const fetched = t.mock.method(globalThis, "fetch", async () => response as Response);
  assert.deepEqual(await client.create(FERN), STORED);
  assert.equal(fetched.mock.callCount(), 1);
});

test("a wrong argument is refused before anything is sent", async () => {
  const make = (url: string, options = {}) => new PlantClient(url, { token: "t", ...options });
  const urls = ["", "plants.example", "ftp://a", "http://", "http://a/?b", "http://a/#b"];
  for (const url of [...urls, "http://me:secret@a", "http://[::1"]) {
    assert.throws(() => make(url), TypeError, url);
  }
  for (const token of [undefined, "", "two words", "line\n"]) {
    const message = "token: expected a bearer token";
    assert.throws(() => make("http://a", { token }), { name: "TypeError", message });
  }
  for (const deadlineMs of [0, -1, Number.NaN, 2 ** 31, "5 s"]) {
    assert.throws(() => make("http://a", { deadlineMs }), RangeError);
  }
  const { client, requests } = scripted([OK]);
  const wrong = [{ id: 7.5 }, { id: 2 ** 53 }, { id: "7" }, { name: 7 }, { tag: null }];
  for (const members of wrong) {
    await assert.rejects(client.create({ ...FERN, ...(members as object) }), TypeError);
  }
  await assert.rejects(client.create({ ...FERN, id: 2n ** 63n }), RangeError);
  await assert.rejects(client.get(2n ** 63n), RangeError);
  await assert.rejects(collect(client.list({ after: 2n ** 63n })), RangeError);
  assert.equal(requests.length, 0);
});

test("the client is bundled for browsers, without anything of Node.js", () => {
  const entryPoints = [`${ROOT}src/client.ts`];
  const { outputFiles } = buildSync({ entryPoints, bundle: true, minify: true, write: false });
  const { text = "Buffer" } = outputFiles[0] ?? {};
  assert.doesNotMatch(text, /\b(?:Buffer|process|require|setImmediate)\b/);
  assert.ok(text.length < 12_000, `${text.length} bytes`);
});
