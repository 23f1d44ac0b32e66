import assert from "node:assert/strict";
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { codeBlocks, typed } from "../support/docs.ts";
import { makeFolder } from "../support/folders.ts";
import { runToEnd } from "../support/run.ts";
import { TIMEOUT } from "../support/watch.ts";
import { buildProgram, NEEDS_POSTGRES, PROGRAMS, SharedCluster } from "./stores.ts";

const OPTIONS = { ...NEEDS_POSTGRES, ...TIMEOUT };
const cluster = new SharedCluster();
const PROGRAM = buildProgram();

/** Types the commands of a section into a plain shell, and resolves with how that ended. */
async function type(section: string, folder: string, env: Record<string, string>) {
  const bin = path.join(folder, "bin");
  mkdirSync(bin, { recursive: true });
  const store = `exec '${process.execPath}' '${PROGRAM}'`;
  // Without a terminal psql reads the new password, twice.
  const psql = `PATH='${PROGRAMS}:${process.env.PATH}'; exec setsid -w psql "$@" <<< $'secret\\nsecret'`;
  const programs = {
    "plant-store": `${store} "$@"`,
    npx: `shift; ${store} "$@"`,
    npm: "exit 0",
    psql,
  };
  for (const [name, script] of Object.entries(programs)) {
    writeFileSync(path.join(bin, name), `#!/bin/bash\n${script}\n`);
    chmodSync(path.join(bin, name), 0o755);
  }
  const blocks = codeBlocks("docs/database.md", section, "sh");
  assert.ok(blocks.length > 0);
  const PATH = `${bin}:${PROGRAMS}:${process.env.PATH}`;
  return runToEnd(typed(blocks.join("")), { cwd: folder, env: { ...process.env, ...env, PATH } });
}

test("a database is set up by the commands of the documentation", OPTIONS, async (t) => {
  const server = await cluster.get();
  await server.sql("CREATE DATABASE documented");
  await server.sql("DROP ROLE IF EXISTS plant_store");
  const { status, stdout, stderr } = await type("Five commands", makeFolder(t), {
    OWNER_URL: server.url("documented"),
  });
  assert.equal(status, 0, stderr);
  assert.match(stdout, /^pst_\S{43}$/m);
});

test("plants and tokens move into a database as the documentation says", OPTIONS, async (t) => {
  const { cluster: server, database } = await cluster.createStore();
  const folder = makeFolder(t);
  const env = { PLANT_STORE_DATA: path.join(folder, "data"), OWNER_URL: server.url(database) };
  const run = async (args: readonly string[]) => {
    const words = [process.execPath, PROGRAM, ...args];
    const done = await runToEnd(words, { env: { ...process.env, ...env } });
    assert.equal(done.status, 0, done.stderr);
    return done.stdout;
  };
  writeFileSync(path.join(folder, "plants.jsonl"), '{"id":7,"name":"Fern"}\n');
  writeFileSync(path.join(folder, "url"), `${env.OWNER_URL}\n`);
  await run(["import", path.join(folder, "plants.jsonl")]);
  await run(["token", "create", "app", "--expires", "90d", "--scope", "read", "--scope", "write"]);
  await run(["token", "create", "for-ever"]);
  await run(["token", "create", "gone"]);
  await run(["token", "revoke", "gone"]);
  const before = await run(["token", "list"]);
  const moved = await type("Move plants and tokens", folder, env);
  assert.equal(moved.status, 0, moved.stderr);
  const { PLANT_STORE_DATA: _, ...rest } = env;
  const list = [process.execPath, PROGRAM, "token", "list", "--database", env.OWNER_URL];
  const { stdout } = await runToEnd(list, { env: { ...process.env, ...rest } });
  assert.equal(stdout, before);
  assert.equal((await server.sql("SELECT count(*) FROM plants", database))[0], "1");
});

test(
  "of a damaged data directory the documented commands move nothing, and fail",
  OPTIONS,
  async (t) => {
    const { cluster: server, database } = await cluster.createStore();
    const folder = makeFolder(t);
    const data = path.join(folder, "data");
    const env = { PLANT_STORE_DATA: data, OWNER_URL: server.url(database) };
    mkdirSync(data, { mode: 0o700 });
    const lines = Array.from({ length: 30_000 }, (_, id) => `{"id":${id},"name":"Fern"}\n`);
    writeFileSync(path.join(data, "plants.jsonl"), lines.with(15_000, "x\n").join(""));
    writeFileSync(path.join(folder, "url"), `${env.OWNER_URL}\n`);
    const { status, stderr } = await type("Move plants and tokens", folder, env);
    assert.equal(status, 3, stderr);
    assert.match(stderr, /\bline 15001, byte offset \d+\b/);
    assert.equal((await server.sql("SELECT count(*) FROM plants", database))[0], "0");
  },
);
