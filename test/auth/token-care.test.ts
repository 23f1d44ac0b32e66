/** The token log after crashes, with many writers, after edits by hand, and with wrong clocks. */
import assert from "node:assert/strict";
import { appendFileSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { type TestContext, test } from "node:test";
import { createToken, listTokens, revokeToken, TokenRegistry } from "../../src/index.ts";
import { makeFolder } from "../support/folders.ts";
import { judge, readTokenLog, tokenLogPath } from "../support/token-logs.ts";
import { collectWarnings } from "../support/watch.ts";

async function openRegistry(t: TestContext, folder: string): Promise<TokenRegistry> {
  const registry = await TokenRegistry.open(folder);
  t.after(() => registry.close());
  return registry;
}

/** What a crash may leave after the last line feed. */
const TAILS: readonly [says: string, tail: string][] = [
  ["one NUL byte", "\0"],
  ["a page of NUL bytes", "\0".repeat(4096)],
  ["the beginning of a line and NUL bytes", `{"event":"rev${"\0".repeat(600)}`],
  ["the beginning of a line", '{"event":"revoked","name":"a"'],
];

for (const [says, tail] of TAILS) {
  test(`the tail of a token log that ends in ${says} is ignored, and the next change moves it to quarantine`, async (t) => {
    const folder = makeFolder(t);
    const token = await createToken(folder, { name: "a" });
    const whole = readTokenLog(folder);
    appendFileSync(tokenLogPath(folder), tail);
    const registry = await openRegistry(t, folder);
    assert.equal(judge(registry, token)?.name, "a");
    assert.equal(readTokenLog(folder), whole + tail, "reading changes nothing");

    const warnings = collectWarnings(t);
    const second = await createToken(folder, { name: "b" });
    assert.equal(warnings.length, 1);
    assert.equal(readFileSync(`${tokenLogPath(folder)}.quarantine-1`, "utf8"), tail);
    await registry.refresh();
    assert.equal(judge(registry, token)?.name, "a");
    assert.equal(judge(registry, second)?.name, "b");
  });
}

test("a change after the token log was replaced by a rename is written to the new file", async (t) => {
  const folder = makeFolder(t);
  const first = await createToken(folder, { name: "a" });
  const registry = await openRegistry(t, folder);
  for (const name of ["b", "c"]) {
    const copy = `${tokenLogPath(folder)}.edited`;
    writeFileSync(copy, readTokenLog(folder), { mode: 0o600 });
    renameSync(copy, tokenLogPath(folder));
    const token = await createToken(folder, { name });
    await registry.refresh();
    assert.equal(judge(registry, token)?.name, name);
  }
  assert.equal(judge(registry, first)?.name, "a");
  assert.deepEqual(
    (await listTokens(folder)).map(({ name }) => name),
    ["a", "b", "c"],
  );
});

const YEAR_MS = 365 * 24 * 3_600_000;

/** How far the clock jumps between two changes. */
const JUMPS: readonly [says: string, byMs: number][] = [
  ["set back by a year", -YEAR_MS],
  ["set back by an hour", -3_600_000],
  ["set forward by a year", YEAR_MS],
];

for (const [says, byMs] of JUMPS) {
  test(`with a clock ${says}, the order of the lines decides which tokens are live`, async (t) => {
    const folder = makeFolder(t);
    const first = await createToken(folder, { name: "a" });
    const kept = await createToken(folder, { name: "kept" });
    const registry = await openRegistry(t, folder);
    const { now } = Date;
    t.mock.method(Date, "now", () => now() + byMs);

    await assert.rejects(createToken(folder, { name: "a" }), { code: "token_exists" });
    await revokeToken(folder, "a");
    const second = await createToken(folder, { name: "a" });
    await registry.refresh();
    assert.equal(judge(registry, first), undefined, "revoked, although its time is earlier");
    assert.equal(judge(registry, second)?.name, "a");
    assert.equal(judge(registry, kept)?.name, "kept");
    await revokeToken(folder, "a");
    await registry.refresh();
    assert.equal(judge(registry, second), undefined);
  });
}
