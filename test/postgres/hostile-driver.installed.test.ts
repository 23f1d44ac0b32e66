/** What a program has set on the driver for its own clients, or in the environment, does not count for the store. */
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import { PostgresPlants } from "../../src/postgres/index.ts";
import { makeFolder } from "../support/folders.ts";
import { runToEnd } from "../support/run.ts";
import { TIMEOUT } from "../support/watch.ts";
import { loadDriver, NEEDS_POSTGRES, openPlants, SharedCluster } from "./stores.ts";

const OPTIONS = { ...NEEDS_POSTGRES, ...TIMEOUT };
const cluster = new SharedCluster();

/** Defaults of the driver that are hostile to the store. */
const DEFAULTS: Readonly<Record<string, unknown>> = {
  binary: true,
  parseInt8: true,
  parseInputDatesAsUTC: true,
  rows: 1,
  query_timeout: 20,
  statement_timeout: 20,
  lock_timeout: 20,
  idle_in_transaction_session_timeout: 20,
  options: "-c statement_timeout=20 -c search_path=pg_temp",
  replication: "database",
  client_encoding: "LATIN1",
  ssl: true,
  sslnegotiation: "direct",
  host: "nowhere.example",
  port: 1,
  user: "nobody_there",
  password: "wrong",
  database: "nowhere",
  connectionString: "postgresql://nobody_there@nowhere.example/nowhere",
  application_name: "another",
  fallback_application_name: "another",
  connect_timeout: 1,
  keepalives: 0,
  keepalives_idle: 1,
  max: 1,
  idleTimeoutMillis: 1,
};

/** Variables that the driver, or libpq, reads. */
const VARIABLES: Readonly<Record<string, string>> = {
  PGOPTIONS: "-c statement_timeout=20 -c search_path=pg_temp",
  PGREPLICATION: "database",
  PGCLIENT_ENCODING: "LATIN1",
  PGCLIENTENCODING: "LATIN1",
  PGBINARY: "true",
  PGSSLMODE: "require",
  PGSSLNEGOTIATION: "direct",
  PGHOST: "nowhere.example",
  PGPORT: "1",
  PGUSER: "nobody_there",
  PGPASSWORD: "wrong",
  PGDATABASE: "nowhere",
  PGAPPNAME: "another",
  PGCONNECT_TIMEOUT: "1",
  PGTZ: "Asia/Kolkata",
  PGDATESTYLE: "German",
};

/** Uses a store in each way; returns what the client has set in its session. */
async function use(t: TestContext, url: string): Promise<string> {
  const plants = await openPlants(t, { url });
  const id = 9_007_199_254_740_993n;
  await plants.create({ id, name: "é" });
  assert.deepEqual(await plants.get(id), { id, name: "é" });
  for await (const plant of plants.list()) assert.deepEqual(plant, { id, name: "é" });
  const { reads } = plants.database;
  assert.deepEqual(await reads.query("SELECT 1, pg_sleep(0.1)"), [["1", ""]], "it is not given up");
  const settings = await reads.query(
    "SELECT name, setting FROM pg_settings WHERE source IN ('client', 'command line') ORDER BY name",
  );
  await plants.close();
  return settings.join("; ");
}

test(
  "settings that a program makes on its driver have no effect on the store",
  OPTIONS,
  async (t) => {
    const defaults = (await loadDriver()).defaults;
    const { cluster: server, database, url } = await cluster.createStore();
    const expected = await use(t, url);
    assert.match(expected, /application_name,plant-store; client_encoding,UTF8/);
    const kept = { ...defaults };
    t.after(() => Object.assign(defaults, kept, { parseInt8: false }));
    for (const [name, value] of Object.entries(DEFAULTS)) {
      await server.sql("DELETE FROM plants", database);
      defaults[name] = value;
      assert.equal(await use(t, url), expected, name);
      Object.assign(defaults, { [name]: undefined }, kept);
    }
  },
);

test(
  "settings that a program makes after it opened a store have no effect either",
  OPTIONS,
  async (t) => {
    const defaults = (await loadDriver()).defaults;
    const { cluster: server, plants } = await cluster.openStore(t);
    t.after(() => {
      defaults.binary = false;
    });
    defaults.binary = true;
    await plants.create({ id: 7n, name: "Fern" });
    await server.endSessions();
    assert.deepEqual(await plants.get(7n), { id: 7n, name: "Fern" });
  },
);

test("the variables of libpq do not count for the store", OPTIONS, async (t) => {
  const { cluster: server, database, url } = await cluster.createStore();
  const expected = await use(t, url);
  for (const [name, value] of Object.entries(VARIABLES)) {
    await server.sql("DELETE FROM plants", database);
    const before = process.env[name];
    process.env[name] = value;
    try {
      assert.equal(await use(t, url), expected, name);
    } finally {
      if (before === undefined) delete process.env[name];
      else process.env[name] = before;
    }
  }
});

/** A program that opens a store with the driver's binding to libpq, whose own part is a stand-in. */
const NATIVE = `
  import pg from "pg";
  import { PostgresPlants } from "${new URL("../../src/postgres/index.ts", import.meta.url)}";
  for (const driver of [pg, pg.native]) {
    const url = "postgresql://a@%2Ftmp/garden";
    await PostgresPlants.open({ pg: driver, url }).catch(({ name, message }) => console.log(name, message));
  }`;

test("the driver's binding to libpq is refused", OPTIONS, async (t) => {
  const folder = makeFolder(t);
  mkdirSync(join(folder, "pg-native"));
  writeFileSync(join(folder, "pg-native/index.js"), "module.exports = class {};");
  const words = [process.execPath, "--import", "tsx", "--input-type", "module", "-e", NATIVE];
  const { stdout } = await runToEnd(words, {
    cwd: fileURLToPath(new URL(".", import.meta.url)),
    env: { ...process.env, NODE_PATH: folder, NODE_PG_FORCE_NATIVE: "1" },
  });
  assert.match(stdout, /^(TypeError pg: expected the driver in JavaScript .*\n){2}$/);
});

test("a driver that ignores the socket it is given is refused", async () => {
  class Client {}
  await assert.rejects(PostgresPlants.open({ pg: { Client }, url: "postgresql://a@b/c" }), {
    name: "TypeError",
    message: /pg: expected the driver in JavaScript/,
  });
});
