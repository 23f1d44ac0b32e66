/** The promises of the database store beside the contract. */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import fc from "fast-check";
import { encodeNewPlant, type NewPlant } from "../../src/core/plant.ts";
import type { PostgresPlants } from "../../src/postgres/index.ts";
import { CREATE } from "../../src/postgres/schema.ts";
import { collectWarnings, until } from "../support/watch.ts";
import { loadDriver, runSql } from "./cluster.ts";
import {
  listPlants,
  OPTIONS,
  openStore,
  SharedCluster,
  sabotageDriver,
  succeeds,
} from "./stores.ts";

const cluster = new SharedCluster();

const ANY_STRING = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.array(fc.integer({ min: 0, max: 0xffff })).map((units) => String.fromCharCode(...units)),
  fc.constantFrom(...'|NULL|null|"|\\|\0|\ud800|\udfff\ud800|{,}|a\0b| '.split("|")),
);

before(async () => {
  // Whatever the program has set in the driver, values stay exact.
  const { types, defaults } = await loadDriver();
  types.setTypeParser(20, Number);
  types.setTypeParser(25, () => "hostile");
  defaults.binary = true;
});

/** Plants with ids from a number on. */
function createMany(plants: PostgresPlants, from: number, count: number): Promise<string[]> {
  const ids = Array.from({ length: count }, (_, at) => BigInt(from + at));
  return Promise.all(ids.map((id) => plants.create({ id, name: "Fern" })));
}

test("every string comes back as it was, and differs from every other", OPTIONS, async (t) => {
  const { plants } = await cluster.openStore(t);
  const strings = fc.sample(ANY_STRING, 2000);
  const given = strings.map((name, at): NewPlant => {
    const id = 9223372036854770000n + BigInt(at); // a number would not hold it
    const tag = strings[(at * 7) % strings.length] ?? "";
    return at % 3 === 0 ? { id, name } : { id, name, tag };
  });
  await Promise.all(given.map((plant) => plants.create(plant)));
  assert.deepEqual(await listPlants(plants), given);
  const outcomes = await Promise.all(given.map((plant) => plants.create(plant)));
  assert.deepEqual(new Set(outcomes), new Set(["replayed"]));
  const toText = (text: string) => text.replaceAll("\0", "\uFFFD").toWellFormed();
  const others = given.map((plant) => ({ ...plant, name: toText(plant.name) }));
  for (const [at, other] of others.entries()) {
    if (other.name === given[at]?.name) continue;
    await assert.rejects(plants.create(other), { code: "conflict" });
  }
});

test("a row is read by its record, in any spelling", OPTIONS, async (t) => {
  const { plants, cluster: server, database } = await cluster.openStore(t);
  const plant = { id: 7n, name: "\0\u007f\u202e\ufeff", tag: "\ud800\u009f" };
  const spelt = '{"id":7,"name":"\\u0000\\u007f\\u202e\\ufeff","tag":"\\ud800\\u009f"}';
  const rows = `(7, '', '', '${spelt}', 0), (8, '', '', '{broken', 0)`;
  await server.sql(`INSERT INTO plants VALUES ${rows}`, database);
  assert.equal(await plants.create(plant), "replayed");
  await assert.rejects(plants.create({ ...plant, tag: "\ud800" }), { code: "conflict" });
  const unreadable = { code: "read_failed" };
  await assert.rejects(plants.create({ id: 8n, name: "" }), unreadable);
  await assert.rejects(plants.getLine(8n), unreadable);
  await assert.rejects(listPlants(plants), unreadable);
});

test("if two servers create one id with two names, one wins", OPTIONS, async (t) => {
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
});

test("a list of many and of long plants is whole, in pages of bounded size", OPTIONS, async (t) => {
  const { plants } = await cluster.openStore(t);
  const given = Array.from({ length: 5012 }, (_, at) => {
    return { id: BigInt(at), name: at < 5000 ? `plant ${at}` : "x".repeat(300_000 + at) };
  });
  await Promise.all(given.map((plant) => plants.create(plant)));
  assert.deepEqual(await listPlants(plants), given);
  assert.deepEqual(await listPlants(plants, { after: 4998n }), given.slice(4999));
  const read = await Promise.all(given.slice(0, 500).map(({ id }) => plants.getLine(id)));
  assert.deepEqual(read.map(String), given.slice(0, 500).map(encodeNewPlant));
});

