import assert from "node:assert/strict";
import { test } from "node:test";
import { PostgresPlants, printSchema } from "../../src/postgres/index.ts";
import { collectWarnings, TIMEOUT, until } from "../support/watch.ts";
import type { Cluster } from "./cluster.ts";
import { loadDriver, NEEDS_POSTGRES, openPlants, SharedCluster } from "./stores.ts";

const cluster = new SharedCluster();
const OPTIONS = { ...NEEDS_POSTGRES, ...TIMEOUT };

/** A role with a name that has to be quoted. */
const STRANGER = '"a ""stranger"""';
let roles: Promise<unknown> | undefined;

/** Others: one of them owns databases. */
async function createRoles(server: Cluster): Promise<void> {
  roles ??= server.sql(`CREATE ROLE ${STRANGER}; CREATE ROLE gardener LOGIN`);
  await roles;
}

const WRITERS: readonly [right: string, revoked: string][] = [
  [`INSERT ON plants TO ${STRANGER}`, `ALL ON plant_store.plants FROM ${STRANGER}`],
  [`UPDATE (name) ON plants TO ${STRANGER}`, `ALL ON plant_store.plants FROM ${STRANGER}`],
  ["TRUNCATE ON plants TO PUBLIC", "ALL ON plant_store.plants FROM PUBLIC"],
  [`INSERT ON plant_tokens TO ${STRANGER}`, `ALL ON plant_store.plant_tokens FROM ${STRANGER}`],
  [`TRIGGER ON plant_leases TO ${STRANGER}`, `ALL ON plant_store.plant_leases FROM ${STRANGER}`],
  [
    `UPDATE (tokens_version) ON plant_schema TO ${STRANGER} WITH GRANT OPTION`,
    `ALL ON plant_store.plant_schema FROM ${STRANGER}`,
  ],
  [`CREATE ON SCHEMA plant_store TO ${STRANGER}`, `CREATE ON SCHEMA plant_store FROM ${STRANGER}`],
  [
    `UPDATE (batch) ON plants TO plant_store WITH GRANT OPTION; SET ROLE plant_store; GRANT UPDATE (batch) ON plants TO ${STRANGER}`,
    "GRANT OPTION FOR ALL ON plant_store.plants FROM plant_store",
  ],
];

for (const [right, revoked] of WRITERS) {
  test(
    `nothing is stored while another role has ${right}, until what is named is revoked`,
    OPTIONS,
    async (t) => {
      const { cluster: server, database, plants } = await cluster.openStore(t);
      await createRoles(server);
      await server.sql(`GRANT ${right}`, database);
      await until("the store refuses", () => plants.database.refusal !== undefined);
      const { refusal = "" } = plants.database;
      assert.equal(refusal.slice(refusal.indexOf("REVOKE")), `REVOKE ${revoked} CASCADE;`);
      // The owner of the tables is refused, too: another role could have made the tokens that it creates.
      await assert.rejects(openPlants(t, { url: server.url(database) }), { code: "corruption" });
      await server.sql(refusal.slice(refusal.indexOf("REVOKE")), database);
      await until("the store continues", () => plants.database.refusal === undefined);
      assert.equal(await plants.create({ id: 1n, name: "Fern" }), "created");
    },
  );
}

const READERS: readonly [what: string, grant: string, revoke: string][] = [
  [
    "may read the tokens",
    `GRANT SELECT ON plant_tokens TO ${STRANGER}`,
    `REVOKE ALL ON plant_store.plant_tokens FROM ${STRANGER} CASCADE;`,
  ],
  [
    "may read the hashes",
    `GRANT SELECT (hash) ON plant_tokens TO ${STRANGER}`,
    `REVOKE ALL ON plant_store.plant_tokens FROM ${STRANGER} CASCADE;`,
  ],
  [
    "may create in the search path",
    "GRANT CREATE ON SCHEMA public TO PUBLIC; ALTER ROLE plant_store IN DATABASE % SET search_path = public",
    "REVOKE CREATE ON SCHEMA public FROM PUBLIC CASCADE;",
  ],
  [
    "owns a schema of the search path",
    `CREATE SCHEMA app AUTHORIZATION ${STRANGER}; GRANT USAGE ON SCHEMA app TO plant_store; ALTER ROLE plant_store IN DATABASE % SET search_path = app, public`,
    "ALTER SCHEMA app OWNER TO …;",
  ],
  [
    "may read every table",
    `GRANT pg_read_all_data TO ${STRANGER}`,
    `REVOKE pg_read_all_data FROM ${STRANGER};`,
  ],
];

