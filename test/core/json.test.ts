/** The scanner compared with `JSON.parse`, which decides what valid JSON is. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { PlantStoreError } from "../../src/core/errors.ts";
import { scanJson } from "../../src/core/json.ts";

/** Valid texts, grouped by what is easily got wrong. */
const VALID: Readonly<Record<string, readonly string[]>> = {
  "a zero and its sign": ["0", "-0", "-0.0", "0e0", "0.0E-0", "[0,-0]"],
  "a number": ["7", "-12", "1.5", "1E9", "1e+2", "1e-2", "1.25E-400", "1e999", "9".repeat(99)],
  "a literal": ["true", "false", "null", "[true,false,null]"],
  "an empty value": ["[]", "{}", '""', "[ ]", "{\n}", "[[]]", "[{}]", '{"a":{}}', '{"":0}'],
  "white space": [" 1", "1 ", "\t\n\r 1\t\n\r ", "[\n1\n,\r\n2\t]", '{\r"a"\t:\n1 , "b" : 2 }'],
  "a name given twice": ['{"a":1,"a":2}', '{"\\u0061":1,"a":2}', '{"":1,"":2}'],
  "a name that objects have": ['{"__proto__":1}', '{"constructor":{}}', '{"toString":[]}'],
  "a short escape": ['"\\"\\\\\\/\\b\\f\\n\\r\\t"', '"\\\\u00"', '{"\\n":1}'],
  "a numeric escape": ['"\\u0000"', '"\\u00e9"', '"\\uABCD\\uabcd"', '"\\uD83D\\uDE00"'],
  "half a surrogate pair": ['"\\ud800"', '"\\udc00\\ud800"', '{"\\udfff":1}'],
  "a character that needs no escape": ['"/"', '"\u007f"', '"\u0080"', '"\u2028\u2029"', '"\ufeff"'],
  "a character of several bytes": ['"é"', '"\u{1f33f}"', '"\uffff"', '{"\u{1f33f}":"\u2028"}'],
  "what would be a comment": ['"//"', '"/* */"', '"#"'],
};

const INVALID: Readonly<Record<string, readonly string[]>> = {
  "no value": ["", " ", "\n", ",", ":", "\0", "\\", "[,]", "{,}", "[1,,2]", '{"a":}'],
  "a sign without a number": ["+", "-", "+1", "--1", "- 1", "-e1", "1-", "[-]"],
  "a leading zero": ["00", "01", "-01", "01.5", "00e1", "[012]"],
  "a fraction without digits": [".", "1.", ".5", "-.5", "1.e1", "0.", "1..2", "1.2.3"],
  "an exponent without digits": ["e", "1e", "1e+", "1E-", "e5", "1e1.5", "1e1e1", "1ee1", "1e+-1"],
  "a number in the syntax of other languages": [
    "0x10",
    "0b1",
    "1_000",
    "1n",
    "NaN",
    "Infinity",
    "-Infinity",
  ],
  "digits of other scripts": ["٣", "１", "-１", "1e１"],
  "a literal cut short": ["t", "tru", "fals", "nul", "[nul]", '{"a":tru}'],
  "a literal with a letter too many": ["truee", "falsey", "nulll", "truefalse", "null1"],
  "a literal in another case": ["True", "TRUE", "NULL", "tRue"],
  "another language's literal": ["undefined", "None", "nil", "yes", "a"],
  "an array's comma": ["[1,]", "[,1]", "[1 2]", "[1;2]", "[1:2]", "[1,2", '["a":1]'],
  "an object's comma": ['{"a":1,}', '{,"a":1}', '{"a":1,,"b":2}', '{"a":1 "b":2}', '{"a",1}'],
  "a colon": ['{"a" 1}', '{"a"}', '{"a"::1}', '{"a":1:2}', '{"a"=1}', '{"a":"b":1}', "[:]"],
  "a name that is no string": ["{:1}", "{1:2}", "{a:1}", "{null:1}", "{[]:1}", "{'a':1}"],
  "an open container": ["[", "{", "[1", "[1,", "[[1]", '{"a', '{"a"', '{"a":', '{"a":1', '{"a":1,'],
  "a closing bracket without an opening one": ["]", "}", "[1]]", '{"a":1}}', "1]", "[]["],
  "a closing bracket of the other kind": ["[1}", "[}", '{"a":1]', "{]", "[{]}", '{"a":[}]'],
  "a second value": ["1 2", "[] []", "{}{}", "{} 1", '"a""b"', '"a"b', "null null", "1,2", "[];"],
  "an open string": ['"', '"a', '"\\"', '"\\', '"\\u', '"\\u00', '["a]'],
  "an escape that JSON does not have": [
    '"\\x41"',
    '"\\U0041"',
    '"\\a"',
    '"\\0"',
    '"\\\'"',
    '"\\\n"',
    '"\\u{41}"',
  ],
  "an escape that is not four digits": ['"\\u"', '"\\u004"', '"\\u00g0"', '"\\u 041"', '"\\u-041"'],
  "a raw control character": ['"\n"', '"\t"', '"\r"', '"\0"', '"\u001f"', '{"\n":1}', "[]\0"],
  "another quote": ["'a'", "`a`", "“a”"],
  "a comment": ["// c\n1", "1 // c", "/* c */1", "# c\n1", "[1/**/]"],
  "other white space": ["\u00a01", "1\u00a0", "\v1", "1\f", "\u20281", "[\u20291]", "\u3000[]"],
  "a byte order mark": ["\ufeff1", "\ufeff{}", "1\ufeff", "[\ufeff]"],
};

