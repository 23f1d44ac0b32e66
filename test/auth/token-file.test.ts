/** The file `tokens.jsonl`: what a change writes, what is damage, and what no damage may do. */
import assert from "node:assert/strict";
import { statSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import {
  createFirstToken,
  createToken,
  importTokens,
  listTokens,
  parseTokenFile,
  revokeToken,
} from "../../src/auth/token-file.ts";
import type { PlantStoreError } from "../../src/core/errors.ts";
import { encodeTokenRecord, hashToken, isLive, type TokenRecord } from "../../src/core/token.ts";
import { disk } from "../../src/log/disk.ts";
import { DAMAGE } from "../cases/tokens.ts";
import { makeFolder } from "../support/folders.ts";
import { readTokens, tokenPath, writeTokens } from "../support/stores.ts";

test("a token is one line with its hash, in a file and a folder for its owner alone", async (t) => {
  const folder = join(makeFolder(t), "deep", "data");
  const [now, expiresAt] = [Date.now(), Date.UTC(2100, 0)];
  const token = await createToken(folder, { name: "ci", scopes: ["read", "write"], expiresAt });
  await createToken(folder, { name: "b" });
  await revokeToken(folder, "b");
  assert.match(token, /^pst_[\w-]{43}$/);
  const [line = "", ...rest] = readTokens(folder).split("\n");
  const created = /"createdAt":"(.*?Z)"/.exec(line) ?? [];
  assert.ok(Date.parse(created[1] ?? "") >= now);
  const start = `{"name":"ci","hash":"${hashToken(token)}","scopes":["read","write"]`;
  assert.equal(line, `${start},${created[0]},"expiresAt":"2100-01-01T00:00:00.000Z"}`);
  assert.match(rest.join("\n"), /^{"name":"b",.*,"revokedAt":"[^"]*"}\n$/);
  const modes = [tokenPath(folder), folder].map((path) => statSync(path).mode & 0o777);
  assert.deepEqual(modes, [0o600, 0o700]);
});

test("concurrent commands all take effect, and of two that create one name, one fails", async (t) => {
  const folder = makeFolder(t);
  await createToken(folder, { name: "old" });
  const names = ["a", "b", "c", "d", "d"];
  const made = names.map((name) => createToken(folder, { name }));
  const done = await Promise.allSettled([...made, revokeToken(folder, "old")]);
  const codes = done.map((outcome) => outcome.status === "rejected" && outcome.reason.code);
  assert.deepEqual(codes.filter(Boolean), ["token_exists"]);
  const listed = await listTokens(folder);
  assert.deepEqual(listed.map(({ name }) => name).sort(), ["a", "b", "c", "d", "old"]);
  assert.equal(listed.filter(({ revokedAt }) => revokedAt !== undefined).length, 1);
});

test("a token file that an editor wrote with spaces, blank lines and CRLF is read", async (t) => {
  const folder = makeFolder(t);
  for (const name of ["a", "b"]) await createToken(folder, { name });
  const before = readTokens(folder);
  writeTokens(folder, `\n${before.replaceAll(",", ", ").replaceAll("\n", "\r\n\n").trimEnd()}`);
  await createToken(folder, { name: "c" });
  assert.ok(readTokens(folder).startsWith(`${before}{"name":"c"`), "it is written anew");
});

async function makeTwo(t: TestContext): Promise<string> {
  const folder = makeFolder(t);
  for (const name of ["a", "b"]) await createToken(folder, { name });
  await revokeToken(folder, "b");
  return folder;
}

for (const [says, edit, line] of DAMAGE) {
  test(`with ${says} in the token file every command fails, and changes nothing`, async (t) => {
    const folder = await makeTwo(t);
    const damaged = edit(readTokens(folder));
    writeTokens(folder, damaged);
    const expected = { code: "corruption", message: new RegExp(`line ${line}\\b`) };
    await assert.rejects(listTokens(folder), expected);
    await assert.rejects(createToken(folder, { name: "c" }), expected);
    await assert.rejects(createFirstToken(folder, { name: "c" }), expected);
    await assert.rejects(revokeToken(folder, "a"), expected);
    await assert.rejects(importTokens(folder, []), expected);
    assert.equal(readTokens(folder), damaged);
  });
}

test("a token command that changes nothing still syncs the folder", async (t) => {
  const folder = await makeTwo(t);
  const { mock } = t.mock.method(disk, "syncFolder");
  await assert.rejects(revokeToken(folder, "b"), { code: "token_unknown" });
  await assert.rejects(createToken(folder, { name: "a" }), { code: "token_exists" });
  await listTokens(folder);
  const synced = mock.calls.map((call) => call.arguments[0]);
  assert.deepEqual(synced, [folder, folder, folder]);
});

test("with any bit of the token file flipped no dead token is live, except with another expiry", () => {
  const [now, later] = [Date.UTC(2026, 10, 29), Date.UTC(2026, 10, 30)];
  const lives = [{}, { revokedAt: now }, { expiresAt: now }, { expiresAt: now, revokedAt: now }];
  const records = [...lives, ...lives].map((life, at): TokenRecord => {
    const name = `app-${at % 3}`; // so that it is that of a live token, too
    return { name, hash: hashToken(`${at}`), scopes: ["read", "write"], createdAt: now, ...life };
  });
  const dead = new Map(records.filter((it) => !isLive(it, later)).map((it) => [it.hash, it]));
  const file = Buffer.from(records.map((record) => `${encodeTokenRecord(record)}\n`).join(""));
  let damaged = 0;
  for (let bit = 0; bit < file.length * 8; bit++) {
    const bytes = Buffer.from(file);
    bytes[bit >> 3] = (file[bit >> 3] ?? 0) ^ (1 << (bit & 7));
    try {
      const live = parseTokenFile("f", bytes).filter((it) => isLive(it, later));
      for (const { hash, expiresAt = 0 } of live.filter((it) => dead.has(it.hash))) {
        assert.ok(dead.get(hash)?.revokedAt === undefined && expiresAt > later, `bit ${bit}`);
      }
    } catch (error) {
      assert.equal((error as PlantStoreError).code, "corruption");
      damaged++;
    }
  }
  assert.ok(damaged > file.length * 4);
});
