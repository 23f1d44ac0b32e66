import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { isBlank, lineBytes } from "../../src/log/lines.ts";

test("lineBytes() counts the bytes of any record without a line feed, and its line feed", () => {
  // Not `fc.string` with a unit, which first makes a table of all of Unicode.
  const codePoint = fc.oneof(
    fc.nat(0xd7ff),
    fc.integer({ min: 0xe000, max: 0x10ffff }),
    fc.nat(0x7f),
  );
  const unit = codePoint.map((code) => String.fromCodePoint(code));
  const record = fc.string({ unit }).filter((text) => !text.includes("\n"));
  fc.assert(
    fc.property(record, (text) => {
      assert.equal(lineBytes(text), Buffer.from(`${text}\n`).length);
    }),
  );
});

for (const record of ["\n", "a\n", "\na", "a\nb", "a\r\nb"]) {
  test(`lineBytes() refuses ${JSON.stringify(record)}: it would break the line`, () => {
    assert.throws(() => lineBytes(record), RangeError);
  });
}

for (const line of ["", " ", "\t", "\r", "   ", " \t\r", " ".repeat(4096)]) {
  test(`isBlank() finds no record in ${JSON.stringify(line).slice(0, 20)}`, () => {
    assert.equal(isBlank(Buffer.from(line)), true);
  });
}

// A power cut leaves NUL bytes: that is damage, which must not be ignored.
for (const line of [
  "{}",
  " {",
  "\0",
  " \0 ",
  "\v",
  "\f",
  "\u00a0",
  "\ufeff",
  `${" ".repeat(99)}x`,
]) {
  test(`isBlank() takes ${JSON.stringify(line).slice(-20)} for a record`, () => {
    assert.equal(isBlank(Buffer.from(line)), false);
  });
}
