/** Compares the finder of encoded plants with the general parser: it may find fewer plants, never others. */
import assert from "node:assert/strict";
import { isUtf8 } from "node:buffer";
import { test } from "node:test";
import fc from "fast-check";
import { EncodedPlantFinder, encodeNewPlant, parseNewPlant } from "../../src/core/plant.ts";
import { anyInt64, anyPlant } from "../support/arbitraries.ts";
import { idOfWords } from "../support/id-words.ts";

const ENCODED = '{"id":7,"name":"Fern","tag":"indoor"}';

/** Surrounds bytes with others that would continue the text if they were read. */
function surrounded(text: string | Uint8Array): Buffer {
  const inner = Buffer.from(text);
  const outer = Buffer.concat([Buffer.from('{"id":1'), inner, Buffer.from(`234${ENCODED}`)]);
  return outer.subarray(7, 7 + inner.length);
}

/** The id, if all bytes together are one plant; `undefined` if the general parser has to decide. */
function idOf(bytes: Buffer): bigint | undefined {
  if (!isUtf8(bytes)) return undefined;
  const finder = new EncodedPlantFinder(bytes);
  if (finder.find(0) !== bytes.length) return undefined;
  return idOfWords(finder.idLow, finder.idHigh);
}

const TAKEN: readonly [text: string, id: bigint][] = [
  [ENCODED, 7n],
  ['{"id":0,"name":""}', 0n],
  ['{"id":-1,"name":"","tag":""}', -1n],
  ['{"id":-4294967296,"name":""}', -4_294_967_296n],
  ['{"id":999999999999999,"name":"x"}', 999_999_999_999_999n],
  ['{"id":-999999999999999,"name":"x"}', -999_999_999_999_999n],
  ['{"id":1000000000000000,"name":"x"}', 1_000_000_000_000_000n],
  ['{"id":-9007199254740993,"name":"x"}', -9_007_199_254_740_993n],
  ['{"id":9223372036854775807,"name":"x"}', 9_223_372_036_854_775_807n],
  ['{"id":-9223372036854775807,"name":"x"}', -9_223_372_036_854_775_807n],
  ['{"id":-9223372036854775808,"name":"x"}', -9_223_372_036_854_775_808n],
  ['{"id":1,"name":"\u007f ~!#[]{},:"}', 1n],
  ['{"id":1,"name":"\\"","tag":"\\\\"}', 1n],
  ['{"id":1,"name":"Rosa \\"Peace\\"","tag":"\\\\\\"a\\\\\\\\"}', 1n],
  ['{"id":1,"name":"\\/\\b\\f\\n\\r\\t\\u0000","tag":"a\\u00e9\\uABCDb\\ud800"}', 1n],
  ['{"id":1,"name":"\\u0022\\u005c"}', 1n],
  ['{"id":1,"name":"\u0085\u2028\ufeff"}', 1n],
  ['{"id":1,"name":"Gänseblümchen","tag":"🌱"}', 1n],
  ['{"id":1,"name":"x","tag":"abcdefgé"}', 1n],
  ['{"id":1234567,"name":"é","tag":"一二三abcdé"}', 1_234_567n],
  ['{"id":12345678,"name":"Ярослав Мудрый","tag":"日本語テキスト"}', 12_345_678n],
];

for (const [text, id] of TAKEN) {
  test(`EncodedPlantFinder.find() recognises ${text}`, () => {
    const bytes = surrounded(text);
    const finder = new EncodedPlantFinder(bytes);
    assert.equal(finder.find(0), bytes.length);
    assert.equal(idOfWords(finder.idLow, finder.idHigh), id);
  });
}

test("EncodedPlantFinder.find() reads nothing after the end of the bytes", () => {
  for (const [text] of TAKEN) {
    const bytes = Buffer.from(text);
    for (let length = 0; length < bytes.length; length++) {
      new EncodedPlantFinder(bytes).find(0); // leaves the missing bytes in memory
      const cut = surrounded(bytes.subarray(0, length));
      assert.equal(new EncodedPlantFinder(cut).find(0), -1, cut.toString());
    }
  }
});

test("EncodedPlantFinder.find() recognises lines in any order, independent of earlier ones", () => {
  const first = '{"id":7,"name":"é","tag":"x"}\n';
  const second = '{"id":8,"name":"x"}\n';
  const bytes = Buffer.from(`${first}no plant\n${second}`);
  const finder = new EncodedPlantFinder(bytes);
  const behindFirst = Buffer.byteLength(first);
  const behindOther = behindFirst + "no plant\n".length;
  for (const [start, end, id] of [
    [0, behindFirst - 1, 7n],
    [behindFirst, -1, undefined],
    [behindOther, bytes.length - 1, 8n],
    [0, behindFirst - 1, 7n],
    [0, behindFirst - 1, 7n],
    [1, -1, undefined],
    [behindOther, bytes.length - 1, 8n],
    [bytes.length, -1, undefined],
  ] as const) {
    assert.equal(finder.find(start), end);
    if (id !== undefined) assert.equal(idOfWords(finder.idLow, finder.idHigh), id);
  }
});

