/**
 * Which of two media types a client would rather have (RFC 9110 section 12.5.1).
 *
 * A quality is taken from the most exact range that fits a type, and is 1
 * where it is not given. A type that no range fits has the quality 0, but no
 * request fails for that: a client that understands none of our types gets the
 * usual one, as section 12.4.1 allows.
 */

const QUALITY = /^[ \t]*q[ \t]*=[ \t]*(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)[ \t]*$/i;

/** Whether `wanted` is accepted with a higher quality than `usual`. */
export function prefers(accept: string | undefined, wanted: string, usual: string): boolean {
  if (accept === undefined) return false;
  return qualityOf(accept, wanted) > qualityOf(accept, usual);
}

function qualityOf(accept: string, type: string): number {
  const ranges = [type, type.replace(/\/.*/, "/*"), "*/*"];
  let best = ranges.length;
  let quality = 0;
  for (const part of accept.split(",")) {
    const [range = "", ...parameters] = part.split(";");
    const rank = ranges.indexOf(range.trim().toLowerCase());
    if (rank < 0 || rank >= best) continue;
    best = rank;
    const given = parameters.map((text) => QUALITY.exec(text)?.[1]).find((text) => text);
    quality = Number(given ?? 1);
  }
  return quality;
}
