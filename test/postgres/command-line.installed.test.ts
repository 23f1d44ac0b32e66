import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { chmodSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { runCli } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { finish } from "../support/run.ts";
import { freePort } from "../support/serve.ts";
import { HANG_MS, TIMEOUT, until } from "../support/watch.ts";
import { overHttp, startServer } from "./servers.ts";
import { buildProgram, NEEDS_POSTGRES, SharedCluster, startPair } from "./stores.ts";

const OPTIONS = { ...NEEDS_POSTGRES, ...TIMEOUT };
const cluster = new SharedCluster({
  access: ["host all plant_store all scram-sha-256", "host all all all trust"],
});

const PROGRAM = buildProgram();

function start(args: readonly string[], env: Record<string, string> = {}) {
  return spawn(process.execPath, [PROGRAM, ...args], { env: { ...process.env, ...env } });
}

/** Runs a command, which must succeed; returns what it prints. */
async function run(args: readonly string[], { env = {}, stdin = "" } = {}): Promise<string> {
  const child = start(args, env);
  child.stdin.end(stdin);
  const { status, stdout, stderr } = await finish(child);
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
  return startServer(t, [process.execPath, PROGRAM, "serve", "--port", "0", ...args], env);
}

test("servers over one database serve the same plants and tokens", OPTIONS, async (t) => {
  const { owner, withPassword } = await createGarden();
  const env = { PLANT_STORE_DATABASE: withPassword };
  const one = await serve(t, ["--admin", "127.0.0.1:0"], env);
  const other = await serve(t, ["--admin", "127.0.0.1:0"], env);
  const token = (
    await run(["token", "create", "app", "--scope", "write", "--scope", "read", ...owner])
  ).trim();
  assert.match(await run(["token", "list", ...owner]), /^app +write,read +live/m);
  const send = (url: string, method: string, path: string, body?: string) =>
    fetch(`${url}${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { body }),
    });
  await until(
    "the token is accepted",
    async () => (await send(one.url, "GET", "/plants")).status === 200,
  );
  await until(
    "the token is accepted",
    async () => (await send(other.url, "GET", "/plants")).status === 200,
  );
  const created = await send(one.url, "POST", "/plants", '{"id":7,"name":"Fern"}');
  assert.deepEqual([created.status, await created.text()], [200, '{"name":"Fern"}']);
  const conflict = await send(other.url, "POST", "/plants", '{"id":7,"name":"Moss"}');
  assert.equal(conflict.status, 400);
  assert.equal(await (await send(other.url, "GET", "/plants")).text(), '[{"id":7,"name":"Fern"}]');
  assert.equal(await run(["get", "7", ...owner]), '{"id":7,"name":"Fern"}\n');

  const [, admin = ""] = /status at (http:\S+)/.exec(one.output()) ?? [];
  const ready = (await (await fetch(`${admin.replace(/"?,.*$|"$/, "")}/readyz`)).json()) as {
    state: string;
  };
  assert.equal(ready.state, "ready");
  const metrics = await (await fetch(`${admin.replace(/"?,.*$|"$/, "")}/metrics`)).text();
  assert.match(metrics, /^plant_store_database_lease_age_seconds 0\./m);
  assert.match(metrics, /^plant_store_database_synchronous 0$/m);
  assert.doesNotMatch(metrics, /^plant_store_log_bytes/m);

  await run(["token", "revoke", "app", ...owner]);
  await until(
    "the token is refused",
    async () => (await send(other.url, "GET", "/plants")).status === 401,
  );
  for (const server of [one, other]) assert.equal((await server.stop()).status, 0);
});

test("plants move from a data directory to a database and back", OPTIONS, async (t) => {
  const { owner } = await createGarden();
  const folders = [makeFolder(t), makeFolder(t)] as const;
  const given = ["\\u0000", "\\ud800", "é", "plain"].map(
    (name, at) => `{"id":${-at},"name":"${name}"}`,
  );
  await run(["import", "-", "--data", folders[0]], { stdin: given.join("\n") });
  const exported = await run(["export", "--data", folders[0]]);
  assert.equal(await run(["export", ...owner]), "");
  assert.equal(
    await run(["import", "-", ...owner], { stdin: exported }),
    "created 4, already stored 0, refused 0\n",
  );
  const back = await run(["export", ...owner]);
  assert.deepEqual(back.split("\n").sort(), exported.split("\n").sort());
  assert.equal(await run(["export", ...owner]), back);
  await run(["import", "-", "--data", folders[1]], { stdin: back });
  assert.equal((await run(["export", "--data", folders[1]])).length, exported.length);
});

test(
  "the first token is created in the database, by a role that may create tokens",
  OPTIONS,
  async (t) => {
    const { owner } = await createGarden();
    const server = await serve(t, ["--first-token", ...owner]);
    const [, token = ""] = /"token":"(pst_[^"]+)"/.exec(server.output()) ?? [];
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const answer = await fetch(`${server.url}/plants`, {
      method: "POST",
      headers,
      body: '{"id":1,"name":"a"}',
    });
    assert.equal(answer.status, 200);
    await server.stop();
  },
);

test(
  "the password comes from a file or a variable with the URL, and from nowhere else",
  OPTIONS,
  async (t) => {
    const { server, url, withPassword } = await createGarden();
    const folder = makeFolder(t);
    const file = join(folder, "url");
    const passwords = join(folder, "pgpass");
    writeFileSync(file, `${withPassword}\n`);
    writeFileSync(passwords, `127.0.0.1:${server.port}:*:plant_store:secret\n`, { mode: 0o600 });
    const isWarned = async (mode: number) => {
      chmodSync(file, mode);
      const { status, stderr } = await finish(start(["export", "--database-file", file]));
      assert.equal(status, 0, stderr);
      return stderr.includes(`"${file}": every user may read its password`);
    };
    assert.deepEqual([await isWarned(0o640), await isWarned(0o644)], [false, true]);
    const native = { PLANT_STORE_DATABASE: withPassword, NODE_PG_FORCE_NATIVE: "1" }; // which has no effect
    assert.equal(await run(["export"], { env: native }), "");
    const elsewhere = { PGPASSWORD: "secret", PGPASSFILE: passwords };
    const { status, stderr } = await finish(start(["export", "--database", url], elsewhere));
    assert.deepEqual([status, /none is given/.test(stderr)], [1, true], stderr);
  },
);

test("a password that is replaced in the file is used without a restart", OPTIONS, async (t) => {
  const { server, owner, withPassword } = await createGarden();
  const file = join(makeFolder(t), "url");
  const setPassword = (text: string) => server.sql(`ALTER ROLE plant_store PASSWORD '${text}'`);
  t.after(() => setPassword("secret"));
  writeFileSync(file, `${withPassword}\n`);
  const token = (await run(["token", "create", "app", ...owner])).trim();
  const deadline = ["--database-deadline-ms", "500"];
  const { url, output, stop } = await serve(t, ["--database-file", file, ...deadline]);
  const plants = overHttp(url, token);
  let id = 0n;
  const creates = () =>
    plants.create({ id: ++id, name: "Fern" }).then(
      () => true,
      () => false,
    );
  await until("plants are stored", creates);

  await setPassword("p:w/2");
  await server.endSessions();
  await until("the old password is refused", () => /authentication failed/.test(output()));
  assert.equal(await creates(), false);
  writeFileSync(file, withPassword.replace(":secret@", ":p%3Aw%2F2@"));
  await until("plants are stored with the new password", creates);
  await until("the loss is over", () => /Found the database/.test(output()));

  for (const [text, said] of [
    [withPassword.replace(":secret@", ":p:w/2@"), /--database-file .*percent-encode/],
    ["", /--database-file .* is empty/],
  ] as const) {
    const before = output().length;
    writeFileSync(file, text);
    await server.endSessions();
    await until("the fault of the file is logged", () => said.test(output().slice(before)));
    assert.equal(await creates(), false);
    writeFileSync(file, withPassword.replace(":secret@", ":p%3Aw%2F2@"));
    await until("plants are stored again", creates);
    await until("the loss is over", () => /Found the database/.test(output().slice(before)));
  }

  rmSync(file);
  await server.endSessions();
  await until("the reason is logged", () => /--database-file .*: ENOENT/.test(output()));
  assert.equal(await creates(), false);
  writeFileSync(file, withPassword.replace(":secret@", ":p%3Aw%2F2@").replace("/garden", "/other"));
  await until("plants are stored once the file is back", creates);
  await until("the rest of the URL is warned about", () => /restart/.test(output()));
  assert.doesNotMatch(output(), /secret|p:w|p%3A/);
  assert.equal((await stop()).status, 0);
});

test("a URL that comes through a pipe is read once", OPTIONS, async (t) => {
  const { server, owner, withPassword } = await createGarden();
  const token = (await run(["token", "create", "app", ...owner])).trim();
  const program = `exec '${process.execPath}' '${PROGRAM}' serve --port 0 --database-file <(echo "$URL")`;
  const { url, stop } = await startServer(t, ["bash", "-c", program], { URL: withPassword });
  const plants = overHttp(url, token);
  await server.endSessions();
  await until("plants are stored", () =>
    plants.create({ id: 7n, name: "Fern" }).then(
      () => true,
      () => false,
    ),
  );
  assert.equal((await stop()).status, 0);
});

test("commands and options that do not fit a database are refused with status 2", async (t) => {
  const url = "postgresql://plants@127.0.0.1:1/garden";
  const folder = makeFolder(t);
  for (const [args, said] of [
    [["serve", "--database", url, "--data", folder], /use either --data or a database/],
    [
      ["serve", "--database", url, "--database-file", "x"],
      /use either --database or --database-file/,
    ],
    [["export", "--database", "postgresql://a:b@c/d"], /expected no password in an argument/],
    [["export", "--database", "http://c/d"], /expected "postgresql:/],
    [["export", "--database", "jdbc:postgresql://a:hidden@c"], /expected "postgresql:/],
    [["export", "--database", "postgresql://c/d?sslmode=prefer"], /sslmode: expected disable/],
    [["serve", "--database-require-sync", "--data", folder], /--database-require-sync/],
  ] as const) {
    const { status, stderr } = await finish(start(args));
    assert.deepEqual([status, said.test(stderr)], [2, true], stderr);
    assert.doesNotMatch(stderr, /hidden/);
  }
  const { status, stderr } = await runCli(["export", "--database", url]);
  assert.deepEqual([status, /npm install pg/.test(stderr)], [2, true], stderr);
});

test(
  "an unfit database ends a start with status 3, a database that is away with status 1",
  OPTIONS,
  async () => {
    const { server } = await createGarden();
    const empty = await finish(
      start(["serve", "--port", "0", "--database", server.url("postgres")]),
    );
    assert.deepEqual([empty.status, /print schema/.test(empty.stderr)], [3, true], empty.stderr);
    const away = ["--database", "postgresql://plants@127.0.0.1:1/garden"];
    const late = await finish(start(["export", ...away]));
    assert.deepEqual([late.status, /ECONNREFUSED/.test(late.stderr)], [1, true], late.stderr);
  },
);

test("a file without a URL of a database is named, and its password is not shown", async (t) => {
  const file = join(makeFolder(t), "url");
  for (const [text, said] of [
    ["", /is empty/],
    ["postgresql://a:hid/den@b/c", /percent-encode/],
    ["postgresql://a:hid%zzden@b/c", /percent-encode/],
    ["hidden", /expected "postgresql:/],
  ] as const) {
    writeFileSync(file, `${text}\n`);
    const { status, stderr } = await finish(start(["export", "--database-file", file]));
    assert.deepEqual([status, said.test(stderr)], [2, true], stderr);
    assert.ok(stderr.includes(`--database-file "${file}"`) && !/hid/.test(stderr), stderr);
  }
});

test("a file that a database needs is named if it cannot be read", async () => {
  for (const [args, said] of [
    [["--database-file", "/nowhere/url"], /--database-file "\/nowhere\/url": ENOENT/],
    [
      ["--database", "postgresql://a@b/c?sslrootcert=/nowhere/ca"],
      /sslrootcert: .*"\/nowhere\/ca"/,
    ],
  ] as const) {
    const { status, stderr } = await finish(start(["export", ...args]));
    assert.deepEqual([status !== 0, said.test(stderr)], [true, true], stderr);
  }
});

/** Starts a server, and ends it by a signal while it waits; returns its status. */
async function stopAtStart(t: TestContext, url: string, isWaiting: () => Promise<boolean>) {
  const admin = `127.0.0.1:${await freePort()}`;
  const args = ["--admin", admin, "--database-deadline-ms", String(HANG_MS)];
  const child = start(["serve", "--port", "0", "--database", url, ...args]);
  t.after(() => child.kill("SIGKILL"));
  await until("it waits", async () => {
    const isUp = await fetch(`http://${admin}/healthz`).then(
      () => true,
      () => false,
    );
    return isUp && (await isWaiting());
  });
  child.kill("SIGTERM");
  return (await finish(child)).status;
}

test("SIGTERM ends a start that waits for a database, with status 0", OPTIONS, async (t) => {
  const url = "postgresql://plants@127.0.0.1:1/garden";
  assert.equal(await stopAtStart(t, url, async () => true), 0);
});

test("a server with a first token starts without the standby", OPTIONS, async (t) => {
  const { primary, standby } = await startPair(t);
  const database = ["--database", primary.url("garden"), "--database-deadline-ms", "1000"];
  await run(["token", "create", "app", "--database", primary.url("garden")]);
  await standby.stop("kill");
  const server = await serve(t, ["--first-token", ...database]);
  assert.equal((await server.stop()).status, 0);
});

test("SIGTERM ends a start that waits for the standby, with status 0", OPTIONS, async (t) => {
  const { primary, standby } = await startPair(t);
  await standby.stop("kill");
  const waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
  const url = primary.url("garden", { user: "plant_store" });
  const isWaiting = async () => (await primary.sql(waits))[0] === "1";
  assert.equal(await stopAtStart(t, url, isWaiting), 0);
});

test("the SQL of the tables is printed for the role that is named", OPTIONS, async () => {
  assert.match(await run(["print", "schema", "--role", 'a"b']), /TO "a""b";/);
});
