/**
 * A store and its tokens in a process whose timers were replaced, as in a test of a program that embeds
 * them: time stands still there, unless that test moves it.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { clock } from "../src/clock.ts";
import { createToken, PlantStore, revokeToken, TokenRegistry } from "../src/index.ts";
import { makeFolder } from "./support/folders.ts";
import { collect } from "./support/stores.ts";

// What hangs fails: Node's own limit of a test uses none of the timers that are replaced.
test("a store and tokens are used in stopped time", { timeout: 10_000 }, async (t) => {
  const apis = ["setTimeout", "setInterval", "setImmediate", "Date"] as const;
  t.mock.timers.enable({ apis: [...apis], now: Date.now() });
  const folder = makeFolder(t);
  const store = await PlantStore.open(folder);
  const plants = [1n, 2n, 3n].map((id) => ({ id, name: `plant ${id}` }));
  await Promise.all([...plants, ...plants].map((plant) => store.create(plant)));
  assert.deepEqual(await collect(store.list()), plants);
  await assert.rejects(PlantStore.open(folder), { code: "locked" });
  await store.close();

  const names = ["a", "b", "c"]; // one waits for the other's lock
  const tokens = await Promise.all(names.map((name) => createToken(folder, { name })));
  const registry = await TokenRegistry.open(folder);
  t.after(() => registry.close());
  const find = async () => {
    const found = await Promise.all(tokens.map((token) => registry.verify(token)));
    return found.map((verified) => verified?.name).join();
  };
  assert.equal(await find(), "a,b,c");
  await revokeToken(folder, "b");
  while ((await find()) === "a,b,c") await clock.turn(); // until the registry has polled by itself
  assert.equal(await find(), "a,,c");
});
