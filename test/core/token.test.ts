import assert from "node:assert/strict";
import { test } from "node:test";
import type { PlantStoreError } from "../../src/core/errors.ts";
import type { Scope } from "../../src/core/services.ts";
import { formatToken, hashToken, mergeTokens, type TokenRecord } from "../../src/core/token.ts";

test("a token is pst_ and its bytes in base64url", () => {
  const random = Buffer.from(Array.from({ length: 32 }, (_, at) => 255 - at));
  const token = formatToken(random);
  assert.match(token, /^pst_[A-Za-z0-9_-]{43}$/);
  assert.deepEqual(Buffer.from(token.slice(4), "base64url"), random);
});

// The digests of FIPS 180-2 and its one-block sample, so that another hash is noticed.
const DIGESTS: readonly [text: string, digest: string][] = [
  ["", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"],
  ["abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"],
];

for (const [text, digest] of DIGESTS) {
  test(`the hash of "${text}" is its SHA-256 in hexadecimal`, () => {
    assert.equal(hashToken(text), digest);
  });
}

const NOW = 1000;
const A = record("app", "a");

function record(name: string, digit: string, more: Partial<TokenRecord> = {}): TokenRecord {
  return { name, hash: digit.repeat(64), scopes: ["write"], createdAt: 1, ...more };
}

/** Merges whose tokens are one afterwards, and whether the import changed it. */
const MERGES: readonly [
  says: string,
  there: TokenRecord | undefined,
  given: TokenRecord,
  result: TokenRecord,
  isChanged: boolean,
][] = [
  ["a new token is added", undefined, A, A, true],
  ["a token that is there stays as it is", A, A, A, false],
  ["a token that is there is not revoked", A, { ...A, revokedAt: 5 }, A, false],
  ["a revoked token is not revived", { ...A, revokedAt: 5 }, A, { ...A, revokedAt: 5 }, false],
  [
    "a token that was revoked elsewhere is added as revoked",
    undefined,
    { ...A, revokedAt: 5 },
    { ...A, revokedAt: 5 },
    true,
  ],
];

for (const [says, there, given, result, isAdded] of MERGES) {
  test(`in an import, ${says}`, () => {
    const { merged, added } = mergeTokens(there === undefined ? [] : [there], [given], NOW);
    assert.deepEqual(merged, [result]);
    assert.deepEqual(added, isAdded ? [result] : []);
  });
}

/** Imports that are refused. */
const REFUSED: readonly [says: string, there: TokenRecord[], given: TokenRecord[]][] = [
  ["a live token of the same name", [A], [record("app", "b")]],
  ["two live tokens of one name", [], [A, record("app", "b")]],
];

for (const [says, there, given] of REFUSED) {
  test(`an import with ${says} is refused by name`, () => {
    assert.throws(() => mergeTokens(there, given, NOW), {
      code: "token_exists",
      message: new RegExp(`"${given.at(-1)?.name}"`),
    });
  });
}

test("a name may be that of expired and revoked tokens", () => {
  const there = [record("b", "b", { expiresAt: NOW }), record("c", "c", { revokedAt: 2 })];
  const given = ["b", "c"].map((name, at) => record(name, `${at}`));
  assert.deepEqual(mergeTokens(there, given, NOW).added, given);
});

test("two live tokens of one name that are there already do not keep an import from others", () => {
  const there = [A, record("app", "b")];
  assert.deepEqual(mergeTokens(there, [...there, record("c", "c")], NOW).added, [record("c", "c")]);
});

/** Records that would damage a token log. */
const IMPOSSIBLE: readonly Partial<TokenRecord>[] = [
  { name: "" },
  { name: "a b" },
  { hash: "f".repeat(63) },
  { hash: "F".repeat(64) },
  { scopes: ["admin" as Scope] },
  { createdAt: Number.NaN },
  { expiresAt: 1e20 },
  { revokedAt: Number.POSITIVE_INFINITY },
];

for (const members of IMPOSSIBLE) {
  test(`a record with ${JSON.stringify(members)} is not imported`, () => {
    assert.throws(
      () => mergeTokens([], [{ ...A, ...members }], NOW),
      (error) => error instanceof RangeError || (error as PlantStoreError).code === "corruption",
    );
  });
}
