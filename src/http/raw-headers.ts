/**
 * Every value of a header, from the raw list: of two Host, Authorization or
 * Content-Type headers Node keeps only the first elsewhere, and which of two
 * counts must not be a guess.
 */

/** @param name in lower case. */
export function headerValues(rawHeaders: readonly string[], name: string): string[] {
  const values: string[] = [];
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const present = rawHeaders[at] as string;
    if (isNamed(present, name)) {
      values.push(rawHeaders[at + 1] as string);
    }
  }
  return values;
}

/** @param name in lower case. */
export function isNamed(present: string, name: string): boolean {
  return present.length === name.length && present.toLowerCase() === name;
}
