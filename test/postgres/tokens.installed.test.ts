/** Tokens of several servers, and while a primary is lost or replaced. Their contract is in test/auth. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { collectWarnings, until } from "../support/watch.ts";
import { OPTIONS, openStore, SharedCluster, sabotageDriver, startPair } from "./stores.ts";

const cluster = new SharedCluster();

/** A database, the URL of its owner, and the tokens as its owner changes them. */
async function openGarden(t: TestContext) {
  const { cluster: server, database, url } = await cluster.createStore();
  const ownerUrl = server.url(database);
  return { url, ownerUrl, operator: (await openStore(t, { url: ownerUrl })).tokenTable };
}

test("a revocation is obeyed by every server within a second", OPTIONS, async (t) => {
  const { operator, url } = await openGarden(t);
  const checks = [(await openStore(t, { url })).tokens, (await openStore(t, { url })).tokens];
  for (let round = 0; round < 5; round++) {
    const token = await operator.create({ name: "app" });
    await Promise.all(checks.map((check) => check.refresh()));
    for (const check of checks) assert.ok(await check.verify(token));
    await operator.revoke("app");
    await sleep(1000);
    for (const check of checks) assert.equal(check.verify(token), undefined);
    await sleep(Math.random() * 500);
  }
});

test("if two operators create a token of one name at once, one succeeds", OPTIONS, async (t) => {
  const { ownerUrl, operator } = await openGarden(t);
  const { tokenTable: other } = await openStore(t, { url: ownerUrl });
  for (let round = 0; round < 10; round++) {
    const creates = [operator, other].map((each) => each.create({ name: `app${round}` }));
    const codes = await Promise.all(creates.map((each) => each.catch(({ code }) => code)));
    assert.equal(codes.filter((code) => code === "token_exists").length, 1);
  }
  assert.equal((await operator.list()).length, 10);
});

test("a change whose response is lost is made once", OPTIONS, async (t) => {
  const { ownerUrl, operator } = await openGarden(t);
  let mayLose = false;
  const pg = await sabotageDriver({
    async send(_client, sql, send) {
      const result = await send();
      if (sql !== "COMMIT" || !mayLose) return result;
      mayLose = false;
      throw new Error("closed");
    },
  });
  const { tokenTable } = await openStore(t, { url: ownerUrl, pg });
  for (const change of [
    () => tokenTable.create({ name: "app", scopes: ["read"] }),
    () => tokenTable.import([{ name: "b", hash: "b".repeat(64), scopes: ["read"], createdAt: 1 }]),
    () => tokenTable.revoke("app"),
  ]) {
    mayLose = true;
    await change();
    assert.equal(mayLose, false);
  }
  const listed = (await operator.list()).map(({ name, revokedAt }) => `${name} ${revokedAt ?? ""}`);
  assert.match(listed.join(), /^b ,app \d+$/);
});

test("a replaced primary no longer decides about tokens", OPTIONS, async (t) => {
  const { primary, standby } = await startPair(t);
  const { tokenTable } = await openStore(t, { url: primary.url("garden") });
  const token = await tokenTable.create({ name: "app" });
  const options = { url: primary.url("garden", "plant_store"), databaseDeadlineMs: 1000 };
  const deposed = await openStore(t, options);
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
  await standby.stop("SIGKILL");
  const options = { url, databaseDeadlineMs: 1000 };
  await assert.rejects(openStore(t, options), { code: "io_error" });
  const opening = openStore(t, { ...options, isPatient: true });
  const isWarned = () => warnings.some(({ message }) => /standby may be missing/.test(message));
  await until("an operator is warned", isWarned);
  assert.equal(await Promise.race([opening, "waiting"]), "waiting");
  assert.ok((await primary.countSessions("wait_event = 'SyncRep'")) <= 2, "one probe for each");
  await standby.start();
  assert.ok((await opening).tokens.isReadable);
});
