/** The options of our own server and of the listener, and a second call of close. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createRequestListener, PlantServer, type ServerOptions } from "../../src/index.ts";
import { NO_READS } from "../support/stores.ts";
import { makeLatch } from "../support/watch.ts";

const PARTS = {
  plants: { create: async () => "created", ...NO_READS },
  tokens: { verify: () => undefined },
} satisfies Pick<ServerOptions, "plants" | "tokens">;

const APP = "https://app.example";

/** What types let pass, by the name of its option. */
const WRONG: Readonly<Record<string, readonly unknown[]>> = {
  basePath: ["garden", "//", "/a b", "/a?b", "/a#b", "/a//b", "/ä", "http://x/a"],
  corsOrigins: [
    ...["", "app.example", "null", "**", "https://*.example", "https://user@app.example"],
    ...["/", "/path", ":443", ", https://b.example"].map((end) => APP + end),
    ...["https://App.example", "http://app.example:80"],
  ].map((origin) => [APP, origin]),
  bodyBytesMax: [Number.NaN],
  pendingBytesMax: [-1],
};
const OF_THE_SERVER: typeof WRONG = {
  port: [65_536],
  requestTimeoutMs: [Number.POSITIVE_INFINITY],
  keepAliveTimeoutMs: [-1],
};

for (const [name, values] of Object.entries({ ...WRONG, ...OF_THE_SERVER })) {
  test(`a server or a listener with a wrong ${name} is refused`, async () => {
    for (const value of values) {
      const options = { ...PARTS, port: 0, [name]: value };
      const error = { name: "RangeError", message: new RegExp(`^${name}: expected `) };
      await assert.rejects(PlantServer.start(options), error, `${value}`);
      if (name in WRONG) assert.throws(() => createRequestListener(options), error, `${value}`);
    }
  });
}

test("an invalid drain time is refused, and the server continues", async (t) => {
  const server = await PlantServer.start({ ...PARTS, port: 0 });
  t.after(() => server.close(0));
  assert.equal(new URL(server.url).hostname, "127.0.0.1", "on this machine alone");
  await assert.rejects(server.close(Number.NaN), RangeError);
  assert.equal((await fetch(`${server.url}/plants`)).status, 401);
});

test("a stop responds to the create in flight, and no call of close resolves before that", async () => {
  const [begun, stored] = [makeLatch(), makeLatch()];
  const order: string[] = [];
  const create = async () => {
    begun.release();
    await stored.released;
    return "created" as const;
  };
  const plants = { ...PARTS.plants, create };
  const tokens = { verify: () => ({ name: "a", scopes: ["write"] as const }) };
  const server = await PlantServer.start({ port: 0, plants, tokens });
  const headers = { Authorization: "Bearer any", "Content-Type": "application/json" };
  const body = '{"id":7,"name":"Fern"}';
  const created = fetch(`${server.url}/plants`, { method: "POST", headers, body });
  await begun.released;
  const close = () => server.close().then(() => order.push("closed"));
  const closing = [close(), close()];
  await new Promise(setImmediate);
  order.push("stored");
  stored.release();
  assert.equal((await created).status, 200);
  await Promise.all(closing);
  assert.deepEqual(order, ["stored", "closed", "closed"]);
});
