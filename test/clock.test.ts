/**
 * A store and its tokens in a process whose timers were replaced, as in a test of a program that embeds
 * them: time stands still there, unless that test moves it.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { type TestContext, test } from "node:test";
import { promisify } from "node:util";
import { createToken, PlantStore, revokeToken, TokenRegistry } from "../src/index.ts";
import { makeFolder } from "./support/folders.ts";

/** A turn of the event loop, with the timers that the process had at its start. */
const turn = promisify(setImmediate);

function stopTime(t: TestContext): void {
  const apis = ["setTimeout", "setInterval", "setImmediate", "Date"] as const;
  t.mock.timers.enable({ apis: [...apis], now: Date.now() });
}

/** What hangs fails: Node's own limit of a test uses none of the timers that are replaced. */
const LIMIT = { timeout: 10_000 };

test(`a store creates, finds and lists plants, and closes`, LIMIT, async (t) => {
  stopTime(t);
  const folder = makeFolder(t);
  const store = await PlantStore.open(folder);
  const plants = [1n, 2n, 3n].map((id) => ({ id, name: `plant ${id}` }));
  await Promise.all(plants.map((plant) => store.create(plant)));
  await store.create(plants[0] as (typeof plants)[0]); // a repeat is read from the log
  assert.equal((await store.get(2n))?.name, "plant 2");
  const listed: bigint[] = [];
  for await (const { id } of store.list()) listed.push(id);
  assert.deepEqual(listed, [1n, 2n, 3n]);
  await assert.rejects(PlantStore.open(folder), { code: "locked" });
  await store.close();
  const lines = readFileSync(`${folder}/plants.jsonl`, "utf8").trimEnd().split("\n");
  assert.equal(lines.length, 3);
});

test(`tokens are created, followed and revoked`, LIMIT, async (t) => {
  stopTime(t);
  const folder = makeFolder(t);
  const tokens = await Promise.all(
    ["a", "b", "c"].map((name) => createToken(folder, { name })), // one waits for the other's lock
  );
  const registry = await TokenRegistry.open(folder);
  t.after(() => registry.close());
  const names = async () => {
    const found = await Promise.all(tokens.map((token) => registry.verify(token)));
    return found.map((verified) => verified?.name);
  };
  assert.deepEqual(await names(), ["a", "b", "c"]);
  await revokeToken(folder, "b");
  while ((await names())[1] === "b") await turn(); // until the registry has looked by itself
  assert.deepEqual(await names(), ["a", undefined, "c"]);
  await registry.refresh();
});
