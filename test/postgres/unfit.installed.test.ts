/** Databases that must not be used, and databases that cannot be used now. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { CHECK_SERVER } from "../../src/postgres/schema.ts";
import { collectWarnings, HANG_MS, TIMEOUT, until } from "../support/watch.ts";
import {
  loadDriver,
  NEEDS_POSTGRES,
  openStore,
  SharedCluster,
  startPair,
  succeeds,
} from "./stores.ts";

const cluster = new SharedCluster();
const OPTIONS = { ...NEEDS_POSTGRES, ...TIMEOUT };
const RELOAD = "SELECT pg_reload_conf()";

/** Statements that make a database unfit for plants, statements that fix it, and what the refusal names. */
const UNFIT: readonly [what: string, damage: string, fix: string, named: RegExp][] = [
  [
    "fsync is off",
    `ALTER SYSTEM SET fsync = off; ${RELOAD}`,
    `ALTER SYSTEM RESET fsync; ${RELOAD}`,
    /fsync/,
  ],
  [
    "the role is read-only",
    "ALTER ROLE plant_store SET default_transaction_read_only = on",
    "ALTER ROLE plant_store RESET default_transaction_read_only",
    /read-only/,
  ],
  [
    "a table is not logged",
    "ALTER TABLE plants SET UNLOGGED",
    "ALTER TABLE plants SET LOGGED",
    /plant_store.plants SET LOGGED/,
  ],
  [
    "the tables are of another version",
    "UPDATE about SET version = 2",
    "UPDATE about SET version = 1",
    /not of version 1/,
  ],
  [
    "the row of the store is missing",
    "CREATE TABLE kept AS SELECT * FROM about; DELETE FROM about",
    "INSERT INTO about SELECT * FROM kept; DROP TABLE kept",
    /row of plant_store.about/,
  ],
  [
    "a table is missing",
    "ALTER TABLE tokens RENAME TO gone",
    "ALTER TABLE gone RENAME TO tokens",
    /is missing,.*print schema/,
  ],
  [
    "the role lacks a right",
    "REVOKE USAGE ON SCHEMA plant_store FROM plant_store",
    "GRANT USAGE ON SCHEMA plant_store TO plant_store",
    /plant_store; grant this right/,
  ],
];

for (const [what, damage, fix, named] of UNFIT) {
  // Statements such as VACUUM cannot be sent together with others.
  test(`nothing is stored while ${what}, and a start is refused`, OPTIONS, async (t) => {
    const {
      cluster: server,
      database,
      plants,
      url,
    } = await cluster.openStore(t, {
      databaseDeadlineMs: 2000,
    });
    const warnings = collectWarnings(t);
    const isWarned = () => warnings.some(({ message }) => named.test(message));
    const sql = async (text: string) => {
      for (const statement of text.split(";")) await server.sql(statement, database);
      // A setting of a role applies from its next session on.
      await server.endSessions();
    };
    await plants.create({ id: 1n, name: "Fern" });
    t.after(() => sql(fix).catch(() => {}));
    await sql(damage);
    await assert.rejects(openStore(t, { url }), { code: "corruption", message: named });
    await until("the store refuses", isWarned);
    await assert.rejects(plants.create({ id: 2n, name: "Fern" }), { code: "write_failed" });
    await sql(fix);
    await until("the store continues", () => succeeds(plants.create({ id: 3n, name: "Fern" })));
    assert.deepEqual(await server.sql("SELECT id FROM plants WHERE id = 2", database), []);
  });
}

test("a database that was made anew under the same name is not used", OPTIONS, async (t) => {
  const {
    cluster: server,
    database,
    plants,
  } = await cluster.openStore(t, {
    databaseDeadlineMs: 1000,
  });
  const warnings = collectWarnings(t);
  await plants.create({ id: 1n, name: "Fern" });
  await server.sql("UPDATE about SET store = gen_random_uuid()", database);
  await server.endSessions();
  await until("the store refuses", () =>
    warnings.some(({ message }) => /another store/.test(message)),
  );
  await assert.rejects(plants.create({ id: 1n, name: "Moss" }), { code: "write_failed" });
});

test("a start does not use a primary that was replaced by an unfit host", OPTIONS, async (t) => {
  const { primary, standby } = await startPair(t, { standbys: "" });
  await standby.promote();
  await standby.sql("ALTER TABLE tokens RENAME TO gone", "garden");
  for (const ports of [
    [primary.port, standby.port],
    [standby.port, primary.port],
  ]) {
    const hosts = ports.map((port) => `127.0.0.1:${port}`).join();
    const url = `postgresql://plant_store@${hosts}/garden`;
    await assert.rejects(openStore(t, { url, databaseDeadlineMs: 500 }), { code: "corruption" });
  }
});

test("a pooler that does not pass on the settings of the login is refused", OPTIONS, async (t) => {
  const { url } = await cluster.createStore();
  const driver = await loadDriver();
  class Client extends driver.Client {
    constructor(config: object) {
      super({ ...config, options: undefined });
    }
  }
  await assert.rejects(openStore(t, { url, pg: { Client } }), {
    code: "corruption",
    message: /connect to PostgreSQL directly/,
  });
});

test(
  "a store that requires a standby waits for one, and refuses without it",
  OPTIONS,
  async (t) => {
    const warnings = collectWarnings(t);
    const { cluster: server, url } = await cluster.openStore(t);
    assert.match(String(warnings[0]?.message), /synchronous_standby_names is empty/);
    const options = { url, requireSync: true, databaseDeadlineMs: 500 };
    await server.setStandbys("missing");
    const isUnprovable = { code: "corruption", message: /GRANT pg_read_all_stats/ };
    await assert.rejects(openStore(t, options), isUnprovable);
    await server.setStandbys();
    await server.sql("GRANT pg_read_all_stats TO plant_store");
    t.after(() => server.sql("REVOKE pg_read_all_stats FROM plant_store"));
    const isEmpty = { code: "corruption", message: /synchronous_standby_names is empty/ };
    await assert.rejects(openStore(t, options), isEmpty);
  },
);

test("a host that is away is waited for, a wrong role or database is not", OPTIONS, async (t) => {
  const { cluster: server, database } = await cluster.createStore();
  const away = "127.0.0.1:1";
  const missing = server.url("no_such_database");
  const both = missing.replace(/@(.*)[/]/, `@${away},$1/`);
  for (const [url, databaseDeadlineMs, message] of [
    [`postgresql://plant_store@${away}/garden`, 500, /ECONNREFUSED/],
    [server.url(database, { user: "nobody_there" }), HANG_MS, /role "nobody_there" does not/],
    [missing, HANG_MS, /"no_such_database" does not exist/],
    [both, 500, /ECONNREFUSED.*"no_such_database" does not exist/],
  ] as const) {
    await assert.rejects(openStore(t, { url, databaseDeadlineMs }), { code: "io_error", message });
  }
});

test("`remote_apply` is kept, and every other level of commits is `on`", OPTIONS, async (t) => {
  const { cluster: server, url } = await cluster.createStore();
  const { Client } = await loadDriver();
  t.after(() => server.sql("ALTER ROLE plant_store RESET synchronous_commit"));
  for (const [level, used] of Object.entries({ remote_apply: "remote_apply", local: "on" })) {
    await server.sql(`ALTER ROLE plant_store SET synchronous_commit = ${level}`);
    const session = new Client({ connectionString: url });
    await session.connect();
    await session.query(CHECK_SERVER);
    const { rows } = await session.query("SHOW synchronous_commit");
    await session.end();
    assert.equal(rows[0].synchronous_commit, used);
  }
});
