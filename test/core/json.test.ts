/** The scanner compared with `JSON.parse`, which decides what valid JSON is; and exact integers. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { PlantStoreError } from "../../src/core/errors.ts";
import { INT64_MAX, INT64_MIN, parseInt64, scanJson } from "../../src/core/json.ts";

/** What changes of the rich text below do not reach. */
const TEXTS: readonly (readonly [what: string, isValid: boolean, ...texts: string[]])[] = [
  ["long numbers", true, "9".repeat(99), "1.25E-400", "1e999", "-0.0", "0E+0"],
  ["names given twice", true, '{"a":1,"a":2}', '{"\\u0061":1,"a":2}', '{"":1,"":2}'],
  ["names that objects have", true, '{"__proto__":1}', '{"constructor":{}}', '{"toString":[]}'],
  ["halves of surrogate pairs", true, '"\\ud800"', '"\\udc00\\ud800"', '{"\\udfff":1}'],
  [
    "characters that need no escape",
    true,
    '"/"',
    '"\u007f\u0080"',
    '"\u2028"',
    '"\ufeff"',
    '"\uffff"',
  ],
  ["no value", false, "", " ", "\n", ",", ":", "\0", "\\", "[,]", "{,}"],
  ["numbers of other languages", false, "+1", ".5", "0x10", "1_000", "1n", "NaN", "-Infinity"],
  ["digits of other scripts", false, "\u0663", "\uff11", "-\uff11", "1e\uff11"],
  ["words of other languages", false, "True", "NULL", "undefined", "None", "yes", "truefalse"],
  ["names that are no strings", false, "{1:2}", "{a:1}", "{null:1}", "{[]:1}", "{'a':1}"],
  ["two values", false, "1 2", "[] []", "{}{}", '"a""b"', "null null", "1,2"],
  ["escapes of other languages", false, '"\\x41"', '"\\U0041"', '"\\0"', '"\\\n"', '"\\u{41}"'],
  [
    "other quotes and comments",
    false,
    "'a'",
    "`a`",
    "\u201ca\u201d",
    "// c\n1",
    "/* c */1",
    "# c\n1",
  ],
  [
    "other white space",
    false,
    "\u00a01",
    "\v1",
    "1\f",
    "\u20281",
    "\u3000[]",
    "\ufeff1",
    "1\ufeff",
  ],
];

for (const [what, isValid, ...texts] of TEXTS) {
  test(`scanJson() ${isValid ? "accepts" : "refuses"} ${what}, as JSON.parse does`, () => {
    for (const text of texts) {
      const bytes = Buffer.from(text);
      const verdicts = [accepts(bytes), oracleAccepts(bytes)];
      assert.deepEqual(verdicts, [isValid, isValid], JSON.stringify(text));
    }
  });
}

/** A short text with every kind of token, escape and nesting. */
const RICH = Buffer.from(
  ' {"a" :[-0.5e+10, 10 ,true,false,null],\n' +
    '"\\u00e9\\"é":{"b":{},"":[[]]},"c":"\\\\/\u{1f33f}"}\t',
);
/** The bytes that mean something in JSON, and some that mean nothing anywhere. */
const TELLING = Buffer.from('{}[]:,"\\/0129-+.eEuntrfalsbx \t\n\r\v\0\x1f\x7fé');

test("scanJson() agrees with JSON.parse on every one-byte change of a rich text", () => {
  let accepted = 0;
  let refused = 0;
  for (let at = 0; at <= RICH.length; at++) {
    const [before, after, rest] = [RICH.subarray(0, at), RICH.subarray(at), RICH.subarray(at + 1)];
    const changed = [before, Buffer.concat([before, rest])];
    for (const byte of TELLING) {
      changed.push(Buffer.concat([before, Buffer.of(byte), after]));
      changed.push(Buffer.concat([before, Buffer.of(byte), rest]));
    }
    for (const bytes of changed) {
      const expected = oracleAccepts(bytes);
      assert.equal(accepts(bytes), expected, JSON.stringify(bytes.toString()));
      if (expected) accepted++;
      else refused++;
    }
  }
  // Both verdicts occur often, so a scanner that always or never accepts would fail.
  assert.ok(accepted > 1000 && refused > 1000, `${accepted} accepted, ${refused} refused`);
});

test("scanJson() agrees with JSON.parse on any JSON text with random changes", () => {
  const change = fc.record({
    at: fc.nat(),
    removed: fc.constantFrom(0, 1, 1, 2),
    added: fc.oneof(
      fc.constant(Buffer.alloc(0)),
      fc.constantFrom(...TELLING).map((byte) => Buffer.of(byte)),
      fc.nat(0xff).map((byte) => Buffer.of(byte)),
    ),
  });
  const changes = fc.array(change, { maxLength: 3 });
  fc.assert(
    fc.property(fc.json({ stringUnit: "binary" }), changes, (text, list) => {
      let bytes = Buffer.from(text);
      for (const { at, removed, added } of list) {
        const from = at % (bytes.length + 1);
        bytes = Buffer.concat([bytes.subarray(0, from), added, bytes.subarray(from + removed)]);
      }
      assert.equal(accepts(bytes), oracleAccepts(bytes));
    }),
    { numRuns: 2000 },
  );
});

/** Whether the scanner accepts the text. Bytes that are not UTF-8 become U+FFFD. */
function accepts(bytes: Buffer): boolean {
  try {
    scanJson(bytes.toString(), () => {});
    return true;
  } catch (error) {
    if (error instanceof PlantStoreError && error.code === "invalid_json") return false;
    throw error;
  }
}

function oracleAccepts(bytes: Buffer): boolean {
  try {
    JSON.parse(bytes.toString());
    return true;
  } catch {
    return false;
  }
}

test("scanJson() reports each top-level member, in order, with its value as it is written", () => {
  const space = fc.stringMatching(/^[ \t\n\r]{0,3}$/);
  const name = fc.oneof(
    fc.constantFrom('"a"', '"\\u0061"', '""', '"é\\""'),
    fc.string().map((text) => JSON.stringify(text)),
  );
  const member = fc.tuple(space, name, space, space, fc.json({ maxDepth: 2 }), space);
  fc.assert(
    fc.property(space, fc.array(member), space, (before, members, after) => {
      const parts = members.map(([a, name, b, c, value, d]) => `${a}${name}${b}:${c}${value}${d}`);
      const seen: string[][] = [];
      const text = `{${parts.join(",")}}`;
      const whole = scanJson(before + text + after, (...member) => seen.push(member));
      assert.deepEqual(
        seen,
        members.map(([, name, , , value]) => [JSON.parse(name), value]),
      );
      assert.equal(whole, text);
    }),
  );
  scanJson('[{"id":1}]', () => assert.fail("no object at the top"));
});

test("scanJson() names the byte of an error, counted from 1", () => {
  for (const [text, byte] of [
    ["", 1],
    ["  x", 3],
    ['{"é":1,}', 9],
    ['["\u{1f33f}", tru]', 10],
    ["[1] [2]", 5],
  ] as const) {
    const message = new RegExp(`\\bbyte ${byte}\\b`);
    assert.throws(() => scanJson(text, () => {}), { code: "invalid_json", message });
  }
});

test("parseInt64() takes no other text for a number", () => {
  for (const text of [
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
    '"7"',
    "\u0663",
  ]) {
    assert.equal(parseInt64(text), undefined, JSON.stringify(text));
  }
});

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
