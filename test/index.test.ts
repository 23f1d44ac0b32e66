import assert from "node:assert/strict";
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { type TestContext, test } from "node:test";
import * as library from "../src/index.ts";
import {
  createRequestListener,
  createToken,
  encodeNewPlant,
  type NewPlant,
  PlantServer,
  type PlantService,
  PlantStore,
  PlantStoreError,
  TokenRegistry,
  type TokenVerifier,
  type VerifiedToken,
} from "../src/index.ts";
import { makeFolder } from "./support/folders.ts";
import { runModule } from "./support/run.ts";
import { serve } from "./support/serve.ts";
import { type Answer, errorNumber, send } from "./support/service.ts";
import { collect, readLog } from "./support/stores.ts";
import { collectWarnings } from "./support/watch.ts";

test("the library exports these names and no others", () => {
  // Every name here is a promise: removing one breaks programs.
  assert.deepEqual(Object.keys(library).sort(), [
    "NUMBER_OPTIONS",
    "OPENAPI",
    "PlantServer",
    "PlantStore",
    "PlantStoreError",
    "TokenRegistry",
    "backup",
    "backupInto",
    "createFirstToken",
    "createRequestListener",
    "createToken",
    "encodeNewPlant",
    "exportLines",
    "importPlants",
    "importTokens",
    "isLive",
    "listTokens",
    "repairLog",
    "restore",
    "revokeToken",
    "subscribe",
    "verifyLog",
  ]);
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
  // It ends by itself, because nothing keeps it alive.
  const files = [import.meta.resolve("../src/index.ts")];
  const { status, stdout, stderr } = await runModule(program, files);

  assert.equal(stderr, "");
  assert.equal(status, 0);
  // It parses as JSON, so nothing else was printed.
  assert.deepEqual(JSON.parse(stdout), { changed: [], timers: [] });
});

function post(url: string, token: string, body = '{"id":1,"name":"a"}'): Promise<Answer> {
  return send(url, {
    method: "POST",
    headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
    body,
  });
}

interface Garden {
  readonly folder: string;
  readonly store: PlantStore;
  readonly tokens: TokenRegistry;
  readonly token: string;
}

async function openGarden(t: TestContext): Promise<Garden> {
  const folder = makeFolder(t);
  const token = await createToken(folder, { name: "test" });
  const store = await PlantStore.open(folder);
  t.after(() => store.close());
  const tokens = await TokenRegistry.open(folder);
  t.after(() => tokens.close());
  return { folder, store, tokens, token };
}

test("the listener, mounted in another server, creates plants and asks for a token", async (t) => {
  const { folder, store, tokens, token } = await openGarden(t);
  const { url } = await serve(t, createRequestListener({ plants: store, tokens }));

  const created = await post(`${url}/plants`, token, '{"id":7,"name":"Fern","tag":"indoor"}');
  assert.equal(created.status, 200);
  assert.equal(created.text, '{"name":"Fern","tag":"indoor"}');
  assert.equal(readLog(folder), '{"id":7,"name":"Fern","tag":"indoor"}\n');

  const refused = await post(`${url}/plants`, "pst_wrong", '{"id":8,"name":"Ivy"}');
  assert.equal(refused.status, 401);
  assert.equal(errorNumber(refused), 40102);
  assert.equal(store.status().plants, 1);
});

test("two listeners mounted in one server each have their own store, tokens and path", async (t) => {
  const front = await openGarden(t);
  const back = await openGarden(t);
  const listeners = {
    front: createRequestListener({ plants: front.store, tokens: front.tokens, basePath: "/front" }),
    back: createRequestListener({ plants: back.store, tokens: back.tokens, basePath: "/back" }),
  };
  const { url } = await serve(t, (req, res) =>
    (req.url?.startsWith("/front/") ? listeners.front : listeners.back)(req, res),
  );

  // The same id with two contents is no conflict, because there are two stores.
  assert.equal((await post(`${url}/front/plants`, front.token, '{"id":1,"name":"f"}')).status, 200);
  assert.equal((await post(`${url}/back/plants`, back.token, '{"id":1,"name":"b"}')).status, 200);
  assert.deepEqual(await collect(front.store.list()), [{ id: 1n, name: "f" }]);
  assert.deepEqual(await collect(back.store.list()), [{ id: 1n, name: "b" }]);
  assert.equal((await post(`${url}/back/plants`, front.token)).status, 401);
});

test("further arguments that a framework passes to the listener are ignored", async (t) => {
  const { store, tokens, token } = await openGarden(t);
  const listener = createRequestListener({ plants: store, tokens });
  const next = () => assert.fail("the listener answers every request itself");
  const { url } = await serve(t, (req, res) =>
    (listener as (...args: unknown[]) => void)(req, res, next),
  );
  assert.equal((await post(`${url}/plants`, token)).status, 200);
  assert.equal((await post(`${url}/elsewhere`, token)).status, 404);
});

/** A store in memory, as an embedder might bring one. */
class Shed implements PlantService {
  readonly plants = new Map<bigint, NewPlant>();

