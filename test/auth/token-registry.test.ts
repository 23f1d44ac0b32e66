import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite, type TestContext, test } from "node:test";
import { clock } from "../../src/clock.ts";
import { createToken, PlantStoreError, revokeToken, TokenRegistry } from "../../src/index.ts";
import { runCli } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { judge, readTokenLog, tokenLogPath, writeTokenLog } from "../support/token-logs.ts";
import { collectWarnings, until } from "../support/watch.ts";

async function openRegistry(t: TestContext, folder: string): Promise<TokenRegistry> {
  const registry = await TokenRegistry.open(folder);
  t.after(() => registry.close());
  return registry;
}

/** The line that creates a token, for logs written by hand. */
function createdLine(name: string, token: string): string {
  const hash = createHash("sha256").update(token).digest("hex");
  const createdAt = "2026-01-01T00:00:00.000Z";
  return `${JSON.stringify({ event: "created", name, hash, scopes: ["write"], createdAt })}\n`;
}

function inventToken(): string {
  return `pst_${randomBytes(32).toString("base64url")}`;
}

test("verify() returns the name and scopes of a live token, and nothing else", async (t) => {
  const folder = makeFolder(t);
  const token = await createToken(folder, { name: "ci", scopes: ["read", "write"] });
  const registry = await openRegistry(t, folder);
  assert.deepEqual(judge(registry, token), { name: "ci", scopes: ["read", "write"] });
});

test("a text that differs from a live token in one character is refused", async (t) => {
  const folder = makeFolder(t);
  const token = await createToken(folder, { name: "ci" });
  const revoked = await createToken(folder, { name: "old" });
  await revokeToken(folder, "old");
  const registry = await openRegistry(t, folder);
  const hash = createHash("sha256").update(token).digest("hex");
  const last = token.at(-1) === "A" ? "E" : "A";
  const others = [
    "",
    "ci",
    hash,
    revoked,
    inventToken(),
    token.toUpperCase(),
    token.slice(4),
    token.slice(0, -1),
    token.slice(0, -1) + last,
    `${token} `,
    `${token}=`,
    `${token}\n`,
    "constructor",
    "__proto__",
  ];
  for (const other of others) assert.equal(judge(registry, other), undefined, other);
});

// Concurrent, because each test waits for the registry to look at its file.
suite("a registry follows its file", { concurrency: true }, () => {
  test("the first token of an empty folder is accepted without a restart", async (t) => {
    const folder = makeFolder(t);
    const registry = await openRegistry(t, folder);
    const token = await createToken(folder, { name: "a" });
    await until("the token is known", () => judge(registry, token)?.name === "a");
  });

  test("a token that another process creates is accepted, and refused after its revocation", async (t) => {
    const folder = makeFolder(t);
    const registry = await openRegistry(t, folder);
    const created = await runCli(["token", "create", "a", "--data", folder]);
    const token = /pst_[A-Za-z0-9_-]{43}/.exec(created.stdout)?.[0] ?? "";
    assert.notEqual(token, "", created.stderr);
    await until("the token is known", () => judge(registry, token)?.name === "a");
    const revoked = await runCli(["token", "revoke", "a", "--data", folder]);
    assert.equal(revoked.status, 0, revoked.stderr);
    await until("the revocation is in force", () => judge(registry, token) === undefined);
  });

  test("a file renamed over the log, as editors save, is noticed", async (t) => {
    const folder = makeFolder(t);
    const before = await createToken(folder, { name: "a" });
    const registry = await openRegistry(t, folder);
    const after = inventToken();
    const saved = join(folder, "saved");
    writeFileSync(saved, createdLine("b", after));
    renameSync(saved, tokenLogPath(folder));
    await until("the new file is in force", () => judge(registry, after)?.name === "b");
    assert.equal(judge(registry, before), undefined);
  });

  test("an empty log means no tokens", async (t) => {
    const folder = makeFolder(t);
    const token = await createToken(folder, { name: "a" });
    const registry = await openRegistry(t, folder);
    writeTokenLog(folder, "");
    await until("there are no tokens", () => judge(registry, token) === undefined);
  });

  test("a log that is damaged for a moment keeps its tokens, logs one warning, and is followed once it is repaired", async (t) => {
    const folder = makeFolder(t);
    const warnings = collectWarnings(t, folder);
    const token = await createToken(folder, { name: "a" });
    const good = readTokenLog(folder);
    const registry = await openRegistry(t, folder);

    writeTokenLog(folder, `damage\n${good}`);
    await until("a warning is given", () => warnings.length > 0);
    const { message = "", cause } = warnings[0] ?? {};
    assert.ok(message.includes(tokenLogPath(folder)));
    assert.ok(cause instanceof PlantStoreError && cause.code === "corruption");
    assert.ok(!message.includes(cause.message), "the cause is shown with it");
    // On a machine that is busy the moment may already be over: then no token is judged.
    if (registry.isReadable) assert.equal((await registry.verify(token))?.name, "a");

    const added = inventToken();
    writeTokenLog(folder, good + createdLine("b", added));
    await registry.refresh();
    assert.equal(judge(registry, added)?.name, "b");
    assert.equal(judge(registry, token)?.name, "a");
    assert.equal(warnings.length, 1);
  });

  test("a registry refuses to open a damaged log", async (t) => {
    const folder = makeFolder(t);
    writeTokenLog(folder, "damage\n");
    await assert.rejects(TokenRegistry.open(folder), { code: "corruption" });
  });

  test("a closed registry no longer follows the file, and accepts no token 2 s later", async (t) => {
    const folder = makeFolder(t);
    const token = await createToken(folder, { name: "a" });
    const closed = await openRegistry(t, folder);
    const open = await openRegistry(t, folder);
    closed.close();
    closed.close();
    await revokeToken(folder, "a");
    await closed.refresh();
    await open.refresh();
    assert.deepEqual([judge(closed, token)?.name, judge(open, token)], ["a", undefined]);
    const { steadyMs } = clock;
    const mocked = t.mock.method(clock, "steadyMs", () => steadyMs() + 2000);
    assert.throws(() => closed.verify(token), { code: "tokens_unreadable" });
    mocked.mock.restore(); // other tests run at the same time
  });
});
