/**
 * What an origin may be that a program names: a web page's, as a browser sends
 * it (RFC 6454 section 7). What is done about it is not known here (see http/cors).
 */

/** Any origin at all. @internal */
export const ANY_ORIGIN = "*";

/** `scheme://host[:port]`, as a browser sends it. */
const ORIGIN = /^[a-z][a-z0-9+.-]*:\/\/[^\s/?#,*@]+$/;

/**
 * Guards the origins that a program names.
 *
 * @throws TypeError or RangeError for what no browser sends as an origin.
 */
export function assertOrigins(origins: readonly string[]): void {
  if (!Array.isArray(origins)) {
    throw new TypeError(`corsOrigins: expected an array of strings, got ${typeof origins}`);
  }
  for (const origin of origins) {
    if (origin === ANY_ORIGIN || isOrigin(origin)) continue;
    throw new RangeError(
      `corsOrigins: expected an origin such as https://app.example, or *, got "${origin}"`,
    );
  }
}

function isOrigin(text: string): boolean {
  if (typeof text !== "string" || !ORIGIN.test(text)) return false;
  // A browser leaves a default port out, and writes the host in lower case.
  return !/^https?:/.test(text) || (URL.canParse(text) && new URL(text).origin === text);
}
