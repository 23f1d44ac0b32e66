/** The promises of the database store beside the contract. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { encodeNewPlant, type NewPlant } from "../../src/core/plant.ts";
import type { PostgresPlants } from "../../src/postgres/index.ts";
import { TIMEOUT } from "../support/watch.ts";
import {
  holdRows,
  listPlants,
  loadDriver,
  NEEDS_POSTGRES,
  openStore,
  SharedCluster,
} from "./stores.ts";

const cluster = new SharedCluster();
const OPTIONS = { ...NEEDS_POSTGRES, ...TIMEOUT };

const ANY_STRING = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.array(fc.integer({ min: 0, max: 0xffff })).map((units) => String.fromCharCode(...units)),
  fc.constantFrom(
    "",
    "NULL",
    "null",
    '"',
    "\\",
    "\0",
    "\ud800",
    "\udfff\ud800",
    "{,}",
    "a\0b",
    " ",
  ),
);

function toText(text: string): string {
  return text.replaceAll("\0", "\uFFFD").toWellFormed();
}

function createMany(plants: PostgresPlants, count: number): Promise<string[]> {
  const ids = Array.from({ length: count }, (_, at) => BigInt(at));
  return Promise.all(ids.map((id) => plants.create({ id, name: "Fern" })));
}

test("every string comes back as it was, and differs from every other", OPTIONS, async (t) => {
  const { plants } = await cluster.openStore(t);
  const strings = fc.sample(ANY_STRING, 2000);
  const given = strings.map((name, at): NewPlant => {
    const tag = strings[(at * 7) % strings.length] ?? "";
    return at % 3 === 0 ? { id: BigInt(at), name } : { id: BigInt(at), name, tag };
  });
  await Promise.all(given.map((plant) => plants.create(plant)));
  assert.deepEqual(await listPlants(plants), given);
  const outcomes = await Promise.all(given.map((plant) => plants.create(plant)));
  assert.deepEqual(new Set(outcomes), new Set(["replayed"]));
  const changed = given.filter(({ name }) => name !== toText(name));
  assert.ok(changed.length > 50);
  for (const plant of changed) {
    const other = { ...plant, name: toText(plant.name) };
    await assert.rejects(plants.create(other), { code: "conflict" });
  }
});

test("a row whose record has another spelling is repeated", OPTIONS, async (t) => {
  const { plants, cluster: server, database } = await cluster.openStore(t);
  const plant = { id: 7n, name: "\0\u007f\u202e\ufeff", tag: "\ud800\u009f" };
  const spelt = '{"id":7,"name":"\\u0000\\u007f\\u202e\\ufeff","tag":"\\ud800\\u009f"}';
  await server.sql(`INSERT INTO plants VALUES (7, '', '', '${spelt}', 0)`, database);
  assert.equal(await plants.create(plant), "replayed");
  assert.deepEqual(await listPlants(plants), [plant]);
  await assert.rejects(plants.create({ ...plant, tag: "\ud800" }), { code: "conflict" });
});

test(
  "of two servers that create the same ids with other names, one wins each",
  OPTIONS,
  async (t) => {
    const { plants: ours, url } = await cluster.openStore(t);
    const { plants: theirs } = await openStore(t, { url });
    const ids = Array.from({ length: 3000 }, (_, at) => BigInt((at * 7919) % 3000));
    const race = (store: PostgresPlants, name: string) =>
      Promise.all(ids.map((id) => store.create({ id, name }).catch(({ code }) => code)));
    const [won, lost] = await Promise.all([race(ours, "ours"), race(theirs, "theirs")]);
    const winners = new Map(ids.map((id, at) => [id, won[at] === "created" ? "ours" : "theirs"]));
    assert.deepEqual(new Set([...won, ...lost]), new Set(["created", "conflict"]));
    assert.ok(won.every((outcome, at) => outcome !== lost[at]));
    for (const { id, name } of await listPlants(ours)) assert.equal(name, winners.get(id));
  },
);

test("a list of many and of long plants is whole, in pages of bounded size", OPTIONS, async (t) => {
  const { plants } = await cluster.openStore(t);
  const many = Array.from({ length: 5000 }, (_, at) => ({ id: BigInt(at), name: `plant ${at}` }));
  const long = Array.from({ length: 12 }, (_, at) => {
    return { id: BigInt(10_000 + at), name: "x".repeat(300_000 + at) };
  });
  await Promise.all([...many, ...long].map((plant) => plants.create(plant)));
  assert.deepEqual(await listPlants(plants), [...many, ...long]);
  assert.deepEqual(await listPlants(plants, { after: 4998n }), [...many.slice(-1), ...long]);
  const read = await Promise.all(many.slice(0, 500).map(({ id }) => plants.getLine(id)));
  assert.deepEqual(read.map(String), many.slice(0, 500).map(encodeNewPlant));
});

test("values stay exact whatever the program has set in the driver", OPTIONS, async (t) => {
  const { types, defaults } = await loadDriver();
  const before = [20, 25].map((oid) => [oid, types.getTypeParser(oid)] as const);
  t.after(() => {
    for (const [oid, parser] of before) types.setTypeParser(oid, parser);
    defaults.binary = false;
  });
  types.setTypeParser(20, Number);
  types.setTypeParser(25, () => "hostile");
  defaults.binary = true;
  const { plants } = await cluster.openStore(t);
  const plant = { id: 9223372036854774993n, name: "Fern" };
  await plants.create(plant);
  assert.equal(String(await plants.getLine(plant.id)), encodeNewPlant(plant));
});

test("rows that another transaction has locked delay no other row", OPTIONS, async (t) => {
  const { plants, cluster: server, database } = await cluster.openStore(t);
  const holder = await holdRows(t, server.url(database), 20);
  const create = (at: number) => plants.create({ id: BigInt(at), name: "held" });
  const held = Promise.all(Array.from({ length: 20 }, (_, at) => create(at + 1)));
  const begun = performance.now();
  await Promise.all(Array.from({ length: 200 }, (_, at) => create(at + 21)));
  const tookMs = performance.now() - begun;
  assert.ok(tookMs < 5000, `${tookMs} ms`);
  await holder.end("COMMIT");
  assert.deepEqual(new Set(await held), new Set(["replayed"]));
});

test("a locked row is answered at the deadline, and may be stored later", OPTIONS, async (t) => {
  const {
    plants,
    cluster: server,
    database,
  } = await cluster.openStore(t, {
    databaseDeadlineMs: 2500,
  });
  const holder = await holdRows(t, server.url(database), 1);
  await assert.rejects(plants.create({ id: 1n, name: "Fern" }), { code: "write_failed" });
  await holder.end("ROLLBACK");
  assert.ok(await plants.create({ id: 1n, name: "Fern" }));
});

test("a database without room for another connection is waited for", OPTIONS, async (t) => {
  const { plants, cluster: server } = await cluster.openStore(t);
  await server.sql("ALTER ROLE plant_store CONNECTION LIMIT 3");
  t.after(() => server.sql("ALTER ROLE plant_store CONNECTION LIMIT -1"));
  assert.deepEqual(new Set(await createMany(plants, 2000)), new Set(["created"]));
});

test("a closed store takes no more, and finishes what it had accepted", OPTIONS, async (t) => {
  const { plants, close, url } = await cluster.openStore(t);
  const created = createMany(plants, 2000);
  const closed = close();
  await assert.rejects(plants.create({ id: 1n, name: "Fern" }), { code: "closed" });
  assert.deepEqual(new Set(await created), new Set(["created"]));
  await closed;
  const { plants: again } = await openStore(t, { url });
  assert.equal((await listPlants(again)).length, 2000);
});

test("the role of the servers can neither change plants nor create tokens", OPTIONS, async () => {
  const { cluster: server, database } = await cluster.createStore();
  for (const statement of [
    "UPDATE plants SET name = 'Moss'",
    "DELETE FROM plants",
    "INSERT INTO tokens VALUES ('hash', 'app', 'write', 1)",
  ]) {
    const attempt = server.sql(`SET ROLE plant_store; ${statement}`, database);
    await assert.rejects(attempt, /permission denied for table/);
  }
});
