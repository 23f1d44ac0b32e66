/** Exact integers; which spellings of ids are accepted is tested over HTTP (http/contract). */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { INT64_MAX, INT64_MIN, parseInt64 } from "../../src/core/json.ts";

const NO_NUMBERS = [
  "",
  "-",
  "+1",
  "01",
  ".5",
  "5.",
  "1e",
  " 1",
  "1\n",
  "0x10",
  "1_000",
  "NaN",
  '"7"',
  "٣",
];

for (const text of NO_NUMBERS) {
  test(`parseInt64() refuses ${JSON.stringify(text)}`, () => {
    assert.equal(parseInt64(text), undefined);
  });
}

test("parseInt64() is the inverse of String() on every int64", () => {
  fc.assert(
    fc.property(fc.bigInt({ min: INT64_MIN, max: INT64_MAX }), (value) => {
      assert.equal(parseInt64(String(value)), value);
    }),
  );
});

test("parseInt64() agrees with exact arithmetic on any digits and exponent", () => {
  const digits = fc.stringMatching(/^[0-9]{1,25}$/);
  const spelling = fc.tuple(fc.boolean(), digits, digits, fc.integer({ min: -45, max: 45 }));
  fc.assert(
    fc.property(spelling, ([isNegative, integer, fraction, exponent]) => {
      const whole = integer.replace(/^0+(?=.)/, "");
      const text = `${isNegative ? "-" : ""}${whole}.${fraction}e${exponent}`;
      // The value times 10^100 is an integer in every spelling.
      const scaled =
        BigInt(`${isNegative ? "-" : ""}${whole}${fraction}`) *
        10n ** BigInt(100 + exponent - fraction.length);
      const exact = scaled % 10n ** 100n === 0n ? scaled / 10n ** 100n : undefined;
      const fits = exact !== undefined && exact >= INT64_MIN && exact <= INT64_MAX;
      assert.equal(parseInt64(text), fits ? exact : undefined);
    }),
  );
});
