/**
 * Headers from the raw list: of two Host, Authorization or Content-Type headers
 * Node keeps only the first elsewhere, and which of two counts must not be a guess.
 */

/** How many there are of a header. @param name in lower case. */
export function countHeaders(rawHeaders: readonly string[], name: string): number {
  let count = 0;
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    if (isNamed(rawHeaders[at] as string, name)) count++;
  }
  return count;
}

/** The first value of a header. @param name in lower case. */
export function firstHeader(rawHeaders: readonly string[], name: string): string | undefined {
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    if (isNamed(rawHeaders[at] as string, name)) return rawHeaders[at + 1];
  }
  return undefined;
}

/** @param name in lower case. */
export function isNamed(present: string, name: string): boolean {
  return present.length === name.length && present.toLowerCase() === name;
}
