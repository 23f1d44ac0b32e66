/** What the scanner reports about a text that it accepts, and where it finds the fault of another. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { PlantStoreError } from "../../src/core/errors.ts";
import { type JsonKind, jsonKindAt, scanJson } from "../../src/core/json.ts";

test("scanJson() reports each top-level member, in order, with its exact offsets", () => {
  const space = fc.stringMatching(/^[ \t\n\r]{0,3}$/);
  const name = fc.oneof(
    fc.constantFrom('"a"', '"\\u0061"', '""', '"é\\""'),
    fc.string().map((text) => JSON.stringify(text)),
  );
  const member = fc.tuple(space, name, space, space, fc.json({ maxDepth: 2 }), space);
  fc.assert(
    fc.property(space, fc.array(member), space, (before, members, after) => {
      const spans: number[][] = [];
      let text = `${before}{`;
      for (const [beforeName, nameText, beforeColon, afterColon, value, beforeComma] of members) {
        text += `${spans.length > 0 ? "," : ""}${beforeName}`;
        const nameStart = text.length;
        text += nameText;
        const nameEnd = text.length;
        text += `${beforeColon}:${afterColon}`;
        const valueStart = text.length;
        text += value;
        spans.push([nameStart, nameEnd, valueStart, text.length]);
        text += beforeComma;
      }
      text += "}";
      const seen: number[][] = [];
      const whole = scanJson(text + after, (...span) => seen.push(span));
      assert.deepEqual(seen, spans);
      const [start, end] = [before.length, text.length];
      assert.deepEqual(whole, { kind: "object", start, end });
    }),
  );
});

test("scanJson() reports no member of an array or of a nested object", () => {
  const seen: number[][] = [];
  scanJson('[{"id":1}]', (...span) => seen.push(span));
  scanJson('{"a":{"id":1,"b":[{"id":2}]}}', (...span) => seen.push(span));
  assert.deepEqual(seen, [[1, 4, 5, 28]]);
});

const KINDS: readonly [text: string, kind: JsonKind][] = [
  ['{"a":[]}', "object"],
  ["[{}]", "array"],
  ['"true"', "string"],
  ["0", "number"],
  ["-1.5e3", "number"],
  ["true", "true"],
  ["false", "false"],
  ["null", "null"],
];

for (const [text, kind] of KINDS) {
  test(`scanJson() and jsonKindAt() report the kind and the place of ${text}`, () => {
    const spaced = ` \n${text}\t`;
    const value = scanJson(spaced, () => {});
    assert.deepEqual(value, { kind, start: 2, end: 2 + text.length });
    assert.equal(jsonKindAt(spaced, 2), kind);
  });
}

/** Counted from 1, as an editor does. */
const FAULT_BYTES: readonly [text: string, byte: number][] = [
  ["", 1],
  ["  x", 3],
  ['{"é":1,}', 9],
  ['{"a":1e}', 8],
  ['["\u{1f33f}", tru]', 13],
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
