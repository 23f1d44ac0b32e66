import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { printSchema } from "../../src/postgres/schema.ts";
import { runToEnd } from "../support/run.ts";
import { TIMEOUT, until } from "../support/watch.ts";
import { NEEDS_CITUS, startCitus, startCitusStore } from "./citus.ts";
import { collect } from "./conformance.ts";
import { compare, Load } from "./load.ts";
import { openPlants } from "./stores.ts";

const OPTIONS = { ...NEEDS_CITUS, ...TIMEOUT };

function tryPromises(url: string) {
  const program = fileURLToPath(new URL("./run-conformance.ts", import.meta.url));
  const words = ["--import", "tsx", program, "--database", url, "--engine", "citus"];
  return runToEnd([process.execPath, ...words]);
}

test(
  "the promises of the database store hold on Citus, and no setting is left",
  OPTIONS,
  async (t) => {
    const { coordinator, workers, ownerUrl } = await startCitus(t);
    const readSettings = () =>
      Promise.all(
        [coordinator, ...workers].map((node) =>
          node.sql(
            `SELECT setconfig::text FROM pg_db_role_setting
          UNION ALL SELECT concat(name, setting) FROM pg_settings WHERE name = 'citus.recover_2pc_interval'`,
            "garden",
          ),
        ),
      );
    const before = await readSettings();
    const { status, stdout, stderr } = await tryPromises(ownerUrl);
    assert.equal(status, 0, stdout + stderr);
    assert.deepEqual(await readSettings(), before);

    await coordinator.sql("ALTER ROLE postgres SET lock_timeout = '7s'", "garden");
    await workers[1]?.sql("ALTER SYSTEM SET citus.recover_2pc_interval = '9s'", "garden");
    const changed = await readSettings();
    const refused = await tryPromises(ownerUrl);
    assert.equal(refused.status, 2, refused.stdout);
    assert.match(refused.stderr, /"citus.recover_2pc_interval".*"lock_timeout"/);
    assert.deepEqual(await readSettings(), changed);
  },
);

/** What makes a worker unfit, what mends it, and what the refusal names. */
const UNFIT: readonly [what: string, damage: string, mend: string, named: RegExp][] = [
  [
    "that loses what it has written",
    "ALTER SYSTEM SET fsync = off",
    "ALTER SYSTEM RESET fsync",
    /fsync is off/,
  ],
  [
    "whose commits wait for no disk",
    "SET citus.enable_ddl_propagation = off; ALTER ROLE plant_store SET synchronous_commit = off",
    "SET citus.enable_ddl_propagation = off; ALTER ROLE plant_store SET synchronous_commit = 'on'",
    /synchronous_commit/,
  ],
];

for (const [what, damage, mend, named] of UNFIT) {
  test(`a worker ${what} is refused by its name, also at a start`, OPTIONS, async (t) => {
    const { workers, url } = await startCitusStore(t);
    const [, worker = assert.fail()] = workers;
    const sql = async (text: string) => {
      for (const each of [text, "SELECT pg_reload_conf()"]) await worker.sql(each, "garden");
    };
    const plants = await openPlants(t, { url });
    await sql(damage);
    await until("the store refuses", () => named.test(plants.database.refusal ?? ""));
    assert.match(plants.database.refusal ?? "", new RegExp(`"127.0.0.1:${worker.port}"`));
    await assert.rejects(plants.create({ id: 1n, name: "Fern" }), { code: "store_failed" });
    await assert.rejects(openPlants(t, { url }), { code: "corruption", message: named });
    await sql(mend);
    await until("the store continues", () => plants.database.refusal === undefined);
    assert.equal(await plants.create({ id: 2n, name: "Fern" }), "created");
  });
}

test(
  "a node on which a setting cannot be made ends the script before the tables",
  OPTIONS,
  async (t) => {
    const { coordinator, workers } = await startCitus(t);
    await coordinator.sql("CREATE ROLE plant_store LOGIN PASSWORD 'secret'", "garden");
    await workers[0]?.stop();
    await assert.rejects(coordinator.sql(printSchema("citus"), "garden"), /ERROR: .*connect/);
    const made = "SELECT FROM pg_namespace WHERE nspname = 'plant_store'";
    assert.deepEqual(await coordinator.sql(made, "garden"), []);
    await workers[0]?.start();
    await coordinator.sql(printSchema("citus"), "garden");
  },
);

test("a store opens while a worker does not answer", OPTIONS, async (t) => {
  const { workers, url } = await startCitusStore(t);
  await workers[0]?.freeze();
  t.after(() => workers[0]?.thaw());
  await openPlants(t, { url });
});

test("a synchronous standby cannot be required on Citus", OPTIONS, async (t) => {
  const { url } = await startCitusStore(t);
  await assert.rejects(openPlants(t, { url, requireSync: true }), {
    code: "corruption",
    message: /cannot be required on Citus/,
  });
});

test("a row of an interrupted commit can be created within the deadline", OPTIONS, async (t) => {
  const { coordinator, workers, url } = await startCitusStore(t);
  const plants = await openPlants(t, { url });
  const place = `SELECT shard_name, nodeport FROM citus_shards
    WHERE shardid = get_shard_id_for_distribution_column('plant_store.plants', 7)`;
  const [found = ""] = await coordinator.sql(place, "garden");
  const [table, port] = found.split("|");
  const worker = workers.find((each) => each.port === Number(port)) ?? assert.fail();
  // As Citus names it; the coordinator has no record of it, so it is to be rolled back.
  await worker.sql(
    `BEGIN; INSERT INTO ${table} (id, name, batch) VALUES (7, 'other', 0); PREPARE TRANSACTION 'citus_0_1_1_1'`,
    "garden",
  );
  assert.equal(await plants.create({ id: 7n, name: "Fern" }), "created");
});

test(
  "no plant is lost or doubled while workers and the coordinator are killed",
  OPTIONS,
  async (t) => {
    const { coordinator, workers, url } = await startCitusStore(t);
    const load = new Load([await openPlants(t, { url }), await openPlants(t, { url })], 48);
    for (const node of [...workers, coordinator, ...workers, coordinator]) {
      await load.more(1000);
      await node.stop("kill");
      await node.start();
      await load.all();
    }
    const report = await load.stop();
    const rows = await collect((await openPlants(t, { url })).list());
    assert.deepEqual(compare(report, rows), { lost: 0, changed: 0, wrong: 0 });
    assert.equal(new Set(rows.map(({ id }) => id)).size, rows.length);
  },
);
