/** The client: what it sends, what it returns, and what it needs of the program around it. */
import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { test } from "node:test";
import { buildSync } from "esbuild";
import { encodeNewPlant, type NewPlant, PlantClient } from "../../src/client.ts";
import { ROOT } from "../support/package.ts";
import { serve, startService } from "../support/service.ts";
import { collect } from "../support/stores.ts";
import { FERN, isError, respond, STORED, scripted } from "./scripted.ts";

test("what is created comes back exactly: ids, unusual text, absent and empty tags", async (t) => {
  const service = await startService(t);
  const client = new PlantClient(service.url, service);
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
  assert.deepEqual(service.logLines(), plants.map(encodeNewPlant));
  // An id may be a safe integer, and the members may be inherited.
  const model = Object.create({ id: -7, name: "Fern" });
  assert.deepEqual(await client.create(model), { name: "Fern" });
  assert.deepEqual(await client.get(-7), plants[3]);
  assert.deepEqual(await collect(client.list({ after: -7 })), []);
});

test("a refusal rejects with its code, its number and the id of the request", async (t) => {
  const { url, token } = await startService(t);
  const client = new PlantClient(url, { token });
  const [other, lost] = [
    new PlantClient(url, { token: "x" }),
    new PlantClient(`${url}/a/`, { token }),
  ];
  await client.create(FERN);
  for (const [call, code, number] of [
    [() => client.create({ id: 7n, name: "Ivy" }), "conflict", 40006],
    [() => other.create(FERN), "invalid_token", 40102],
    [() => lost.get(7n), "not_found", 40401],
    [() => client.list({ after: 1n }).next(), "unknown_cursor", 40008],
  ] as const) {
    await assert.rejects(call(), (error: { requestId?: string }) => {
      return isError(code, number)(error) && /^[\w-]{8,}$/.test(error.requestId ?? "");
    });
  }
});

test("a response of another program is refused, and shown with its beginning and without a token", async () => {
  const page = scripted([respond(404, `pst_secret ${"x".repeat(1000)}`)]).client;
  await assert.rejects(page.create(FERN), ({ message }: Error) => {
    return /got status 404 and "pst_\.\.\. x+…"$/.test(message) && message.length < 200;
  });
  for (const body of ["<html>", "{}", '""', "[7]", '[{"id":"7","name":"a"}]']) {
    const { client } = scripted([respond(200, body)]);
    await assert.rejects(collect(client.list()), isError("unexpected_response"), body);
  }
  const { client } = scripted([respond(200, '{"\\u0069d": 90071992547409930e-1, "name": "a"}')]);
  assert.deepEqual(await client.get(9007199254740993n), { id: 9007199254740993n, name: "a" });
  await assert.rejects(client.get(9007199254740992n), isError("unexpected_response"));
});

test("a list is read in pages until one is empty; a page that was cut anywhere is read again", async (t) => {
  t.mock.method(Math, "random", () => 0);
  const plants = [1n, 2n, 3n, 4n, 5n].map((id) => ({ id, name: `[🌱],{"id":${id}]}` }));
  const queries = new Set<string>();
  let bytes = 0;
  const { url } = await serve(t, (req, res) => {
    const { searchParams } = new URL(req.url ?? "", "http://plants.example");
    queries.add(`${searchParams}`);
    const start = plants.findIndex(({ id }) => String(id) === searchParams.get("after")) + 1;
    const page = `[${plants.slice(start, start + 2).map(encodeNewPlant)}]`;
    res.end(Buffer.from(page).subarray(0, bytes++));
  });
  const client = new PlantClient(url, { token: "t" });
  assert.deepEqual(await collect(client.list()), plants);
  assert.ok(bytes > 70, "each shorter page was refused");
  const cursors = ["", "&after=2", "&after=4", "&after=5"].map((cursor) => `limit=1000${cursor}`);
  assert.deepEqual([...queries], cursors);
  const controller = new AbortController();
  const list = client.list({ signal: controller.signal });
  assert.deepEqual(await list.next(), { done: false, value: plants[0] });
  controller.abort();
  await assert.rejects(list.next(), isError("unavailable"), "between two plants of a page");
});

test("at most 5 MiB of a response are read", async () => {
  let pieces = 0;
  const pull = (controller: ReadableStreamDefaultController) => {
    pieces++;
    controller.enqueue(new Uint8Array(65_536));
  };
  const { client } = scripted([() => new Response(new ReadableStream({ pull }))]);
  await assert.rejects(client.get(7n), isError("unexpected_response", undefined, "more than"));
  assert.ok(pieces < 90, `${pieces} of 64 KiB`);
});

test("signals may be of another realm, which fetch refuses, and responses without streams", async (t) => {
  const other = Object.assign(new EventTarget(), { aborted: false });
  const signal = other as AbortSignal;
  const client = new PlantClient("http://plants.example", { token: "t" });
  const text = async () => JSON.stringify(STORED);
  const { mock } = t.mock.method(globalThis, "fetch", async (_: string, init: RequestInit) => {
    if (init.signal) throw new TypeError("RequestInit: Expected signal to be an AbortSignal");
    return { status: 200, headers: new Headers(), text };
  });
  assert.deepEqual(await client.create(FERN, { signal }), STORED);
  assert.deepEqual(getEventListeners(other, "abort"), []);
  mock.mockImplementation(() => new Promise<Response>(() => {}));
  const hanging = client.create(FERN, { signal });
  other.aborted = true;
  other.dispatchEvent(new Event("abort"));
  await assert.rejects(hanging, isError("outcome_unknown", undefined, "aborted"));
});

test("a wrong argument is refused before anything is sent", async () => {
  const make = (url: string, options = {}) => new PlantClient(url, { token: "t", ...options });
  for (const url of ["", "plants.example", "ftp://a", "http://a/?b", "http://me:x@a"]) {
    assert.throws(() => make(url), TypeError, url);
  }
  for (const token of [undefined, "", "two words", "line\n"]) {
    assert.throws(() => make("http://a", { token }), /^TypeError: token: expected a bearer token$/);
  }
  for (const deadlineMs of [0, Number.NaN, 2 ** 31, "5 s"]) {
    assert.throws(() => make("http://a", { deadlineMs }), RangeError);
  }
  const { client, requests } = scripted([]);
  for (const members of [{ id: 2 ** 53 }, { id: "7" }, { name: 7 }, { tag: null }]) {
    await assert.rejects(client.create({ ...FERN, ...(members as object) }), TypeError);
  }
  await assert.rejects(client.get(2n ** 63n), RangeError);
  assert.equal(requests.length, 0);
});

test("the client is bundled for browsers, without anything of Node.js", () => {
  const entryPoints = [`${ROOT}src/client.ts`];
  const { outputFiles } = buildSync({ entryPoints, bundle: true, minify: true, write: false });
  const { text = "Buffer" } = outputFiles[0] ?? {};
  assert.match(text, /^(?!.*\b(?:Buffer|process|require|setImmediate)\b).{1,12000}$/s);
});
