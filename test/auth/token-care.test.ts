/** The token log after crashes, with many writers, after edits by hand, and with wrong clocks. */
import assert from "node:assert/strict";
import {
  appendFileSync,
  chmodSync,
  readFileSync,
  renameSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { type TestContext, test } from "node:test";
import { createToken, listTokens, revokeToken, TokenRegistry } from "../../src/index.ts";
import { makeFolder } from "../support/folders.ts";
import { judge, readTokenLog, tokenLogPath, writeTokenLog } from "../support/token-logs.ts";
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

test("an existing token log keeps its mode through every change", {
  skip: process.platform === "win32" ? "modes mean nothing here" : false,
}, async (t) => {
  for (const mode of [0o600, 0o640, 0o400]) {
    const folder = makeFolder(t);
    await createToken(folder, { name: "a" });
    chmodSync(tokenLogPath(folder), mode);
    if (mode === 0o400 && process.getuid?.() !== 0) continue; // only root can write to it
    await createToken(folder, { name: "b" });
    appendFileSync(tokenLogPath(folder), "torn");
    await revokeToken(folder, "a");
    assert.equal(statSync(tokenLogPath(folder)).mode & 0o777, mode);
  }
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

/** Times that a wrong clock, `cp -p` or `touch` may have left on the file. */
const TIMES: readonly [says: string, at: Date][] = [
  ["of 1971", new Date("1971-01-01T00:00:00Z")],
  ["of ten years ahead", new Date(Date.now() + 10 * YEAR_MS)],
];

for (const [says, at] of TIMES) {
  for (const clockMs of [-YEAR_MS, 0, YEAR_MS]) {
    test(`a change is noticed although the time stamp ${says}, and the clock is off by ${clockMs} ms`, async (t) => {
      const folder = makeFolder(t);
      const token = await createToken(folder, { name: "a" });
      utimesSync(tokenLogPath(folder), at, at);
      const { now } = Date;
      t.mock.method(Date, "now", () => now() + clockMs);
      const registry = await openRegistry(t, folder);
      for (const name of ["b", "c", "d"]) {
        const last = String.fromCharCode(name.charCodeAt(0) - 1);
        editInPlace(folder, readTokenLog(folder).replace(`"${last}"`, `"${name}"`), at);
        for (let look = 0; look < 2; look++) {
          await registry.refresh();
          assert.equal(judge(registry, token)?.name, name);
        }
      }
    });
  }
}

/** Writes as many bytes, and keeps the time stamp: only the time of the inode's last change (ctime) differs. */
function editInPlace(folder: string, content: string, at: Date): void {
  const changedAt = () => statSync(tokenLogPath(folder), { bigint: true }).ctimeNs;
  const before = changedAt();
  // Repeated until the system's clock has ticked, which it does every few milliseconds.
  for (let time = 0; time < 100_000 && changedAt() === before; time++) {
    writeTokenLog(folder, content);
    utimesSync(tokenLogPath(folder), at, at);
  }
}