for (const [what, texts] of Object.entries(VALID)) {
  test(`scanJson() accepts ${what}, as JSON.parse does`, () => {
    for (const text of texts) {
      assert.deepEqual(verdicts(text), { scanner: true, oracle: true }, JSON.stringify(text));
    }
  });
}

for (const [what, texts] of Object.entries(INVALID)) {
  test(`scanJson() refuses ${what}, as JSON.parse does`, () => {
    for (const text of texts) {
      assert.deepEqual(verdicts(text), { scanner: false, oracle: false }, JSON.stringify(text));
    }
  });
}

test("scanJson() accepts every JSON value in any layout", () => {
  const indents = fc.constantFrom("", " ", "\t", "\n", "\r");
  fc.assert(
    fc.property(fc.jsonValue({ stringUnit: "binary" }), indents, (value, indent) => {
      assert.equal(accepts(Buffer.from(JSON.stringify(value, null, indent))), true);
    }),
  );
});

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
  const changes = fc.array(change, { minLength: 1, maxLength: 3 });
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

const DEPTH = 1_000_000;

test("scanJson() accepts a million nested containers: depth costs no stack", () => {
  const arrays = Buffer.from("[".repeat(DEPTH) + "]".repeat(DEPTH));
  const objects = Buffer.from(`${'{"a":'.repeat(DEPTH)}0${"}".repeat(DEPTH)}`);
  assert.equal(accepts(arrays), true);
  assert.equal(accepts(objects), true);
});

test("scanJson() refuses a million containers that are never closed, or closed wrongly", () => {
  assert.equal(accepts(Buffer.from("[".repeat(DEPTH))), false);
  assert.equal(accepts(Buffer.from('{"a":'.repeat(DEPTH))), false);
  assert.equal(accepts(Buffer.from(`${"[".repeat(DEPTH)}${"]".repeat(DEPTH - 1)}}`)), false);
});

function verdicts(text: string): { scanner: boolean; oracle: boolean } {
  const bytes = Buffer.from(text);
  return { scanner: accepts(bytes), oracle: oracleAccepts(bytes) };
}

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

test("scanJson() reports each top-level member, in order, with its name and value as they are written", () => {
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
        members.map(([, name, , , value]) => [name, value]),
      );
      assert.equal(whole, text);
    }),
  );
  scanJson('[{"id":1}]', () => assert.fail("no object at the top"));
});

test("scanJson() names the byte of a fault, counted from 1", () => {
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
