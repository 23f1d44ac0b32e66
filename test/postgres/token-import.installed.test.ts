/** Tokens that move from a data directory into a database. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { test } from "node:test";
import { createToken, importTokens, listTokens, type TokenRecord } from "../../src/index.ts";
import * as database from "../../src/postgres/index.ts";

import { makeFolder } from "../support/folders.ts";
import { postPlant } from "../support/post.ts";
import { finish } from "../support/run.ts";
import { tokenPath } from "../support/token-files.ts";
import { TIMEOUT } from "../support/watch.ts";
import { startServer } from "./servers.ts";
import { buildProgram, NEEDS_POSTGRES, openPlants, SharedCluster } from "./stores.ts";

const OPTIONS = { ...NEEDS_POSTGRES, ...TIMEOUT };
const cluster = new SharedCluster();
const PROGRAM = buildProgram();

async function run(args: readonly string[]) {
  return finish(spawn(process.execPath, [PROGRAM, ...args]));
}

/** Runs a command, which must succeed; returns what it prints. */
async function print(args: readonly string[]): Promise<string> {
  const { status, stdout, stderr } = await run(args);
  assert.equal(status, 0, stderr);
  return stdout;
}

async function makeDatabase(): Promise<string[]> {
  const { cluster: server, database } = await cluster.createStore();
  return ["--database", server.url(database)];
}

const NAMES = ["NULL", "null", "0", "a.b_c@d-e", "constructor", `x${"-".repeat(63)}`];

/** Live, expiring, expired and revoked tokens of odd names, some of them made in the same millisecond. */
const RECORDS = NAMES.flatMap((name, at): TokenRecord[] => {
  const token = (number: number, more: Partial<TokenRecord>): TokenRecord => ({
    name,
    hash: (((at * 4 + number) * 7919) % 251).toString(16).padStart(64, "e"),
    scopes: ["write"],
    createdAt: 1_700_000_000_000 + (at % 3),
    ...more,
  });
  return [
    token(0, { expiresAt: 1_700_000_000_999 }),
    token(1, { revokedAt: 1_700_000_001_000, scopes: [] }),
    token(2, { revokedAt: 1_700_000_001_000, expiresAt: 1_700_000_002_000 }),
    token(3, at % 2 === 0 ? {} : { expiresAt: 4_000_000_000_001, scopes: ["read", "write"] }),
  ];
});

test(
  "the tokens of a folder move into a database, and an older file revives nothing",
  OPTIONS,
  async (t) => {
    const [folder, target] = [makeFolder(t), await makeDatabase()];
    await importTokens(folder, RECORDS);
    await createToken(folder, { name: "here" });
    const all = RECORDS.length + 1;
    for (const added of [all, 0]) {
      const said = `imported ${added}, already there ${all - added}\n`;
      assert.equal(await print(["token", "import", tokenPath(folder), ...target]), said);
    }
    const list = async (store: readonly string[]) =>
      (await print(["token", "list", "--json", ...store])).split("\n").sort();
    assert.deepEqual(await list(target), await list(["--data", folder]));
    await print(["token", "revoke", "here", ...target]);
    const after = await list(target);
    await print(["token", "import", tokenPath(folder), ...target]);
    assert.deepEqual(await list(target), after);
  },
);

test(
  "a live token of the same name is refused with status 1, and nothing is imported",
  OPTIONS,
  async (t) => {
    const [folder, target] = [makeFolder(t), await makeDatabase()];
    for (const name of ["fresh", "app"]) await createToken(folder, { name });
    await print(["token", "create", "app", ...target]);
    const before = await print(["token", "list", ...target]);
    const { status, stderr } = await run(["token", "import", tokenPath(folder), ...target]);
    assert.deepEqual([status, /"app"/.test(stderr)], [1, true], stderr);
    assert.equal(await print(["token", "list", ...target]), before);
  },
);

test(
  "a server over a database accepts the tokens when token import has ended",
  OPTIONS,
  async (t) => {
    const [folder, target] = [makeFolder(t), await makeDatabase()];
    const token = await createToken(folder, { name: "app" });
    const words = [process.execPath, PROGRAM, "serve", "--port", "0", ...target];
    const server = await startServer(t, words);
    const post = async () => (await postPlant(server.url, token, '{"id":1,"name":"Fern"}')).status;
    assert.equal(await post(), 401);
    await print(["token", "import", tokenPath(folder), ...target]);
    assert.equal(await post(), 200);
    assert.equal((await server.stop()).status, 0);
  },
);

test("a time in the table that no date has is named with its token", OPTIONS, async () => {
  const { cluster: server, database } = await cluster.createStore();
  await server.sql(
    `INSERT INTO plant_tokens VALUES ('1', 'app', 'write', 1, ${10 ** 17})`,
    database,
  );
  const { status, stdout, stderr } = await run([
    "token",
    "list",
    "--database",
    server.url(database),
  ]);
  assert.deepEqual([status, stdout], [1, ""]);
  assert.match(stderr, /token "app": expiresAt: expected milliseconds/);
});

test("ten thousand tokens move, while others are created", OPTIONS, async (t) => {
  const { cluster: server, database: name } = await cluster.createStore();
  const plants = await openPlants(t, { url: server.url(name) });
  const other = await openPlants(t, { url: server.url(name) });
  const many = Array.from({ length: 10_000 }, (_, at): TokenRecord => {
    const hash = ((at * 7919) % 10_007).toString(16).padStart(64, "0");
    const revoked = at % 3 === 0 ? { revokedAt: at } : {};
    return { name: `app${at}`, hash, scopes: ["write"], createdAt: at, ...revoked };
  });
  const [changed, ...created] = await Promise.all([
    database.importTokens(plants, many),
    ...["a", "b", "c"].map((name) => database.createToken(other, { name })),
  ]);
  assert.deepEqual([changed, new Set(created).size], [10_000, 3]);
  const listed = await database.listTokens(other);
  assert.deepEqual(listed.slice(0, 10_000), many);
  assert.deepEqual(
    listed
      .slice(10_000)
      .map(({ name }) => name)
      .sort(),
    ["a", "b", "c"],
  );
  const folder = makeFolder(t);
  await importTokens(folder, listed);
  assert.deepEqual(await listTokens(folder), listed);
});

test("of an import and a create of one name at once, one succeeds", OPTIONS, async (t) => {
  const { cluster: server, database: name } = await cluster.createStore();
  const [one, other] = [
    await openPlants(t, { url: server.url(name) }),
    await openPlants(t, { url: server.url(name) }),
  ];
  for (let round = 0; round < 10; round++) {
    const name = `app${round}`;
    const hash = round.toString(16).padStart(64, "0");
    const outcomes = await Promise.allSettled([
      database.importTokens(one, [{ name, hash, scopes: ["write"], createdAt: round }]),
      database.createToken(other, { name }),
    ]);
    const failed = outcomes.filter((outcome) => outcome.status === "rejected");
    assert.deepEqual(
      failed.map(({ reason }) => reason.code),
      ["token_exists"],
    );
  }
  assert.equal((await database.listTokens(one)).length, 10);
});