for (const [what, grant, revoke] of READERS) {
  test(
    `there is a warning while another role ${what}, with what revokes it`,
    OPTIONS,
    async (t) => {
      const { cluster: server, database, url } = await cluster.createStore();
      await createRoles(server);
      for (const statement of grant.split(";")) {
        await server.sql(statement.replace("%", database), database);
      }
      const warnings = collectWarnings(t);
      const isNamed = () => warnings.some(({ message }) => message.endsWith(`run: ${revoke}`));
      await (await openPlants(t, { url })).close();
      assert.ok(isNamed(), JSON.stringify(warnings));
      await server.sql(revoke.replace("…", "postgres"), database);
      const before = warnings.length;
      await (await openPlants(t, { url })).close();
      assert.ok(!warnings.slice(before).some(({ message }) => message.includes(revoke)));
    },
  );
}

test(
  "readers of the plants, and members of the servers' role, are no fault",
  OPTIONS,
  async (t) => {
    const { cluster: server, database } = await cluster.createStore();
    await createRoles(server);
    await server.sql(`GRANT USAGE ON SCHEMA plant_store TO ${STRANGER}`, database);
    await server.sql(`GRANT SELECT ON plants TO ${STRANGER}`, database);
    await server.sql("GRANT plant_store TO gardener");
    t.after(() => server.sql("REVOKE plant_store FROM gardener"));
    const warnings = collectWarnings(t);
    const plants = await openPlants(t, { url: server.url(database, { user: "gardener" }) });
    assert.equal(await plants.create({ id: 1n, name: "Fern" }), "created");
    assert.ok(!warnings.some(({ message }) => message.includes("REVOKE")));
  },
);

test(
  "nothing is stored while another role owns the schema, and what is named gives it back",
  OPTIONS,
  async (t) => {
    const { cluster: server, database, plants } = await cluster.openStore(t);
    await createRoles(server);
    await server.sql(`ALTER SCHEMA plant_store OWNER TO ${STRANGER}`, database);
    await until("the store refuses", () => plants.database.refusal !== undefined);
    const [mend = ""] = /ALTER SCHEMA .*;/.exec(plants.database.refusal ?? "") ?? [];
    assert.equal(mend, "ALTER SCHEMA plant_store OWNER TO postgres;");
    await server.sql(mend, database);
    await until("the store continues", () => plants.database.refusal === undefined);
  },
);

test(
  "tables of a role that may create in the database are refused, and run nothing of it",
  OPTIONS,
  async (t) => {
    const { cluster: server } = await cluster.createStore(); // with the role of the servers
    await createRoles(server);
    await server.sql("CREATE DATABASE premade");
    await server.sql("GRANT CREATE ON DATABASE premade TO gardener");
    const url = server.url("premade", { user: "gardener" });
    await assert.rejects(runSchema(url), /ALTER DATABASE premade OWNER TO gardener;/);
    await runSchema(url, printSchema().replace(OWNER_CHECK, ""));
    const refused = { code: "corruption", message: /ALTER DATABASE premade OWNER TO gardener;/ };
    const open = (user: string) => openPlants(t, { url: server.url("premade", { user }) });
    await assert.rejects(open("plant_store"), refused);
    await assert.rejects(runSchema(server.url("premade")), /plant_store belongs to gardener/);

    // A function in the place of what every look reads first; one that is immutable runs in the planner.
    await server.sql(
      `SET ROLE gardener; ALTER TABLE plant_schema RENAME TO kept;
      CREATE FUNCTION plant_store.f() RETURNS uuid IMMUTABLE LANGUAGE plpgsql AS $$BEGIN RAISE 'ran as %', current_user; END$$;
      CREATE VIEW plant_schema AS SELECT 1 AS version, plant_store.f() AS store, 'plant_store'::text AS servers;
      GRANT SELECT ON plant_schema TO plant_store`,
      "premade",
    );
    for (const user of ["postgres", "plant_store"]) await assert.rejects(open(user), refused);
    await server.sql("DROP VIEW plant_schema; ALTER TABLE kept RENAME TO plant_schema", "premade");
    await server.sql("ALTER DATABASE premade OWNER TO gardener");
    assert.equal(await (await open("plant_store")).create({ id: 1n, name: "Fern" }), "created");
  },
);

