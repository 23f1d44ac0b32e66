import assert from "node:assert/strict";
import { test } from "node:test";
import { generateToken, hashToken } from "../../src/auth/token.ts";

test("a token is pst_ and 256 bits in base64url", () => {
  for (let n = 0; n < 100; n++) {
    const token = generateToken();
    assert.match(token, /^pst_[A-Za-z0-9_-]{43}$/);
    assert.equal(Buffer.from(token.slice(4), "base64url").length, 32);
  }
});

test("no two tokens are the same", () => {
  const tokens = Array.from({ length: 10_000 }, generateToken);
  assert.equal(new Set(tokens).size, tokens.length);
});

test("every bit of a token is random: each is set in about half of them", () => {
  const counts = new Array<number>(256).fill(0);
  for (let n = 0; n < 1000; n++) {
    const bytes = Buffer.from(generateToken().slice(4), "base64url");
    for (let bit = 0; bit < 256; bit++) {
      counts[bit] = (counts[bit] ?? 0) + (((bytes[bit >> 3] ?? 0) >> (bit & 7)) & 1);
    }
  }
  // 10 standard deviations: a fair bit leaves this range once in 10^22 runs.
  for (const count of counts) assert.ok(count > 340 && count < 660);
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
