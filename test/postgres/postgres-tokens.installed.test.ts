import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import {
  createToken,
  importTokens,
  listTokens,
  type PgClient,
  type PostgresPlants,
  PostgresTokens,
  revokeToken,
  type TokenRecord,
} from "../../src/postgres/index.ts";
import { collectWarnings, HANG_MS, TIMEOUT, until } from "../support/watch.ts";
import { loadDriver, NEEDS_POSTGRES, openPlants, SharedCluster, startPair } from "./stores.ts";

const cluster = new SharedCluster();
const OPTIONS = { ...NEEDS_POSTGRES, ...TIMEOUT };

async function openTokens(t: TestContext, plants: PostgresPlants): Promise<PostgresTokens> {
  const tokens = await PostgresTokens.open(plants);
  t.after(() => tokens.close());
  return tokens;
}

/** A database, its operator (who may change tokens) and some servers. */
async function openGarden(t: TestContext, servers: number) {
  const { cluster: server, database, url } = await cluster.createStore();
  const operator = await openPlants(t, { url: server.url(database) });
  const checks = await Promise.all(
    Array.from({ length: servers }, async () => openTokens(t, await openPlants(t, { url }))),
  );
  return { server, database, url, operator, checks };
}

test("a token is accepted and a revocation obeyed by every server", OPTIONS, async (t) => {
  const { operator, checks } = await openGarden(t, 3);
  for (let round = 0; round < 5; round++) {
    const token = await createToken(operator, { name: "app", scopes: ["write", "read"] });
    await until("every server accepts it", () =>
      checks.every((check) => check.verify(token) !== undefined),
    );
    assert.deepEqual((await checks[0]?.verify(token))?.scopes, ["write", "read"]);
    await revokeToken(operator, "app");
    await until("every server refuses it", () =>
      checks.every((check) => check.verify(token) === undefined),
    );
    await sleep(Math.random() * 500);
  }
  const records = await listTokens(operator);
  assert.equal(records.length, 5);
  assert.ok(records.every(({ revokedAt }) => revokedAt !== undefined));
});

test("a server knows a new token once refresh() has resolved", OPTIONS, async (t) => {
  const { operator, checks } = await openGarden(t, 3);
  for (let round = 0; round < 3; round++) {
    const token = await createToken(operator, { name: `app-${round}` });
    await Promise.all(checks.map((check) => check.refresh()));
    for (const check of checks) assert.equal((await check.verify(token))?.name, `app-${round}`);
  }
});

test("refresh() resolves although the database is away", OPTIONS, async (t) => {
  const { primary, url } = await startPair(t);
  const check = await openTokens(t, await openPlants(t, { url, databaseDeadlineMs: 1000 }));
  await primary.stop("kill");
  await check.refresh();
});

test("a token is refused from its expiry on", OPTIONS, async (t) => {
  const { operator, checks } = await openGarden(t, 1);
  const [check] = checks as [PostgresTokens];
  const expiresAt = Date.now() + 1200;
  const token = await createToken(operator, { name: "short", expiresAt });
  await check.refresh();
  assert.ok(await check.verify(token));
  await until("it has expired", async () => (await check.verify(token)) === undefined);
  assert.ok(Date.now() >= expiresAt);
  assert.ok(await createToken(operator, { name: "short" }), "its name is free again");
});

test("a change whose answer is lost is made once, and reported", OPTIONS, async (t) => {
  const { server, database, operator } = await openGarden(t, 0);
  const pg = await loadDriver();
  let losses = 0;
  let mayLose = false;
  /** Loses the connection after a change of the tokens was committed. */
  class Client extends (pg.Client as new (config: object) => PgClient) {
    override async query(statement: { readonly text: string }) {
      const result = await super.query(statement);
      const isChange = statement.text.includes("INTO plant_store.plant_tokens");
      if (isChange && mayLose) {
        mayLose = false;
        losses++;
        this.connection.stream.destroy();
        throw new Error("closed");
      }
      return result;
    }
  }
  const plants = await openPlants(t, { url: server.url(database), pg: { Client } });
  mayLose = true;
  await createToken(plants, { name: "app", scopes: ["read"] });
  const [created] = await listTokens(operator);
  const other = { ...created, name: "b", hash: "b".repeat(64) } as TokenRecord;
  mayLose = true;
  await importTokens(plants, [other]);
  mayLose = true;
  await revokeToken(plants, "app");
  assert.equal(losses, 3);
  const listed = await listTokens(operator);
  assert.deepEqual(listed.map(({ name, revokedAt }) => [name, revokedAt !== undefined]).sort(), [
    ["app", true],
    ["b", false],
  ]);
});

