/** Databases and hosts that must not be used, or cannot be used now. */
import assert from "node:assert/strict";
import { once } from "node:events";
import net from "node:net";
import { test } from "node:test";
import { CHECK_SERVER } from "../../src/postgres/schema.ts";
import { collectWarnings, HANG_MS, until } from "../support/watch.ts";
import { Cluster, runSql } from "./cluster.ts";
import {
  OPTIONS,
  openStore,
  SharedCluster,
  sabotageDriver,
  startPair,
  succeeds,
} from "./stores.ts";

const cluster = new SharedCluster();

/** What is unfit, the statements that make it so, those that fix it, and what the refusal names. */
const UNFIT = `
without fsync | ALTER SYSTEM SET fsync = off; SELECT pg_reload_conf() | ALTER SYSTEM RESET fsync; SELECT pg_reload_conf() | fsync
that forgives damage | ALTER SYSTEM SET zero_damaged_pages = on; SELECT pg_reload_conf() | ALTER SYSTEM RESET zero_damaged_pages; SELECT pg_reload_conf() | zero_damaged_pages
read-only | ALTER ROLE plant_store SET default_transaction_read_only = on | ALTER ROLE plant_store RESET ALL | read_only
with a table that is not logged | ALTER TABLE plants SET UNLOGGED | ALTER TABLE plants SET LOGGED | plants SET LOGGED
of another version | UPDATE about SET version = 2 | UPDATE about SET version = 1 | not of version 1
without its row | CREATE TABLE kept AS TABLE about; DELETE FROM about | INSERT INTO about TABLE kept | see plant_store.about
without a table | ALTER TABLE tokens RENAME TO gone | ALTER TABLE gone RENAME TO tokens | tokens.*print schema
without a right | REVOKE USAGE ON SCHEMA plant_store FROM plant_store | GRANT USAGE ON SCHEMA plant_store TO plant_store | grant this
that was made anew | ${"UPDATE about SET store = reverse(store::text)::uuid | ".repeat(2)}another store
`;

for (const row of UNFIT.trim().split("\n")) {
  const [what, damage = "", fix = "", named = ""] = row.split(" | ");
  test(`nothing is stored in a database ${what}, and a start is refused`, OPTIONS, async (t) => {
    const options = { databaseDeadlineMs: 2000 };
    const { cluster: server, database, plants, url } = await cluster.openStore(t, options);
    const warnings = collectWarnings(t);
    const sql = async (text: string) => {
      for (const statement of text.split(";")) await server.sql(statement, database);
      await server.endSessions(); // a setting of a role applies from its next session on
    };
    await plants.create({ id: 1n, name: "Fern" });
    t.after(() => sql(fix).catch(() => {}));
    await sql(damage);
    const message = new RegExp(named);
    const refused = { code: "corruption", message };
    if (named !== "another store") await assert.rejects(openStore(t, { url }), refused);
    await until("the store refuses", () => warnings.some((each) => message.test(each.message)));
    await assert.rejects(plants.create({ id: 2n, name: "Fern" }), { code: "write_failed" });
    await sql(fix);
    await until("the store continues", () => succeeds(plants.create({ id: 3n, name: "Fern" })));
    assert.deepEqual(await server.sql("SELECT id FROM plants WHERE id = 2", database), []);
  });
}

test("a primary that was replaced by an unfit host is not used", OPTIONS, async (t) => {
  const { standby, url } = await startPair(t, { standbys: "" });
  await standby.promote();
  await standby.sql("ALTER TABLE tokens RENAME TO gone", "garden");
  await assert.rejects(openStore(t, { url }), { code: "corruption" });
});

test("a pooler that does not pass on the settings of the login is refused", OPTIONS, async (t) => {
  const { url } = await cluster.createStore();
  const pg = await sabotageDriver({ plainLogin: true });
  const message = /connect to PostgreSQL directly/;
  await assert.rejects(openStore(t, { url, pg }), { code: "corruption", message });
});

test("a store that requires a standby refuses a database without one", OPTIONS, async (t) => {
  const warnings = collectWarnings(t);
  const { cluster: server, url } = await cluster.openStore(t);
  assert.match(String(warnings[0]?.message), /synchronous_standby_names is empty/);
  const refused = (message: RegExp) =>
    assert.rejects(openStore(t, { url, requireSync: true }), { code: "corruption", message });
  await refused(/synchronous_standby_names is empty/);
  t.after(() => server.setStandbys());
  await server.setStandbys("missing");
  await refused(/GRANT pg_read_all_stats/);
});

