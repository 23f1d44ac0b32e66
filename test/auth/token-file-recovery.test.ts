import assert from "node:assert/strict";
import { appendFileSync, existsSync, writeFileSync } from "node:fs";
import { test } from "node:test";
import { createFirstToken, createToken, listTokens, revokeToken } from "../../src/index.ts";
import { makeFolder } from "../support/folders.ts";
import { readTokenLog, tokenLogPath, writeTokenLog } from "../support/token-logs.ts";

const REVOCATION = '{"event":"revoked","name":"a","revokedAt":"2026-01-01T00:00:00.000Z"}';

for (const [says, end] of [
  ["lacks only its line feed", ""],
  ["has a zero where a power cut lost its line feed", "\0"],
]) {
  test(`a last line that ${says} counts, and the next change completes it`, async (t) => {
    const folder = makeFolder(t);
    await createToken(folder, { name: "a" });
    const before = readTokenLog(folder) + REVOCATION;
    appendFileSync(tokenLogPath(folder), REVOCATION + end);

    assert.notEqual((await listTokens(folder))[0]?.revokedAt, undefined);
    assert.equal(readTokenLog(folder), before + end);

    // The change itself sees the revocation, too: the name is free.
    await createToken(folder, { name: "a" });
    assert.ok(readTokenLog(folder).startsWith(`${before}\n{`));
    assert.equal(existsSync(`${tokenLogPath(folder)}.quarantine-1`), false);
    assert.deepEqual(
      (await listTokens(folder)).map(({ revokedAt }) => revokedAt !== undefined),
      [true, false],
    );
  });
}

const READABLE: readonly [says: string, edit: (log: string) => string][] = [
  ["blank lines", (log) => `\n${log}\n  \n`],
  ["lines that end in CRLF", (log) => log.replaceAll("\n", "\r\n")],
  ["a blank end without a line feed", (log) => `${log}  `],
];

for (const [says, edit] of READABLE) {
  test(`a token log with ${says} is read and changed as before`, async (t) => {
    const folder = makeFolder(t);
    await createToken(folder, { name: "a" });
    await createToken(folder, { name: "b" });
    writeTokenLog(folder, edit(readTokenLog(folder)));
    assert.equal((await listTokens(folder)).length, 2);
    await revokeToken(folder, "a");
    await createToken(folder, { name: "c" });
    assert.deepEqual(
      (await listTokens(folder)).map(({ name, revokedAt }) => [name, revokedAt !== undefined]),
      [
        ["a", true],
        ["b", false],
        ["c", false],
      ],
    );
  });
}

test("a damaged line makes every use fail with path, line and byte, and nothing is changed", async (t) => {
  const folder = makeFolder(t);
  await createToken(folder, { name: "a" });
  const firstLine = readTokenLog(folder);
  const damaged = `${firstLine}damage\n${REVOCATION}\n`;
  writeTokenLog(folder, damaged);

  const uses = [
    () => listTokens(folder),
    () => createToken(folder, { name: "b" }),
    () => createFirstToken(folder, { name: "b" }),
    () => revokeToken(folder, "a"),
  ];
  for (const use of uses) {
    await assert.rejects(use(), (error: Error & { code?: string }) => {
      assert.equal(error.code, "corruption");
      assert.ok(error.message.includes(tokenLogPath(folder)));
      assert.match(error.message, new RegExp(`\\b2\\b.*\\b${firstLine.length}\\b`));
      return true;
    });
  }
  assert.equal(readTokenLog(folder), damaged);
});

test("a change of a token removes the unfinished copy that a killed process left", async (t) => {
  const folder = makeFolder(t);
  await createToken(folder, { name: "a" });
  writeFileSync(`${tokenLogPath(folder)}.repaired`, '{"event":"cre');
  await createToken(folder, { name: "b" });
  assert.equal(existsSync(`${tokenLogPath(folder)}.repaired`), false);
});
