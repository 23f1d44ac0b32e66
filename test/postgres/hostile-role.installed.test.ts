import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import {
  createFirstToken,
  createToken,
  importTokens,
  listTokens,
  PostgresTokens,
  printSchema,
  revokeToken,
} from "../../src/postgres/index.ts";
import { TIMEOUT } from "../support/watch.ts";
import type { Cluster } from "./cluster.ts";
import { collect } from "./conformance.ts";
import { COPY_ALL, SHADOW_ALL } from "./hostile-role.ts";
import { type Driver, loadDriver, NEEDS_POSTGRES, openPlants, SharedCluster } from "./stores.ts";

const shared = new SharedCluster();
const ROLES = ["postgres", "gardener", "plant_store", "hostile"];
/** With the first, equal arguments are enough to shadow a function; with the second, they must fit better. */
const PATHS = ["public, pg_catalog", '"$user", public'];
/** Every statement that the stores of this file have sent. */
const sent = new Set<string>();

async function loadRecorder(): Promise<Driver> {
  const driver = await loadDriver();
  class Client extends driver.Client {
    override query(statement: string | { readonly text: string }) {
      if (typeof statement !== "string") sent.add(statement.text);
      return super.query(statement);
    }
  }
  return { ...driver, Client };
}

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
  const pg = await loadRecorder();
  const keeper = await openPlants(t, { url: at(owner), pg });
  await createFirstToken(keeper, { name: "first", scopes: ["write"] });
  const plants = await openPlants(t, { url: at("plant_store"), pg });
  const tokens = await PostgresTokens.open(plants);
  t.after(() => tokens.close());
  assert.equal(await plants.create({ id: 7n, name: "Fern", tag: "indoor" }), "created");
  assert.equal(await plants.create({ id: 7n, name: "Fern", tag: "indoor" }), "replayed");
  await assert.rejects(plants.create({ id: 7n, name: "Moss" }), { code: "conflict" });
  assert.equal((await plants.get(7n))?.name, "Fern");
  assert.equal((await collect(plants.list())).length, 1);
  const token = await createToken(keeper, { name: "app", scopes: ["write"] });
  await tokens.refresh();
  assert.equal((await tokens.verify(token))?.name, "app");
  await revokeToken(keeper, "app");
  await tokens.refresh();
  assert.equal(await tokens.verify(token), undefined);
  const list = await listTokens(keeper);
  assert.equal(list.length, 2);
  assert.equal(await importTokens(keeper, list), 0);
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
      await setPaths(cluster, database, path); // that of the servers' role was safe
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

test("every name in the statements of the store is one of PostgreSQL", {
  ...NEEDS_POSTGRES,
  ...TIMEOUT,
}, async () => {
  const cluster = await shared.get();
  await cluster.sql("CREATE DATABASE copies");
  await run(cluster.url("copies"), printSchema());
  await run(cluster.url("copies"), COPY_ALL);
  const at = (path: string) => cluster.url("copies", { query: `?options=-csearch_path%3D${path}` });
  assert.ok(sent.size >= 8, `only ${sent.size} statements were sent`);
  const shadowed = [...sent, "SELECT $1::integer = 1"].map(async (text) => {
    const [[types] = []] = await run(
      at("public,pg_catalog"),
      `PREPARE each AS ${text}; SET search_path = pg_catalog;
      SELECT string_agg(format('pg_catalog.%I', typname), ', ' ORDER BY number)
      FROM pg_prepared_statements, unnest(parameter_types) WITH ORDINALITY t (type, number), pg_type
      WHERE pg_type.oid = type`,
    );
    const name = `statement_${[...sent].indexOf(text) + 1}`;
    await run(
      at("public,pg_catalog"),
      `CREATE FUNCTION plant_store.${name}(${types ?? ""}) RETURNS void LANGUAGE sql BEGIN ATOMIC ${text}; END`,
    );
    const rows = await run(
      at("pg_catalog"),
      `SELECT identity FROM pg_depend, pg_identify_object(refclassid, refobjid, refobjsubid)
      WHERE objid = 'plant_store.${name}'::regproc AND classid = 'pg_proc'::regclass AND schema = 'public'`,
    );
    return [text, rows.flat()];
  });
  for (const [text, names] of await Promise.all(shadowed)) {
    if (text === "SELECT $1::integer = 1") assert.notDeepEqual(names, []);
    else assert.deepEqual(names, [], String(text));
  }
});
