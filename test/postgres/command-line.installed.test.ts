import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { runCli, startServer } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { finish } from "../support/run.ts";
import { freePort } from "../support/serve.ts";
import { tokenPath } from "../support/token-files.ts";
import { TIMEOUT, until } from "../support/watch.ts";
import { compare, Load, overHttp } from "./load.ts";
import {
  buildProgram,
  listPlants,
  NEEDS_POSTGRES,
  openStore,
  SharedCluster,
  succeeds,
} from "./stores.ts";

const OPTIONS = { ...NEEDS_POSTGRES, ...TIMEOUT };
const cluster = new SharedCluster({
  access: ["host all plant_store all scram-sha-256", "host all all all trust"],
});
const program = buildProgram();
const AWAY = "postgresql://plants@127.0.0.1:1/garden";

/** Runs a command, which must succeed; returns what it prints. */
async function run(args: readonly string[], { env = {}, stdin = "" } = {}): Promise<string> {
  const { status, stdout, stderr } = await runCli(args, { program, env, stdin });
  assert.equal(status, 0, stderr);
  return stdout;
}

/** Creates a database with the tables; returns its URLs. */
async function createGarden() {
  const { cluster: server, database } = await cluster.createStore();
  const urlOf = (user: string) => server.url(database, { user });
  const owner = ["--database", urlOf("postgres")];
  return { server, owner, url: urlOf("plant_store"), withPassword: urlOf("plant_store:secret") };
}

function serve(t: TestContext, args: readonly string[], env: Record<string, string> = {}) {
  return startServer(t, args, { program, env });
}

test("nothing is lost when servers over one database are killed under load", OPTIONS, async (t) => {
  const { owner, withPassword } = await createGarden();
  const admin = `127.0.0.1:${await freePort()}`;
  const env = { PLANT_STORE_DATABASE: withPassword };
  const token = (await run(["token", "create", "app", ...owner])).trim();
  const first = ["--first-token", "--admin", admin]; // there is a token already
  const servers = [await serve(t, first, env), await serve(t, [], env)];
  const stores = () => servers.map(({ url }) => overHttp(url, token));
  const metrics = await (await fetch(`http://${admin}/metrics`)).text();
  assert.match(metrics, /^plant_store_database_lease_age_seconds 0\./m);
  assert.match(metrics, /^plant_store_database_synchronous 0$/m);
  assert.doesNotMatch(metrics, /^plant_store_log_bytes/m);
  const load = new Load();
  load.use(stores());
  load.start(48);
  for (const at of [0, 1]) {
    await load.more(300);
    await servers[at]?.stop("SIGKILL");
    await load.more(300);
    servers[at] = await serve(t, [], env);
    load.use(stores());
  }
  await load.more(300);
  const report = await load.stop();
  assert.ok(report.failed > 0, "a kill was noticed");
  const { plants } = await openStore(t, { url: owner[1] ?? "" });
  const { lost, changed, wrong } = compare(report, await listPlants(plants));
  assert.deepEqual([lost, changed, wrong], [0, 0, 0]);
  assert.match(await run(["token", "list", ...owner]), /^app +write +live/m);
  await run(["token", "revoke", "app", ...owner]);
  assert.match(await run(["token", "list", ...owner]), /^app +write +revoked/m);
  for (const server of servers) assert.equal((await server.stop()).status, 0);
});

test("plants and tokens move from a data directory to a database and back", OPTIONS, async (t) => {
  const { owner } = await createGarden();
  const folders = [makeFolder(t), makeFolder(t)] as const;
  const given = ["\\u0000", "\\ud800", "é", "plain"].map(
    (name, at) => `{"id":${-at},"name":"${name}"}`,
  );
  await run(["import", "-", "--data", folders[0]], { stdin: given.join("\n") });
  const exported = await run(["export", "--data", folders[0]]);
  assert.equal(
    await run(["import", "-", ...owner], { stdin: exported }),
    "created 4, already stored 0, refused 0\n",
  );
  const back = await run(["export", ...owner]);
  assert.deepEqual(back.split("\n").sort(), exported.split("\n").sort());
  assert.equal(await run(["get", "0", ...owner]), '{"id":0,"name":"\\u0000"}\n');
  await run(["import", "-", "--data", folders[1]], { stdin: back });
  assert.equal((await run(["export", "--data", folders[1]])).length, exported.length);

  await run(["token", "create", "app", "--data", folders[0]]);
  for (const said of ["imported 1, already there 0\n", "imported 0, already there 1\n"]) {
    assert.equal(await run(["token", "import", tokenPath(folders[0]), ...owner]), said);
  }
  const list = (store: readonly string[]) => run(["token", "list", "--json", ...store]);
  assert.equal(await list(owner), await list(["--data", folders[0]]));
});

