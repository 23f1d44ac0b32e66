/**
 * JSON string literals: from bytes to text and back, exactly, whatever the
 * text holds; and text that is shown. What a string escape stands for is left
 * to `JSON.parse` on that one literal.
 */

const BACKSLASH = 0x5c;

/** The value of the valid string literal between two offsets, quotes included. @internal */
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
const UNSAFE = /[\u007f-\u009f\u2028-\u202e\u2066-\u2069\ufeff]/;
const UNSAFE_ALL = new RegExp(UNSAFE.source, "g");

/** Whether text holds such a character, which `encodeJsonString` writes as its escape. @internal */
export function holdsUnsafe(text: string): boolean {
  return UNSAFE.test(text);
}

/** What nobody is shown: all of those, C0 controls, marks of direction, halves of characters. */
const UNSHOWN = /[\p{Cc}\p{Cs}\p{Bidi_Control}\u2028\u2029\ufeff]/gu;

const QUOTE = 0x22;
const DEL = 0x7f;

/** Most names: printable ASCII without quotes and backslashes. */
function isPlain(text: string): boolean {
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code < 0x20 || code >= DEL || code === QUOTE || code === BACKSLASH) return false;
  }
  return true;
}

/**
 * A string literal that stays on one line in any editor and does nothing to a
 * terminal. A lone surrogate becomes its escape, so any string survives.
 */
export function encodeJsonString(text: string): string {
  if (isPlain(text)) return `"${text}"`;
  const literal = JSON.stringify(text);
  return UNSAFE.test(literal) ? literal.replace(UNSAFE_ALL, escapeCharacter) : literal;
}

/**
 * Any text as one line that steers and reorders nothing, for a terminal or a
 * log. A JSON literal keeps its value.
 */
export function escapeControls(text: string): string {
  return PRINTABLE.test(text) ? text : text.replace(UNSHOWN, escapeCharacter);
}

const PRINTABLE = /^[ -~]*$/;

function escapeCharacter(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
