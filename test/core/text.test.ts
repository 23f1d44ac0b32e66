/** Text that is shown as one line and controls nothing. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { encodeJsonString, escapeControls } from "../../src/core/text.ts";
import { anyString } from "../support/arbitraries.ts";

/** Control characters, line and paragraph separators, marks that reorder text, the BOM, lone surrogates. */
const UNSAFE = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\p{Cs}]/u;

test("encodeJsonString() escapes every character that controls a terminal or ends a line", () => {
  for (let unit = 0; unit <= 0xffff; unit++) {
    const character = String.fromCharCode(unit);
    const literal = encodeJsonString(`a${character}b`);
    assert.equal(UNSAFE.test(literal), false, `U+${unit.toString(16)}`);
    assert.equal(JSON.parse(literal), `a${character}b`, `U+${unit.toString(16)}`);
    const isEscaped = UNSAFE.test(character) || character === '"' || character === "\\";
    assert.equal(literal.includes("\\"), isEscaped, `U+${unit.toString(16)}`);
  }
});

test("encodeJsonString() escapes every unsafe character of a string, not only the first", () => {
  const unsafe = "\u007f\u0085\u009f\u2028\u2029\u202a\u202e\u2066\u2069\ufeff\u001b\n";
  const literal = encodeJsonString(unsafe + unsafe);
  assert.equal(UNSAFE.test(literal), false);
  assert.equal(JSON.parse(literal), unsafe + unsafe);
});

test("encodeJsonString() leaves characters beyond the BMP as they are", () => {
  assert.equal(encodeJsonString("\u{1f33f} Fern"), '"\u{1f33f} Fern"');
});

test("encodeJsonString() makes any string safe to show, and JSON.parse reads it back", () => {
  fc.assert(
    fc.property(anyString, (text) => {
      const literal = encodeJsonString(text);
      assert.equal(UNSAFE.test(literal), false);
      assert.equal(JSON.parse(literal), text);
    }),
  );
});

test("escapeControls() escapes control characters, bidirectional marks and lone surrogates", () => {
  const UNSHOWN = /[\p{Cc}\p{Bidi_Control}\u2028\u2029\ufeff\p{Cs}]/u;
  for (let unit = 0; unit <= 0xffff; unit++) {
    const character = String.fromCharCode(unit);
    const shown = escapeControls(`a${character}b`);
    const isEscaped = UNSHOWN.test(character);
    assert.equal(UNSHOWN.test(shown), false, `U+${unit.toString(16)}`);
    assert.equal(shown.startsWith("a\\u"), isEscaped, `U+${unit.toString(16)}`);
    const literal = escapeControls(encodeJsonString(character));
    assert.equal(JSON.parse(literal), character, `U+${unit.toString(16)}`);
  }
  assert.equal(
    escapeControls("\u{1f33f} \ud83c\u{1f33f}\udf3f"),
    "\u{1f33f} \\ud83c\u{1f33f}\\udf3f",
  );
});
