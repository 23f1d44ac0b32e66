import assert from "node:assert/strict";
import { test } from "node:test";
import { createRequestListener, PlantServer, type ServerOptions } from "../../src/index.ts";
import { NO_READS } from "../support/plants.ts";
import { makeLatch } from "../support/watch.ts";

const PARTS = {
  plants: { create: async () => "created", ...NO_READS },
  tokens: { verify: () => undefined },
} satisfies Pick<ServerOptions, "plants" | "tokens">;

const APP = "https://app.example";

const NO_ORIGINS = [
  "",
  "app.example",
  "https://app.example/",
  "https://app.example/path",
  "https://App.example",
  "https://app.example:443",
  "http://app.example:80",
  "https://app.example, https://b.example",
  "https://user@app.example",
  "https://*.example",
  "null",
  "**",
];

/** Options that types let pass. */
type Wrong = readonly [name: string, value: unknown];

const OF_THE_LISTENER: readonly Wrong[] = [
  ...["garden", "//", "/a b", "/a?b", "/a#b", "/a//b", "/ä", "http://x/a"].map(
    (path): Wrong => ["basePath", path],
  ),
  ...NO_ORIGINS.map((origin): Wrong => ["corsOrigins", [APP, origin]]),
  ["bodyBytesMax", Number.NaN],
  ["pendingBytesMax", -1],
];

const OF_THE_SERVER: typeof OF_THE_LISTENER = [
  ["port", 65_536],
  ["requestTimeoutMs", Number.POSITIVE_INFINITY],
  ["keepAliveTimeoutMs", -1],
];

for (const [name, value] of OF_THE_LISTENER) {
  test(`a listener with ${name} ${JSON.stringify(value)} is refused`, () => {
    const options = { ...PARTS, [name]: value };
    const message = new RegExp(`^${name}: expected `);
    assert.throws(() => createRequestListener(options), { name: "RangeError", message });
  });
}

for (const [name, value] of [...OF_THE_LISTENER, ...OF_THE_SERVER]) {
  test(`a server with ${name} ${JSON.stringify(value)} is refused`, async (t) => {
    const starting = PlantServer.start({ port: 0, ...PARTS, [name]: value });
    t.after(async () => (await starting.catch(() => undefined))?.close());
    await assert.rejects(starting, {
      name: "RangeError",
      message: new RegExp(`^${name}: expected `),
    });
  });
}

test("an invalid drain time is refused, and the server continues", async (t) => {
  const server = await PlantServer.start({ ...PARTS, port: 0 });
  t.after(() => server.close(0));
  await assert.rejects(server.close(Number.NaN), {
    name: "RangeError",
    message: /^drainTimeoutMs:/,
  });
  assert.equal((await fetch(`${server.url}/plants`)).status, 401);
});

test("a server listens on this machine alone unless it is told otherwise", async (t) => {
  const server = await PlantServer.start({ port: 0, ...PARTS });
  t.after(() => server.close());
  assert.equal(new URL(server.url).hostname, "127.0.0.1");
});

test("a stop responds to the create in flight, and no call of close resolves before that", async () => {
  const { released: begun, release: begin } = makeLatch();
  const { released: stored, release: store } = makeLatch();
  const order: string[] = [];
  const plants = {
    ...PARTS.plants,
    create: async () => {
      begin();
      await stored;
      return "created" as const;
    },
  };
  const tokens = { verify: () => ({ name: "a", scopes: ["write"] as const }) };
  const server = await PlantServer.start({ port: 0, plants, tokens });
  const headers = { Authorization: "Bearer any", "Content-Type": "application/json" };
  const body = '{"id":7,"name":"Fern"}';
  const create = fetch(`${server.url}/plants`, { method: "POST", headers, body });
  await begun;
  const closing = [server.close(), server.close()].map((closed) =>
    closed.then(() => order.push("closed")),
  );
  await new Promise(setImmediate);
  order.push("stored");
  store();
  assert.equal((await create).status, 200);
  await Promise.all(closing);
  assert.deepEqual(order, ["stored", "closed", "closed"]);
});
