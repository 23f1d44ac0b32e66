/**
 * Text in messages, logs and lines of plants: one line each, which does nothing to a terminal.
 */

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

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
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
/** What is never shown: all of `UNSAFE`, C0 controls, marks of direction, halves of characters. */
const UNSHOWN = /[\p{Cc}\p{Cs}\p{Bidi_Control}\u2028\u2029\ufeff]/gu;

function escapeCharacter(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** How much of a value that came in a message shows. */
const SHOWN_CHARACTERS_MAX = 60;

/** The start of a long text. */
export function cut(text: string): string {
  if (text.length <= SHOWN_CHARACTERS_MAX) return text;
  // A cut through a surrogate pair would show half a character.
  const head = text.slice(0, SHOWN_CHARACTERS_MAX).replace(/[\ud800-\udbff]$/, "");
  return `${head}…`;
}
