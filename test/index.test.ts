/** The library: what it exports, and what a program that embeds it may rely on. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { type TestContext, test } from "node:test";
import type { ListenerOptions, TokenVerifier } from "../src/index.ts";
import * as library from "../src/index.ts";
import { createRequestListener, PlantServer, PlantStore, TokenRegistry } from "../src/index.ts";
import { createTestStore } from "../src/testing.ts";
import { makeFolder } from "./support/folders.ts";
import { runModule } from "./support/run.ts";
import { errorNumber, postPlant, serve } from "./support/service.ts";
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
      process: [process.env, process.title, process.umask(), process.cwd(), process.exitCode],
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

const BODY = '{"id":1,"name":"a"}';

/** What a listener of an own store, whose creates may fail, responds to two creates; the second has a wrong token. */
async function embed(t: TestContext, verify: (token: string) => unknown, create?: () => never) {
  const { plants } = createTestStore();
  const tokens = { verify } as TokenVerifier;
  const own = create === undefined ? plants : { ...plants, create };
  const { url } = await serve(t, createRequestListener({ plants: own, tokens }));
  const responses = [await postPlant(url, "yes", BODY), await postPlant(url, "no", BODY)];
  const stored = `${await plants.getLine(1n)}`;
  return { stored, errors: responses.map((each) => (each.status === 200 ? 0 : errorNumber(each))) };
}

const MEMBER = { name: "member", scopes: ["write"] } as const;
const member = { verify: () => MEMBER };
const check = (token: string) => (token === "yes" ? MEMBER : undefined);

test("a store and a token check of your own are used, which returns at once, later, or null for no", async (t) => {
  const later = async (token: string) => check(token);
  for (const verify of [check, later, (token: string) => check(token) ?? null]) {
    const expected = { stored: BODY, errors: [0, 40102] };
    assert.deepEqual(await embed(t, verify), expected);
  }
});

test("a store that throws, or a token check that returns true, gets 500, and the reason is a warning", async (t) => {
  const warnings = collectWarnings(t);
  const fail = () => assert.fail("the shed at /secret/path burnt down");
  for (const [verify, create, reason] of [
    [member.verify, fail, /secret/],
    [() => true, undefined, /verify: expected/],
  ] as const) {
    assert.deepEqual((await embed(t, verify, create)).errors, [50001, 50001]);
    assert.match(String(warnings.at(-1)?.cause), reason);
  }
});

test("a listener without a store or a token check is refused, with what is missing", () => {
  for (const [options, message] of [
    [undefined, /^plants: .*create/],
    [{ plants: Promise.resolve(), tokens: member }, /^plants: .*await/],
    [{ plants: createTestStore().plants }, /^tokens: .*verify/],
  ] as const) {
    const make = () => createRequestListener(options as unknown as ListenerOptions);
    assert.throws(make, { name: "TypeError", message });
  }
});

test("a listener below a path that a framework cuts names the path that it got", async (t) => {
  const listener = createRequestListener({ ...createTestStore(), tokens: member });
  const { url } = await serve(t, (req, res) => {
    const cut = { url: req.url?.replace("/plants", "") || "/" };
    listener(Object.assign(req, cut), res); // like app.use("/plants", listener) of Express
  });
  const answer = await postPlant(url, "x", BODY);
  assert.equal(errorNumber(answer), 40401);
  assert.match(answer.text, /got \\"\/\\"/);
});

test("without a subscriber what a store throws is a warning of the process", async (t) => {
  const warned = once(process, "warning");
  await embed(t, member.verify, () => assert.fail("burnt down"));
  const [{ name, message, detail }] = await warned;
  assert.equal(name, "PlantStoreWarning");
  assert.match(message, / \([0-9a-f]{12}-\d+\)$/); // the id of the request
  assert.match(detail, /burnt down\n +at /);
});

test("a store, its tokens and a server are closed at the end of their block", async (t) => {
  const folder = makeFolder(t);
  let url = "";
  {
    await using plants = await PlantStore.open(folder);
    using tokens = await TokenRegistry.open(folder);
    await using server = await PlantServer.start({ plants, tokens, port: 0 });
    url = server.url;
    assert.equal((await postPlant(url, "x", BODY)).status, 401);
  }
  await assert.rejects(fetch(url));
  const again = await PlantStore.open(folder); // no process holds it
  await again.close();
});
