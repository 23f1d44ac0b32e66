/** Compares the quick check of lines with the general parser, for lines at every place of a log. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { PlantStoreError } from "../../src/core/errors.ts";
import { encodeNewPlant, parseNewPlant } from "../../src/core/plant.ts";
import { LogFile } from "../../src/log/file.ts";
import {
  type LineBlock,
  type LinePosition,
  LOG_START,
  positionAfter,
  readBlocks,
  visitLines,
} from "../../src/log/lines.ts";
import { parseLine, takePlants } from "../../src/store/records.ts";
import { anyInt64, anyPlant } from "../support/arbitraries.ts";
import { makeFolder } from "../support/folders.ts";
import { idOfWords } from "../support/id-words.ts";
import { logPath, writeLog } from "../support/stores.ts";

/** The place of a line, and the id of its plant if it is one. */
type Judged = readonly [place: number, line: number, id: bigint | undefined];

function idOf(record: Buffer): bigint | undefined {
  try {
    return parseNewPlant(record).id;
  } catch {
    return undefined;
  }
}

function judgeFully(block: LineBlock): Judged[] {
  const judged: Judged[] = [];
  visitLines(block, (record, { offset, line }) => {
    judged.push([offset - block.offset, line, idOf(record)]);
  });
  return judged;
}

function judgeQuickly(block: LineBlock): { judged: Judged[]; taken: number; after: LinePosition } {
  const judged: Judged[] = [];
  let taken = 0;
  takePlants(
    block,
    (start, end, line, idLow, idHigh) => {
      assert.equal(block.bytes[end], 0x0a);
      assert.equal(block.bytes.indexOf(0x0a, start), end);
      judged.push([start, line, idOfWords(idLow, idHigh)]);
      taken++;
      return true;
    },
    (record, { offset, line }) => judged.push([offset - block.offset, line, idOf(record)]),
  );
  return { judged, taken, after: positionAfter(block) };
}

function assertAgreed(bytes: Buffer, offset = 0): number {
  const block = { bytes, offset, line: 5 };
  const { judged, taken, after } = judgeQuickly({ ...block });
  assert.deepEqual(judged, judgeFully(block), bytes.toString("latin1"));
  assert.deepEqual(after, positionAfter({ ...block }));
  return taken;
}

const HARD_LINES: readonly string[] = [
  "",
  " \t",
  "\r",
  '{"id":1,"name":"a"}',
  '{"id":1,"name":"a"}\r',
  ' {"id":1,"name":"a"}',
  '{"id":1,"name":"a"} ',
  '{"id":1,"name":"a"}x',
  '{"id":1,"name":"a"}{"id":1,"name":"a"}',
  '{"name":"a","id":1}',
  '{"id":1,"name":"a","tag":"b","more":[]}',
  '{"id":-0,"name":"a"}',
  '{"id":0,"name":"é"}',
  '{"id":999999999999999,"name":"a"}',
  '{"id":-999999999999999,"name":"a"}',
  '{"id":1000000000000000,"name":"a"}',
  '{"id":9007199254740993,"name":"a"}',
  '{"id":9223372036854775807,"name":"a"}',
  '{"id":-9223372036854775808,"name":"a"}',
  '{"id":9223372036854775808,"name":"a"}',
  '{"id":12',
  "x",
];

test("takePlants() agrees with the general parser on every pair of hard lines, at the start of a log and within", () => {
  for (const first of HARD_LINES) {
    for (const second of HARD_LINES) {
      for (const mark of ["", "\ufeff"]) {
        const bytes = Buffer.from(`${mark}${first}\n${second}\n`);
        for (const offset of [0, 2 ** 33]) assertAgreed(bytes, offset);
      }
    }
  }
});

test("takePlants() visits a line that is not UTF-8, and recognises its neighbours", () => {
  const good = Buffer.from('{"id":1,"name":"é"}\n');
  const bad = Buffer.from('{"id":2,"name":"\xe9"}\n', "latin1");
  // The two halves of one character, which would be valid UTF-8 only if the lines were joined.
  const torn = [Buffer.from('{"id":3,"name":"\xc3"}\n', "latin1"), Buffer.from("\xa9\n", "latin1")];
  for (const lines of [
    [bad],
    [good, bad, good],
    [bad, good],
    torn,
    [good, ...torn],
    [good, good],
  ]) {
    assertAgreed(Buffer.concat(lines));
  }
});

test("takePlants() visits a line that its callback refuses", () => {
  const bytes = Buffer.from('{"id":1,"name":"a"}\n{"id":2,"name":"b"}\n');
  const visited: unknown[] = [];
  takePlants(
    { bytes, offset: 100, line: 7 },
    (start) => start !== 20,
    (record, position) => visited.push([record.toString(), position]),
  );
  assert.deepEqual(visited, [['{"id":2,"name":"b"}', { offset: 120, line: 8 }]]);
});

test("takePlants() agrees with the general parser on any lines with any bytes changed", () => {
  const line = fc.oneof(
    { weight: 3, arbitrary: anyPlant.map(encodeNewPlant) },
    { weight: 2, arbitrary: anyInt64.map((id) => `{"id":${id},"name":"Fern","tag":"é"}`) },
    { weight: 1, arbitrary: fc.constantFrom(...HARD_LINES) },
  );
  const end = fc.constantFrom("\n", "\n", "\n", "\r\n", "\n\n", " \n");
  const lines = fc.array(fc.tuple(line, end), { minLength: 1, maxLength: 12 });
  const changes = fc.array(fc.tuple(fc.nat(), fc.integer({ min: 0, max: 255 })), { maxLength: 2 });
  let taken = 0;
  fc.assert(
    fc.property(lines, changes, (written, changed) => {
      const bytes = Buffer.from(`${written.flat().join("")}\n`);
      // The last byte stays a line feed, because a block is whole lines.
      for (const [at, byte] of changed) bytes[at % (bytes.length - 1)] = byte;
      taken += assertAgreed(bytes, 1);
    }),
    { numRuns: 3000 },
  );
  assert.ok(taken > 1000);
});

test("takePlants() recognises every plant of every block of a log", async (t) => {
  const line = '{"id":1,"name":"Fern","tag":"indoor"}\n';
  const lines = Math.ceil((3 * 2 ** 20) / line.length);
  const folder = makeFolder(t);
  writeLog(folder, line.repeat(lines));
  const file = await LogFile.open(logPath(folder));
  t.after(() => file.close());
  let taken = 0;
  for await (const block of readBlocks(file, LOG_START, file.size())) {
    taken += judgeQuickly(block).taken;
  }
  assert.equal(taken, lines);
});

test("parseLine() refuses a line longer than any record without making text of it", () => {
  const limit = 64 * 1024 * 1024;
  const hole = Buffer.alloc(limit);
  hole.toString = () => assert.fail("text of a hole may not fit into memory");
  assert.ok(parseLine(hole) instanceof PlantStoreError);
  const longest = Buffer.alloc(limit - 1, " ");
  longest.write('{"id":7,"name":"a"}');
  assert.deepEqual(parseLine(longest), { id: 7n, name: "a" });
});