test("a URL that is replaced in its file is used without a restart", OPTIONS, async (t) => {
  const { server, owner, withPassword } = await createGarden();
  const file = join(makeFolder(t), "url");
  const setPassword = (text: string) => server.sql(`ALTER ROLE plant_store PASSWORD '${text}'`);
  t.after(() => setPassword("secret"));
  writeFileSync(file, `${withPassword}\n`);
  const token = (await run(["token", "create", "app", ...owner])).trim();
  const args = ["--database-file", file, "--database-deadline-ms", "500"];
  const { url, stderr, stop } = await serve(t, args);
  const plants = overHttp(url, token);
  let id = 0n;
  const creates = () => succeeds(plants.create({ id: ++id, name: "Fern" }));
  await until("plants are stored", creates);
  await setPassword("p:w/2");
  assert.ok(await creates(), "connections that are open outlive the password");
  for (const [text, said] of [
    [withPassword, /authentication failed/],
    [withPassword.replace(":secret@", ":p:w/2@"), /percent-encode/],
    ["", /is empty/],
    [undefined, /no such file/],
  ] as const) {
    const before = stderr().length;
    if (text === undefined) rmSync(file);
    else writeFileSync(file, text);
    await server.endSessions();
    await until("the reason is logged", () => said.test(stderr().slice(before)));
    assert.equal(await creates(), false);
    writeFileSync(file, withPassword.replace(":secret@", ":p%3Aw%2F2@"));
    await until("plants are stored again", creates);
  }
  assert.doesNotMatch(stderr(), /secret|p:w|p%3A/);
  assert.equal((await stop()).status, 0);
});

test("a password comes with the URL, and from nowhere else", OPTIONS, async (t) => {
  const { server, url, withPassword } = await createGarden();
  const passwords = join(makeFolder(t), "pgpass");
  writeFileSync(passwords, `127.0.0.1:${server.port}:*:plant_store:secret\n`, { mode: 0o600 });
  // The binding to libpq is not used.
  const env = { PLANT_STORE_DATABASE: withPassword, NODE_PG_FORCE_NATIVE: "1" };
  assert.equal(await run(["export"], { env }), "");
  const elsewhere = { PGPASSWORD: "secret", PGPASSFILE: passwords };
  const { status, stderr } = await runCli(["export", "--database", url], {
    program,
    env: elsewhere,
  });
  assert.deepEqual([status, /the URL has none/.test(stderr)], [1, true], stderr);
});

test("mistakes are named, and no password is shown", OPTIONS, async (t) => {
  const folder = makeFolder(t);
  const fileOf = (text: string) => {
    const file = join(makeFolder(t), "url");
    writeFileSync(file, `${text}\n`);
    return ["--database-file", file];
  };
  const { server } = await createGarden();
  const empty = server.url("postgres");
  for (const [args, expected, said] of [
    [["serve", "--database", AWAY, "--data", folder], 2, /use either --data or a database/],
    [["get", "7", "--database", AWAY, "--database-file", "x"], 2, /use either --database or/],
    [["export", "--database", "postgresql://a:hid@c/d"], 2, /expected no password in an argument/],
    [["export", "--database", "jdbc:postgresql://a:hidden@c"], 2, /expected "postgresql:/],
    [["export", "--database", "postgresql://c/d?sslmode=prefer"], 2, /sslmode: expected disable/],
    [["serve", "--database-require-sync", "--data", folder], 2, /--database-require-sync/],
    [["export", ...fileOf("")], 2, /--database-file ".*url" is empty/],
    [["export", ...fileOf("postgresql://a:hid/den@b/c")], 2, /--database-file ".*percent-encode/],
    [
      ["export", "--database-file", "/nowhere/url"],
      1,
      /--database-file "\/nowhere\/url": no such file/,
    ],
    [["export", "--database", `${AWAY}?sslrootcert=/nowhere/ca`], 2, /cannot read "\/nowhere\/ca"/],
    [["print", "schema", "--role", "a$b"], 2, /--role: expected a name without/],
    [["print", "schema", "--role", "a\nb"], 2, /--role: expected a name without/],
    [["serve", "--port", "0", "--database", empty], 3, /print schema/],
    [["serve", "--port", "0", "--database", server.url("missing")], 1, /missing.* does not exist/],
    [["export", "--database", AWAY], 1, /ECONNREFUSED/],
  ] as const) {
    const { status, stderr } = await runCli(args, { program });
    assert.deepEqual([status, said.test(stderr)], [expected, true], stderr);
    assert.doesNotMatch(stderr, /hid/);
  }
  const { status, stderr } = await runCli(["export", "--database", AWAY]);
  assert.deepEqual([status, /npm install pg/.test(stderr)], [2, true], stderr);
});

test(
  "a server waits for a database that is away, and SIGTERM ends it with 0",
  OPTIONS,
  async (t) => {
    const admin = `127.0.0.1:${await freePort()}`;
    const args = ["--admin", admin, "--database-deadline-ms", "300", "--database", AWAY];
    const child = spawn(program, ["serve", "--port", "0", ...args]);
    t.after(() => child.kill("SIGKILL"));
    let warnings = 0;
    child.stderr.on("data", (text) => {
      warnings += String(text).split("ECONNREFUSED").length - 1;
    });
    const ended = finish(child);
    await until("it warns again and again", () => warnings > 3);
    child.kill("SIGTERM");
    const { status, stderr } = await ended;
    assert.equal(status, 0, stderr);
  },
);
