import assert from "node:assert/strict";
import { test } from "node:test";
import { collectWarnings, HANG_MS, TIMEOUT, until } from "../support/watch.ts";
import { loadDriver, NEEDS_POSTGRES, openPlants, SharedCluster, startPair } from "./stores.ts";

const cluster = new SharedCluster();
const OPTIONS = { ...NEEDS_POSTGRES, ...TIMEOUT };

/** Statements that make a database unfit for plants, statements that mend it, and what the refusal names. */
const UNFIT: readonly [what: string, damage: string, mend: string, named: RegExp][] = [
  [
    "fsync is off",
    "ALTER SYSTEM SET fsync = off; SELECT pg_reload_conf()",
    "ALTER SYSTEM RESET fsync; SELECT pg_reload_conf()",
    /fsync/,
  ],
  [
    "the role is read-only",
    "ALTER ROLE plant_store SET default_transaction_read_only = on",
    "ALTER ROLE plant_store RESET default_transaction_read_only",
    /read-only/,
  ],
  [
    "the table is unlogged",
    "ALTER TABLE plants SET UNLOGGED",
    "ALTER TABLE plants SET LOGGED",
    /SET LOGGED/,
  ],
  [
    "the tables are of another version",
    "UPDATE plant_schema SET version = 2",
    "UPDATE plant_schema SET version = 1",
    /version 1/,
  ],
  [
    "the role reads NULL in arrays as a text",
    "ALTER ROLE plant_store SET array_nulls = off",
    "ALTER ROLE plant_store RESET array_nulls",
    /array_nulls/,
  ],
  [
    "the role may not see its sessions",
    "REVOKE SELECT ON pg_catalog.pg_stat_activity FROM PUBLIC",
    "GRANT SELECT ON pg_catalog.pg_stat_activity TO PUBLIC",
    /lacks a right .*pg_stat_activity/,
  ],
  [
    "its table is missing",
    "ALTER TABLE plants RENAME TO gone",
    "ALTER TABLE gone RENAME TO plants",
    /is missing .*print schema/,
  ],
  [
    "the row of the store is missing",
    "CREATE TABLE kept AS SELECT * FROM plant_schema; DELETE FROM plant_schema",
    "INSERT INTO plant_schema SELECT * FROM kept; DROP TABLE kept",
    /has no row/,
  ],
];

for (const [what, damage, mend, named] of UNFIT) {
  // Statements such as VACUUM cannot be sent together with others.
  test(`nothing is stored while ${what}, and a start is refused`, OPTIONS, async (t) => {
    const { cluster: server, database, plants, url } = await cluster.openStore(t);
    const warnings = collectWarnings(t);
    const sql = async (text: string) => {
      for (const statement of text.split(";")) await server.sql(statement, database);
      // A setting of a role applies from its next session on.
      await server.endSessions();
    };
    await plants.create({ id: 1n, name: "Fern" });
    t.after(() => sql(mend).catch(() => {}));
    await sql(damage);
    await assert.rejects(
      openPlants(t, { url, databaseDeadlineMs: 3000 }),
      (error: Error & { code: string }) => {
        assert.match(error.message, named);
        return error.code === "corruption";
      },
    );
    await until("the store refuses", () => named.test(plants.database.refusal ?? ""));
    await assert.rejects(plants.create({ id: 2n, name: "Fern" }), { code: "store_failed" });
    await sql(mend);
    await until("the store continues", () => plants.database.refusal === undefined);
    assert.equal(await plants.create({ id: 3n, name: "Fern" }), "created");
    const published = warnings.filter(({ message }) => named.test(message));
    assert.equal(published.length, 1, "one warning for each refusal");
  });
}

test("an unfit primary is refused, also beside its standby", OPTIONS, async (t) => {
  const { primary, url } = await startPair(t);
  const plants = await openPlants(t, { url });
  await primary.sql("ALTER TABLE plant_schema SET UNLOGGED", "garden");
  await primary.endSessions();
  await assert.rejects(openPlants(t, { url }), {
    code: "corruption",
    message: /plant_schema SET LOGGED/,
  });
  await until("the store refuses", () => plants.database.refusal !== undefined);
});

