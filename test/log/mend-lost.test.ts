/** Lines that lost pages in a power cut: how they are recognised, and how they are mended. */
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import fc from "fast-check";
import {
  BATCH_BYTES_LIMIT,
  earliestBatchStart,
  hasLostSector,
  mendLog,
} from "../../src/log/mend.ts";
import { openLog } from "../support/logs.ts";
import { snapshot } from "../support/snapshot.ts";
import { collectWarnings } from "../support/watch.ts";

/** The bytes of texts, and as many NUL bytes as each number says. */
type Piece = string | number;

function bytesOf(pieces: readonly Piece[]): Buffer {
  return Buffer.concat(
    pieces.map((piece) =>
      typeof piece === "number" ? Buffer.alloc(piece) : Buffer.from(piece, "latin1"),
    ),
  );
}

const SECTOR = "x".repeat(512);

const LINES: readonly [says: string, offset: number, line: readonly Piece[], isLost: boolean][] = [
  ["a sector of zeros", 2 ** 31 + 500, ["x".repeat(12), 512, "x"], true],
  ["zeros across a border", 2 ** 31 + 500, ["x".repeat(11), 512, "x"], false],
];

for (const [says, offset, line, isLost] of LINES) {
  test(`a line beyond 2 GiB that holds ${says} ${isLost ? "has lost a sector" : "is whole"}`, () => {
    assert.equal(hasLostSector(bytesOf(line), offset), isLost);
  });
}

test("a line has lost a sector if its part of a whole sector of the disk is zeros", () => {
  const anyPiece = fc.oneof(fc.integer({ min: 0, max: 1200 }), fc.constantFrom("x", SECTOR));
  fc.assert(
    fc.property(fc.nat(2000), fc.array(anyPiece, { maxLength: 6 }), (offset, pieces) => {
      const line = bytesOf(pieces);
      const disk = Buffer.concat([Buffer.alloc(offset), line]); // the bytes before the line count as zeros
      let expected = false;
      for (let end = 512; end <= disk.length; end += 512) {
        const isZero = disk.subarray(end - 512, end).equals(Buffer.alloc(512));
        if (end > offset && isZero) expected = true;
      }
      assert.equal(hasLostSector(line, offset), expected);
    }),
  );
});

const A = '{"id":1}\n';
const B = '{"id":2}\n';
const DAMAGED = `{"i${"\0".repeat(600)}:3}\n`;
const isRecord = (text: Buffer) => /^\{.*\}$/.test(text.toString());

/** A log of these lines, and the ranges of the lost ones among them. */
function logOf(...lines: readonly string[]) {
  let offset = 0;
  const lost: { offset: number; bytes: number }[] = [];
  for (const line of lines) {
    if (line.includes("\0")) lost.push({ offset, bytes: line.length });
    offset += line.length;
  }
  return { content: lines.join(""), lost, tail: { offset, line: lines.length + 1 } };
}

function blankLine(line: string): string {
  return `${" ".repeat(line.length - 1)}\n`;
}

const MENDED: readonly [
  says: string,
  lines: readonly string[],
  rest: string,
  kept: string,
  quarantined: string,
][] = [
  ["the only line", [DAMAGED], "", blankLine(DAMAGED), DAMAGED],
  ["a line in the middle", [A, DAMAGED, B], "", A + blankLine(DAMAGED) + B, DAMAGED],
  [
    "two lines with a good one between them",
    [DAMAGED, A, `${DAMAGED}`],
    "",
    blankLine(DAMAGED) + A + blankLine(DAMAGED),
    DAMAGED + DAMAGED,
  ],
  ["a line before a torn tail", [A, DAMAGED], '{"id"', A + blankLine(DAMAGED), `${DAMAGED}{"id"`],
  [
    "a line before a record without its line feed",
    [A, DAMAGED],
    '{"id":4}',
    `${A}${blankLine(DAMAGED)}{"id":4}\n`,
    DAMAGED,
  ],
  [
    "a line longer than the buffer for copies",
    [A, `{${"\0".repeat(1024 * 1024 + 1)}\n`],
    "",
    `${A} ${" ".repeat(1024 * 1024 + 1)}\n`,
    `{${"\0".repeat(1024 * 1024 + 1)}\n`,
  ],
];

for (const [says, lines, rest, kept, quarantined] of MENDED) {
  test(`mendLog() keeps ${says} in one quarantine file and overwrites it with spaces`, async (t) => {
    const { content, lost, tail } = logOf(...lines);
    const file = await openLog(t, content + rest);
    const warnings = collectWarnings(t, file.path);
    assert.equal(await mendLog(file, { lost, tail, isRecord }), kept.length);
    const {
      "test.jsonl": log,
      "test.jsonl.quarantine-1": put,
      ...others
    } = snapshot(path.dirname(file.path));
    assert.equal(log === kept, true);
    assert.equal(put === quarantined, true);
    assert.deepEqual(others, {});
    assert.equal(warnings.length, lost.length + (rest === "" ? 0 : 1)); // a line for each change
  });
}

const LIMIT = BATCH_BYTES_LIMIT;

/** Lengths of lines with their line feeds, and where the last batch may start at the earliest. */
const STARTS: readonly [lengths: readonly number[], torn: number, start: number][] = [
  [[], 0, 0],
  [[1], 0, 0],
  [[], 1, 0],
  [[10, 20], 0, 0],
  [[LIMIT, 5], 0, 0],
  [[LIMIT + 1, 5], 0, 1],
  [[LIMIT, 5], 1, 5],
  [[LIMIT, 5], 3 * LIMIT, 5],
  [[2 * LIMIT, 100, 7], 0, LIMIT + 100],
  [[2 * LIMIT, 100, 1], 0, LIMIT + 100],
  [[3 * LIMIT], 0, 0],
  [[100, 3 * LIMIT], 0, 0],
  [[LIMIT, 100, 3 * LIMIT], 0, 100],
];

for (const [lengths, torn, start] of STARTS) {
  test(`the last batch starts at ${start} or later after lines of ${lengths.join(", ") || "no"} bytes and ${torn} torn bytes`, async (t) => {
    const lines = lengths.map((length) => Buffer.alloc(length, "x").fill("\n", length - 1));
    const content = Buffer.concat([...lines, Buffer.alloc(torn, "t")]);
    const file = await openLog(t, content);
    assert.equal(await earliestBatchStart(file, content.length), start);
    // Bytes after the given end are ignored.
    fs.appendFileSync(file.path, "\nmore\n");
    assert.equal(await earliestBatchStart(file, content.length), start);
  });
}

test("mendLog() interrupted while it blanks a line leaves a line that has lost a sector", async (t) => {
  const line = bytesOf(['{"id":1,"name":"', SECTOR, 4096, SECTOR, '"}']);
  const file = await openLog(t, Buffer.concat([line, Buffer.from("\n")]));
  const damage = {
    lost: [{ offset: 0, bytes: line.length + 1 }],
    tail: { offset: line.length + 1, line: 2 },
    isRecord: () => false,
  };
  const overwrite = file.overwrite.bind(file);
  const between: boolean[] = [];
  t.mock.method(file, "overwrite", async (bytes: Buffer, position: number) => {
    await overwrite(bytes, position);
    between.push(hasLostSector(fs.readFileSync(file.path).subarray(0, -1), 0));
  });
  await mendLog(file, damage);
  // First the text is overwritten, and only then the zeros.
  assert.deepEqual(between, [true, false]);
  assert.equal(fs.readFileSync(file.path, "latin1"), `${" ".repeat(line.length)}\n`);
});
