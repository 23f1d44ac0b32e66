/** The scanner compared with `JSON.parse`, which decides what valid JSON is; and exact integers. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { parseInt64, scanJson } from "../../src/core/json.ts";
import { anyInt64 } from "../support/arbitraries.ts";

/** Whether the scanner accepts the text, as `JSON.parse` does. */
function compare(text: string): boolean {
  const accepts = (read: (text: string) => unknown, name: string) => {
    try {
      read(text);
      return true;
    } catch (error) {
      assert.equal((error as Error).name, name);
      return false;
    }
  };
  const isAccepted = accepts((each) => scanJson(each, () => {}), "PlantStoreError");
  assert.equal(isAccepted, accepts(JSON.parse, "SyntaxError"), JSON.stringify(text));
  return isAccepted;
}

/** A short text with every kind of token, escape and nesting. */
const RICH =
  ' {"a" :[-0.5e+10, 10 ,true,false,null],\n"\\u00e9\\"é":{"b":{},"":[[]]},"c":"\\\\/\u{1f33f}"}\t';
/** What means something in JSON, or in other languages, or nothing anywhere. */
const TELLING = [
  ..."{}[]:,\"\\/0129-+.eEuntrfalsbx'_ \t\n\r\v\f\0\x1f\x7fé\u0663\u00a0\u2028\ufeff\ud800\uff11",
];

test("scanJson() agrees with JSON.parse on every change of one character of a rich text", () => {
  const verdicts: boolean[] = [];
  for (let at = 0; at <= RICH.length; at++) {
    const [before, after] = [RICH.slice(0, at), RICH.slice(at)];
    verdicts.push(compare(before));
    for (const added of ["", ...TELLING]) {
      verdicts.push(compare(before + added + after), compare(before + added + after.slice(1)));
    }
  }
  const accepted = verdicts.filter(Boolean).length;
  assert.ok(accepted > 1000 && verdicts.length - accepted > 1000, `${accepted} accepted`);
});

test("scanJson() reports each top-level member, in order, with its value as it is written", () => {
  const space = fc.stringMatching(/^[ \t\n\r]{0,3}$/);
  const anyName = fc.string().map((text) => JSON.stringify(text));
  const name = fc.oneof(fc.constantFrom('"a"', '"\\u0061"', '""', '"__proto__"'), anyName);
  const member = fc.tuple(space, name, space, space, fc.json({ maxDepth: 2 }), space);
  fc.assert(
    fc.property(space, fc.array(member), space, (before, members, after) => {
      const parts = members.map(([a, name, b, c, value, d]) => `${a}${name}${b}:${c}${value}${d}`);
      const seen: string[][] = [];
      const text = `{${parts.join(",")}}`;
      assert.equal(
        scanJson(before + text + after, (...each) => seen.push(each)),
        text,
      );
      const expected = members.map(([, name, , , value]) => [JSON.parse(name), value]);
      assert.deepEqual(seen, expected);
    }),
  );
  scanJson('[{"id":1}]', () => assert.fail("no object at the top"));
});

test("scanJson() names the byte of an error, counted from 1", () => {
  const texts = { "": 1, "  x": 3, '{"é":1,}': 9, '["\u{1f33f}", tru]': 10, "[1] [2]": 5 };
  for (const [text, byte] of Object.entries(texts)) {
    const message = new RegExp(`\\bbyte ${byte}\\b`);
    assert.throws(() => scanJson(text, () => {}), { code: "invalid_json", message });
  }
});

test("parseInt64() is the inverse of String() on every int64, and accepts no other text", () => {
  fc.assert(fc.property(anyInt64, (value) => assert.equal(parseInt64(String(value)), value)));
  for (const text of ',-,+1,01,.5,5.,1e, 1,1\n,0x10,"7",\u0663'.split(",")) {
    assert.equal(parseInt64(text), undefined, JSON.stringify(text));
  }
});

test("parseInt64() agrees with exact arithmetic on any digits and exponent", () => {
  const digits = fc.stringMatching(/^[0-9]{1,25}$/);
  const [sign, exponents] = [fc.constantFrom("", "-"), fc.integer({ min: -45, max: 45 })];
  fc.assert(
    fc.property(sign, digits, digits, exponents, (sign, integer, fraction, exponent) => {
      const whole = integer.replace(/^0+(?=.)/, "");
      // The value times 10^100 is an integer in every spelling.
      const scale = 10n ** BigInt(100 + exponent - fraction.length);
      const scaled = BigInt(`${sign}${whole}${fraction}`) * scale;
      const exact = scaled / 10n ** 100n;
      const isInt64 = scaled % 10n ** 100n === 0n && BigInt.asIntN(64, exact) === exact;
      const parsed = parseInt64(`${sign}${whole}.${fraction}e${exponent}`);
      assert.equal(parsed, isInt64 ? exact : undefined);
    }),
  );
});
