/** `PlantMatcher` and `parseNewPlant`: whatever the one matches, the other reads as the same plant. */
import assert from "node:assert/strict";
import { isUtf8 } from "node:buffer";
import { test } from "node:test";
import fc from "fast-check";
import { encodeNewPlant, type NewPlant, parseNewPlant } from "../../src/core/plant.ts";
import { PlantMatcher } from "../../src/core/plant-matcher.ts";
import { anyPlant } from "../support/arbitraries.ts";

/** Bytes with others around them that would continue the text if they were read. */
function surround(text: string | Uint8Array): Buffer {
  const inner = Buffer.from(text);
  const outer = Buffer.concat([Buffer.from('{"id":1'), inner, Buffer.from('234{"id":7}')]);
  return outer.subarray(7, 7 + inner.length);
}

/** The plant, if all bytes together are one in the form of the store. */
function match(bytes: Buffer): NewPlant | undefined {
  const matcher = new PlantMatcher(bytes);
  if (!isUtf8(bytes) || matcher.match(0) !== bytes.length) return undefined;
  const { id, idLow, idHigh, nameStart, nameEnd, tagStart } = matcher;
  const textOf = (start: number, end: number) =>
    JSON.parse(`"${bytes.subarray(start, end).toString()}"`);
  assert.equal(id, (BigInt(idHigh) << 32n) | BigInt(idLow >>> 0));
  const name = textOf(nameStart, nameEnd);
  return tagStart < 0 ? { id, name } : { id, name, tag: textOf(tagStart, bytes.length - 2) };
}

function parse(bytes: Buffer): NewPlant | undefined {
  try {
    return parseNewPlant(bytes);
  } catch {
    return undefined;
  }
}

const MATCHED: readonly [text: string, id: bigint][] = [
  ['{"id":0,"name":""}', 0n],
  ['{"id":-1,"name":"","tag":""}', -1n],
  ['{"id":9223372036854775807,"name":"x"}', 9_223_372_036_854_775_807n],
  ['{"id":-9223372036854775808,"name":"x"}', -9_223_372_036_854_775_808n],
  ['{"id":1,"name":"\u007f ~!#[]{},:"}', 1n],
  ['{"id":1,"name":"Rosa \\"Peace\\"","tag":"\\\\\\"a\\\\\\\\"}', 1n],
  ['{"id":1,"name":"\\/\\b\\f\\n\\r\\t\\u0000","tag":"a\\u00e9\\uABCDb\\ud800"}', 1n],
  ['{"id":12345678,"name":"Ярослав Мудрый","tag":"日本語 🌱\u2028"}', 12_345_678n],
];

for (const [text, id] of MATCHED) {
  test(`${text} is matched, and with any byte changed or cut off only if it is a plant`, () => {
    const bytes = surround(text);
    assert.equal(match(bytes)?.id, id);
    for (let at = 0; at < bytes.length; at++) {
      const before = bytes[at] as number;
      for (let byte = 0; byte < 256; byte++) {
        bytes[at] = byte;
        const found = match(bytes);
        if (found !== undefined) assert.deepEqual(found, parse(bytes), bytes.toString("latin1"));
      }
      bytes[at] = before;
      assert.equal(match(surround(bytes.subarray(0, at))), undefined, "it ends before");
    }
  });
}

test("whatever encodeNewPlant() writes is matched, with its id, name and tag", () => {
  fc.assert(
    fc.property(anyPlant, (plant) => {
      assert.deepEqual(match(surround(encodeNewPlant(plant))), { ...plant });
    }),
    { numRuns: 1000 },
  );
});

test("plants are matched one after the other, at any place", () => {
  fc.assert(
    fc.property(fc.array(anyPlant, { minLength: 1, maxLength: 5 }), fc.nat(9), (plants, before) => {
      const records = plants.map(encodeNewPlant);
      const matcher = new PlantMatcher(Buffer.from("x".repeat(before) + records.join("")));
      let at = before;
      for (const [index, { id, tag }] of plants.entries()) {
        at = matcher.match(at);
        assert.equal(matcher.id, id);
        assert.equal(matcher.tagStart >= 0, tag !== undefined);
        assert.equal(at, before + Buffer.byteLength(records.slice(0, index + 1).join("")));
      }
      assert.equal(matcher.match(at), -1);
    }),
  );
});

/** Ids at which the number of digits, 32-bit words or the range of an int64 ends. */
const EDGES: readonly bigint[] = [
  ...Array.from({ length: 20 }, (_, digits) => 10n ** BigInt(digits)),
  ...[31n, 32n, 33n, 53n, 62n, 63n].map((bits) => 2n ** bits),
];

test("ids around every edge are matched exactly if they are int64s", () => {
  for (const edge of EDGES) {
    for (const id of [edge - 1n, edge, edge + 1n].flatMap((each) => [each, -each])) {
      const expected = id === BigInt.asIntN(64, id) ? id : undefined;
      assert.equal(match(surround(`{"id":${id},"name":"x"}`))?.id, expected);
    }
  }
});

for (const text of [
  "",
  "{}",
  '{"id":01,"name":"a"}',
  '{"id":-0,"name":"a"}',
  '{"id":1.0,"name":"a"}',
  '{"id":12345678901234567890,"name":"a"}',
  '{"id":"1","name":"a"}',
  '{"id": 1,"name":"a"}',
  '{"id":1, "name":"a"}',
  '{"id":1,"name": "a"}',
  '{"id":1,"name":"a", "tag":"b"}',
  '{"id":1,"name":"a","tag": "b"}',
  '{"id":1,"name":"a" }',
  '{"id":1,"name":"a",}',
  '{"name":"a","id":1}',
  '{"id":1,"tag":"b","name":"a"}',
  '{"id":1,"name":"a","tag":null}',
  '{"id":1,"name":"a","tag":"b","more":[]}',
  '{"id":1,"name":"a","id":1}',
  '{"id":1,"name":"\\x"}',
  '{"id":1,"name":"\\u12g4"}',
  '{"id":1,"name":"\t"}',
  '{"id":1,"name":"a\0"}',
]) {
  test(`${JSON.stringify(text)} is not matched`, () => {
    assert.equal(match(surround(text)), undefined);
  });
}

const BODIES: readonly string[] = [
  '{"id":7,"name":"Fern","tag":"indoor"}',
  '{"id": -9223372036854775808, "name": "Fern", "tag": "indoor"}',
  '{"id":9223372036854775807,"name":"\u00e9 \u2028","tag":"\u{1f33f} indoor"}',
  '{"id": 7, "name": "\u{1f33f}"}',
];

/** The plant, or the code of the error. */
function outcomeOf(bytes: Buffer): NewPlant | string {
  try {
    return parseNewPlant(bytes);
  } catch (error) {
    return (error as { code: string }).code;
  }
}

test("a usual body with any bytes changed is read as the general parser reads it", () => {
  const change = fc.tuple(
    fc.nat(60),
    fc.oneof(fc.nat(255), fc.constantFrom(...Buffer.from(' ",}\\'))),
  );
  fc.assert(
    fc.property(fc.constantFrom(...BODIES), fc.array(change, { maxLength: 3 }), (text, changes) => {
      const bytes = Buffer.from(text);
      for (const [at, byte] of changes) bytes[at] = byte; // a change after the end has no effect
      // A line feed before the plant leaves it to the general parser.
      assert.deepEqual(outcomeOf(bytes), outcomeOf(Buffer.concat([Buffer.from("\n"), bytes])));
    }),
    { numRuns: 5000 },
  );
});
