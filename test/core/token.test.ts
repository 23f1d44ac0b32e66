import assert from "node:assert/strict";
import { test } from "node:test";
import { formatToken, hashToken } from "../../src/core/token.ts";

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