  async create(plant: NewPlant): Promise<"created"> {
    if (plant.name === "broken") throw new Error("the shed at /secret/path burnt down");
    if (this.plants.has(plant.id)) throw new PlantStoreError("conflict", "taken");
    this.plants.set(plant.id, plant);
    return "created";
  }

  async getLine(id: bigint): Promise<Uint8Array | undefined> {
    const plant = this.plants.get(id);
    return plant && Buffer.from(encodeNewPlant(plant));
  }

  async *listLines(): AsyncGenerator<Uint8Array> {
    for (const plant of this.plants.values()) yield Buffer.from(`${encodeNewPlant(plant)}\n`);
  }
}

const MEMBER = { name: "member", scopes: ["write"] } as const;
const GUEST = { name: "guest", scopes: ["read"] } as const;

function judge(token: string): VerifiedToken | undefined {
  return { yes: MEMBER, look: GUEST }[token];
}

const VERIFIERS: readonly [says: string, tokens: TokenVerifier][] = [
  ["at once", { verify: judge }],
  ["later", { verify: async (token) => judge(token) }],
  ["with null for no", { verify: (token) => judge(token) ?? null }],
];

for (const [says, tokens] of VERIFIERS) {
  test(`an own store and an own token check that answers ${says} are used`, async (t) => {
    const plants = new Shed();
    const { url: base } = await serve(t, createRequestListener({ plants, tokens }));
    const url = `${base}/plants`;
    const body = '{"id":-9223372036854775808,"name":"a"}';

    assert.equal((await post(url, "yes", body)).status, 200);
    assert.deepEqual([...plants.plants.values()], [{ id: -(2n ** 63n), name: "a" }]);
    assert.equal(errorNumber(await post(url, "yes", body)), 40006);
    assert.equal(errorNumber(await post(url, "no", body)), 40102);
    assert.equal(errorNumber(await post(url, "look", body)), 40301);
    assert.equal(plants.plants.size, 1);
  });
}

const FAULT = new Error("cannot reach the directory at /secret/path");

const FAULTS: readonly [says: string, tokens: TokenVerifier, name: string][] = [
  ["a token check that rejects", { verify: () => Promise.reject(FAULT) }, "a"],
  [
    "a token check that throws",
    {
      verify: () => {
        throw FAULT;
      },
    },
    "a",
  ],
  ["a store that rejects", { verify: () => MEMBER }, "broken"],
];

for (const [says, tokens, name] of FAULTS) {
  test(`${says} is answered 500 without details, and the reason is published as a warning`, async (t) => {
    const warnings = collectWarnings(t);
    const plants = new Shed();
    const { url: base } = await serve(t, createRequestListener({ plants, tokens }));
    const url = `${base}/plants`;

    const answer = await post(url, "x", JSON.stringify({ id: 1, name }));

    assert.equal(answer.status, 500);
    assert.equal(errorNumber(answer), 50001);
    assert.equal(answer.text.includes("secret"), false);
    assert.equal(warnings.length, 1);
    assert.ok(String(warnings[0]?.cause).includes("/secret/path"));
    assert.equal(plants.plants.size, 0);
    assert.equal((await post(url, "x", JSON.stringify({ id: 1, name }))).status, 500); // the service continues
  });
}

test("without a subscriber what a store throws is a warning of the process", async (t) => {
  const warned = once(process, "warning");
  const { url } = await serve(
    t,
    createRequestListener({ plants: new Shed(), tokens: { verify: () => MEMBER } }),
  );
  const { headers } = await post(`${url}/plants`, "x", '{"id":1,"name":"broken"}');
  const [warning] = await warned;
  assert.equal(warning.name, "PlantStoreWarning");
  assert.ok(warning.message.includes(headers.get("x-request-id") ?? "missing"));
  assert.match(warning.detail, /burnt down\n +at /);
});

const READERS: readonly [says: string, read: (req: IncomingMessage, then: () => void) => void][] = [
  ["all", (req, then) => req.on("end", then).resume()],
  ["the beginning", (req, then) => req.once("data", () => then())],
  [
    "all by iteration",
    async (req, then) => {
      for await (const _ of req);
      then();
    },
  ],
];

for (const [says, read] of READERS) {
  test(`a body of which other code has read ${says} is answered 500 that names the mistake`, async (t) => {
    const warnings = collectWarnings(t);
    const tokens = { verify: () => MEMBER };
    const listener = createRequestListener({ plants: new Shed(), tokens });
    const { url } = await serve(t, (req, res) => read(req, () => listener(req, res)));
    const answer = await post(`${url}/plants`, "x", '{"id":1,"name":"a"}');
    assert.equal(errorNumber(answer), 50001);
    assert.match(answer.text, /before any body parser/); // for the developer who mounts it
    assert.equal(warnings.length, 1);
    assert.match(String(warnings[0]?.cause), /before any body parser/);
  });
}

test("a store, its tokens and a server are closed at the end of their block", async (t) => {
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
