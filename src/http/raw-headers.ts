/**
 * Headers of which a request may have one: of two Authorization or Content-Type headers Node keeps
 * only the first in `headers`, and which of two counts must not be a guess. So they are read from
 * `rawHeaders`; `headersDistinct` has them too, but throws for a header `__proto__` (CVE-2026-21710).
 */
import type { IncomingMessage } from "node:http";

/** The value of a header that was sent more than once. */
export const SEVERAL: unique symbol = Symbol("several");

/**
 * The value of a header; `undefined` if there is none. If the client sent none, what the program
 * around the listener has put into `headers` counts: middleware that turns a cookie into a token,
 * or an adapter whose requests have no raw headers.
 *
 * @param name in lower case.
 */
export function readSoleHeader(
  { rawHeaders = [], headers }: IncomingMessage,
  name: string,
): string | typeof SEVERAL | undefined {
  let value: string | undefined;
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    if (!isNamed(rawHeaders[at] as string, name)) continue;
    if (value !== undefined) return SEVERAL;
    value = rawHeaders[at + 1];
  }
  return value ?? soleOf(headers[name]);
}

function soleOf(set: string | string[] | undefined): string | typeof SEVERAL | undefined {
  if (!Array.isArray(set)) return set;
  return set.length > 1 ? SEVERAL : set[0];
}

/** @param name in lower case. */
export function isNamed(present: string, name: string): boolean {
  return present.length === name.length && present.toLowerCase() === name;
}

/** Without the optional whitespace around it, which is spaces and tabs alone (RFC 9110 section 5.6.3). */
export function trimSpace(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && isSpace(text, start)) start++;
  while (end > start && isSpace(text, end - 1)) end--;
  return text.slice(start, end);
}

function isSpace(text: string, at: number): boolean {
  const code = text.charCodeAt(at);
  return code === 0x20 || code === 0x09;
}
