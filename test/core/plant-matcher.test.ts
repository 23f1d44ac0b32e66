/** `PlantMatcher` and `parseNewPlant`: whatever the one matches, the other reads as the same plant. */
import assert from "node:assert/strict";
import { isUtf8 } from "node:buffer";
import { test } from "node:test";
import fc from "fast-check";
import { encodeNewPlant, type NewPlant, parseNewPlant } from "../../src/core/plant.ts";
import { PlantMatcher } from "../../src/core/plant-matcher.ts";
import { anyPlant } from "../support/arbitraries.ts";

/** A line feed before the plant leaves it to the general parser. */
function parse(bytes: Uint8Array): NewPlant {
  return parseNewPlant(Buffer.concat([Buffer.from("\n"), bytes]));
}

/** The plant in these bytes, which others surround that would continue it. A match is compared with the parser. */
function match(given: string | Uint8Array): NewPlant | undefined {
  const inner = Buffer.from(given);
  const outer = Buffer.concat([Buffer.from('{"id":1'), inner, Buffer.from('234{"id":7}')]);
  const bytes = outer.subarray(7, 7 + inner.length);
  const matcher = new PlantMatcher(bytes);
  if (!isUtf8(bytes) || matcher.match(0) !== bytes.length) return undefined;
  const { id, idLow, idHigh, nameStart, nameEnd, tagStart } = matcher;
  assert.equal(id, (BigInt(idHigh) << 32n) | BigInt(idLow >>> 0));
  const text = (start: number, end: number) => bytes.toString("utf8", start, end);
  const name = text(nameStart, nameEnd);
  const tag = tagStart < 0 ? undefined : text(tagStart, bytes.length - 2);
  const end = tag === undefined ? "" : `,"tag":"${tag}"`;
  assert.equal(bytes.toString(), `{"id":${id},"name":"${name}"${end}}`, "the form of the store");
  const plant = { id, name: JSON.parse(`"${name}"`) };
  const found = tag === undefined ? plant : { ...plant, tag: JSON.parse(`"${tag}"`) };
  assert.deepEqual(found, parse(bytes));
  return found;
}

for (const text of [
  '{"id":-1,"name":"","tag":""}',
  '{"id":9223372036854775807,"name":"x"}',
  '{"id":-9223372036854775808,"name":"x"}',
  '{"id":1,"name":"\u007f ~!#[]{},:"}',
  '{"id":1,"name":"Rosa \\"Peace\\"","tag":"\\\\\\"a\\\\\\\\"}',
  '{"id":1,"name":"\\/\\b\\f\\n\\r\\t\\u0000","tag":"a\\u00e9\\uABCDb\\ud800"}',
  '{"id":12345678,"name":"Ярослав Мудрый","tag":"日本語 🌱\u2028"}',
]) {
  test(`${text} is matched, and with a byte more, less or changed only if it is a plant of the same form`, () => {
    const bytes = Buffer.from(text);
    assert.ok(match(bytes));
    for (let at = 0; at < bytes.length; at++) {
      const [before, after] = [bytes.subarray(0, at), bytes.subarray(at)];
      assert.equal(match(before), undefined, "it ends before");
      match(Buffer.concat([before, after.subarray(1)]));
      for (const byte of Array(256).keys()) {
        match(Buffer.concat([before, Buffer.of(byte), after.subarray(1)]));
        match(Buffer.concat([before, Buffer.of(byte), after]));
      }
    }
  });
}

test("whatever encodeNewPlant() writes is matched, one after the other, at any place", () => {
  fc.assert(
    fc.property(fc.array(anyPlant, { minLength: 1, maxLength: 5 }), fc.nat(9), (plants, before) => {
      const records = plants.map(encodeNewPlant);
      const matcher = new PlantMatcher(Buffer.from("x".repeat(before) + records.join("")));
      let at = before;
      for (const [index, plant] of plants.entries()) {
        assert.deepEqual(match(records[index] as string), { ...plant });
        at = matcher.match(at);
        assert.deepEqual([matcher.id, matcher.tagStart >= 0], [plant.id, plant.tag !== undefined]);
        assert.equal(at, before + Buffer.byteLength(records.slice(0, index + 1).join("")));
      }
      assert.equal(matcher.match(at), -1);
    }),
    { numRuns: 300 },
  );
});

const BODIES: readonly string[] = [
  '{"id":7,"name":"Fern","tag":"indoor"}',
  '{"id": -9223372036854775808, "name": "Fern", "tag": "indoor"}',
  '{"id":9223372036854775807,"name":"\u00e9 \u2028","tag":"\u{1f33f} indoor"}',
  '{"id": 7, "name": "\u{1f33f}"}',
];

test("a usual body with any bytes changed is read as the general parser reads it", () => {
  const telling = fc.constantFrom(...Buffer.from(' ",}\\'));
  const change = fc.tuple(fc.nat(60), fc.oneof(fc.nat(255), telling));
  const outcomeOf = (read: () => NewPlant): NewPlant | string => {
    try {
      return read();
    } catch (error) {
      return (error as { code: string }).code;
    }
  };
  fc.assert(
    fc.property(fc.constantFrom(...BODIES), fc.array(change, { maxLength: 3 }), (text, changes) => {
      const bytes = Buffer.from(text);
      for (const [at, byte] of changes) bytes[at] = byte; // a change after the end has no effect
      assert.deepEqual(
        outcomeOf(() => parseNewPlant(bytes)),
        outcomeOf(() => parse(bytes)),
      );
    }),
    { numRuns: 5000 },
  );
});
