import assert from "node:assert/strict";
import { test } from "node:test";
import { LineBytes, type PutLine } from "../../../src/cli/logging/line-bytes.ts";

const ROOM = 4096;

function textOf(put: PutLine): string {
  const bytes = new LineBytes(ROOM);
  assert.ok(bytes.add(put, ROOM));
  return bytes.lines.toString();
}

test("pieces, texts and numbers stand side by side, and a line feed behind them", () => {
  const put: PutLine = (line) => {
    line.piece(Buffer.from("status "));
    line.number(200);
    line.text(" für ");
    line.text("x".repeat(100));
  };
  assert.equal(textOf(put), `status 200 für ${"x".repeat(100)}\n`);
});

const NUMBERS: readonly [value: number, digitsMin: number | undefined, text: string][] = [
  [0, undefined, "0"],
  [9, undefined, "9"],
  [10, undefined, "10"],
  [99, undefined, "99"],
  [100, undefined, "100"],
  [1_048_576, undefined, "1048576"],
  [4_294_967_296, undefined, "4294967296"],
  [Number.MAX_SAFE_INTEGER, undefined, "9007199254740991"],
  [0, 3, "000"],
  [7, 3, "007"],
  [999, 3, "999"],
  [1000, 3, "1000"],
  [-0, undefined, "0"],
  [-1, undefined, "null"],
  [1.5, undefined, "null"],
  [2 ** 53, undefined, "null"],
  [Number.NaN, 3, "null"],
  [Number.POSITIVE_INFINITY, undefined, "null"],
];

for (const [value, digitsMin, text] of NUMBERS) {
  const least = digitsMin === undefined ? "" : ` in ${digitsMin} digits or more`;
  test(`the number ${value}${least} is ${text}`, () => {
    assert.equal(
      textOf((line) => line.number(value, digitsMin)),
      `${text}\n`,
    );
  });
}

const TEXTS: readonly string[] = [
  "",
  "a",
  "\u007f",
  "\u0080",
  "z\u00fc\u20ac\u{1f331}",
  "a".repeat(32),
  "a".repeat(33),
  `${"a".repeat(31)}\u00fc`,
  `${"a".repeat(32)}\u00fc`,
];

for (const text of TEXTS) {
  test(`the text ${JSON.stringify(text)} is its UTF-8`, () => {
    assert.equal(
      textOf((line) => line.text(text)),
      `${text}\n`,
    );
  });
}

const LINES: readonly [what: string, put: PutLine, bytes: number][] = [
  ["a piece", (line) => line.piece(Buffer.from("12345")), 6],
  ["a short text", (line) => line.text("12345"), 6],
  ["a text of two bytes a character", (line) => line.text("\u00fc\u00fc"), 5],
  ["a long text", (line) => line.text("x".repeat(100)), 101],
  ["a long text of three bytes a character", (line) => line.text("\u20ac".repeat(50)), 151],
  ["a number", (line) => line.number(12345), 6],
  ["a number of digits that were asked for", (line) => line.number(5, 5), 6],
  ["an empty text", (line) => line.text(""), 1],
  ["nothing", () => {}, 1],
];

for (const [what, put, bytes] of LINES) {
  test(`a line of ${what} is kept where its ${bytes} bytes have room, and else leaves nothing`, () => {
    const lines = new LineBytes(ROOM);
    assert.ok(lines.add((line) => line.text("before"), ROOM));
    assert.equal(lines.add(put, bytes - 1), false);
    assert.equal(lines.lines.toString(), "before\n");
    assert.equal(lines.add(put, bytes), true);
    assert.equal(lines.length, "before\n".length + bytes);
  });

  test(`what comes behind ${what} that found no room is no line either`, () => {
    const lines = new LineBytes(ROOM);
    const both: PutLine = (line) => {
      put(line);
      line.text("");
      line.text("\u00fc");
      line.number(1);
      line.piece(Buffer.from(""));
    };
    for (let room = 0; room < bytes + 3; room++) assert.equal(lines.add(both, room), false);
    assert.equal(lines.length, 0);
    assert.equal(lines.add(both, bytes + 3), true);
  });
}

test("a line that throws leaves nothing, and the next is whole", () => {
  const lines = new LineBytes(ROOM);
  const put: PutLine = (line) => {
    line.text("half");
    throw new Error("a fault");
  };
  assert.throws(() => lines.add(put, ROOM), /a fault/);
  lines.add((line) => line.text("whole"), ROOM);
  assert.equal(lines.lines.toString(), "whole\n");
});

test("no room that is told is more than there is", () => {
  const lines = new LineBytes(8);
  assert.equal(
    lines.add((line) => line.piece(Buffer.alloc(8)), ROOM),
    false,
  );
  assert.equal(
    lines.add((line) => line.piece(Buffer.alloc(7)), ROOM),
    true,
  );
});

test("after a clear the lines begin anew", () => {
  const lines = new LineBytes(ROOM);
  lines.add((line) => line.text("old"), ROOM);
  lines.clear();
  assert.equal(lines.length, 0);
  lines.add((line) => line.text("new"), ROOM);
  assert.equal(lines.lines.toString(), "new\n");
});