test("as many standbys prove a commit as the setting asks for", OPTIONS, async (t) => {
  const { primary, url } = await startPair(t, { standbys: "" });
  await primary.sql("GRANT pg_read_all_stats TO plant_store");
  await primary.pauseCheckpointer(); // so that commits wait for no standby, whatever the setting is
  await primary.setStandbys("ANY 1 (standby, other)");
  const { plants } = await openStore(t, { url, requireSync: true, databaseDeadlineMs: 1500 });
  assert.equal(await plants.create({ id: 1n, name: "Fern" }), "created");
  await primary.setStandbys("ANY 2 (standby, other)");
  await assert.rejects(plants.create({ id: 2n, name: "Fern" }), { code: "write_failed" });
});

test("a host that is away is waited for, but no wrong role or database", OPTIONS, async (t) => {
  const { cluster: server, database } = await cluster.createStore();
  const missing = server.url("no_such_database");
  for (const [url, databaseDeadlineMs, message] of [
    ["postgresql://plant_store@127.0.0.1:1/garden", 500, /ECONNREFUSED/],
    [server.url(database, "nobody_there"), HANG_MS, /role "nobody_there" does not/],
    [missing, HANG_MS, /"no_such_database" does not exist/],
    [missing.replace("@", "@127.0.0.1:1,"), 500, /ECONNREFUSED.*database" does not exist/],
  ] as const) {
    const opening = openStore(t, { url, databaseDeadlineMs });
    await assert.rejects(opening, { code: "io_error", message });
  }
});

test("the level of commits is `on`, or `remote_apply` if the role has it", OPTIONS, async () => {
  const { url } = await cluster.createStore();
  for (const [level, used] of Object.entries({ remote_apply: "remote_apply", local: "on" })) {
    const login = { connectionString: url, options: `-c synchronous_commit=${level}` };
    assert.deepEqual(await runSql(login, `${CHECK_SERVER}; SHOW synchronous_commit`), [[used]]);
  }
});

test("two hosts of one timeline are refused, even in service", OPTIONS, async (t) => {
  const original = await Cluster.start(t);
  await original.createStore("garden");
  const clone = await Cluster.clone(t, original);
  await clone.stop();
  const names = [original, clone].map(({ port }) => `127.0.0.1:${port}`);
  const url = `postgresql://plant_store@${names.join()}/garden`;
  const warnings = collectWarnings(t);
  const { plants } = await openStore(t, { url, databaseDeadlineMs: 2000 });
  await plants.create({ id: 1n, name: "Fern" });
  await clone.start();
  const namesBoth = ({ message = "" }) => names.every((name) => message.includes(name));
  await until("the store refuses", () => warnings.some(namesBoth));
  const create = () => succeeds(plants.create({ id: 2n, name: "Fern" }));
  const start = () => openStore(t, { url }).catch(({ code }) => code);
  await until("creates are refused, unless a host is slow", async () => !(await create()));
  await until("a start is refused", async () => (await start()) === "corruption");
  await clone.stop();
  await until("the store goes on", create);
});

test("two names of a server are one host; no silent host is waited for", OPTIONS, async (t) => {
  const { cluster: server, database } = await cluster.createStore();
  const silent = net.createServer((socket) => socket.on("error", () => {}));
  await once(silent.listen(0, "127.0.0.1"), "listening");
  t.after(() => silent.close());
  const { port } = silent.address() as net.AddressInfo;
  const hosts = `127.0.0.1:${port},127.0.0.1:${server.port},localhost:${server.port}`;
  const url = `postgresql://plant_store@${hosts}/${database}`;
  const { plants } = await openStore(t, { url, databaseDeadlineMs: 1500 }); // it would take 2 s
  assert.equal(await plants.create({ id: 1n, name: "Fern" }), "created");
});

test("connections that a firewall has forgotten are replaced", OPTIONS, async (t) => {
  const [clients, forgotten] = [new Set(), new Set()];
  const pg = await sabotageDriver({
    send(client, _sql, send) {
      clients.add(client);
      if (!forgotten.has(client)) return send();
      // Nothing arrives, on either side, until this side closes the socket.
      return new Promise((_, reject) => client.once("end", () => reject(new Error("closed"))));
    },
  });
  const { plants, tokens } = await cluster.openStore(t, { pg, databaseDeadlineMs: 2000 });
  const ids = Array.from({ length: 2000 }, (_, id) => BigInt(id));
  const createMany = () => Promise.all(ids.map((id) => plants.create({ id, name: "Fern" })));
  await plants.getLine(1n);
  // One for the search, one for probes, one for reads, and two or more for creates.
  await until("several connections create", () => createMany().then(() => clients.size >= 5));
  for (const client of clients) forgotten.add(client);
  await until("creates succeed again", () => succeeds(createMany()));
  await until("reads succeed again", () => succeeds(plants.getLine(1n)));
  await until("verdicts are given again", () => tokens.isReadable);
});
