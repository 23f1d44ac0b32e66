/** The reader finds the same lines no matter where its blocks end. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import fc from "fast-check";
import type { LogFile } from "../../src/log/file.ts";
import {
  type LineBlock,
  type LinePosition,
  LOG_START,
  positionAfter,
  readBlocks,
  readLineAt,
  visitLines,
} from "../../src/log/lines.ts";
import { openLog } from "../support/logs.ts";

/** The length of a read; only lines across such a border are difficult. */
const BLOCK = 1024 * 1024;

interface Line extends LinePosition {
  readonly text: string;
}

/** Long texts are compared by hash, because a failed comparison of megabytes would print for minutes. */
function shorten(text: string): string {
  if (text.length <= 64) return text;
  return `${text.length}: ${createHash("sha256").update(text).digest("hex")}`;
}

/** The expected lines, by the simplest code: split at line feeds, and drop the tail. */
function expectedLines(content: string, end = content.length): Line[] {
  const lines: Line[] = [];
  let offset = 0;
  let line = 1;
  for (const text of content.slice(0, end).split("\n").slice(0, -1)) {
    if (/[^ \t\r]/.test(text)) lines.push({ text: shorten(text), offset, line });
    offset += text.length + 1;
    line++;
  }
  return lines;
}

/** The lines that the reader finds in a file; its blocks must join without a gap. */
async function readLines(file: LogFile, end: number, start = LOG_START): Promise<Line[]> {
  const lines: Line[] = [];
  let expected = start;
  for await (const block of readBlocks(file, start, end)) {
    assert.deepEqual({ offset: block.offset, line: block.line }, expected);
    assert.equal(block.bytes.at(-1), 0x0a);
    visitLines(block, (record, position) => {
      lines.push({ text: shorten(record.toString("latin1")), ...position });
    });
    expected = positionAfter(block);
  }
  return lines;
}

/** A line of this many bytes with its line feed, which differs from lines of every other length. */
function lineOf(bytes: number): string {
  const label = String(bytes).slice(0, bytes - 1);
  return `${label}${"x".repeat(bytes - 1 - label.length)}\n`;
}

const ALL: readonly [what: string, lengths: readonly number[]][] = [
  ["no line", []],
  ["one short line", [2]],
  ["lines of one record each", [2, 3, 10, 500]],
  ["a line as long as two blocks", [5, 2 * BLOCK, 5]],
  ["a line longer than three blocks", [5, 3 * BLOCK + 7, 5]],
  ["a line of exactly one block, alone", [BLOCK]],
  ["lines of one block each", [BLOCK, BLOCK, BLOCK]],
  ["two lines in each block", [BLOCK / 2, BLOCK / 2, BLOCK / 2, BLOCK / 2]],
  ["many lines over many blocks", Array.from({ length: 3000 }, (_, n) => 1000 + n)],
];

for (const [what, lengths] of ALL) {
  test(`readBlocks() and visitLines() yield every line of a log with ${what}`, async (t) => {
    const content = lengths.map(lineOf).join("");
    const file = await openLog(t, content);
    assert.deepEqual(await readLines(file, content.length), expectedLines(content));
  });
}

test("readBlocks() yields the same lines no matter where a block ends", async (t) => {
  // The first line feed is placed from five bytes before the border of a block to five bytes after
  // it, and a second one likewise at the next border, with the shortest lines around them.
  for (let distance = -5; distance <= 5; distance++) {
    const content = [BLOCK + distance, 1, 2, BLOCK - 3, 1, 1, 2, 3, 2].map(lineOf).join("");
    const file = await openLog(t, content);
    const lines = await readLines(file, content.length);
    assert.deepEqual(lines, expectedLines(content), `line feed at the border ${distance}`);
  }
});

test("readBlocks() never yields a tail, no matter where near the end of a block the log ends", async (t) => {
  const content = [BLOCK - 4, 3, 1, 5, BLOCK - 6, 4, 2].map(lineOf).join("");
  const file = await openLog(t, content);
  const ends = [0, 1, 2, 17];
  for (let distance = -8; distance <= 8; distance++)
    ends.push(BLOCK + distance, 2 * BLOCK + distance);
  for (const end of ends.filter((place) => place <= content.length)) {
    assert.deepEqual(await readLines(file, end), expectedLines(content, end), `end at ${end}`);
  }
});

