/** The pattern that reads the usual form of a plant must agree with the general parser. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { PlantStoreError } from "../../src/core/errors.ts";
import { parseNewPlant } from "../../src/core/plant.ts";

const COMMON: readonly string[] = [
  '{"id":7,"name":"Fern","tag":"indoor"}',
  '{"id": 7, "name": "Fern", "tag": "indoor"}',
  '{"name":"Fern","tag":"indoor","id":7}',
  '{\n  "id": 7,\n  "name": "Fern",\n  "tag" :\t"indoor"\r\n}',
  '{"id":-9223372036854775808,"name":"\u00e9\u2028\u{1f33f}"}',
  '{"id":9223372036854775807,"name":"","tag":""}',
];

const NEAR: readonly string[] = [
  '{"id":7,"name":"Fern","id":7}',
  '{"id":7,"name":"Fern","tag":"indoor","id":8}',
  '{"name":"Fern"}',
  '{"id":07,"name":"Fern"}',
  '{"id":-0,"name":"Fern"}',
  '{"id":-,"name":"Fern"}',
  '{"id":7.0,"name":"Fern"}',
  '{"id":7e0,"name":"Fern"}',
  '{"id":9223372036854775808,"name":"Fern"}',
  '{"id":7,"name":"\\n"}',
  '{"id":7,"name":"\n"}',
  '{"id":7,"name":"a\\"}',
  '{"id":7,"name":"Fern",}',
  '{"id":7,"name":"Fern"}}',
  '{"id":7,"name":"Fern","tag":null}',
  '{"tag":"indoor","id":7,"name":"Fern"}',
];

/** The plant, or the code and message of its fault; byte numbers count from the brace. */
function read(bytes: Buffer, bytesBefore = 0): unknown {
  try {
    return parseNewPlant(bytes);
  } catch (error) {
    if (!(error instanceof PlantStoreError)) throw error;
    const { code, message } = error;
    const fromBrace = (_: string, byte: string) => `byte ${Number(byte) - bytesBefore}`;
    return { code, message: message.replace(/\bbyte (\d+)/, fromBrace) };
  }
}

/** A line feed before the plant leaves it to the general parser. */
function readGenerally(bytes: Buffer): unknown {
  return read(Buffer.concat([Buffer.from("\n"), bytes]), 1);
}

for (const text of [...COMMON, ...NEAR]) {
  test(`parseNewPlant() reads ${JSON.stringify(text)} as the general parser does`, () => {
    assert.deepEqual(read(Buffer.from(text)), readGenerally(Buffer.from(text)));
  });
}

test("parseNewPlant() judges a common plant with changed bytes as the general parser does", () => {
  const change = fc.tuple(fc.nat(60), fc.integer({ min: 0, max: 255 }));
  let plants = 0;
  const isAlike = (text: string, changes: readonly (readonly [number, number])[]) => {
    const bytes = Buffer.from(text);
    for (const [at, byte] of changes) bytes[at] = byte; // a change after the end has no effect
    const found = read(bytes);
    if (typeof found === "object" && found !== null && "id" in found) plants++;
    assert.deepEqual(found, readGenerally(bytes));
  };
  const property = fc.property(
    fc.constantFrom(...COMMON),
    fc.array(change, { maxLength: 3 }),
    isAlike,
  );
  fc.assert(property, { numRuns: 20_000 });
  assert.ok(plants > 1000);
});

for (const bytes of [2 ** 20 - 100, 2 ** 20 + 100, 2 ** 24]) {
  test(`parseNewPlant() reads a name of ${bytes} bytes`, () => {
    const name = "x".repeat(bytes);
    assert.deepEqual(parseNewPlant(Buffer.from(`{"id":7,"name":"${name}"}`)), { id: 7n, name });
  });
}