/** Lines of equal length with ids from 10 million on, and the start of each. */
function makeLines(bytesMin: number, firstId = 10_000_000): { bytes: Buffer; starts: number[] } {
  const starts: number[] = [];
  let text = "";
  while (text.length < bytesMin) {
    starts.push(text.length);
    text += `{"id":${firstId + starts.length - 1},"name":"x"}\n`;
  }
  return { bytes: Buffer.from(text), starts };
}

test("EncodedPlantFinder.find() recognises every line of two MiB", () => {
  const { bytes, starts } = makeLines(2 ** 21);
  const finder = new EncodedPlantFinder(bytes);
  for (const [number, start] of starts.entries()) {
    assert.ok(finder.find(start) > 0, `line ${number}`);
    assert.equal(finder.idLow, 10_000_000 + number);
  }
});

test("EncodedPlantFinder.find() works while another finder is used in between", () => {
  const { bytes, starts } = makeLines(1000);
  const finder = new EncodedPlantFinder(bytes);
  const other = new EncodedPlantFinder(makeLines(1000, 20_000_000).bytes);
  for (const [number, start] of starts.entries()) {
    assert.ok(finder.find(start) > 0 && other.find(start) > 0);
    assert.deepEqual([finder.idLow, other.idLow], [10_000_000 + number, 20_000_000 + number]);
  }
});

/** The id that the general parser finds, if there is one. */
function fullIdOf(bytes: Buffer): bigint | undefined {
  try {
    return parseNewPlant(bytes).id;
  } catch {
    return undefined;
  }
}

test("EncodedPlantFinder.find() agrees with the general parser on any byte at any place of a plant", () => {
  for (const [text] of TAKEN) {
    const bytes = surrounded(text);
    for (let at = 0; at < bytes.length; at++) {
      const before = bytes[at] as number;
      for (let byte = 0; byte < 256; byte++) {
        bytes[at] = byte;
        const id = idOf(bytes);
        if (id !== undefined) assert.equal(id, fullIdOf(bytes), bytes.toString("latin1"));
      }
      bytes[at] = before;
    }
  }
});

/** Ids at which the number of digits, 32-bit words or the range of an int64 ends. */
const EDGES: readonly bigint[] = [
  ...[15n, 16n, 17n, 18n, 19n].map((digits) => 10n ** digits),
  ...[32n, 33n, 53n, 62n, 63n].map((bits) => 2n ** bits),
  12_345_678n * 2n ** 32n,
];

for (const edge of EDGES) {
  test(`EncodedPlantFinder.find() and parseNewPlant() agree on the ids around ${edge} and its negative`, () => {
    for (const magnitude of [edge - 1n, edge, edge + 1n]) {
      for (const id of [magnitude, -magnitude]) {
        const bytes = surrounded(`{"id":${id},"name":"x"}`);
        const isInt64 = id === BigInt.asIntN(64, id);
        assert.equal(idOf(bytes), isInt64 ? id : undefined);
        assert.equal(fullIdOf(bytes), isInt64 ? id : undefined);
      }
    }
  });
}

test("EncodedPlantFinder.find() recognises what encodeNewPlant() writes", () => {
  fc.assert(
    fc.property(anyPlant, (written) => {
      assert.equal(idOf(surrounded(encodeNewPlant(written))), written.id);
    }),
    { numRuns: 1000 },
  );
});

/** The canonical form, a second time: here the strings are judged by JSON.parse. */
const CANONICAL =
  /^\{"id":(0|-?[1-9]\d*),"name":("(?:[^"\\]|\\.)*")(?:,"tag":("(?:[^"\\]|\\.)*"))?\}$/s;

function isCanonical(text: string): boolean {
  const [, id, ...strings] = CANONICAL.exec(text) ?? [];
  if (id === undefined || BigInt(id) !== BigInt.asIntN(64, BigInt(id))) return false;
  try {
    for (const literal of strings) JSON.parse(literal ?? "0");
    return true;
  } catch {
    return false;
  }
}

test("EncodedPlantFinder.find() recognises a line with any escapes exactly if JSON allows them", () => {
  const piece = fc.oneof(
    fc.constantFrom(
      "\\",
      '\\"',
      "\\\\",
      "\\/",
      "\\b",
      "\\f",
      "\\n",
      "\\r",
      "\\t",
      "\\u",
      "\\v",
      '"',
      "\n",
    ),
    fc.stringMatching(/^\\u[0-9a-fA-F]{4}$/),
    fc.stringMatching(/^\\u[0-9a-gA-F ]{3,4}$/),
    fc.constantFrom("a", "bcde", "é", "植", "\u{1f33f}", "\u007f", "\u2028", "}", ","),
  );
  const literal = fc.array(piece, { maxLength: 8 }).map((pieces) => `"${pieces.join("")}"`);
  const line = fc
    .tuple(anyInt64, literal, fc.option(literal))
    .map(([id, name, tag]) => `{"id":${id},"name":${name}${tag === null ? "" : `,"tag":${tag}`}}`);
  let taken = 0;
  fc.assert(
    fc.property(line, (text) => {
      const bytes = surrounded(text);
      const id = idOf(bytes);
      assert.equal(id !== undefined, isCanonical(text), text);
      if (id === undefined) return;
      taken++;
      assert.equal(id, fullIdOf(bytes), text);
    }),
    { numRuns: 5000 },
  );
  assert.ok(taken > 500, `${taken}`);
});
