/**
 * Which of two media types a client would rather have (RFC 9110 section 12.5.1).
 *
 * A quality is taken from the most exact range that fits a type, and is 1
 * where it is not given. A type that no range fits has the quality 0, but no
 * request fails for that: a client that understands none of our types gets the
 * usual one, as section 12.4.1 allows.
 */

import { trimSpace } from "./request-head.ts";

const QUALITY = /^[ \t]*q[ \t]*=[ \t]*(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)[ \t]*$/i;

/** Whether `wanted` is accepted with a higher quality than `usual`. */
export function prefers(accept: string | undefined, wanted: string, usual: string): boolean {
  if (accept === undefined) return false;
  const qualities = [new Quality(wanted), new Quality(usual)] as const;
  for (let start = 0, end = 0; start < accept.length; start = end + 1) {
    end = accept.indexOf(",", start);
    if (end < 0) end = accept.length;
    if (end - start < ANY.length) continue;
    const part = accept.slice(start, end);
    const rangeEnd = part.indexOf(";");
    const range = trimSpace(rangeEnd < 0 ? part : part.slice(0, rangeEnd)).toLowerCase();
    for (const quality of qualities) quality.note(range, part);
  }
  return qualities[0].value > qualities[1].value;
}

const ANY = "*/*";

/** The quality of one type, by the most exact of the ranges so far. */
class Quality {
  value = 0;
  readonly #ranges: readonly string[];
  #best: number;

  constructor(type: string) {
    this.#ranges = [type, type.replace(/\/.*/, "/*"), ANY];
    this.#best = this.#ranges.length;
  }

  /** @param part the range with its parameters. */
  note(range: string, part: string): void {
    const rank = this.#ranges.indexOf(range);
    if (rank < 0 || rank >= this.#best) return;
    this.#best = rank;
    const [, ...parameters] = part.split(";");
    const given = parameters.map((text) => QUALITY.exec(text)?.[1]).find((text) => text);
    this.value = Number(given ?? 1);
  }
}
