/** `plant-store/testing` beside a store in a folder: both do the same. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type NewPlant, type PlantService, PlantStore } from "../src/index.ts";
import { createTestStore, type TestToken } from "../src/testing.ts";
import { makeFolder } from "./support/folders.ts";
import { linesOf } from "./support/stores.ts";

type Call = (plants: PlantService) => Promise<unknown>;
const create = (plant: object) => (plants: PlantService) => plants.create(plant as NewPlant);
const get = (id: unknown) => (plants: PlantService) => plants.getLine(id as bigint);
const list = (after?: unknown) => (plants: PlantService) =>
  linesOf(plants.listLines({ after: after as bigint }));

const CALLS: readonly Call[] = [
  list(),
  get(7n),
  create({ id: 7n, name: "Fern", tag: "indoor" }),
  create({ id: -9223372036854775808n, name: "\ud800 \u2028", tag: "" }),
  create({ id: 7n, name: "Fern", tag: "indoor", size: 3 }),
  create({ id: 7n, name: "Fern" }),
  create({ id: 8n, name: "", tag: "\u0000".repeat(2 ** 22 / 6) }),
  create({ id: 1, name: "Fern" }),
  create({ id: 2n ** 63n, name: "Fern" }),
  ...[7n, -9223372036854775808n, 7, 2n ** 63n].map(get),
  ...[undefined, 7n, -9223372036854775808n, 10n, 7].map(list),
];

/** Each outcome: a value, or name and code of an error. */
async function outcomesOf(plants: PlantService): Promise<unknown[]> {
  const outcomes: unknown[] = [];
  for (const call of CALLS) {
    outcomes.push(await call(plants).catch(({ name, code }) => ({ name, code })));
  }
  return outcomes;
}

test("every call has the outcome that it has with a store in a folder, closed or not", async (t) => {
  const store = await PlantStore.open(makeFolder(t));
  const { plants, close } = createTestStore();
  assert.deepEqual(await outcomesOf(plants), await outcomesOf(store));
  await Promise.all([store.close(), close()]);
  assert.deepEqual(await outcomesOf(plants), await outcomesOf(store));
});

test("a list has the plants of its beginning, which its reader cannot change", async () => {
  await using store = createTestStore();
  const { plants } = store;
  await plants.create({ id: 1n, name: "one" });
  for await (const line of plants.listLines()) {
    line.fill(0);
    await plants.create({ id: 2n, name: "two" });
  }
  const all = ['{"id":1,"name":"one"}', '{"id":2,"name":"two"}'];
  assert.deepEqual(await linesOf(plants.listLines()), all);
  assert.equal(String(await plants.getLine(1n)), all[0]);
});

const accept = (member: object) =>
  createTestStore({ tokens: [{ token: "secret", name: "one", ...member } as TestToken] }).tokens;

test("a token expires by the global Date", async (t) => {
  const expiresAt = new Date(Date.now() + 3_600_000);
  const tokens = accept({ expiresAt });
  const verdict = await tokens.verify("secret");
  assert.deepEqual([verdict?.name, verdict?.scopes], ["one", ["write"]]);
  t.mock.timers.enable({ apis: ["Date"], now: expiresAt });
  assert.equal(tokens.verify("secret"), undefined);
});

test("a token that no request can use is refused", () => {
  for (const token of ["two words", "gr\u00fcn"]) assert.throws(() => accept({ token }), TypeError);
  for (const member of [{ name: "a b" }, { scopes: ["admin"] }, { expiresAt: new Date("soon") }]) {
    assert.throws(() => accept(member), { name: "RangeError" });
  }
});
