/**
 * The very form in which `encodeNewPlant` writes nearly every plant,
 * recognised four bytes at a time.
 *
 * That is `{"id":7,"name":"Fern"}` or `{"id":7,"name":"Fern","tag":"indoor"}`
 * without a space, with an id that is written shortest and strings without escapes.
 * Whatever else there is, faults included, is no concern of this file: it is
 * left to core/plant, with which this one agrees on everything it takes (a
 * property test holds them together).
 *
 * It exists for the speed of scans alone: for a line of 64 bytes
 * `PlainPlantFinder` takes two to three times as long, and `parseNewPlant`,
 * which makes strings, five to seven times.
 * The views it reads through cost too much to be made for a single plant.
 */
// In front of the class, or the build would not put the numbers into the code: it makes
// variables of constants, and a line took 18 ns longer.
/** So many a double holds exactly. */
const SHORT_DIGITS_MAX = 15;
/** 9223372036854775807 */
const ID_DIGITS_MAX = 19;
/** Of a longer id the last nine digits are a number of their own. */
const TAIL_DIGITS = 9;
const TAIL_LIMIT = 10 ** TAIL_DIGITS;
const NAME_OPENING_BYTES = 9;
const TAG_OPENING_BYTES = 8;

const QUOTE = 0x22;
const COMMA = 0x2c;
const MINUS = 0x2d;
const ZERO = 0x30;
const BACKSLASH = 0x5c;
const CLOSE_BRACE = 0x7d;

export class EncodedPlantFinder {
  /** The id as two unsigned words, the two halves of an int64 in two's complement. */
  idLow = 0;
  idHigh = 0;
  /** Whether the strings are ASCII; if not, they may not even be UTF-8. */
  isAscii = true;
  readonly #bytes: Uint8Array;
  readonly #words: DataView;

  /** @param bytes holds many plants; what lies around it in memory is never read. */
  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#words = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  /**
   * Looks for a plant that starts at `start`.
   *
   * @returns the offset behind its closing brace, or -1 when this is none; the
   * fields mean something only after the former.
   */
  find(start: number): number {
    this.isAscii = true;
    let at = this.#skipIdMember(start);
    if (at < 0) return -1;
    at = this.#skipNameMember(at);
    if (at < 0) return -1;
    if (this.#bytes[at] === COMMA) at = this.#skipTagMember(at);
    if (at < 0) return -1;
    return this.#bytes[at] === CLOSE_BRACE ? at + 1 : -1;
  }

  /** Returns the offset behind what it skips, or -1, like everything below. */
  #skipIdMember(at: number): number {
    // What is too short for a name behind it is no plant.
    if (at + NAME_OPENING_BYTES > this.#bytes.length) return -1;
    const isThere =
      this.#words.getInt32(at, true) === 0x6469227b && // {"id
      this.#words.getInt16(at + 4, true) === 0x3a22; // ":
    return isThere ? this.#skipId(at + 6) : -1;
  }

  #skipNameMember(at: number): number {
    if (at + NAME_OPENING_BYTES > this.#bytes.length) return -1;
    const isThere =
      this.#words.getInt32(at, true) === 0x616e222c && // ,"na
      this.#words.getInt32(at + 4, true) === 0x3a22656d && // me":
      this.#bytes[at + 8] === QUOTE;
    return isThere ? this.#skipText(at + NAME_OPENING_BYTES) : -1;
  }

  #skipTagMember(at: number): number {
    if (at + TAG_OPENING_BYTES > this.#bytes.length) return -1;
    const isThere =
      this.#words.getInt32(at, true) === 0x6174222c && // ,"ta
      this.#words.getInt32(at + 4, true) === 0x223a2267; // g":"
    return isThere ? this.#skipText(at + TAG_OPENING_BYTES) : -1;
  }

  #skipId(start: number): number {
    const bytes = this.#bytes;
    const isNegative = bytes[start] === MINUS;
    const first = isNegative ? start + 1 : start;
    let value = 0;
    let at = first;
    for (const lastWord = bytes.length - 4; at <= lastWord; at += 4) {
      const four = valueOfDigits(this.#words.getInt32(at, true));
      if (four < 0) break;
      value = value * 10_000 + four;
    }
    for (;;) {
      const digit = (bytes[at] as number) - ZERO;
      // Said this way round, the end of the bytes counts too.
      if (!(digit >= 0 && digit <= 9)) break;
      value = value * 10 + digit;
      at++;
    }
    const digits = at - first;
    if (digits < 1 || digits > ID_DIGITS_MAX) return -1;
    // A leading zero is no JSON, and -0 no number of its own.
    if (bytes[first] === ZERO && (digits > 1 || isNegative)) return -1;
    if (digits <= SHORT_DIGITS_MAX)
      this.#setId(value >>> 0, Math.floor(value / 2 ** 32), isNegative);
    else if (!this.#setLongId(first, at, isNegative)) return -1;
    return at;
  }

  /** Whether the digits are those of an int64; the lowest of all may count as none. */
  #setLongId(first: number, end: number, isNegative: boolean): boolean {
    const head = this.#readDigits(first, end - TAIL_DIGITS);
    const tail = this.#readDigits(end - TAIL_DIGITS, end);
    // In two steps of 16 bits, because no product may pass 2^53.
    const upper = Math.floor(head / 2 ** 16) * TAIL_LIMIT;
    const lower = (upper % 2 ** 16) * 2 ** 16 + (head % 2 ** 16) * TAIL_LIMIT + tail;
    const high = Math.floor(upper / 2 ** 16) + Math.floor(lower / 2 ** 32);
    if (high >= 2 ** 31) return false;
    this.#setId(lower >>> 0, high, isNegative);
    return true;
  }

  #readDigits(start: number, end: number): number {
    let value = 0;
    for (let at = start; at < end; at++) value = value * 10 + (this.#bytes[at] as number) - ZERO;
    return value;
  }

  #setId(low: number, high: number, isNegative: boolean): void {
    this.idLow = isNegative ? -low >>> 0 : low;
    this.idHigh = isNegative ? (low === 0 ? -high : ~high) >>> 0 : high;
  }

