import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { printSchema } from "../../src/postgres/index.ts";
import { TIMEOUT } from "../support/watch.ts";
import type { Cluster } from "./cluster.ts";
import { SHADOW_ALL } from "./hostile-role.ts";
import { listPlants, loadDriver, NEEDS_POSTGRES, openStore, SharedCluster } from "./stores.ts";

const shared = new SharedCluster();
const ROLES = ["postgres", "gardener", "plant_store", "hostile"];
/** With the first, equal arguments are enough to shadow a function; with the second, they must fit better. */
const PATHS = ["public, pg_catalog", '"$user", public'];

/** Runs statements as a role; resolves with the rows of the last result. */
async function run(url: string, text: string): Promise<readonly unknown[][]> {
  const session = new (await loadDriver()).Client({ connectionString: url });
  await session.connect();
  try {
    const results = await session.query({ text, rowMode: "array" });
    return (Array.isArray(results) ? results.at(-1) : results).rows;
  } finally {
    await session.end();
  }
}

let databases = 0;
let template: Promise<void> | undefined;

/** A new database in which the hostile role has shadowed everything, and the search path of every role. */
async function createHostile(cluster: Cluster, path: string): Promise<string> {
  template ??= (async () => {
    for (const role of ROLES.slice(1)) await cluster.sql(`CREATE ROLE ${role} LOGIN`);
    await cluster.sql("CREATE DATABASE hostile");
    await cluster.sql("GRANT CREATE ON SCHEMA public TO PUBLIC", "hostile"); // as before PostgreSQL 15
    await run(cluster.url("hostile", { user: "hostile" }), SHADOW_ALL);
  })();
  await template;
  const database = `hostile${++databases}`;
  await cluster.sql(`CREATE DATABASE ${database} TEMPLATE hostile OWNER gardener`);
  await setPaths(cluster, database, path);
  return database;
}

async function setPaths(cluster: Cluster, database: string, path: string): Promise<void> {
  for (const role of ROLES) {
    await cluster.sql(`ALTER ROLE ${role} IN DATABASE ${database} SET search_path = ${path}`);
  }
}

/** Uses everything that the store can do; `at` returns the URL for a role. */
async function useStore(t: TestContext, at: (user: string) => string, owner: string) {
  const { tokenTable } = await openStore(t, { url: at(owner) });
  await tokenTable.create({ name: "first", scopes: ["write"] });
  const { plants, tokens } = await openStore(t, { url: at("plant_store") });
  assert.equal(await plants.create({ id: 7n, name: "Fern", tag: "indoor" }), "created");
  assert.equal(await plants.create({ id: 7n, name: "Fern", tag: "indoor" }), "replayed");
  await assert.rejects(plants.create({ id: 7n, name: "Moss" }), { code: "conflict" });
  assert.ok(await plants.getLine(7n));
  assert.equal((await listPlants(plants)).length, 1);
  const token = await tokenTable.create({ name: "app", scopes: ["write"] });
  await tokens.refresh();
  assert.equal((await tokens.verify(token))?.name, "app");
  await tokenTable.revoke("app");
  await tokens.refresh();
  assert.equal(tokens.verify(token), undefined);
  assert.equal(await tokenTable.import(await tokenTable.list()), 0);
}

for (const path of PATHS) {
  for (const owner of ["gardener", "postgres"]) {
    test(`no function, operator or type of another role is used by ${owner} with the path ${path}`, {
      ...NEEDS_POSTGRES,
      ...TIMEOUT,
    }, async (t) => {
      const cluster = await shared.get();
      const database = await createHostile(cluster, path);
      const at = (user: string) => cluster.url(database, { user });
      await run(at(owner), printSchema());
      await useStore(t, at, owner);
      const own = cluster.url(database, { query: "?options=-csearch_path%3Dpg_catalog" });
      const looted = "SELECT who, what FROM public.loot WHERE who <> 'hostile' GROUP BY 1, 2";
      assert.deepEqual(await run(own, looted), []);
    });
  }
}

test("a schema that another role has made is not used for the tables", {
  ...NEEDS_POSTGRES,
  ...TIMEOUT,
}, async () => {
  const cluster = await shared.get();
  const database = await createHostile(cluster, "public");
  await cluster.sql(`GRANT CREATE ON DATABASE ${database} TO hostile`);
  await run(cluster.url(database, { user: "hostile" }), "CREATE SCHEMA plant_store");
  await assert.rejects(run(cluster.url(database, { user: "gardener" }), printSchema()), {
    code: "42P06",
  });
});
