import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { INT64_MAX, INT64_MIN, parseInt64 } from "../../src/core/json.ts";

const INTEGERS: readonly [text: string, value: bigint][] = [
  ["0", 0n],
  ["-0", 0n],
  ["7", 7n],
  ["-7", -7n],
  ["7.0", 7n],
  ["7.000e0", 7n],
  ["70e-1", 7n],
  ["0.7e1", 7n],
  ["1e18", 10n ** 18n],
  ["1E+18", 10n ** 18n],
  ["0.0000000000000000001e19", 1n],
  ["0e999999999", 0n],
  ["0.000E-99999999999999999999", 0n],
  ["999999999999999", 999_999_999_999_999n],
  ["9007199254740993", 9_007_199_254_740_993n],
  ["9223372036854775807", INT64_MAX],
  ["9223372036854775807.0", INT64_MAX],
  ["922337203685477580.7e1", INT64_MAX],
  ["-9223372036854775808", INT64_MIN],
  [`1${"0".repeat(100_000)}e-100000`, 1n],
  [`0.${"0".repeat(100_000)}1e100001`, 1n],
];

for (const [text, value] of INTEGERS) {
  test(`parseInt64() reads ${text.slice(0, 40)} as ${value}`, () => {
    assert.equal(parseInt64(text), value);
  });
}

const OTHERS = [
  "9223372036854775808",
  "-9223372036854775809",
  "9223372036854775807.5",
  "9007199254740992.5",
  "1.0000000000000000000001",
  "1e19",
  "1e400",
  "1e-400",
  "1E999999999",
  "1e99999999999999999999999999",
  "1e-99999999999999999999999999",
  "0.1",
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

for (const text of OTHERS) {
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
