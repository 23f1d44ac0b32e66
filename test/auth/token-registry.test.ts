/** A server's tokens follow the token file, and are refused while they cannot. */
import assert from "node:assert/strict";
import { mkdirSync, rmSync } from "node:fs";
import { suite, type TestContext, test } from "node:test";
import { createToken, revokeToken } from "../../src/auth/token-file.ts";
import { TokenRegistry } from "../../src/auth/token-registry.ts";
import { clock } from "../../src/clock.ts";
import type { PlantStoreError } from "../../src/core/errors.ts";
import { disk } from "../../src/log/disk.ts";
import { LogFile } from "../../src/log/file.ts";
import { makeFolder } from "../support/folders.ts";
import { runModule } from "../support/run.ts";
import { editTokens, judge, readTokens, replaceTokens, tokenPath } from "../support/stores.ts";
import { collectWarnings, until } from "../support/watch.ts";

/** A folder with one token, which a registry follows. */
async function follow(t: TestContext) {
  const folder = makeFolder(t);
  const token = await createToken(folder, { name: "app" });
  const registry = await TokenRegistry.open(folder);
  t.after(() => registry.close());
  return { folder, path: tokenPath(folder), token, registry };
}

/** Stops the clocks; the function that it returns has them pass. Timers run as before. */
function holdClocks(t: TestContext): (ms: number) => void {
  const [monotonicMs, wallMs] = [clock.monotonicMs(), Date.now()];
  let passedMs = 0;
  t.mock.method(clock, "monotonicMs", () => monotonicMs + passedMs);
  t.mock.method(Date, "now", () => wallMs + passedMs);
  return (ms) => {
    passedMs += ms;
  };
}

/** Changes after which the token is refused. */
const REVOCATIONS: readonly [says: string, revoke: (folder: string, path: string) => unknown][] = [
  ["is revoked", (folder) => revokeToken(folder, "app")],
  ["was in a file that is gone", (_, path) => rmSync(path)],
  ["is edited in place", (folder) => editTokens(folder, /"hash":"..../, '"hash":"beef')],
];

suite("a registry follows its file", { concurrency: true }, () => {
  for (const [says, revoke] of REVOCATIONS) {
    test(`a token that ${says} is refused, and one that is created then is accepted`, async (t) => {
      const { folder, path, token, registry } = await follow(t);
      const verdict = judge(registry, token);
      assert.deepEqual([verdict?.name, verdict?.scopes], ["app", ["write"]]);
      await revoke(folder, path);
      await until("it is refused", () => judge(registry, token) === undefined);
      const other = await createToken(folder, { name: "job" });
      await until("the other is accepted", () => judge(registry, other)?.name === "job");
    });
  }

  test("an accepted token has the scopes that the file has now", async (t) => {
    const { folder, token, registry } = await follow(t);
    assert.deepEqual(judge(registry, token)?.scopes, ["write"]);
    editTokens(folder, "write", "read");
    await registry.refresh();
    assert.deepEqual(judge(registry, token)?.scopes, ["read"]);
  });

  test("a registry keeps no process alive", async (t) => {
    const { folder } = await follow(t);
    const file = import.meta.resolve("../../src/auth/token-registry.ts");
    const program = `(await import("${file}")).TokenRegistry.open(${JSON.stringify(folder)})`;
    assert.equal((await runModule(program)).status, 0);
  });
});

test("the tokens of a damaged file count until they are 2 s old, with one warning", async (t) => {
  const pass = holdClocks(t);
  const { folder, path, token, registry } = await follow(t);
  const warnings = collectWarnings(t, path);
  const good = readTokens(folder);
  replaceTokens(folder, `${good}damage\n`);
  await assert.rejects(TokenRegistry.open(folder), { code: "corruption" });
  pass(1999);
  for (let poll = 0; poll < 2; poll++) await registry.refresh();
  assert.equal(judge(registry, token)?.name, "app");
  const codes = warnings.map(({ cause }) => (cause as PlantStoreError).code);
  assert.deepEqual(codes, ["corruption"]);
  pass(1);
  assert.throws(() => registry.verify("pst_guess"), { code: "tokens_unreadable" });
  await assert.rejects(async () => registry.verify(token), { code: "tokens_unreadable" });
  replaceTokens(folder, good);
  assert.equal((await registry.verify(token))?.name, "app");
});

test("a registry does not open a file that it cannot read", async (t) => {
  const folder = makeFolder(t);
  mkdirSync(tokenPath(folder));
  await assert.rejects(TokenRegistry.open(folder), { code: "io_error" });
});

test("a registry does not open a file that the disk cannot sync", async (t) => {
  const { folder } = await follow(t);
  t.mock.method(LogFile.prototype, "sync", () => Promise.reject(new Error("EIO: i/o error")));
  await assert.rejects(TokenRegistry.open(folder), { code: "unsynced" });
});

test("tokens are as old as the beginning of the read that found them", async (t) => {
  const pass = holdClocks(t);
  const { token, registry } = await follow(t);
  const { readFile } = disk;
  const { mock } = t.mock.method(disk, "readFile", (path: string) => {
    pass(2000); // the process is frozen, or the disk hangs
    return readFile(path);
  });
  await registry.refresh();
  assert.throws(() => registry.verify("pst_guess"), { code: "tokens_unreadable" });
  mock.restore();
  assert.equal((await registry.verify(token))?.name, "app");
});
