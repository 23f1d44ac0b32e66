/** The fast ways to read a plant compared with the general parser: they may find fewer plants, never others. */
import assert from "node:assert/strict";
import { isUtf8 } from "node:buffer";
import { test } from "node:test";
import fc from "fast-check";
import { PlantStoreError } from "../../src/core/errors.ts";
import { EncodedPlantFinder, encodeNewPlant, parseNewPlant } from "../../src/core/plant.ts";
import { type LineBlock, visitLines } from "../../src/log/lines.ts";
import { takePlants } from "../../src/store/records.ts";
import { anyInt64, anyPlant } from "../support/arbitraries.ts";
import { idOfWords } from "../support/id-words.ts";

/** Surrounds bytes with others that would continue the text if they were read. */
function surrounded(text: string | Uint8Array): Buffer {
  const inner = Buffer.from(text);
  const outer = Buffer.concat([Buffer.from('{"id":1'), inner, Buffer.from('234{"id":7}')]);
  return outer.subarray(7, 7 + inner.length);
}

/** The id, if all bytes together are one plant; `undefined` if the general parser has to decide. */
function idOf(bytes: Buffer): bigint | undefined {
  if (!isUtf8(bytes)) return undefined;
  const finder = new EncodedPlantFinder(bytes);
  if (finder.find(0) !== bytes.length) return undefined;
  return idOfWords(finder.idLow, finder.idHigh);
}

function generalIdOf(bytes: Buffer): bigint | undefined {
  try {
    return parseNewPlant(bytes).id;
  } catch {
    return undefined;
  }
}

const FOUND: readonly [text: string, id: bigint][] = [
  ['{"id":0,"name":""}', 0n],
  ['{"id":-1,"name":"","tag":""}', -1n],
  ['{"id":-999999999999999,"name":"x"}', -999_999_999_999_999n],
  ['{"id":1000000000000000,"name":"x"}', 1_000_000_000_000_000n],
  ['{"id":9223372036854775807,"name":"x"}', 9_223_372_036_854_775_807n],
  ['{"id":-9223372036854775808,"name":"x"}', -9_223_372_036_854_775_808n],
  ['{"id":1,"name":"\u007f ~!#[]{},:"}', 1n],
  ['{"id":1,"name":"Rosa \\"Peace\\"","tag":"\\\\\\"a\\\\\\\\"}', 1n],
  ['{"id":1,"name":"\\/\\b\\f\\n\\r\\t\\u0000","tag":"a\\u00e9\\uABCDb\\ud800"}', 1n],
  ['{"id":12345678,"name":"Ярослав Мудрый","tag":"日本語テキスト 🌱\u2028"}', 12_345_678n],
];

test("the finder recognises the usual form, and agrees with the general parser on any byte at any place of it", () => {
  for (const [text, expected] of FOUND) {
    const bytes = surrounded(text);
    assert.equal(idOf(bytes), expected);
    for (let at = 0; at < bytes.length; at++) {
      const before = bytes[at] as number;
      for (let byte = 0; byte < 256; byte++) {
        bytes[at] = byte;
        const id = idOf(bytes);
        if (id !== undefined) assert.equal(id, generalIdOf(bytes), bytes.toString("latin1"));
      }
      bytes[at] = before;
    }
    for (let length = 0; length < bytes.length; length++) {
      assert.equal(idOf(surrounded(bytes.subarray(0, length))), undefined, "nothing after the end");
    }
  }
});

test("the finder recognises what encodeNewPlant() writes", () => {
  fc.assert(
    fc.property(anyPlant, (plant) => {
      assert.equal(idOf(surrounded(encodeNewPlant(plant))), plant.id);
    }),
    { numRuns: 1000 },
  );
});

/** Ids at which the number of digits, 32-bit words or the range of an int64 ends. */
const EDGES: readonly bigint[] = [
  ...[15n, 16n, 17n, 18n, 19n].map((digits) => 10n ** digits),
  ...[32n, 33n, 53n, 62n, 63n].map((bits) => 2n ** bits),
];

test("the finder and the general parser agree on the ids around every edge", () => {
  for (const edge of EDGES) {
    for (const magnitude of [edge - 1n, edge, edge + 1n]) {
      for (const id of [magnitude, -magnitude]) {
        const bytes = surrounded(`{"id":${id},"name":"x"}`);
        const expected = id === BigInt.asIntN(64, id) ? id : undefined;
        assert.deepEqual([idOf(bytes), generalIdOf(bytes)], [expected, expected]);
      }
    }
  }
});

