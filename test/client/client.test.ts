/** The client: what it sends, what it returns, and what it needs of the program around it. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import {
  encodeNewPlant,
  type NewPlant,
  PlantClient,
  type PlantStoreError,
} from "../../src/client.ts";
import { createToken } from "../../src/index.ts";
import { manyPlants, startReadable } from "../support/reading.ts";
import { serve } from "../support/serve.ts";
import { collect } from "../support/stores.ts";
import { isError, OK, respond, scripted } from "./scripted.ts";

const FERN: NewPlant = { id: 7n, name: "Fern", tag: "indoor" };

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

test("what is created comes back exactly: ids, unusual text, absent and empty tags", async (t) => {
  const { client, service } = await startClient(t);
  const plants: NewPlant[] = [
    { id: 9223372036854775807n, name: "Ficus" },
    { id: -9223372036854775808n, name: "", tag: "" },
    { id: 9007199254740993n, name: 'half \ud800 "quoted"\u2028,{"id":1', tag: "🌱" },
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

test("an id may be a safe integer", async (t) => {
  const { client } = await startClient(t);
  await client.create({ id: -7, name: "Fern" });
  assert.deepEqual(await client.get(-7), { id: -7n, name: "Fern" });
  assert.deepEqual(await collect(client.list({ after: -7 })), []);
});

test("a plant and an id are read in any spelling, and an id is compared", async () => {
  const body = '{"\\u0069d": 90071992547409930e-1, "more": [1], "name": "a"}';
  const { client } = scripted([respond(200, body)]);
  assert.deepEqual(await client.get(9007199254740993n), { id: 9007199254740993n, name: "a" });
  await assert.rejects(client.get(9007199254740992n), isError("unexpected_answer"));
});

test("encodeNewPlant makes JSON of a plant, which JSON.stringify cannot", () => {
  assert.throws(() => JSON.stringify(FERN), TypeError);
  assert.equal(encodeNewPlant(FERN), '{"id":7,"name":"Fern","tag":"indoor"}');
});

test("a refusal rejects with its code, its number and the id of the request", async (t) => {
  const { client, service, token } = await startClient(t, [FERN]);
  const other = new PlantClient(service.url, { token: "wrong" });
  const writer = new PlantClient(service.url, { token: service.token });
  const lost = new PlantClient(`${service.url}/garden/`, { token });
  const refusals: readonly [call: () => Promise<unknown>, code: string, number: number][] = [
    [() => client.create({ id: 7n, name: "Ivy" }), "conflict", 40006],
    [() => other.create(FERN), "invalid_token", 40102],
    [() => collect(writer.list()), "insufficient_scope", 40301],
    [() => lost.get(7n), "not_found", 40401],
    [() => collect(client.list({ after: 1n })), "unknown_cursor", 40008],
  ];
  for (const [call, code, number] of refusals) {
    await assert.rejects(call(), (error: PlantStoreError) => {
      assert.match(error.requestId ?? "none", /^[\w-]{8,}$/);
      return isError(code, number)(error);
    });
  }
});

test("the message of a response of another program shows its beginning, and no token", async () => {
  const { client } = scripted([respond(404, `pst_secret ${"x".repeat(1000)}`)]);
  await assert.rejects(client.create(FERN), ({ message }: Error) => {
    return /got status 404 and "pst_\.\.\. x+…"$/.test(message) && message.length < 200;
  });
});

/** Serves pages of two plants; a page is cut as `cut` wants. */
function servePages(t: TestContext, plants: readonly NewPlant[], cut = (page: string) => page) {
  const queries: string[] = [];
  const served = serve(t, ({ url = "" }, res) => {
    const { searchParams } = new URL(url, "http://plants.example");
    queries.push(`${searchParams}`);
    const start = plants.findIndex(({ id }) => String(id) === searchParams.get("after")) + 1;
    const page = `[${plants.slice(start, start + 2).map(encodeNewPlant)}]`;
    res.end(cut(page)); // like a proxy that ends a response without its rest
  });
  return { served, queries };
}

test("a list is read in pages, until one is empty, however short they are", async (t) => {
  const plants = manyPlants(5);
  const { served, queries } = servePages(t, plants);
  const client = new PlantClient((await served).url, { token: "t" });
  assert.deepEqual(await collect(client.list()), plants);
  const cursors = ["", "&after=2", "&after=4", "&after=5"];
  assert.deepEqual(
    queries,
    cursors.map((cursor) => `limit=1000${cursor}`),
  );
});

test("a page that was cut anywhere is read again, and never taken for a short one", async (t) => {
  t.mock.method(Math, "random", () => 0);
  const plants = [1n, 2n].map((id) => ({ id, name: `[🌱],{"id":${id}]}` }));
  const { length } = Buffer.from(`[${plants.map(encodeNewPlant)}]`);
  let bytes = 0;
  const cut = (page: string) => {
    bytes++;
    const part = Buffer.from(page).subarray(0, bytes < length ? bytes : Infinity);
    return part as unknown as string;
  };
  const { served } = servePages(t, plants, cut);
  const client = new PlantClient((await served).url, { token: "t" });
  assert.deepEqual(await collect(client.list()), plants);
  assert.equal(bytes, length + 1);
});