test("rows that another transaction has locked delay no other row", OPTIONS, async (t) => {
  const options = { databaseDeadlineMs: 5000 };
  const { plants, cluster: server, database } = await cluster.openStore(t, options);
  const holder = new (await loadDriver()).Client({ connectionString: server.url(database) });
  await holder.connect();
  t.after(() => holder.end());
  const rows = "SELECT i, 'Fern', NULL, NULL, 0 FROM generate_series(1, 20) i";
  await holder.query(`BEGIN; INSERT INTO plant_store.plants ${rows}`);
  const locked = Array.from({ length: 20 }, (_, at) => createMany(plants, at + 1, 1));
  const held = Promise.allSettled(locked);
  await createMany(plants, 21, 200);
  for (const { status } of await held) assert.equal(status, "rejected", "at its deadline");
  const again = createMany(plants, 1, 20);
  await holder.query("COMMIT");
  assert.deepEqual(new Set(await again), new Set(["replayed"]));
});

for (const [what, action, isWarned] of [
  ["that breaks a rule of the table", "RAISE $$a rule$$ USING ERRCODE = $$23514$$", true],
  ["whose statement fails for no known reason", "RAISE $$x$$ USING ERRCODE = $$XX000$$", false],
  ["that the statement does not return", "RETURN NULL", false],
] as const) {
  test(`a row ${what} fails alone`, OPTIONS, async (t) => {
    const options = { databaseDeadlineMs: 500 };
    const { plants, cluster: server, database } = await cluster.openStore(t, options);
    const warnings = collectWarnings(t);
    const body = `BEGIN IF new.id = 1 THEN ${action}; END IF; RETURN new; END`;
    const create = `CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS '${body}'`;
    const trigger = "TRIGGER t BEFORE INSERT ON plants FOR EACH ROW EXECUTE FUNCTION fail()";
    await server.sql(`${create}; CREATE ${trigger}`, database);
    const others = [2n, 3n, 4n].map((id) =>
      until("it is stored", () => succeeds(plants.create({ id, name: "Fern" }))),
    );
    await assert.rejects(plants.create({ id: 1n, name: "Fern" }), { code: "write_failed" });
    await Promise.all(others);
    assert.ok(!isWarned || warnings.some(({ message }) => /a rule/.test(message)));
  });
}

for (const [what, routine, times] of [
  ["whose response is lost", undefined, 2],
  ["whose wait for the standby was cancelled", "SyncRepWaitForLSN", 2],
  ["with a warning about transaction numbers", "GetNewTransactionId", 1],
] as const) {
  test(`a create ${what} is sent ${times} times, and was created once`, OPTIONS, async (t) => {
    let sent = 0;
    const pg = await sabotageDriver({
      async send(client, sql, send) {
        const result = await send();
        if (sql !== CREATE || ++sent > 1) return result;
        if (routine === undefined) throw new Error("closed");
        client.emit("notice", { code: "01000", routine, message: "a notice" });
        return result;
      },
    });
    const { plants } = await cluster.openStore(t, { pg });
    assert.deepEqual([await createMany(plants, 1, 1), sent], [["created"], times]);
  });
}

test("the store waits for a database without a free connection", OPTIONS, async (t) => {
  const { plants, cluster: server } = await cluster.openStore(t);
  await server.sql("ALTER ROLE plant_store CONNECTION LIMIT 3");
  t.after(() => server.sql("ALTER ROLE plant_store CONNECTION LIMIT -1"));
  assert.deepEqual(new Set(await createMany(plants, 0, 2000)), new Set(["created"]));
});

test("a closed store finishes the creates that it has accepted", OPTIONS, async (t) => {
  const { plants, close } = await cluster.openStore(t);
  const created = createMany(plants, 0, 2000);
  const closed = close();
  await assert.rejects(createMany(plants, 1, 1), { code: "closed" });
  assert.deepEqual(new Set(await created), new Set(["created"]));
  await closed;
});

test("the role of the servers can neither change plants nor create tokens", OPTIONS, async (t) => {
  const { url: connectionString, tokenTable } = await cluster.openStore(t);
  for (const change of [
    "UPDATE plant_store.plants SET name = ''",
    "DELETE FROM plant_store.plants",
  ])
    await assert.rejects(runSql({ connectionString }, change), { code: "42501" });
  const message = /permission denied.*; log in as the owner of the tables/;
  await assert.rejects(tokenTable.create({ name: "app" }), { code: "io_error", message });
});
