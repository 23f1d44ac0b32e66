/** The library: what it exports, and what a program that embeds it may rely on. */
import assert from "node:assert/strict";
import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { type TestContext, test } from "node:test";
import * as library from "../src/index.ts";
import {
  createRequestListener,
  type ListenerOptions,
  PlantServer,
  type PlantService,
  PlantStore,
  TokenRegistry,
  type TokenVerifier,
} from "../src/index.ts";
import { createTestStore } from "../src/testing.ts";
import { makeFolder } from "./support/folders.ts";
import { runModule } from "./support/run.ts";
import { serve } from "./support/serve.ts";
import { errorNumber, send } from "./support/service.ts";
import { collectWarnings } from "./support/watch.ts";

test("the library exports these names and no others", () => {
  // Every name here is a promise: removing one breaks programs.
  assert.equal(
    Object.keys(library).sort().join(" "),
    "NUMBER_OPTIONS OPENAPI PlantServer PlantStore PlantStoreError TokenRegistry backup backupInto " +
      "createFirstToken createRequestListener createToken encodeNewPlant exportLines importPlants " +
      "importTokens isLive listTokens repairLog restore revokeToken subscribe verifyLog",
  );
});

test("importing the library changes nothing in a process and keeps none alive", async () => {
  // The child compares and prints names only: values of the environment may be secret.
  const program = `
    const look = () => ({
      globals: Object.getOwnPropertyNames(globalThis),
      listeners: process.eventNames().map((name) => [String(name), process.listenerCount(name)]),
      environment: process.env,
      process: [process.title, process.umask(), process.cwd(), process.exitCode],
    });
    const timers = [];
    for (const name of ["setTimeout", "setInterval"]) {
      const original = globalThis[name];
      globalThis[name] = (...args) => (timers.push(name), original(...args));
    }
    const before = Object.entries(look()).map(([name, value]) => [name, JSON.stringify(value)]);
    for (const file of process.argv.slice(1)) await import(file);
    const after = look();
    const changed = before.filter(([name, text]) => JSON.stringify(after[name]) !== text);
    process.stdout.write(JSON.stringify({ changed: changed.map(([name]) => name), timers }));`;
  const { stdout, stderr } = await runModule(program, [import.meta.resolve("../src/index.ts")]);
  assert.deepEqual([stderr, stdout], ["", '{"changed":[],"timers":[]}']);
});

function post(url: string, token: string, body = '{"id":1,"name":"a"}') {
  const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
  return send(url, { method: "POST", headers, body });
}

/** A store in memory, as an embedder might bring one. */
function makeShed(): PlantService {
  const { plants } = createTestStore();
  return {
    create: async (plant) => {
      if (plant.name === "broken") throw new Error("the shed at /secret/path burnt down");
      return plants.create(plant);
    },
    getLine: (id) => plants.getLine(id),
    listLines: (options) => plants.listLines(options),
  };
}

const MEMBER = { name: "member", scopes: ["write"] } as const;
const member = { verify: () => MEMBER };
const check = (token: string) => (token === "yes" ? MEMBER : undefined);

const VERIFIERS: readonly [says: string, verify: TokenVerifier["verify"]][] = [
  ["at once", check],
  ["later", async (token) => check(token)],
  ["with null for no", (token) => check(token) ?? null],
];

for (const [says, verify] of VERIFIERS) {
  test(`a store and a token check of your own, which returns ${says}, are used`, async (t) => {
    const plants = makeShed();
    const { url } = await serve(t, createRequestListener({ plants, tokens: { verify } }));
    const body = '{"id":-9223372036854775808,"name":"a"}';
    assert.equal((await post(`${url}/plants`, "yes", body)).status, 200);
    assert.equal(`${await plants.getLine(-(2n ** 63n))}`, body);
    assert.equal(errorNumber(await post(`${url}/plants`, "no", body)), 40102);
  });
}

