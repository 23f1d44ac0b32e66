/** Text that is shown as one line, and controls nothing. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { escapeControls, quote, shorten } from "../../src/core/text.ts";

const UNSHOWN = /[\p{Cc}\p{Bidi_Control}\u2028\u2029\ufeff\p{Cs}]/u;

test("every character is escaped exactly if it controls a terminal", () => {
  for (let unit = 0; unit <= 0xffff; unit++) {
    const character = String.fromCharCode(unit);
    const shown = escapeControls(`a${character}b`);
    assert.equal(UNSHOWN.test(shown), false, `U+${unit.toString(16)}`);
    assert.equal(shown.startsWith("a\\u"), UNSHOWN.test(character), `U+${unit.toString(16)}`);
    const literal = JSON.stringify(`a${character}b`);
    assert.equal(JSON.parse(escapeControls(literal)), `a${character}b`);
  }
  const leaf = "\u{1f33f}";
  assert.equal(escapeControls(`${leaf} \ud83c${leaf}\udf3f`), `${leaf} \\ud83c${leaf}\\udf3f`);
});

test("a quoted text and a cut one have no token, and no part of one", () => {
  const token = `pst_${"A".repeat(43)}`;
  assert.equal(quote(`/a/${token}/b`), '"/a/pst_.../b"');
  assert.equal(quote(`${"x".repeat(50)}${token}`), `"${"x".repeat(50)}pst_..."`);
  assert.equal(shorten(`/a/${token.slice(0, -1)}/b`, 100), "/a/pst_.../b");
});

test("a text is cut between characters", () => {
  assert.equal(shorten("\u{1f33f}\u{1f33f}", 3), "\u{1f33f}\u2026");
  assert.equal(shorten("\u{1f33f}\u{1f33f}", 4), "\u{1f33f}\u{1f33f}");
  assert.equal(shorten("x".repeat(61)), `${"x".repeat(60)}\u2026`);
});
