/**
 * Text in messages, logs and lines of plants: JSON strings, control characters as escapes, cut values,
 * hosts with their ports. Uses nothing that a browser lacks.
 */

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const DEL = 0x7f;

/** Most names: printable ASCII without quotes and backslashes. */
function isPlain(text: string): boolean {
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code < 0x20 || code > DEL || code === QUOTE || code === BACKSLASH) return false;
  }
  return true;
}

/**
 * A JSON string literal, as `JSON.stringify` writes it: a lone surrogate becomes its escape, so any string can
 * be read back. It may control a terminal: see `escapeControls`.
 */
export function encodeJsonString(text: string): string {
  return isPlain(text) ? `"${text}"` : JSON.stringify(text);
}

/**
 * Any text as one line for a terminal or a log, with control characters, direction marks and lone
 * surrogates as escapes. A JSON literal keeps its value.
 */
export function escapeControls(text: string): string {
  return PRINTABLE.test(text) ? text : text.replace(UNSHOWN, escapeCharacter);
}

const PRINTABLE = /^[ -~]*$/;
/** C0 and C1 controls, line separators, direction marks, the BOM, lone surrogates. */
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
  return escapeControls(encodeJsonString(cut(hideTokens(text))));
}

/** Any text as one line of at most so many characters, not counting escapes, without a token. */
export function summarize(text: string, charactersMax: number): string {
  return escapeControls(cut(hideTokens(text), charactersMax));
}

/** The text without the tokens, and parts of tokens, that a client may have put into it. */
export function hideTokens(text: string): string {
  return text.replace(/pst_[\w-]+/g, "pst_...");
}

/** `127.0.0.1:8080`, `[::1]:8080`, `localhost:8080` (RFC 3986 section 3.2). @internal */
export function formatHostPort(host: string, port: number): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`; // only IPv6 has colons
}
