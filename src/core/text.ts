/** Text in messages, logs and lines of plants, as one line that does not control a terminal. */

/**
 * Characters that `JSON.stringify` does not escape although they end a line, control a terminal or
 * reorder the text around them: DEL and C1 controls, the line and paragraph separators, the
 * bidirectional overrides, the BOM. The form of a plant's line never changes, so neither does this.
 */
const UNSAFE = /[\u007f-\u009f\u2028-\u202e\u2066-\u2069\ufeff]/g;

/** Whether text holds a character that only `encodeJsonString` escapes. @internal */
export function holdsUnsafe(text: string): boolean {
  return text.search(UNSAFE) >= 0;
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
 * A JSON string literal that is one line in any editor and does not control a terminal. A lone
 * surrogate becomes its escape, so any string can be read back.
 */
export function encodeJsonString(text: string): string {
  if (isPlain(text)) return `"${text}"`;
  return JSON.stringify(text).replace(UNSAFE, escapeCharacter);
}

/**
 * Any text as one line for a terminal or a log, with control characters, direction marks and lone
 * surrogates as escapes. A JSON literal keeps its value.
 */
export function escapeControls(text: string): string {
  return PRINTABLE.test(text) ? text : text.replace(UNSHOWN, escapeCharacter);
}

const PRINTABLE = /^[ -~]*$/;
/** All of `UNSAFE`, C0 controls, direction marks, lone surrogates. */
const UNSHOWN = /[\p{Cc}\p{Cs}\p{Bidi_Control}\u2028\u2029\ufeff]/gu;

function escapeCharacter(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

const SHOWN_CHARACTERS_MAX = 60;

/** The first characters of a value, 60 for a message. */
export function cut(text: string, charactersMax: number = SHOWN_CHARACTERS_MAX): string {
  if (text.length <= charactersMax) return text;
  // Not half of a surrogate pair.
  const head = text.slice(0, charactersMax).replace(/[\ud800-\udbff]$/, "");
  return `${head}…`;
}

/** A value of a request for a message: quoted, cut, and without the token that it may hold by mistake. */
export function quote(text: string): string {
  return encodeJsonString(cut(text.replace(/pst_[\w-]+/g, "pst_...")));
}
