/**
 * Recognises a plant in the exact form that `encodeNewPlant` writes:
 *
 *   {"id":7,"name":"Fern"}  or  {"id":7,"name":"Fern","tag":"indoor"}
 *
 * The form has no spaces, the shortest spelling of the id, and no escapes in its strings except \"
 * and \\. Anything else, faults included, is left to the general parser (core/plant). The two agree
 * on every plant that is recognised here; a property test compares them.
 *
 * It exists for the speed of scans and streams: it looks at four bytes at a time where it can, and
 * makes no strings.
 */
export class EncodedPlantFinder {
  /** The id as two signed words, the two halves of an int64 in two's complement. */
  idLow = 0;
  idHigh = 0;
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  /** The last offset at which four bytes can be read. */
  readonly #lastFour: number;

  /** @param bytes valid UTF-8. */
  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    this.#lastFour = bytes.length - 4;
  }

  /**
   * Looks for a plant that starts at the offset `start`.
   *
   * @returns the offset after its closing brace, or -1 if there is no plant of this form. The
   * fields are valid only after a plant was found.
   */
  find(start: number): number {
    if (!this.#isAt(start, ID_START) || !this.#isAt(start + 2, ID_END)) return -1;
    let at = this.#readId(start + 6);
    if (at < 0 || !this.#isAt(at, NAME_START)) return -1;
    if (!this.#isAt(at + 4, NAME_END) || this.#bytes[at + 8] !== QUOTE) return -1;
    at = this.#skipString(at + 9);
    if (at >= 0 && this.#isAt(at, TAG_START)) {
      if (!this.#isAt(at + 4, TAG_END)) return -1;
      at = this.#skipString(at + 8);
    }
    return at >= 0 && this.#bytes[at] === CLOSE_BRACE ? at + 1 : -1;
  }

  /** Whether the four bytes of `word` are at an offset. */
  #isAt(at: number, word: number): boolean {
    return at <= this.#lastFour && this.#view.getInt32(at, true) === word;
  }

  /** Returns the offset after the id, or -1. */
  #readId(start: number): number {
    const bytes = this.#bytes;
    const isNegative = bytes[start] === MINUS;
    const first = isNegative ? start + 1 : start;
    let at = first;
    let low = 0; // the magnitude, as two unsigned words
    let high = 0;
    for (let power = 10_000; power === 10_000; ) {
      let digits = this.#fourDigitsAt(at);
      if (digits >= 0) at += 4;
      else {
        digits = 0;
        power = 1;
        for (let digit = digitAt(bytes, at); digit >= 0; digit = digitAt(bytes, ++at)) {
          digits = digits * 10 + digit;
          power *= 10;
        }
      }
      const sum = low * power + digits; // less than 2^53
      low = sum >>> 0;
      high = high * power + (sum - low) / WORD;
    }
    const length = at - first;
    if (length < 1 || length > ID_DIGITS_MAX || high >= WORD / 2) return -1;
    // A leading zero is invalid JSON, and -0 has the shorter spelling 0.
    if (bytes[first] === ZERO && (length > 1 || isNegative)) return -1;
    this.idLow = (isNegative ? -low : low) | 0;
    this.idHigh = (isNegative ? (low === 0 ? -high : ~high) : high) | 0;
    return at;
  }

  /** Returns the number that four bytes spell, or -1 if one of them is not a digit. */
  #fourDigitsAt(at: number): number {
    if (at > this.#lastFour) return -1;
    const digits = this.#view.getInt32(at, true) ^ 0x30303030; // the first is the lowest byte
    // Adding 0x76 sets the highest bit of a byte above 9.
    if (((digits | (digits + 0x76767676)) & 0x80808080) !== 0) return -1;
    const pairs = digits * 10 + (digits >> 8);
    return (pairs & 0xff) * 100 + ((pairs >> 16) & 0xff);
  }

  /**
   * Returns the offset after the quote that ends a string, or -1 if the string holds a control
   * character or any other escape than \" and \\.
   */
  #skipString(start: number): number {
    const bytes = this.#bytes;
    for (let at = start; ; at += 2) {
      at = this.#skipPlainText(at);
      if (bytes[at] === QUOTE) return at + 1;
      if (bytes[at] !== BACKSLASH) return -1;
      if (bytes[at + 1] !== QUOTE && bytes[at + 1] !== BACKSLASH) return -1;
    }
  }

  /** Returns the offset of the next quote, backslash or control character, or of the end. */
  #skipPlainText(start: number): number {
    let at = start;
    for (; at <= this.#lastFour; at += 4) {
      const word = this.#view.getInt32(at, true);
      // The highest bit of a byte flags it. Subtracting borrows only from a byte that is flagged
      // itself, so the lowest flag is always right. Bytes above 0x7f are never flagged.
      const controls = word - 0x20202020;
      const quotes = (word ^ 0x22222222) - 0x01010101;
      const backslashes = (word ^ 0x5c5c5c5c) - 0x01010101;
      const flags = ~word & (controls | quotes | backslashes) & 0x80808080;
      if (flags !== 0) return at + ((31 - Math.clz32(flags & -flags)) >> 3);
    }
    while (isPlain(this.#bytes[at])) at++;
    return at;
  }
}

const ID_START = wordOf('{"id');
const ID_END = wordOf('id":');
const NAME_START = wordOf(',"na');
const NAME_END = wordOf('me":');
const TAG_START = wordOf(',"ta');
const TAG_END = wordOf('g":"');

/** 9223372036854775807 */
const ID_DIGITS_MAX = 19;
const WORD = 2 ** 32;

const QUOTE = 0x22;
const MINUS = 0x2d;
const ZERO = 0x30;
const BACKSLASH = 0x5c;
const CLOSE_BRACE = 0x7d;

/** Four characters of ASCII as a view reads them. */
function wordOf(text: string): number {
  return Buffer.from(text).readInt32LE();
}

/** Returns -1 if the byte is not a digit. */
function digitAt(bytes: Uint8Array, at: number): number {
  const digit = (bytes[at] as number) - ZERO;
  return digit >= 0 && digit <= 9 ? digit : -1;
}

function isPlain(byte: number | undefined): boolean {
  return byte !== undefined && byte >= 0x20 && byte !== QUOTE && byte !== BACKSLASH;
}
