/** JSON strings as lines hold them, and text that is shown as one line and controls nothing. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  encodeJsonString,
  escapeControls,
  formatHostPort,
  quote,
  summarize,
  truncate,
} from "../../src/core/text.ts";
import { anyString } from "../support/arbitraries.ts";

test("encodeJsonString() writes any string as JSON.stringify does, and JSON.parse reads it back", () => {
  for (let unit = 0; unit <= 0xffff; unit++) {
    const text = `a${String.fromCharCode(unit)}b`;
    assert.equal(encodeJsonString(text), JSON.stringify(text), `U+${unit.toString(16)}`);
  }
  fc.assert(
    fc.property(anyString, (text) => {
      assert.equal(encodeJsonString(text), JSON.stringify(text));
      assert.equal(JSON.parse(encodeJsonString(text)), text);
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

test("a message and a summary have no token, and no part of one", () => {
  const token = `pst_${"A".repeat(43)}`;
  assert.equal(quote(`/a/${token}/b`), '"/a/pst_.../b"');
  assert.equal(quote(`/a/${token.slice(0, -1)}/b`), '"/a/pst_.../b"');
  assert.equal(quote(`${"x".repeat(50)}${token}`), `"${"x".repeat(50)}pst_..."`);
  assert.equal(summarize(`/a/${token}\n/b`, 100), "/a/pst_...\\u000a/b");
});

test("a text is cut between characters", () => {
  assert.equal(truncate("\u{1f33f}\u{1f33f}", 3), "\u{1f33f}\u2026");
  assert.equal(truncate("\u{1f33f}\u{1f33f}", 4), "\u{1f33f}\u{1f33f}");
  assert.equal(truncate("x".repeat(61)), `${"x".repeat(60)}\u2026`);
});

const FORMATTED: readonly [host: string, port: number, text: string][] = [
  ["127.0.0.1", 8080, "127.0.0.1:8080"],
  ["localhost", 0, "localhost:0"],
  ["::", 65_535, "[::]:65535"],
  ["::1", 80, "[::1]:80"],
  ["::ffff:127.0.0.1", 80, "[::ffff:127.0.0.1]:80"],
];

for (const [host, port, text] of FORMATTED) {
  test(`${host} and ${port} are ${text}, which is valid in a URL`, () => {
    assert.equal(formatHostPort(host, port), text);
    assert.ok(URL.canParse(`http://${text}/`));
  });
}