/** A database in which every new object is given to another role. */
async function createGenerous(server: Cluster, database: string): Promise<void> {
  await createRoles(server);
  await server.sql(`CREATE DATABASE ${database} OWNER gardener`);
  for (const objects of ["TABLES", "SCHEMAS"]) {
    const given = `GRANT ALL ON ${objects} TO ${STRANGER}, PUBLIC`;
    await server.sql(`ALTER DEFAULT PRIVILEGES ${given}`, database);
    await server.sql(`ALTER DEFAULT PRIVILEGES FOR ROLE gardener ${given}`, database);
  }
}

test("a schema that is made gives others no right, whatever defaults say", OPTIONS, async (t) => {
  const { cluster: server } = await cluster.createStore(); // with the role of the servers
  await createGenerous(server, "generous");
  const owner = server.url("generous", { user: "gardener" });
  await runSchema(owner);
  assert.deepEqual(await rightsOfOthers(server, "generous"), []);
  const plants = await openPlants(t, { url: server.url("generous", { user: "plant_store" }) });
  assert.equal(await plants.create({ id: 1n, name: "Fern" }), "created");
  await assert.rejects(runSchema(owner), { code: "42P06" });
  assert.deepEqual(await plants.get(1n), { id: 1n, name: "Fern" });
});

test(
  "an owner who may not change the role is warned, until a superuser has run what the warning says",
  OPTIONS,
  async () => {
    const server = await cluster.get();
    await createRoles(server);
    await server.sql("CREATE ROLE other_servers LOGIN");
    await server.sql("CREATE DATABASE humble OWNER gardener");
    const [notice = ""] = await runSchema(
      server.url("humble", { user: "gardener" }),
      printSchema("postgresql", "other_servers"),
    );
    await server.sql(notice.slice(notice.indexOf("ALTER ROLE")));
    assert.deepEqual(
      await server.sql(
        "SELECT unnest(setconfig) FROM pg_db_role_setting WHERE setrole = 'other_servers'::regrole ORDER BY 1",
      ),
      ["lock_timeout=1s", "search_path=pg_catalog, pg_temp"],
    );
    await server.sql("DROP SCHEMA plant_store CASCADE", "humble");
    const again = server.url("humble", { user: "gardener" });
    assert.deepEqual(await runSchema(again, printSchema("postgresql", "other_servers")), []);
    const plants = await PostgresPlants.open({
      pg: await loadDriver(),
      url: server.url("humble", { user: "other_servers" }),
    });
    assert.equal(await plants.create({ id: 1n, name: "Fern" }), "created");
    await plants.close();
  },
);

/** What a hostile role leaves out of the script. */
const OWNER_CHECK = / {2}IF NOT \(SELECT pg_has_role[\s\S]*?END IF;\n/;

/** Runs what `print schema` prints; resolves with the warnings of the server. */
async function runSchema(url: string, script = printSchema()): Promise<string[]> {
  const session = new (await loadDriver()).Client({ connectionString: url });
  const warnings: string[] = [];
  session.on("notice", ({ severity, message }) => {
    if (severity === "WARNING") warnings.push(message);
  });
  await session.connect();
  try {
    await session.query(script);
  } finally {
    await session.end();
  }
  return warnings;
}

/** The rights in the schema that neither the owner nor the role of the servers has. */
function rightsOfOthers(server: Cluster, database: string): Promise<string[]> {
  return server.sql(
    `SELECT acl FROM (SELECT unnest(relacl)::text FROM pg_class WHERE relnamespace = 'plant_store'::regnamespace
      UNION SELECT unnest(attacl)::text FROM pg_attribute WHERE attrelid IN
        (SELECT oid FROM pg_class WHERE relnamespace = 'plant_store'::regnamespace)
      UNION SELECT unnest(nspacl)::text FROM pg_namespace WHERE nspname = 'plant_store') a (acl)
    WHERE acl !~ '^(gardener|postgres|plant_store)='`,
    database,
  );
}
