/**
 * int64: from the decimal text of a JSON number to a bigint, exactly.
 *
 * Any JSON number whose value is an integer counts (JSON Schema 2020-12,
 * "integer"): 7, 7.0 and 70e-1 are the same id, and -0 is 0. No number larger
 * than an int64 is ever built: 1e999999999 is judged by counting digits, in
 * time linear in the length of the text.
 */

/** @internal */
export const INT64_MIN = -(2n ** 63n);
/** @internal */
export const INT64_MAX = 2n ** 63n - 1n;

/** The longest int64 has 19 digits: 9223372036854775807. */
const DIGITS_MAX = 19;

/** RFC 8259 section 6: sign, integer part, fraction, exponent. */
const JSON_NUMBER = /^(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$/;

/** Most ids: short enough that a double holds every digit. */
const SHORT_INTEGER = /^-?(?:0|[1-9][0-9]{0,14})$/;

/** @internal */
export function isInt64(value: bigint): boolean {
  return value >= INT64_MIN && value <= INT64_MAX;
}

/**
 * Guards an id that comes from code.
 *
 * @throws TypeError or RangeError: a mistake of the calling program.
 * @internal
 */
export function assertInt64(id: bigint): void {
  if (typeof id !== "bigint") throw new TypeError(`id: expected a bigint, got ${typeof id}`);
  if (!isInt64(id)) {
    throw new RangeError(`id: expected a bigint from ${INT64_MIN} to ${INT64_MAX}, got ${id}`);
  }
}

/**
 * The int64 that a JSON number stands for, or `undefined` when the text is no
 * JSON number, has a fractional value, or lies outside the int64 range.
 */
export function parseInt64(text: string): bigint | undefined {
  if (SHORT_INTEGER.test(text)) return BigInt(text);
  const parts = JSON_NUMBER.exec(text);
  if (parts === null) return undefined;
  const [, sign, integer = "", fraction = "", exponent = "0"] = parts;

  // The value is `digits` x 10^scale; zeros at both ends carry no information.
  const digits = integer + fraction;
  const first = skipZeros(digits);
  if (first === digits.length) return 0n;
  const last = lastNonZero(digits);
  const zeros = Number(exponent) - fraction.length + (digits.length - 1 - last);

  if (zeros < 0) return undefined; // a fraction is left
  if (last + 1 - first + zeros > DIGITS_MAX) return undefined;
  const magnitude = BigInt(digits.slice(first, last + 1) + "0".repeat(zeros));
  const value = sign === "-" ? -magnitude : magnitude;
  return isInt64(value) ? value : undefined;
}

/**
 * The int64 that this very text is written for, or `undefined`: of all the
 * spellings of a number only the shortest counts, as in a path.
 * @internal
 */
export function parseCanonicalInt64(text: string): bigint | undefined {
  if (!CANONICAL.test(text)) return undefined;
  const value = BigInt(text);
  return isInt64(value) ? value : undefined;
}

const CANONICAL = /^(?:0|-?[1-9][0-9]{0,18})$/;

// Loops, not /0+$/: that pattern takes quadratic time on a megabyte of inner zeros.

function skipZeros(digits: string): number {
  let at = 0;
  while (at < digits.length && digits.charCodeAt(at) === 0x30) at++;
  return at;
}

function lastNonZero(digits: string): number {
  let at = digits.length - 1;
  while (digits.charCodeAt(at) === 0x30) at--;
  return at;
}
