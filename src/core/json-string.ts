/**
 * JSON string literals: from bytes to text and back, exactly, whatever the
 * text holds; and text that is shown. What a string escape stands for is left
 * to `JSON.parse` on that one literal.
 */

const BACKSLASH = 0x5c;

/** The value of the valid string literal between two offsets, quotes included. */
export function decodeJsonString(bytes: Buffer, start: number, end: number): string {
  for (let at = start + 1; at < end - 1; at++) {
    if (bytes[at] === BACKSLASH) return JSON.parse(bytes.toString("utf8", start, end));
  }
  return bytes.toString("utf8", start + 1, end - 1);
}

/**
 * Characters that `JSON.stringify` leaves as they are but that end a line,
 * steer a terminal or reorder the text around them: DEL and C1 controls, the
 * line and paragraph separators, the bidirectional overrides, the BOM. A
 * plant's line never changes its form, so this set stays as it is.
 */
const UNSAFE_SET = "\\u007f-\\u009f\\u2028-\\u202e\\u2066-\\u2069\\ufeff";
const UNSAFE = new RegExp(`[${UNSAFE_SET}]`);
const UNSAFE_ALL = new RegExp(UNSAFE, "g");

/** What is shown to people besides holds no C0 control, no mark of direction, no lone surrogate. */
const UNSHOWN = new RegExp(
  `[\\u0000-\\u001f\\u061c\\u200e\\u200f${UNSAFE_SET}]|` +
    "[\\ud800-\\udbff](?![\\udc00-\\udfff])|(?<![\\ud800-\\udbff])[\\udc00-\\udfff]",
  "g",
);

/** Most names: printable ASCII without quotes and backslashes. Four times as fast as the rest. */
const PLAIN = /^[ !#-[\]-~]*$/;

/**
 * A string literal that stays on one line in any editor and does nothing to a
 * terminal. A lone surrogate becomes its escape, so any string survives.
 */
export function encodeJsonString(text: string): string {
  if (PLAIN.test(text)) return `"${text}"`;
  const literal = JSON.stringify(text);
  return UNSAFE.test(literal) ? literal.replace(UNSAFE_ALL, escapeCharacter) : literal;
}

/**
 * A text that may hold anything, such as the name of a file, for a terminal or
 * a log: one line, that moves no cursor and reorders nothing. Inside a string
 * literal only the form changes, not the value.
 */
export function escapeControls(text: string): string {
  return PRINTABLE.test(text) ? text : text.replace(UNSHOWN, escapeCharacter);
}

const PRINTABLE = /^[ -~]*$/;

/** Longer values are cut: a message is read by people. */
const SHOWN_CHARACTERS_MAX = 60;

/** So much of a text as a message shows. */
export function cut(text: string): string {
  if (text.length <= SHOWN_CHARACTERS_MAX) return text;
  // A cut through a surrogate pair would show half a character.
  const head = text.slice(0, SHOWN_CHARACTERS_MAX).replace(/[\ud800-\udbff]$/, "");
  return `${head}…`;
}

function escapeCharacter(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
