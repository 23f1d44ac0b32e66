/** Tokens that move between data directories and databases, in every direction. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { type TestContext, test } from "node:test";
import { listTokens, type TokenRecord } from "../../src/index.ts";
import * as database from "../../src/postgres/index.ts";
import { importTokens } from "../../src/tools.ts";
import { makeFolder } from "../support/folders.ts";
import { postPlant } from "../support/post.ts";
import { finish } from "../support/run.ts";
import { TIMEOUT } from "../support/watch.ts";
import { startServer } from "./servers.ts";
import { buildProgram, NEEDS_POSTGRES, openPlants, SharedCluster } from "./stores.ts";

const OPTIONS = { ...NEEDS_POSTGRES, ...TIMEOUT };
const cluster = new SharedCluster();
const PROGRAM = buildProgram();

async function run(args: readonly string[], stdin = "") {
  const child = spawn(process.execPath, [PROGRAM, ...args]);
  child.stdin.end(stdin);
  return finish(child);
}

/** Runs a command, which must succeed; returns what it prints. */
async function print(args: readonly string[], stdin = ""): Promise<string> {
  const { status, stdout, stderr } = await run(args, stdin);
  assert.equal(status, 0, stderr);
  return stdout;
}

const KINDS = {
  folder: async (t: TestContext) => ["--data", makeFolder(t)],
  database: async (_: TestContext) => {
    const { cluster: server, database } = await cluster.createStore();
    return ["--database", server.url(database)];
  },
};

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

for (const [from, makeSource] of Object.entries(KINDS)) {
  for (const [to, makeTarget] of Object.entries(KINDS)) {
    test(`tokens move from a ${from} to a ${to}, and are then the same`, OPTIONS, async (t) => {
      const [source, target] = [await makeSource(t), await makeTarget(t)];
      const lines = RECORDS.map((record) => JSON.stringify(record, isoTimes)).join("\n");
      await print(["token", "import", "-", ...source], lines);
      await print(["token", "create", "here", ...source]);
      const exported = await print(["token", "export", ...source]);
      for (const changed of [RECORDS.length + 1, 0]) {
        const said = `imported ${changed}, already there ${RECORDS.length + 1 - changed}\n`;
        assert.equal(await print(["token", "import", "-", ...target], exported), said);
      }
      const list = (store: readonly string[]) => print(["token", "list", "--json", ...store]);
      assert.equal(await list(target), await list(source));
      assert.equal(await print(["token", "export", ...target]), exported);

      await print(["token", "revoke", "here", ...target]);
      const after = await list(target);
      await print(["token", "import", "-", ...target], exported);
      assert.equal(await list(target), after, "an older export revives nothing");
      await print(["token", "import", "-", ...source], await print(["token", "export", ...target]));
      assert.equal(await list(source), after, "the revocation moves, too");
    });
  }
}

function isoTimes(key: string, value: unknown): unknown {
  return key.endsWith("At") ? new Date(value as number).toISOString() : value;
}

test(
  "damaged lines and conflicting tokens are refused with status 3, and change nothing",
  OPTIONS,
  async (t) => {
    const store = await KINDS.database(t);
    await print(["token", "create", "app", ...store]);
    const before = await print(["token", "export", ...store]);
    const other = before.replace(/"hash":"[^"]*"/, `"hash":"${"0".repeat(64)}"`);
    const fresh = other.replace('"app"', '"fresh"').replace("000", "111");
    for (const [lines, said] of [
      [`${fresh}${fresh.slice(0, -9)}`, /refused line 2: expected JSON/],
      [`${fresh}${other}`, /nothing was imported: .*"app"/],
      [before.replace('"app"', '"renamed"'), /nothing was imported: .*"renamed"/],
    ] as const) {
      const { status, stderr } = await run(["token", "import", "-", ...store], lines);
      assert.deepEqual([status, said.test(stderr)], [3, true], stderr);
      assert.equal(await print(["token", "export", ...store]), before);
    }
    assert.equal(await print(["token", "import", "-", ...store]), "imported 0, already there 0\n");
  },
);

test(
  "a server over a database accepts and refuses the tokens when token import has ended",
  OPTIONS,
  async (t) => {
    const [source, target] = [await KINDS.folder(t), await KINDS.database(t)];
    const token = (await print(["token", "create", "app", ...source])).trim();
    const server = await startServer(t, [
      process.execPath,
      PROGRAM,
      "serve",
      "--port",
      "0",
      ...target,
    ]);
    const post = async () => (await postPlant(server.url, token, '{"id":1,"name":"Fern"}')).status;
    const move = async () =>
      print(["token", "import", "-", ...target], await print(["token", "export", ...source]));
    assert.equal(await post(), 401);
    await move();
    assert.equal(await post(), 200);
    await print(["token", "revoke", "app", ...source]);
    await move();
    assert.equal(await post(), 401);
    assert.equal((await server.stop()).status, 0);
  },
);

test("a time in the table that no date has is named with its token", OPTIONS, async () => {
  const { cluster: server, database } = await cluster.createStore();
  const store = ["--database", server.url(database)];
  await server.sql(
    `INSERT INTO plant_tokens VALUES ('1', 'app', 'write', 1, ${10 ** 17})`,
    database,
  );
  for (const command of ["list", "export"]) {
    const { status, stdout, stderr } = await run(["token", command, ...store]);
    assert.deepEqual([status, stdout], [1, ""]);
    assert.match(stderr, /token "app": expiresAt: expected milliseconds/);
  }
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
