/** The form, the hash and the record of a token. The rules of changes: test/auth. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  decodeTokenRecord,
  encodeTokenRecord,
  formatToken,
  hashToken,
  isLive,
  selectNew,
  type TokenRecord,
} from "../../src/core/token.ts";

test("a token is pst_ and its bytes in base64url, and its hash the SHA-256 in hexadecimal", () => {
  const random = Buffer.from(Array.from({ length: 32 }, (_, at) => 255 - at));
  const token = formatToken(random);
  assert.match(token, /^pst_[A-Za-z0-9_-]{43}$/);
  assert.deepEqual(Buffer.from(token.slice(4), "base64url"), random);
  const digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"; // FIPS 180-2
  assert.equal(hashToken("abc"), digest);
});

const HASH = "a".repeat(64);
const APP: TokenRecord = { name: "app", hash: HASH, scopes: ["read", "write"], createdAt: 0 };

const LIVES: readonly [more: Partial<TokenRecord>, now: number, isLive: boolean][] = [
  [{}, 8.64e15, true],
  [{ expiresAt: 1000 }, 999, true],
  [{ expiresAt: 1000 }, 1000, false],
  [{ revokedAt: -1000 }, 0, false],
  [{ expiresAt: 1000, revokedAt: 0 }, 999, false],
];

for (const [more, now, expected] of LIVES) {
  test(`a token with ${JSON.stringify(more)} is ${expected ? "" : "not "}live at ${now}, even after it was written and read`, () => {
    const record = { ...APP, ...more };
    assert.equal(isLive(record, now), expected);
    assert.deepEqual(decodeTokenRecord(encodeTokenRecord(record)), record);
  });
}

test("a record with an impossible member is not imported", () => {
  const times = [{ createdAt: Number.NaN }, { expiresAt: 1e20 }, { revokedAt: Infinity }];
  for (const more of [...times, { name: "a b" }, { hash: "F".repeat(64) }, { scopes: [] }]) {
    assert.throws(() => selectNew([], [{ ...APP, ...more }], 0), { code: "corruption" });
  }
});

test("an import refuses two live tokens of one name, and writes a repeated hash once", () => {
  const other = { ...APP, hash: "b".repeat(64) };
  assert.throws(() => selectNew([], [APP, other], 0), { code: "token_exists" });
  assert.deepEqual(selectNew([], [APP, APP], 0), [APP]);
  assert.deepEqual(selectNew([APP, other], [APP, other], 0), []);
});