test("listeners in one server share nothing", async (t) => {
  const listenerOf = (basePath: string) =>
    createRequestListener({ plants: makeShed(), tokens: member, basePath });
  const [front, back] = [listenerOf("/front"), listenerOf("/back")];
  const { url } = await serve(t, (req, res) => {
    (req.url?.startsWith("/front/") ? front : back)(req, res);
  });
  assert.equal((await post(`${url}/front/plants`, "x", '{"id":1,"name":"f"}')).status, 200);
  assert.equal((await post(`${url}/back/plants`, "x", '{"id":1,"name":"b"}')).status, 200);
});

const FAULTS: readonly [says: string, verify: () => unknown, name: string, reason: RegExp][] = [
  ["a token check that returns true", () => true, "a", /verify: expected/],
  ["a store that rejects", () => MEMBER, "broken", /secret/],
];

for (const [says, verify, name, reason] of FAULTS) {
  test(`${says} gets 500, and the reason is published as a warning`, async (t) => {
    const warnings = collectWarnings(t);
    const tokens = { verify } as TokenVerifier;
    const { url } = await serve(t, createRequestListener({ plants: makeShed(), tokens }));
    assert.equal(errorNumber(await post(`${url}/plants`, "x", `{"id":1,"name":"${name}"}`)), 50001);
    assert.match(String(warnings[0]?.cause), reason);
  });
}

const MISTAKES: readonly [says: string, options: unknown, message: RegExp][] = [
  ["no options at all", undefined, /^plants: .*create/],
  ["a store that is a Promise", { plants: Promise.resolve(), tokens: member }, /^plants: .*await/],
  ["no token check", { plants: makeShed() }, /^tokens: .*verify/],
];

for (const [says, options, message] of MISTAKES) {
  test(`a listener with ${says} is refused`, () => {
    const make = () => createRequestListener(options as ListenerOptions);
    assert.throws(make, { name: "TypeError", message });
  });
}

test("a listener below a path that a framework cuts says how to mount it", async (t) => {
  const listener = createRequestListener({ plants: makeShed(), tokens: member });
  const { url } = await serve(t, (req, res) => {
    const cut = { originalUrl: req.url, url: req.url?.replace("/plants", "") || "/" };
    listener(Object.assign(req, cut), res); // like app.use("/plants", listener) of Express
  });
  const answer = await post(`${url}/plants`, "x");
  assert.equal(errorNumber(answer), 40401);
  assert.match(answer.text, /app\.use\(listener\)/);
});

test("without a subscriber an error of a store is a warning of the process", async (t) => {
  const warned = once(process, "warning");
  const { url } = await serve(t, createRequestListener({ plants: makeShed(), tokens: member }));
  const { headers } = await post(`${url}/plants`, "x", '{"id":1,"name":"broken"}');
  const [warning] = await warned;
  assert.equal(warning.name, "PlantStoreWarning");
  assert.ok(warning.message.includes(headers.get("x-request-id") ?? "missing"));
  assert.match(warning.detail, /burnt down\n +at /);
});

const READERS: readonly [says: string, read: (req: IncomingMessage, then: () => void) => void][] = [
  ["all", (req, then) => req.on("end", then).resume()],
  ["the beginning", (req, then) => req.once("data", () => then())],
];

for (const [says, read] of READERS) {
  test(`if other code has read ${says} of a body, a 500 names the mistake`, async (t) => {
    const warnings = collectWarnings(t);
    const listener = createRequestListener({ plants: makeShed(), tokens: member });
    const handle = (req: IncomingMessage, res: ServerResponse) =>
      read(req, () => listener(req, res));
    const { url } = await serve(t, handle);
    const answer = await post(`${url}/plants`, "x");
    assert.equal(errorNumber(answer), 50001);
    assert.match(answer.text, /before any body parser/); // for the developer who mounts it
    assert.match(String(warnings[0]?.cause), /before any body parser/);
  });
}

test("a store, its tokens and a server are closed at the end of their block", async (t: TestContext) => {
  const folder = makeFolder(t);
  let url = "";
  {
    await using plants = await PlantStore.open(folder);
    using tokens = await TokenRegistry.open(folder);
    await using server = await PlantServer.start({ plants, tokens, port: 0 });
    url = `${server.url}/plants`;
    assert.equal((await post(url, "x")).status, 401);
  }
  await assert.rejects(fetch(url));
  const again = await PlantStore.open(folder); // no process holds it
  await again.close();
});
