/** Imports of tokens into a data directory. */
import assert from "node:assert/strict";
import { existsSync, truncateSync } from "node:fs";
import { test } from "node:test";
import {
  createToken,
  listTokens,
  revokeToken,
  type TokenRecord,
  TokenRegistry,
} from "../../src/index.ts";
import { importTokens } from "../../src/tools.ts";
import { makeFolder } from "../support/folders.ts";
import { judge, readTokenLog, tokenLogPath, writeTokenLog } from "../support/token-logs.ts";
import { until } from "../support/watch.ts";

function record(name: string, at: number, more: Partial<TokenRecord> = {}): TokenRecord {
  return {
    name,
    hash: at.toString(16).padStart(64, "0"),
    scopes: ["write"],
    createdAt: at,
    ...more,
  };
}

const RECORDS = [
  record("app", 1, { revokedAt: 2 }),
  record("app", 3, { expiresAt: 4 }),
  record("app", 5, { scopes: ["read", "write"] }),
  record("nothing", 6, { scopes: [] }),
];

test("imported tokens are listed as they were, oldest first, and a repeat writes nothing", async (t) => {
  const folder = makeFolder(t);
  assert.equal(await importTokens(folder, [...RECORDS].reverse()), 4);
  assert.deepEqual(await listTokens(folder), RECORDS);
  const log = readTokenLog(folder);
  assert.equal(await importTokens(folder, RECORDS), 0);
  assert.equal(readTokenLog(folder), log);
});

test("an import is one line of the log, so that a part of it is no import", async (t) => {
  const folder = makeFolder(t);
  await createToken(folder, { name: "first" });
  const before = readTokenLog(folder);
  await importTokens(folder, RECORDS);
  const whole = readTokenLog(folder).length;
  for (const bytes of [before.length + 1, Math.floor((before.length + whole) / 2), whole - 2]) {
    writeTokenLog(folder, before);
    await importTokens(folder, RECORDS);
    truncateSync(tokenLogPath(folder), bytes);
    assert.equal((await listTokens(folder)).length, 1, `${bytes} bytes`);
    assert.equal(await importTokens(folder, RECORDS), 4, "once more");
    assert.equal((await listTokens(folder)).length, 5);
  }
});

test("a registry accepts what was imported, and a token that is there stays as it is", async (t) => {
  const [source, target] = [makeFolder(t), makeFolder(t)];
  const tokens = {
    app: await createToken(source, { name: "app" }),
    old: await createToken(source, { name: "old" }),
  };
  await importTokens(target, await listTokens(source));
  const registry = await TokenRegistry.open(target);
  t.after(() => registry.close());
  assert.ok(judge(registry, tokens.app) && judge(registry, tokens.old));
  await revokeToken(target, "old");
  assert.equal(await importTokens(target, await listTokens(source)), 0);
  await until("the token is refused", () => judge(registry, tokens.old) === undefined);
  assert.ok(judge(registry, tokens.app));
});

test("an import that is refused changes nothing", async (t) => {
  const folder = makeFolder(t);
  await importTokens(folder, [record("app", 5)]);
  const log = readTokenLog(folder);
  const given = [record("new", 1), record("app", 6)];
  await assert.rejects(importTokens(folder, given), { code: "token_exists" });
  assert.equal(readTokenLog(folder), log);
});

test("an undefined member is absent, and a time that no date has is refused by name", async (t) => {
  const folder = makeFolder(t);
  const none = { expiresAt: undefined, revokedAt: undefined } as unknown as Partial<TokenRecord>;
  assert.equal(await importTokens(folder, [record("app", 5, none)]), 1);
  assert.deepEqual(await listTokens(folder), [record("app", 5)]);
  for (const time of [Number.NaN, 8.64e15 + 1, null, "2026-01-01"]) {
    const given = [record("late", 6, { expiresAt: time as number })];
    const expected = { name: "RangeError", message: /token "late": expiresAt: expected milli/ };
    await assert.rejects(importTokens(folder, given), expected);
  }
  await assert.rejects(createToken(folder, { name: "late", expiresAt: Infinity }), RangeError);
});

test("tokens that are created during an import are kept", async (t) => {
  const folder = makeFolder(t);
  const names = Array.from({ length: 5 }, (_, at) => `app${at}`);
  await Promise.all([
    ...names.map((name) => createToken(folder, { name })),
    importTokens(folder, RECORDS),
  ]);
  assert.equal((await listTokens(folder)).length, names.length + RECORDS.length);
});

test("ten thousand tokens are imported and followed", async (t) => {
  const folder = makeFolder(t);
  const token = await createToken(folder, { name: "app" });
  const registry = await TokenRegistry.open(folder);
  t.after(() => registry.close());
  const many = Array.from({ length: 10_000 }, (_, at) => record(`app${at}`, at));
  await importTokens(folder, many);
  await registry.refresh();
  await until("all are known", () => registry.list().length === 10_001);
  assert.ok(judge(registry, token));
});

test("an import into a folder that is missing makes it; one of nothing writes nothing", async (t) => {
  const folder = `${makeFolder(t)}/new`;
  assert.equal(await importTokens(folder, []), 0);
  assert.ok(existsSync(folder));
  assert.equal(readTokenLog(folder), "");
});

test("an imported line that lacks its line feed counts", async (t) => {
  const folder = makeFolder(t);
  await importTokens(folder, RECORDS);
  truncateSync(tokenLogPath(folder), readTokenLog(folder).length - 1);
  assert.deepEqual(await listTokens(folder), RECORDS);
  await createToken(folder, { name: "later" });
  assert.equal((await listTokens(folder)).length, 5);
});
