import assert from "node:assert/strict";
import { test } from "node:test";
import { isBlank } from "../../src/log/lines.ts";

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
