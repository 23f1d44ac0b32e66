/** The reader of plants as they are encoded, held against the full one: it may know less, never else. */
import assert from "node:assert/strict";
import { isUtf8 } from "node:buffer";
import { test } from "node:test";
import fc from "fast-check";
import { EncodedPlantFinder } from "../../src/core/encoded-plant.ts";
import { encodeNewPlant, parseNewPlant } from "../../src/core/plant.ts";
import { anyInt64 } from "../support/arbitraries.ts";

const ENCODED = '{"id":7,"name":"Fern","tag":"indoor"}';

/** Bytes with others around them that would go on with the text, were they read. */
function surrounded(text: string | Uint8Array): Buffer {
  const inner = Buffer.from(text);
  const outer = Buffer.concat([Buffer.from('{"id":1'), inner, Buffer.from(`234${ENCODED}`)]);
  return outer.subarray(7, 7 + inner.length);
}

/** The whole of the bytes as one plant: its id, or `undefined` where it is left to others. */
function idOf(bytes: Buffer): number | undefined {
  const finder = new EncodedPlantFinder(bytes);
  if (finder.find(0) !== bytes.length) return undefined;
  return finder.isAscii || isUtf8(bytes) ? finder.id : undefined;
}

const TAKEN: readonly [text: string, id: number, isAscii: boolean][] = [
  [ENCODED, 7, true],
  ['{"id":0,"name":""}', 0, true],
  ['{"id":-1,"name":"","tag":""}', -1, true],
  ['{"id":999999999999999,"name":"x"}', 999_999_999_999_999, true],
  ['{"id":-999999999999999,"name":"x"}', -999_999_999_999_999, true],
  ['{"id":1,"name":"\u007f ~!#[]{},:"}', 1, true],
  ['{"id":1,"name":"Gänseblümchen","tag":"🌱"}', 1, false],
  ['{"id":1,"name":"x","tag":"abcdefgé"}', 1, false],
];

for (const [text, id, isAscii] of TAKEN) {
  test(`EncodedPlantFinder.find() takes ${text}`, () => {
    const bytes = surrounded(text);
    const finder = new EncodedPlantFinder(bytes);
    assert.equal(finder.find(0), bytes.length);
    assert.deepEqual([finder.id, finder.isAscii], [id, isAscii]);
  });
}

const LEFT: readonly string[] = [
  "",
  "{",
  "{}",
  '{"id":7}',
  '{"name":"x","id":7}',
  '{"id":7,"tag":"x","name":"x"}',
  '{ "id":7,"name":"x"}',
  '{"id": 7,"name":"x"}',
  '{"id":7,"name":"x" }',
  '{"id":07,"name":"x"}',
  '{"id":-0,"name":"x"}',
  '{"id":-,"name":"x"}',
  '{"id":,"name":"x"}',
  '{"id":7.0,"name":"x"}',
  '{"id":7e0,"name":"x"}',
  '{"id":1000000000000000,"name":"x"}',
  '{"id":-9223372036854775808,"name":"x"}',
  '{"id":7,"name":"x","tag":"x","tag":"x"}',
  '{"id":7,"name":"x","more":1}',
  '{"id":7,"name":"x","tag":null}',
  '{"id":7,"name":null}',
  '{"id":7,"nqme":"x"}',
  '{"id":7,"name":"a\\nb"}',
  '{"id":7,"name":"a\nb"}',
  '{"id":7,"name":"x"',
  '{"id":7,"name":"x',
];

for (const text of LEFT) {
  test(`EncodedPlantFinder.find() leaves ${JSON.stringify(text)} to others`, () => {
    assert.equal(new EncodedPlantFinder(surrounded(text)).find(0), -1);
  });
}

test("EncodedPlantFinder.find() reads nothing behind the bytes, wherever they end", () => {
  for (const [text] of TAKEN) {
    const bytes = Buffer.from(text);
    for (let length = 0; length < bytes.length; length++) {
      const cut = surrounded(bytes.subarray(0, length));
      assert.equal(new EncodedPlantFinder(cut).find(0), -1, cut.toString());
    }
  }
});

test("EncodedPlantFinder.find() knows nothing of an earlier find", () => {
  const first = '{"id":7,"name":"é","tag":"x"}\n';
  const bytes = Buffer.from(`${first}{"id":8,"name":"x"}\n`);
  const finder = new EncodedPlantFinder(bytes);
  finder.find(0);
  assert.equal(finder.find(Buffer.byteLength(first)), bytes.length - 1);
  assert.deepEqual([finder.id, finder.isAscii], [8, true]);
});

/** The id by the full rule, where there is one. */
function fullIdOf(bytes: Buffer): bigint | undefined {
  try {
    return parseNewPlant(bytes).id;
  } catch {
    return undefined;
  }
}

test("EncodedPlantFinder.find() judges any byte at any place of a plant as the full rule does", () => {
  for (const [text] of TAKEN) {
    const bytes = surrounded(text);
    for (let at = 0; at < bytes.length; at++) {
      const before = bytes[at] as number;
      for (let byte = 0; byte < 256; byte++) {
        bytes[at] = byte;
        const id = idOf(bytes);
        if (id !== undefined) assert.equal(BigInt(id), fullIdOf(bytes), bytes.toString("latin1"));
      }
      bytes[at] = before;
    }
  }
});

test("EncodedPlantFinder.find() takes what encodeNewPlant() writes, but for long ids and escapes", () => {
  const smallId = fc.bigInt({ min: -999_999_999_999_999n, max: 999_999_999_999_999n });
  const text = fc.string({ unit: "grapheme" });
  const plant = fc.record(
    { id: fc.oneof(smallId, anyInt64), name: text, tag: text },
    { requiredKeys: ["id", "name"] },
  );
  let taken = 0;
  fc.assert(
    fc.property(plant, (written) => {
      const encoded = encodeNewPlant(written);
      const isPlain = !encoded.includes("\\") && !/\d{16}/.test(String(written.id));
      const id = idOf(surrounded(encoded));
      if (isPlain) taken++;
      assert.equal(id === undefined ? undefined : BigInt(id), isPlain ? written.id : undefined);
    }),
    { numRuns: 2000 },
  );
  assert.ok(taken > 200);
});