test("a list that is aborted between two plants yields no more", async (t) => {
  const { served } = servePages(t, manyPlants(2));
  const controller = new AbortController();
  const read: bigint[] = [];
  const { signal } = controller;
  await assert.rejects(async () => {
    const client = new PlantClient((await served).url, { token: "t" });
    for await (const { id } of client.list({ signal })) {
      read.push(id);
      controller.abort();
    }
  }, isError("unavailable"));
  assert.deepEqual(read, [1n]);
});

test("a list rejects if 200 comes with anything but plants", async () => {
  for (const body of ["<html>", "", "{}", '""', "[7]", '[{"id":"7","name":"a"}]', '[[],{"id":7']) {
    const list = collect(scripted([respond(200, body)], { deadlineMs: 30 }).client.list());
    await assert.rejects(
      list,
      isError(body === '[[],{"id":7' ? "unavailable" : "unexpected_answer"),
    );
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

/** What a program for browsers gives to a test in place of the classes of Node.js. */
class OtherSignal {
  aborted = false;
  reason: unknown;
  readonly listeners = new Set<() => void>();
  addEventListener(_: string, listener: () => void): void {
    this.listeners.add(listener);
  }
  removeEventListener(_: string, listener: () => void): void {
    this.listeners.delete(listener);
  }
}

class OtherController {
  readonly signal = new OtherSignal();
  abort(reason?: unknown): void {
    Object.assign(this.signal, { aborted: true, reason });
    for (const listener of this.signal.listeners) listener.call(this.signal);
  }
}

test("signals of another realm end calls, although fetch refuses them", async (t) => {
  const { client, service } = await startClient(t);
  const { AbortController } = globalThis;
  t.after(() => Object.assign(globalThis, { AbortController }));
  Object.assign(globalThis, { AbortController: OtherController });
  const { fetch } = globalThis;
  t.mock.method(globalThis, "fetch", async (url: string, init: RequestInit) => {
    if (init.signal) throw new TypeError("RequestInit: Expected signal to be an AbortSignal");
    return fetch(url, init);
  });
  const { signal, abort } = Object.assign(new OtherController());
  assert.deepEqual(await client.create(FERN, { signal }), { name: "Fern", tag: "indoor" });
  assert.equal(signal.listeners.size, 0);
  assert.equal(service.logLines().length, 1);
  const { url } = await serve(t, () => abort.call({ signal }, "enough"));
  const hanging = new PlantClient(url, { token: "t" }).create(FERN, { signal });
  await assert.rejects(hanging, isError("outcome_unknown", undefined, "enough"));
});

test("a fetch without streams is enough, and the global one is looked up at each call", async (t) => {
  const client = new PlantClient("http://plants.example", { token: "t" });
  const text = async () => '{"name":"Fern","tag":"indoor"}';
  const fetched = t.mock.method(globalThis, "fetch", async () => {
    return { status: 200, headers: new Headers(), text } as Response;
  });
  assert.deepEqual(await client.create(FERN), { name: "Fern", tag: "indoor" });
  assert.equal(fetched.mock.callCount(), 1);
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
    const message = "token: expected a bearer token";
    assert.throws(make("http://a", { token }), { name: "TypeError", message });
  }
  for (const deadlineMs of [0, -1, Number.NaN, 2 ** 31, "5 s"]) {
    assert.throws(make("http://a", { deadlineMs }), RangeError);
  }
  const { client, requests } = scripted([OK]);
  const plant = (members: object) => ({ ...FERN, ...members }) as NewPlant;
  for (const members of [{ id: 7.5 }, { id: 2 ** 53 }, { id: "7" }, { name: 7 }, { tag: null }]) {
    await assert.rejects(client.create(plant(members)), TypeError);
  }
  await assert.rejects(client.create(plant({ id: 2n ** 63n })), RangeError);
  await assert.rejects(client.get(2n ** 63n), RangeError);
  await assert.rejects(collect(client.list({ after: 2n ** 63n })), RangeError);
  assert.equal(requests.length, 0);
});

test("a URL may have a base path, with or without a slash at its end", async (t) => {
  for (const path of ["", "/", "/garden", "/garden/"]) {
    const fetched = t.mock.fn(
      async (_: string | URL | Request) => new Response("{}", { status: 404 }),
    );
    const client = new PlantClient(`https://plants.example${path}`, { token: "t", fetch: fetched });
    await assert.rejects(client.create(FERN), isError("unexpected_answer"));
    const url = `https://plants.example${path.replace(/\/$/, "")}/plants`;
    assert.deepEqual(
      fetched.mock.calls.map(({ arguments: [first] }) => first),
      [url],
    );
  }
});
