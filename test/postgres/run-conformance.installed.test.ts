/** The program of conformance, on engines that keep and break promises. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { finish } from "../support/run.ts";
import { HANG_MS, until } from "../support/watch.ts";
import type { Cluster } from "./cluster.ts";
import { PROMISES } from "./conformance.ts";
import { NEEDS_POSTGRES, SharedCluster } from "./stores.ts";

const OPTIONS = { ...NEEDS_POSTGRES, timeout: 5 * HANG_MS };
const cluster = new SharedCluster();
const PROGRAM = fileURLToPath(new URL("./run-conformance.ts", import.meta.url));

function start(url: string) {
  return spawn(process.execPath, ["--import", "tsx", PROGRAM, "--database", url]);
}

/** An empty database, and the URL of the role that owns it. */
async function createEmpty(name: string) {
  const server = await cluster.get();
  await server.sql(`CREATE ROLE "${name}" LOGIN`);
  await server.sql(`ALTER ROLE "${name}" SET work_mem = '5MB'`);
  await server.sql(`CREATE DATABASE "${name}" OWNER "${name}"`);
  return { server, url: server.url(name, { user: name }) };
}

/** Makes every new table `plants` wait for a held row without a limit. */
const UNLIMITED = `
CREATE FUNCTION public.unlimit() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN PERFORM set_config('lock_timeout', '0', true); RETURN true; END $$;
CREATE FUNCTION public.change_table() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
  IF to_regclass('plant_store.plants') IS NULL
    OR EXISTS (SELECT FROM pg_constraint WHERE conname = 'unlimited') THEN RETURN; END IF;
  ALTER TABLE plant_store.plants ADD CONSTRAINT unlimited CHECK (public.unlimit());
END $$;
CREATE EVENT TRIGGER change_table ON ddl_command_end WHEN TAG IN ('CREATE TABLE')
  EXECUTE FUNCTION public.change_table();`;

async function assertNothingLeft(server: Cluster, name: string): Promise<void> {
  const schemas = "SELECT nspname FROM pg_namespace WHERE nspname = 'plant_store'";
  assert.deepEqual(await server.sql(schemas, name), []);
  const settings = `SELECT unnest(rolconfig) FROM pg_roles WHERE rolname = '${name}'`;
  assert.deepEqual(await server.sql(settings), ["work_mem=5MB"]);
  await until("its sessions have ended", async () => {
    return (await server.countSessions(`datname = '${name}'`)) === 0;
  });
}

test(
  "a broken promise about a held row is printed, with every other, and nothing is left",
  OPTIONS,
  async () => {
    const { server, url } = await createEmpty("broken");
    await server.sql(UNLIMITED, "broken");
    const { status, stdout, stderr } = await finish(start(url));
    assert.deepEqual([status, stderr], [1, ""], stdout);
    const verdicts = Array.from(
      stdout.matchAll(/^(holds|BROKEN) +(.*)$/gm),
      ([, verdict, name]) => ({
        verdict,
        name,
      }),
    );
    assert.deepEqual(
      verdicts.map(({ name }) => name),
      Object.keys(PROMISES),
    );
    const broken = verdicts.filter(({ verdict }) => verdict === "BROKEN");
    assert.deepEqual(
      broken.map(({ name }) => name),
      ["a row that another transaction holds delays no other row"],
      stdout,
    );
    await assertNothingLeft(server, "broken");
  },
);

test("on an unfit database every promise is broken, and nothing is left", OPTIONS, async () => {
  const { server, url } = await createEmpty("unfit");
  await server.sql("ALTER DATABASE unfit SET array_nulls = off");
  const { status, stdout } = await finish(start(url));
  assert.equal(status, 1, stdout);
  const broken = stdout.match(/^BROKEN .*\n +.*array_nulls is off/gm) ?? [];
  assert.equal(broken.length, Object.keys(PROMISES).length, stdout);
  await assertNothingLeft(server, "unfit");
});

for (const [signal, expected] of [
  ["SIGHUP", 129],
  ["SIGINT", 130],
  ["SIGTERM", 143],
] as const) {
  test(`${signal} ends it, and nothing is left`, OPTIONS, async () => {
    const { server, url } = await createEmpty(`stopped_by_${signal}`);
    const child = start(url);
    let stdout = "";
    child.stdout.on("data", (text) => {
      stdout += text;
    });
    const ended = finish(child);
    await until("a promise was tried", () => stdout.includes("holds"));
    child.kill(signal);
    child.kill(signal); // npm sends a copy
    const { status } = await ended;
    assert.equal(status, expected, stdout);
    assert.match(stdout, /interrupted/);
    await assertNothingLeft(server, `stopped_by_${signal}`);
  });
}

test("a database that has the tables is refused and left alone", OPTIONS, async () => {
  const { cluster: server, database } = await cluster.createStore();
  const before = await server.sql("SELECT store FROM plant_schema", database);
  const refused = await finish(start(server.url(database)));
  assert.equal(refused.status, 2, refused.stdout);
  assert.match(refused.stderr, /plant_store/);
  assert.deepEqual(await server.sql("SELECT store FROM plant_schema", database), before);
});

test(
  "a database that cannot be reached, or in which no schema may be made, is named",
  OPTIONS,
  async () => {
    const away = await finish(start("postgresql://plants@127.0.0.1:1/garden"));
    assert.deepEqual([away.status, /ECONNREFUSED/.test(away.stderr)], [2, true], away.stderr);
    const { server } = await createEmpty("readers");
    const refused = await finish(start(server.url("postgres", { user: "readers" })));
    assert.deepEqual([refused.status, refused.stderr.split("\n").length], [2, 2], refused.stderr);
  },
);
