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
} from "../../src/core/text.ts";
import { anyString } from "../support/arbitraries.ts";

test("encodeJsonString() writes each character as JSON.stringify does", () => {
  for (let unit = 0; unit <= 0xffff; unit++) {
    const text = `a${String.fromCharCode(unit)}b`;
    assert.equal(encodeJsonString(text), JSON.stringify(text), `U+${unit.toString(16)}`);
  }
});

test("encodeJsonString() leaves characters beyond the BMP as they are", () => {
  assert.equal(encodeJsonString("\u{1f33f} Fern"), '"\u{1f33f} Fern"');
});

test("encodeJsonString() writes any string as JSON.stringify does, and JSON.parse reads it back", () => {
  const long = anyString.map((text) => `${"\u{1f33f}\u2028".repeat(3000)}${text}`);
  fc.assert(
    fc.property(fc.oneof({ weight: 9, arbitrary: anyString }, long), (text) => {
      const literal = encodeJsonString(text);
      assert.equal(literal, JSON.stringify(text));
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

const TOKEN = `pst_${"A".repeat(43)}`;

test("a message has no part of a token either", () => {
  assert.equal(quote(`/a/${TOKEN.slice(0, -1)}/b`), '"/a/pst_.../b"');
});

test("a message and a summary have no token", () => {
  assert.equal(quote(`/a/${TOKEN}/b`), '"/a/pst_.../b"');
  assert.equal(summarize(`/a/${TOKEN}\n/b`, 100), "/a/pst_...\\u000a/b");
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