test(
  "without a synchronous standby there is a warning; a store that requires one waits for it",
  OPTIONS,
  async (t) => {
    const warnings = collectWarnings(t);
    const { cluster: server, database, url } = await cluster.openStore(t);
    assert.match(
      warnings.map(({ message }) => message).join("\n"),
      /synchronous_standby_names is empty/,
    );
    await server.sql("GRANT pg_read_all_stats TO plant_store");
    await assert.rejects(openPlants(t, { url, requireSync: true, databaseDeadlineMs: 500 }), {
      code: "io_error",
      message: /synchronous_standby_names is empty/,
    });
    const opening = openPlants(t, { url, requireSync: true, databaseDeadlineMs: 4000 });
    t.after(() => server.setStandbys());
    await server.setStandbys("late");
    const plants = await opening;
    await server.setStandbys();
    await until("it is seen", () => plants.state().isSynchronous === false);
    // Not at once: a primary that was just promoted may have no standby yet.
    await assert.rejects(plants.create({ id: 1n, name: "Fern" }), { code: "write_failed" });
    assert.deepEqual(await server.sql("SELECT id FROM plants", database), []);
  },
);

test("a refused statement is warned about once, and says so", OPTIONS, async (t) => {
  const { cluster: server, database, plants } = await cluster.openStore(t);
  await plants.create({ id: 1n, name: "Fern" });
  const warnings = collectWarnings(t);
  await server.sql("REVOKE SELECT ON plants FROM plant_store", database);
  for (const id of [1n, 2n]) await assert.rejects(plants.get(id), { code: "store_failed" });
  await assert.rejects(plants.create({ id: 2n, name: "Moss" }), { code: "write_failed" });
  const refusals = warnings.filter(({ cause }) => /permission denied/.test(String(cause)));
  assert.equal(refusals.length, 1);
});

test("a database that was made anew under the same name is not used", OPTIONS, async (t) => {
  const {
    cluster: server,
    database,
    plants,
  } = await cluster.openStore(t, { databaseDeadlineMs: 1000 });
  await plants.create({ id: 1n, name: "Fern" });
  await server.sql("DELETE FROM plants", database);
  await server.sql("UPDATE plant_schema SET store = gen_random_uuid()", database);
  await server.endSessions();
  await until("the store refuses", async () => {
    const error = await plants.create({ id: 1n, name: "Moss" }).catch((fault) => fault);
    return /another store/.test(error.cause.message);
  });
  assert.deepEqual(await server.sql("SELECT count(*) FROM plants WHERE name = 'Moss'", database), [
    "0",
  ]);
});

test("a database without room for another connection is waited for", OPTIONS, async (t) => {
  const { cluster: server, plants } = await cluster.openStore(t);
  await server.sql("ALTER ROLE plant_store CONNECTION LIMIT 3");
  t.after(() => server.sql("ALTER ROLE plant_store CONNECTION LIMIT -1"));
  const outcomes = await Promise.all(
    Array.from({ length: 2000 }, (_, at) => plants.create({ id: BigInt(at), name: "Fern" })),
  );
  assert.ok(outcomes.every((outcome) => outcome === "created"));
});

test(
  "while a database has no room for looks, creates keep their connections",
  OPTIONS,
  async (t) => {
    const { cluster: server, url } = await cluster.createStore();
    const driver = await loadDriver();
    let connects = 0;
    class Client extends driver.Client {
      override connect() {
        connects++;
        return super.connect();
      }
    }
    const plants = await openPlants(t, { url, pg: { Client } });
    await plants.create({ id: 1n, name: "Fern" });
    const sessions = "FROM pg_stat_activity WHERE usename = 'plant_store' AND query";
    const writers = `SELECT pid ${sessions} LIKE '%INSERT%'`;
    const before = await server.sql(writers);
    await server.sql("ALTER ROLE plant_store CONNECTION LIMIT 1");
    t.after(() => server.sql("ALTER ROLE plant_store CONNECTION LIMIT -1"));
    await server.sql(`SELECT pg_terminate_backend(pid) ${sessions} NOT LIKE '%INSERT%'`);
    connects = 0;
    await until("several looks found no room", () => connects > 4);
    assert.equal(await plants.create({ id: 2n, name: "Moss" }), "created");
    assert.deepEqual([before.length, await server.sql(writers)], [1, before]);
  },
);

test(
  "a host that is away is waited for, a wrong role or database is not, and each is named",
  OPTIONS,
  async (t) => {
    const { cluster: server, database } = await cluster.createStore();
    const away = "127.0.0.1:1";
    const missing = server.url("no_such_database");
    const both = missing.replace(/@(.*)[/]/, `@${away},$1/`);
    for (const [url, databaseDeadlineMs, reason] of [
      [`postgresql://plant_store@${away}/garden`, 500, /ECONNREFUSED/],
      [server.url(database, { user: "nobody_there" }), HANG_MS, /role "nobody_there" does not/],
      [missing, HANG_MS, /"no_such_database" does not exist/],
      [both, 500, /ECONNREFUSED.*"no_such_database" does not exist/],
    ] as const) {
      await assert.rejects(openPlants(t, { url, databaseDeadlineMs }), {
        code: "io_error",
        message: reason,
      });
    }
  },
);
