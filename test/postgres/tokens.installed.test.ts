/** Tokens of several servers, and while a primary is lost or replaced. Their contract is in test/auth. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { collectWarnings, TIMEOUT, until } from "../support/watch.ts";
import { loadDriver, NEEDS_POSTGRES, openStore, SharedCluster, startPair } from "./stores.ts";

const cluster = new SharedCluster();
const OPTIONS = { ...NEEDS_POSTGRES, ...TIMEOUT };

/** A database, its operator (who may change tokens) and some servers. */
async function openGarden(t: TestContext, servers: number) {
  const { cluster: server, database, url } = await cluster.createStore();
  const operator = (await openStore(t, { url: server.url(database) })).tokenTable;
  const opened = Array.from({ length: servers }, () => openStore(t, { url }));
  const checks = (await Promise.all(opened)).map(({ tokens }) => tokens);
  return { server, database, url, operator, checks };
}

test("a revocation is obeyed by every server within a second", OPTIONS, async (t) => {
  const { operator, checks } = await openGarden(t, 2);
  for (let round = 0; round < 5; round++) {
    const token = await operator.create({ name: "app", scopes: ["write", "read"] });
    await Promise.all(checks.map((check) => check.refresh()));
    for (const check of checks) {
      assert.deepEqual((await check.verify(token))?.scopes, ["write", "read"]);
    }
    await operator.revoke("app");
    await sleep(1000);
    for (const check of checks) assert.equal(check.verify(token), undefined);
    await sleep(Math.random() * 500);
  }
});

test("of two operators who create one token at once, one succeeds", OPTIONS, async (t) => {
  const { server, database, operator } = await openGarden(t, 0);
  const { tokenTable: other } = await openStore(t, { url: server.url(database) });
  for (let round = 0; round < 10; round++) {
    const creates = [operator, other].map((each) => each.create({ name: `app${round}` }));
    const outcomes = await Promise.allSettled(creates);
    const failed = outcomes.filter((outcome) => outcome.status === "rejected");
    assert.deepEqual(
      failed.map(({ reason }) => reason.code),
      ["token_exists"],
    );
  }
  assert.equal((await operator.list()).length, 10);
});

test("a change whose response is lost is made once", OPTIONS, async (t) => {
  const { server, database, operator } = await openGarden(t, 0);
  const driver = await loadDriver();
  let mayLose = false;
  class Client extends driver.Client {
    override async query(statement: { readonly text: string }) {
      const result = await super.query(statement);
      if (statement.text !== "COMMIT" || !mayLose) return result;
      mayLose = false;
      this.connection.stream.destroy();
      throw new Error("closed");
    }
  }
  const { tokenTable } = await openStore(t, { url: server.url(database), pg: { Client } });
  for (const change of [
    () => tokenTable.create({ name: "app", scopes: ["read"] }),
    () => tokenTable.import([{ name: "b", hash: "b".repeat(64), scopes: ["read"], createdAt: 1 }]),
    () => tokenTable.revoke("app"),
  ]) {
    mayLose = true;
    await change();
    assert.equal(mayLose, false);
  }
  const listed = await operator.list();
  assert.deepEqual(
    listed.map(({ name, revokedAt }) => [name, revokedAt !== undefined]),
    [
      ["b", false],
      ["app", true],
    ],
  );
});

test("the role of the servers cannot change tokens, and is told who can", OPTIONS, async (t) => {
  const { url } = await openGarden(t, 0);
  const { tokenTable } = await openStore(t, { url });
  await assert.rejects(tokenTable.create({ name: "app" }), {
    code: "io_error",
    message: /permission denied.*; log in as the owner of the tables$/,
  });
});

test("a primary that was replaced no longer gives verdicts", OPTIONS, async (t) => {
  const { primary, standby } = await startPair(t);
  const user = { user: "plant_store" };
  const { tokenTable } = await openStore(t, { url: primary.url("garden") });
  const token = await tokenTable.create({ name: "app" });
  const deposed = await openStore(t, {
    url: primary.url("garden", user),
    databaseDeadlineMs: 1000,
  });
  assert.ok(deposed.tokens.verify(token));
  await standby.promote();
  const there = await openStore(t, { url: standby.url("garden") });
  await there.tokenTable.revoke("app");
  await until("the deposed primary is not believed", () => !deposed.tokens.isReadable);
  await assert.rejects(async () => deposed.tokens.verify(token), { code: "tokens_unreadable" });
  await there.tokens.refresh();
  assert.equal(there.tokens.verify(token), undefined);
});

test("a patient store waits for a standby that is gone, and warns", OPTIONS, async (t) => {
  const { primary, standby, url } = await startPair(t);
  const warnings = collectWarnings(t);
  await standby.stop("kill");
  const options = { url, databaseDeadlineMs: 1000 };
  await assert.rejects(openStore(t, options), { code: "io_error" });
  const opening = openStore(t, { ...options, isPatient: true });
  await until("an operator is warned", () =>
    warnings.some(({ message }) => /standby may be missing/.test(message)),
  );
  assert.equal(await Promise.race([opening, "waiting"]), "waiting");
  assert.ok((await primary.countSessions("wait_event = 'SyncRep'")) <= 2, "one probe for each");
  await standby.start();
  assert.ok((await opening).tokens.isReadable);
});
