/** The members that the scanner reports for a valid text, and the byte that it reports for an invalid one. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { PlantStoreError } from "../../src/core/errors.ts";
import { scanJson } from "../../src/core/json.ts";

test("scanJson() reports each top-level member, in order, with its name and value as they are written", () => {
  const space = fc.stringMatching(/^[ \t\n\r]{0,3}$/);
  const name = fc.oneof(
    fc.constantFrom('"a"', '"\\u0061"', '""', '"é\\""'),
    fc.string().map((text) => JSON.stringify(text)),
  );
  const member = fc.tuple(space, name, space, space, fc.json({ maxDepth: 2 }), space);
  fc.assert(
    fc.property(space, fc.array(member), space, (before, members, after) => {
      const expected: string[][] = [];
      let text = `${before}{`;
      for (const [beforeName, nameText, beforeColon, afterColon, value, beforeComma] of members) {
        text += `${expected.length > 0 ? "," : ""}${beforeName}${nameText}`;
        text += `${beforeColon}:${afterColon}${value}${beforeComma}`;
        expected.push([nameText, value]);
      }
      text += "}";
      const seen: string[][] = [];
      const whole = scanJson(text + after, (...member) => seen.push(member));
      assert.deepEqual(seen, expected);
      assert.equal(whole, text.slice(before.length));
    }),
  );
});

test("scanJson() reports no member of an array or of a nested object", () => {
  const seen: string[][] = [];
  scanJson('[{"id":1}]', (...member) => seen.push(member));
  scanJson('{"a":{"id":1,"b":[{"id":2}]}}', (...member) => seen.push(member));
  assert.deepEqual(seen, [['"a"', '{"id":1,"b":[{"id":2}]}']]);
});

for (const text of ['{"a":[]}', "[{}]", '"true"', "0", "-1.5e3", "true", "false", "null"]) {
  test(`scanJson() returns ${text} without the space around it`, () => {
    assert.equal(
      scanJson(` \n${text}\t`, () => {}),
      text,
    );
  });
}

/** Counted from 1, as an editor does. */
const FAULT_BYTES: readonly [text: string, byte: number][] = [
  ["", 1],
  ["  x", 3],
  ['{"é":1,}', 9],
  ['{"a":1e}', 7],
  ['["\u{1f33f}", tru]', 10],
  ["[1] [2]", 5],
  ['{"a":"b', 8],
];

for (const [text, byte] of FAULT_BYTES) {
  test(`scanJson() reports byte ${byte} as the fault of ${JSON.stringify(text)}`, () => {
    assert.throws(
      () => scanJson(text, () => {}),
      (error) =>
        error instanceof PlantStoreError &&
        error.code === "invalid_json" &&
        /\bbyte (\d+)\b/.exec(error.message)?.[1] === String(byte),
    );
  });
}