  /** Skips the text of a string, and the quote that ends it. */
  #skipText(start: number): number {
    const bytes = this.#bytes;
    const words = this.#words;
    const lastWord = bytes.length - 4;
    for (let at = start; ; at++) {
      let flags = 0;
      for (; at <= lastWord; at += 4) {
        flags = flagOddBytes(words.getInt32(at, true));
        if (flags !== 0) break;
      }
      if (flags !== 0) at += firstFlagged(flags);
      const byte = bytes[at] as number;
      if (byte === QUOTE) return at + 1;
      // Said this way round, the end of the bytes counts too.
      if (!(byte >= 0x20) || byte === BACKSLASH) return -1;
      if (byte < 0x80) continue;
      this.isAscii = false;
      while ((bytes[at + 1] as number) >= 0x80) at++;
    }
  }
}

/** The value of four decimal digits, or less than 0 where another byte is among them. */
function valueOfDigits(word: number): number {
  const digits = word - 0x30303030;
  // What was below "0" has borrowed, what was above "9" passes 0x80.
  if (((digits | (digits + 0x76767676)) & 0x80808080) !== 0) return -1;
  // Neighbours are joined, then pairs: the first digit is the lowest byte.
  const pairs = (Math.imul(digits, 10) + (digits >>> 8)) & 0x00ff00ff;
  return (Math.imul(pairs, 100) + (pairs >>> 16)) & 0xffff;
}

/**
 * Flags the bytes of four that are not ASCII, or a control character, a quote or
 * a backslash, by their highest bit: it is set in a byte from 0x80 on, in one
 * below 0x20 less 0x20, and in a zero, which is what the exclusive or makes of a
 * quote, less one. A borrow comes only from a byte that is flagged itself, so
 * the first flag is always true; those behind it may not be.
 */
function flagOddBytes(word: number): number {
  const controls = word - 0x20202020;
  const quotes = (word ^ 0x22222222) - 0x01010101;
  const backslashes = (word ^ 0x5c5c5c5c) - 0x01010101;
  return (word | controls | quotes | backslashes) & 0x80808080;
}

/** Which byte has the first flag: the first in memory is the lowest of a word. */
function firstFlagged(flags: number): number {
  return (31 - Math.clz32(flags & -flags)) >>> 3;
}
