/**
 * From the text of a JSON number to an int64, exactly.
 *
 * Any JSON number whose value is an integer counts (JSON Schema 2020-12, "integer"): 7, 7.0 and
 * 70e-1 are the same id, and -0 is 0. Takes time linear in the length of the text, also for
 * 1e999999999: no number larger than an int64 is ever built.
 */

/** @internal */
export const INT64_MIN = -(2n ** 63n);
/** @internal */
export const INT64_MAX = 2n ** 63n - 1n;

/** The longest int64 has 19 digits: 9223372036854775807. */
const DIGITS_MAX = 19;

/** RFC 8259 section 6: sign, integer part, fraction, exponent. */
const JSON_NUMBER = /^(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$/;

/** The shortest spelling of a number that may be an int64. */
const CANONICAL = /^(?:0|-?[1-9][0-9]{0,18})$/;

function isInt64(value: bigint): boolean {
  return value >= INT64_MIN && value <= INT64_MAX;
}

/**
 * @throws TypeError or RangeError for an id that is no int64: a mistake of the calling program.
 * @internal
 */
export function assertInt64(id: bigint): void {
  if (typeof id !== "bigint") throw new TypeError(`id: expected a bigint, got ${typeof id}`);
  if (!isInt64(id)) {
    throw new RangeError(`id: expected a bigint from ${INT64_MIN} to ${INT64_MAX}, got ${id}`);
  }
}

/**
 * The int64 that a JSON number spells. `undefined` if the text is no JSON number, or its value has a
 * fraction or is outside the int64 range.
 */
export function parseInt64(text: string): bigint | undefined {
  const canonical = parseCanonicalInt64(text);
  if (canonical !== undefined) return canonical;
  const parts = JSON_NUMBER.exec(text);
  if (parts === null) return undefined;
  const [, sign, integer = "", fraction = "", exponent = "0"] = parts;

  // The value is digits x 10^zeros, without zeros at either end of the digits.
  const padded = (integer + fraction).replace(/^0+/, "");
  const digits = dropLastZeros(padded);
  if (digits === "") return 0n;
  const zeros = Number(exponent) - fraction.length + (padded.length - digits.length);
  if (zeros < 0) return undefined; // a fraction is left
  if (digits.length + zeros > DIGITS_MAX) return undefined;
  const magnitude = BigInt(digits + "0".repeat(zeros));
  const value = sign === "-" ? -magnitude : magnitude;
  return isInt64(value) ? value : undefined;
}

/** Not /0+$/, which takes quadratic time on a megabyte of inner zeros. */
function dropLastZeros(digits: string): string {
  let end = digits.length;
  while (digits[end - 1] === "0") end--;
  return digits.slice(0, end);
}

/**
 * The int64 whose shortest spelling is this text, as in a path; `undefined` for any other text.
 * @internal
 */
export function parseCanonicalInt64(text: string): bigint | undefined {
  if (!CANONICAL.test(text)) return undefined;
  // A double holds 15 digits exactly, and becomes a bigint faster than text does.
  const value = BigInt(text.length <= 15 ? Number(text) : text);
  return isInt64(value) ? value : undefined;
}
