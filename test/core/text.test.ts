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

/** What `JSON.stringify` leaves, although readers of lines may end one there. */
const SEPARATORS = /[\u0085\u2028\u2029]/g;

/** The promised form, a character at a time. */
function expectedLiteral(text: string): string {
  const toEscape = (character: string) =>
    `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify(text).replace(SEPARATORS, toEscape);
}

test("encodeJsonString() writes each character as JSON.stringify does, and escapes three more", () => {
  for (let unit = 0; unit <= 0xffff; unit++) {
    const text = `a${String.fromCharCode(unit)}b`;
    assert.equal(encodeJsonString(text), expectedLiteral(text), `U+${unit.toString(16)}`);
  }
  assert.equal(encodeJsonString("\u0085\u2028\u2029"), '"\\u0085\\u2028\\u2029"');
});

test("encodeJsonString() leaves characters beyond the BMP as they are", () => {
  assert.equal(encodeJsonString("\u{1f33f} Fern"), '"\u{1f33f} Fern"');
});

test("encodeJsonString() writes any string in the promised form, and JSON.parse reads it back", () => {
  const long = anyString.map((text) => `${"\u{1f33f}\u2028".repeat(3000)}${text}`);
  fc.assert(
    fc.property(fc.oneof({ weight: 9, arbitrary: anyString }, long), (text) => {
      const literal = encodeJsonString(text);
      assert.equal(literal, expectedLiteral(text));
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
const ENCODED = `%70s%74%5f${"%41".repeat(43)}`;

test("a message has no part of a token either", () => {
  assert.equal(quote(`/a/${TOKEN.slice(0, -1)}/b`), '"/a/pst_.../b"');
});

for (const token of [TOKEN, ENCODED]) {
  test(`a message and a summary have no token that is written as ${token.slice(0, 10)}`, () => {
    assert.equal(quote(`/a/${token}/b`), '"/a/pst_.../b"');
    assert.equal(summarize(`/a/${token}\n/b`, 100), "/a/pst_...\\u000a/b");
  });
}

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
