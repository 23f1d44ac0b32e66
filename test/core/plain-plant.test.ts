/** The quick reader of plain plants is held against the full one: it may know less, never else. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { scanJson } from "../../src/core/json.ts";
import { PlainPlantFinder } from "../../src/core/plain-plant.ts";

const PLAIN = '{"id":7,"name":"Fern","tag":"indoor"}';
const PLAIN_WITH_LONGEST_ID = '{"id":9223372036854775807,"name":""}';

function find(text: string, start = 0): { end: number; finder: PlainPlantFinder; bytes: Buffer } {
  const finder = new PlainPlantFinder();
  const bytes = Buffer.from(text);
  return { end: finder.find(bytes, start), finder, bytes };
}

const TAKEN: readonly string[] = [
  PLAIN,
  '{"id":0,"name":""}',
  '{"id":-999999999999999,"name":"x"}',
  '{"id":999999999999999,"name":"x"}',
  '{"id":1000000000000000,"name":"x"}',
  '{"id":-1000000000000001,"name":"x"}',
  '{"id":9007199254740993,"name":"x"}',
  '{"id":999999999999999999,"name":"x"}',
  '{"id":9223372036854775807,"name":"x"}',
  '{"id":-9223372036854775808,"name":"x"}',
  '{"tag":"","name":"é \u2028","id":1}',
  '{ "id" : 1 ,\t"name" : "x" }',
];

for (const text of TAKEN) {
  test(`PlainPlantFinder.find() recognises ${text}`, () => {
    const { end, finder, bytes } = find(text);
    const plant = JSON.parse(text);
    assert.equal(end, bytes.length);
    assert.equal(String(finder.id), /"id"\s*:\s*(-?\d+)/.exec(text)?.[1]);
    assert.equal(bytes.toString("utf8", finder.nameStart, finder.nameEnd), plant.name);
    const tag = bytes.toString("utf8", Math.max(finder.tagStart, 0), finder.tagEnd);
    assert.equal(finder.tagStart < 0 ? undefined : tag, plant.tag);
    assert.equal(finder.isAscii, /^[\0-\x7f]*$/.test(text));
  });
}

const LEFT: readonly string[] = [
  "",
  "{}",
  "[]",
  '{"id":7}',
  '{"name":"x"}',
  '{"id":7,"name":"x"',
  '{"id":7,"name":"x',
  '{"id":7,"name":"x",}',
  '{"id":7,,"name":"x"}',
  '{"id":7 "name":"x"}',
  '{"id":7,"name":"x"]',
  '{"id":7,"id":7,"name":"x"}',
  '{"id":7,"name":"x","name":"x"}',
  '{"id":7,"name":"x","tag":"x","tag":"x"}',
  '{"id":7,"name":null}',
  '{"id":7,"name":"x","tag":null}',
  '{"id":"7","name":"x"}',
  '{"id":07,"name":"x"}',
  '{"id":-0,"name":"x"}',
  '{"id":-,"name":"x"}',
  '{"id":+7,"name":"x"}',
  '{"id":7.0,"name":"x"}',
  '{"id":7e0,"name":"x"}',
  '{"id":9223372036854775808,"name":"x"}',
  '{"id":-9223372036854775809,"name":"x"}',
  '{"id":10000000000000000000,"name":"x"}',
  '{"id":0000000000000000,"name":"x"}',
  '{"id":-0000000000000000,"name":"x"}',
  '{"id":7,"name":"\\n"}',
  '{"id":7,"name":"\n"}',
  '{"id":7,"\\u006eame":"x"}',
  '{"id":7,"name":"x","other":1}',
  '{"id":7,"nam":"x"}',
  '{"id":7,"names":"x"}',
  '{"id":7,"tags":"x","name":"x"}',
  '{"id"7,"name":"x"}',
  '{"id":7,"name" "x"}',
  '{"id":7,\n"name":"x"}',
];

for (const text of LEFT) {
  test(`PlainPlantFinder.find() leaves ${JSON.stringify(text)} to the general parser`, () => {
    assert.equal(find(text).end, -1);
  });
}

test("PlainPlantFinder.find() reads from a given offset and reports where it ended", () => {
  const { end, finder } = find(`garbage${PLAIN}\n{"id":8}`, 7);
  assert.equal(end, 7 + PLAIN.length);
  assert.equal(finder.id, 7n);
});

test("PlainPlantFinder.find() is independent of an earlier find", () => {
  const finder = new PlainPlantFinder();
  finder.find(Buffer.from('{"id":7,"name":"é","tag":"x"}'), 0);
  finder.find(Buffer.from('{"id":8,"name":"x"}'), 0);
  assert.deepEqual([finder.id, finder.tagStart, finder.isAscii], [8n, -1, true]);
});

test("PlainPlantFinder.find() recognises nothing that the general parser refuses or reads differently", () => {
  // Plain plants with up to three bytes changed: most faults are near something good.
  const text = fc.constantFrom(PLAIN, PLAIN_WITH_LONGEST_ID);
  // A byte after the end of the shorter one changes nothing.
  const change = fc.tuple(fc.nat(PLAIN.length - 1), fc.integer({ min: 0, max: 255 }));
  let taken = 0;
  fc.assert(
    fc.property(text, fc.array(change, { maxLength: 3 }), (plain, changes) => {
      const bytes = Buffer.from(plain);
      for (const [at, byte] of changes) bytes[at] = byte;
      const finder = new PlainPlantFinder();
      if (finder.find(bytes, 0) !== bytes.length) return;
      taken++;
      const spans = new Map<string, string>();
      scanJson(bytes, (nameStart, nameEnd, start, end) => {
        const name = bytes.toString("latin1", nameStart + 1, nameEnd - 1);
        assert.equal(spans.has(name), false);
        spans.set(name, bytes.toString("latin1", start, end));
      });
      const literal = (start: number, end: number) => bytes.toString("latin1", start - 1, end + 1);
      assert.equal(spans.get("id"), String(finder.id));
      assert.equal(spans.get("name"), literal(finder.nameStart, finder.nameEnd));
      const tag = finder.tagStart < 0 ? undefined : literal(finder.tagStart, finder.tagEnd);
      assert.equal(spans.get("tag"), tag);
    }),
    { numRuns: 20_000 },
  );
  assert.ok(taken > 1000);
});
