import assert from "node:assert/strict";
import { symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { runCli, startServer } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { PROGRAM } from "../support/program.ts";
import { freePort } from "../support/service.ts";
import { tokenPath } from "../support/stores.ts";
import { until } from "../support/watch.ts";
import { Load, overHttp } from "./load.ts";
import { listPlants, OPTIONS, openStore, SharedCluster, succeeds } from "./stores.ts";

const cluster = new SharedCluster([
  "host all plant_store all scram-sha-256",
  "host all all all trust",
]);
const AWAY = "postgresql://plants@127.0.0.1:1/garden";

/** Runs a command, which must succeed; returns what it prints. */
async function run(args: readonly string[], stdin = ""): Promise<string> {
  const { status, stdout, stderr } = await runCli(args, { stdin });
  assert.equal(status, 0, stderr);
  return stdout;
}

/** Creates a database with the tables; returns its URLs. */
async function createGarden() {
  const { cluster: server, database } = await cluster.createStore();
  const owner = ["--database", server.url(database)];
  return { server, owner, url: server.url(database, "plant_store:secret") };
}

test("without the driver the message says what to install", async () => {
  const { status, stderr } = await runCli(["export", "--database", AWAY]);
  assert.deepEqual([status, /npm install pg/.test(stderr)], [2, true], stderr);
  // The driver beside the program, as `npm install plant-store pg` leaves it.
  const modules = fileURLToPath(new URL("../../node_modules", import.meta.url));
  symlinkSync(modules, join(dirname(PROGRAM), "node_modules"));
});

test("servers over one database share plants and tokens", OPTIONS, async (t) => {
  const { owner, url } = await createGarden();
  const admin = `127.0.0.1:${await freePort()}`;
  const token = (await run(["token", "create", "app", ...owner])).trim();
  const first = ["--first-token", "--admin", admin]; // there is a token already
  const env = { PLANT_STORE_DATABASE: url, NODE_PG_FORCE_NATIVE: "1" }; // the binding to libpq is not used
  const servers = [await startServer(t, first, { env }), await startServer(t, [], { env })];
  const metrics = await (await fetch(`http://${admin}/metrics`)).text();
  assert.match(metrics, /^plant_store_database_lease_age_seconds 0\./m);
  assert.match(metrics, /^plant_store_database_synchronous 0$/m);
  assert.doesNotMatch(metrics, /^plant_store_log_bytes/m);
  const load = new Load();
  load.start(16, ...servers.map((server) => overHttp(server.url, token)));
  await load.more(300);
  await servers.pop()?.stop("SIGKILL");
  await load.more(300);
  const list = async () => listPlants((await openStore(t, { url })).plants);
  const { lost, changed, wrong, failed } = await load.stop(list);
  assert.ok(failed > 0, "the kill was noticed");
  assert.deepEqual([lost, changed, wrong], [0, 0, 0]);
  await run(["token", "revoke", "app", ...owner]);
  assert.match(await run(["token", "list", ...owner]), /^app +write +revoked/m);
  assert.equal((await servers[0]?.stop())?.status, 0);
});

test("plants and tokens move from a data directory to a database and back", OPTIONS, async (t) => {
  const { owner } = await createGarden();
  const folder = ["--data", makeFolder(t)];
  const names = ["\\u0000", "\\ud800", "é", "plain"];
  const given = names.map((name, at) => `{"id":${at},"name":"${name}"}\n`).join("");
  await run(["import", "-", ...folder], given);
  const created = "created 4, already stored 0, refused 0\n";
  assert.equal(await run(["import", "-", ...owner], await run(["export", ...folder])), created);
  assert.equal(await run(["export", ...owner]), given);
  assert.equal(await run(["get", "0", ...owner]), '{"id":0,"name":"\\u0000"}\n');
  await run(["token", "create", "app", ...folder]);
  for (const said of ["imported 1, already there 0\n", "imported 0, already there 1\n"]) {
    assert.equal(await run(["token", "import", tokenPath(folder[1] ?? ""), ...owner]), said);
  }
  const list = (store: readonly string[]) => run(["token", "list", "--json", ...store]);
  assert.equal(await list(owner), await list(folder));
});

test("a URL that is replaced in its file is used without a restart", OPTIONS, async (t) => {
  const { server, owner, url } = await createGarden();
  const file = join(makeFolder(t), "url");
  const setPassword = (text: string) => server.sql(`ALTER ROLE plant_store PASSWORD '${text}'`);
  t.after(() => setPassword("secret"));
  const token = (await run(["token", "create", "app", ...owner])).trim();
  writeFileSync(file, url);
  const running = await startServer(t, ["--database-file", file, "--database-deadline-ms", "500"]);
  const plants = overHttp(running.url, token);
  let id = 0n;
  const creates = () => succeeds(plants.create({ id: ++id, name: "Fern" }));
  await until("plants are stored", creates);
  await setPassword("p:w/2");
  assert.ok(await creates(), "connections that are open outlive the password");
  for (const [text, said] of [
    [url, /authentication failed/],
    [url.replace(":secret@", ":p:w/2@"), /percent-encode/],
  ] as const) {
    const before = running.stderr().length;
    writeFileSync(file, text);
    await server.endSessions();
    await until("the reason is logged", () => said.test(running.stderr().slice(before)));
    assert.equal(await creates(), false);
    writeFileSync(file, url.replace(":secret@", ":p%3Aw%2F2@"));
    await until("plants are stored again", creates);
  }
  assert.doesNotMatch(running.stderr(), /secret|p:w|p%3A/);
});

test("mistakes are named, and no password is shown", OPTIONS, async (t) => {
  const folder = makeFolder(t);
  const file = join(folder, "url");
  writeFileSync(file, "postgresql://a:hid/den@b/c\n");
  const { server, url } = await createGarden();
  const passwords = join(folder, "pgpass");
  writeFileSync(passwords, `127.0.0.1:${server.port}:*:plant_store:secret\n`, { mode: 0o600 });
  const env = { PGPASSWORD: "secret", PGPASSFILE: passwords };
  for (const [words, expected, said] of [
    [`serve --database ${AWAY} --data ${folder}`, 2, /one of --data, --database/],
    ["export --database postgresql://a:hid@c/d", 2, /expected no password in an argument/],
    [`export --database-file ${file}`, 2, /--database-file ".*percent-encode/],
    ["export --database-file /nowhere/url", 1, /\/nowhere\/url.*no such file/],
    [`serve --port 0 --database ${server.url("postgres")}`, 3, /print schema/],
    [`serve --port 0 --database ${server.url("missing")}`, 1, /missing.* does not exist/],
    [`export --database ${url.replace(":secret", "")}`, 1, /password/],
  ] as const) {
    const { status, stderr } = await runCli(words.split(" "), { env });
    assert.deepEqual([status, said.test(stderr)], [expected, true], stderr);
    assert.doesNotMatch(stderr, /hid/);
  }
});
