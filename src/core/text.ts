/** Text in messages and logs: one line, cut, without tokens. Uses what browsers have. */

/** C0 and C1 controls, line separators, direction marks, the BOM, lone surrogates. */
const UNSHOWN = /[\p{Cc}\p{Cs}\p{Bidi_Control}\u2028\u2029\ufeff]/gu;

/** Any text as one line for a terminal or a log. A JSON literal keeps its value. */
export function escapeControls(text: string): string {
  return text.replace(UNSHOWN, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/**
 * The first characters of a text, 60 for a message, without the tokens, and parts of tokens, that a client may have
 * put into it; never half of a surrogate pair.
 */
export function shorten(text: string, charactersMax = 60): string {
  const shown = text.replace(/pst_[\w-]+/g, "pst_...");
  if (shown.length <= charactersMax) return shown;
  return `${shown.slice(0, charactersMax).replace(/[\ud800-\udbff]$/, "")}…`;
}

/** Whatever a client sent, for a message: quoted, cut, and without the token that it may hold by mistake. */
export function quote(text: string): string {
  return escapeControls(JSON.stringify(shorten(text)));
}

/** `127.0.0.1:8080`, `[::1]:8080`, `localhost:8080` (RFC 3986 section 3.2). @internal */
export function formatHostPort(host: string, port: number): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`; // only IPv6 has colons
}