const HARD_LINES: readonly string[] = [
  "",
  " \t\r",
  '{"id":1,"name":"a"}\r',
  ' {"id":1,"name":"a"} ',
  '{"id":1,"name":"a"}{"id":1,"name":"a"}',
  '{"name":"a","id":1}',
  '{"id":1,"name":"a","tag":"b","more":[]}',
  '{"id":-0,"name":"a"}',
  '{"id":9223372036854775808,"name":"a"}',
  '{"id":12',
];

/** The places of the lines of a block, with the id of each that is a plant. */
function judgeLines(block: LineBlock, isQuick: boolean): [number, number, bigint | undefined][] {
  const judged: [number, number, bigint | undefined][] = [];
  const visit = (record: Buffer, { offset, line }: { offset: number; line: number }) =>
    judged.push([offset - block.offset, line, generalIdOf(record)]);
  if (!isQuick) visitLines(block, visit);
  else {
    const take = (start: number, _end: number, line: number, low: number, high: number) => {
      judged.push([start, line, idOfWords(low, high)]);
      return true;
    };
    takePlants(block, take, visit);
  }
  return judged;
}

test("a block is judged as the general parser judges its lines, with any bytes changed", () => {
  const line = fc.oneof(
    { weight: 3, arbitrary: anyPlant.map(encodeNewPlant) },
    { weight: 2, arbitrary: anyInt64.map((id) => `{"id":${id},"name":"Fern","tag":"é"}`) },
    { weight: 1, arbitrary: fc.constantFrom(...HARD_LINES) },
  );
  const end = fc.constantFrom("\n", "\n", "\r\n", "\n\n");
  const lines = fc.array(fc.tuple(line, end), { minLength: 1, maxLength: 12 });
  const changes = fc.array(fc.tuple(fc.nat(), fc.integer({ min: 0, max: 255 })), { maxLength: 2 });
  const offset = fc.constantFrom(0, 1, 2 ** 33);
  fc.assert(
    fc.property(lines, changes, offset, (written, changed, offset) => {
      const bytes = Buffer.from(`\ufeff${written.flat().join("")}\n`);
      // The last byte stays a line feed, because a block is whole lines.
      for (const [at, byte] of changed) bytes[at % (bytes.length - 1)] = byte;
      const block = () => ({ bytes, offset, line: 5 });
      assert.deepEqual(judgeLines(block(), true), judgeLines(block(), false));
    }),
    { numRuns: 3000 },
  );
});

const BODIES: readonly string[] = [
  '{"id":7,"name":"Fern","tag":"indoor"}',
  '{"id": 7, "name": "Fern", "tag": "indoor"}',
  '{"name":"Fern","tag":"indoor","id":7}',
  '{\n  "id": 7,\n  "name": "Fern",\n  "tag" :\t"indoor"\r\n}',
  '{"id":-9223372036854775808,"name":"\u00e9\u2028\u{1f33f}"}',
];

/** The plant, or the code and message of its fault; byte numbers count from the brace. */
function readBody(bytes: Buffer, bytesBefore = 0): unknown {
  try {
    return parseNewPlant(bytes);
  } catch (error) {
    if (!(error instanceof PlantStoreError)) throw error;
    const fromBrace = (_: string, byte: string) => `byte ${Number(byte) - bytesBefore}`;
    return [error.code, error.message.replace(/\bbyte (\d+)/, fromBrace)];
  }
}

test("a common body with any bytes changed is read as the general parser reads it", () => {
  const change = fc.tuple(fc.nat(60), fc.integer({ min: 0, max: 255 }));
  fc.assert(
    fc.property(fc.constantFrom(...BODIES), fc.array(change, { maxLength: 3 }), (text, changes) => {
      const bytes = Buffer.from(text);
      for (const [at, byte] of changes) bytes[at] = byte; // a change after the end has no effect
      // A line feed before the plant leaves it to the general parser.
      const generally = Buffer.concat([Buffer.from("\n"), bytes]);
      assert.deepEqual(readBody(bytes), readBody(generally, 1));
    }),
    { numRuns: 10_000 },
  );
});