test(
  "a revocation ends all tokens of the name, whatever they hold, and no other",
  OPTIONS,
  async (t) => {
    const { server, database, operator } = await openGarden(t, 0);
    const name = 'a "b" \\ {c},NULL';
    await server.sql(
      `INSERT INTO plant_tokens VALUES ('1', '${name}', 'write', 1, 2, NULL), ('2', '${name}', 'write', 3, NULL, NULL),
      ('3', '${name}', 'write', 4, 5, 6), ('4', 'app', 'write', 7, NULL, NULL)`,
      database,
    );
    const before = Date.now();
    await revokeToken(operator, name);
    const listed = await listTokens(operator);
    assert.deepEqual(
      listed.map(({ hash, revokedAt = 0 }) => [hash, revokedAt >= before ? "now" : revokedAt]),
      [
        ["1", "now"],
        ["2", "now"],
        ["3", 6],
        ["4", 0],
      ],
    );
    assert.deepEqual(listed[0]?.expiresAt, 2);
  },
);

test("the role of the servers cannot change tokens", OPTIONS, async (t) => {
  const { url } = await openGarden(t, 0);
  const plants = await openPlants(t, { url });
  await assert.rejects(
    createToken(plants, { name: "app" }),
    (error: { code: string; message: string }) => {
      assert.match(error.message, /permission denied.*; log in as the owner of the tables$/);
      return error.code === "io_error";
    },
  );
});

test("a primary that was replaced no longer gives verdicts", OPTIONS, async (t) => {
  const { primary, standby } = await startPair(t);
  const user = { user: "plant_store" };
  const deposed = await openTokens(
    t,
    await openPlants(t, { url: primary.url("garden", user), databaseDeadlineMs: 1000 }),
  );
  const operator = await openPlants(t, { url: primary.url("garden") });
  const token = await createToken(operator, { name: "app" });
  await deposed.refresh();
  assert.ok(deposed.verify(token));
  await standby.promote();
  const operatorThere = await openPlants(t, { url: standby.url("garden") });
  await revokeToken(operatorThere, "app");
  await until("the deposed primary is not believed", () => !deposed.isReadable);
  await assert.rejects(async () => deposed.verify(token), { code: "tokens_unreadable" });
  assert.equal(await (await openTokens(t, operatorThere)).verify(token), undefined);
});

test(
  "a server starts while the standby is gone, and accepts no token until it is back",
  OPTIONS,
  async (t) => {
    const { primary, standby, url } = await startPair(t);
    const operator = await openPlants(t, { url: primary.url("garden"), databaseDeadlineMs: 1000 });
    const token = await createToken(operator, { name: "app" });
    const warnings = collectWarnings(t);
    await standby.stop("kill");
    const check = await openTokens(t, await openPlants(t, { url, databaseDeadlineMs: 1000 }));
    assert.equal(check.isReadable, false);
    await until("an operator is warned", () =>
      warnings.some(({ cause }) => /standby may be missing/.test(String(cause))),
    );
    await assert.rejects(async () => check.verify(token), { code: "tokens_unreadable" });
    await assert.rejects(createToken(operator, { name: "other" }), { code: "io_error" });
    await standby.start();
    const isAccepted = async () => (await check.verify(token)) !== undefined;
    await until("the token is accepted", () => isAccepted().catch(() => false));
  },
);

test("verdicts wait while the database is away, and do not fail", OPTIONS, async (t) => {
  const { primary, url } = await startPair(t);
  const operator = await openPlants(t, { url: primary.url("garden") });
  const token = await createToken(operator, { name: "app" });
  const patient = await openPlants(t, { url, databaseDeadlineMs: HANG_MS });
  const check = await openTokens(t, patient);
  const verified = await check.verify(token);
  assert.ok(verified);
  await primary.stop("kill");
  await until("the lease is over", () => !check.isReadable);
  const waiting = check.verify(token);
  await primary.start();
  assert.deepEqual(await waiting, verified);
});
