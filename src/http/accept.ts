/**
 * Which of two media types a client would rather have (RFC 9110 section 12.5.1).
 *
 * A quality is taken from the most exact range that fits a type, and is 1
 * where it is not given. A type that no range fits has the quality 0, but no
 * request fails for that: a client that understands none of our types gets the
 * usual one, as section 12.4.1 allows.
 */

import { trimSpace } from "./raw-headers.ts";

const QUALITY = /^[ \t]*q[ \t]*=[ \t]*(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)[ \t]*$/i;

/** Whether `wanted` is accepted with a higher quality than `usual`. */
export function prefers(accept: string | undefined, wanted: string, usual: string): boolean {
  if (accept === undefined) return false;
  const ranks = [new Quality(wanted), new Quality(usual)] as const;
  for (let start = 0, end = 0; start <= accept.length; start = end + 1) {
    end = accept.indexOf(",", start);
    if (end < 0) end = accept.length;
    if (end > start) for (const rank of ranks) rank.note(accept.slice(start, end));
  }
  return ranks[0].value > ranks[1].value;
}

/** The quality of one type, by the most exact of the ranges so far. */
class Quality {
  value = 0;
  readonly #ranges: readonly string[];
  #best: number;

  constructor(type: string) {
    this.#ranges = [type, type.replace(/\/.*/, "/*"), "*/*"];
    this.#best = this.#ranges.length;
  }

  /** @param part a range with its parameters. */
  note(part: string): void {
    const [range = "", ...parameters] = part.split(";");
    const rank = this.#ranges.indexOf(trimSpace(range).toLowerCase());
    if (rank < 0 || rank >= this.#best) return;
    this.#best = rank;
    const given = parameters.map((text) => QUALITY.exec(text)?.[1]).find((text) => text);
    this.value = Number(given ?? 1);
  }
}