test("readBlocks() fails if the file was cut before the end it was given", async (t) => {
  const content = [10, BLOCK, 20].map(lineOf).join("");
  for (const bytes of [0, 5, 10, BLOCK, content.length - 1]) {
    const file = await openLog(t, content.slice(0, bytes));
    await assert.rejects(readLines(file, content.length), { code: "io_error" }, `${bytes} bytes`);
  }
});

test("readBlocks() can start at any line, with its offset and number", async (t) => {
  const content = [10, 1, BLOCK - 11, 20, 1, 30, BLOCK, 40].map(lineOf).join("");
  const file = await openLog(t, content);
  const all = expectedLines(content);
  for (const [index, { offset, line }] of all.entries()) {
    const lines = await readLines(file, content.length, { offset, line });
    assert.deepEqual(lines, all.slice(index));
  }
});

test("visitLines() and positionAfter() agree with a plain split on any block", () => {
  const text = fc.array(fc.constantFrom("a", "{}", " ", "\r", "\t", "\n", "\n\n")).map((parts) => {
    return `${parts.join("")}\n`;
  });
  fc.assert(
    fc.property(text, fc.nat(), fc.integer({ min: 1 }), (content, offset, line) => {
      const block: LineBlock = { bytes: Buffer.from(content), offset, line };
      const seen: Line[] = [];
      visitLines(block, (record, position) => {
        seen.push({ text: shorten(record.toString()), ...position });
      });
      const expected = expectedLines(content).map((found) => ({
        text: found.text,
        offset: found.offset + offset,
        line: found.line + line - 1,
      }));
      assert.deepEqual(seen, expected);
      assert.deepEqual(positionAfter(block), {
        offset: offset + content.length,
        line: line + content.split("\n").length - 1,
      });
    }),
  );
});

/** The reader first tries 512 bytes, then twice as many. */
const RECORD_BYTES = [0, 1, 510, 511, 512, 513, 1022, 1023, 1024, 1025, 131_072, 3 * BLOCK];

for (const bytes of RECORD_BYTES) {
  test(`readLineAt() reads a record of ${bytes} bytes, between others and at the end`, async (t) => {
    const line = lineOf(bytes + 1);
    const content = `before\n${line}middle\n${line}`;
    const file = await openLog(t, content);
    const record = line.slice(0, -1);
    for (const offset of [7, 7 + line.length + 7]) {
      const read = await readLineAt(file, offset, content.length);
      assert.equal(shorten(read.toString()), shorten(record), `at ${offset}`);
    }
    assert.equal((await readLineAt(file, 0, content.length)).toString(), "before");
  });
}

test("readLineAt() refuses a line that has no end in the file", async (t) => {
  for (const bytes of [0, 1, 511, 512, 513, 9000]) {
    const file = await openLog(t, `before\n${"x".repeat(bytes)}`);
    await assert.rejects(readLineAt(file, 7, 7 + bytes));
    await assert.rejects(readLineAt(file, 7, 5 * BLOCK));
  }
});

test("visitLines() skips the lines that are taken, and counts them", () => {
  const content = "one\n\ntwo\nthree\nfour\n";
  const block: LineBlock = { bytes: Buffer.from(content), offset: 10, line: 3 };
  const offered: number[] = [];
  const visited: [string, LinePosition][] = [];
  visitLines(
    block,
    (record, position) => visited.push([record.toString(), position]),
    (start) => {
      offered.push(start);
      return content.startsWith("t", start) ? content.indexOf("\n", start) : -1;
    },
  );
  assert.deepEqual(offered, [0, 4, 5, 9, 15]);
  assert.deepEqual(visited, [
    ["one", { offset: 10, line: 3 }],
    ["four", { offset: 25, line: 7 }],
  ]);
  assert.deepEqual(positionAfter(block), { offset: 30, line: 8 });
});

test("readBlocks() can be stopped, and the file closed, while it reads ahead", async (t) => {
  const file = await openLog(t, lineOf(1000).repeat(2000));
  for await (const block of readBlocks(file, LOG_START, file.size())) {
    assert.equal(block.line, 1);
    break;
  }
  await file.close();
});
