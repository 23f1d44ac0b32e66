/**
 * Recognises a plant in bytes, in the form that `encodeNewPlant` writes, which is that of every line of a log:
 *
 *   {"id":7,"name":"Fern"}  or  {"id":7,"name":"Fern","tag":"indoor"}
 *
 * with the shortest spelling of the id, and any escape of JSON. It makes no string and no object, so a start reads
 * millions of lines a second. Whatever it matches, `core/plant` parses as the same plant.
 */

export class PlantMatcher {
  /** The id as two signed words, the halves of an int64 in two's complement. */
  idLow = 0;
  idHigh = 0;
  /** Where the name begins and ends between its quotes; where the tag begins, or -1 without one. */
  nameStart = 0;
  nameEnd = 0;
  tagStart = -1;
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  readonly #mayHaveSpaces: boolean;

  /**
   * @param bytes valid UTF-8.
   * @param mayHaveSpaces whether a space may follow each colon and comma, as in bodies that Python writes.
   */
  constructor(bytes: Uint8Array, { mayHaveSpaces = false } = {}) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    this.#mayHaveSpaces = mayHaveSpaces;
  }

  /**
   * Returns the offset after the closing brace of the plant that starts at `start`, or -1 if there is no plant
   * of this form. The fields are valid only after a match.
   */
  match(start: number): number {
    const bytes = this.#bytes;
    if (!this.#isAt(start, ID_START) || !this.#isAt(start + 2, ID_END)) return -1;
    let at = this.#readId(this.#skipSpace(start + 6));
    if (at < 0 || bytes[at] !== COMMA) return -1;
    at = this.#skipSpace(at + 1);
    if (!this.#isAt(at, NAME_START) || !this.#isAt(at + 3, NAME_END)) return -1;
    this.nameStart = this.#skipSpace(at + 7) + 1;
    this.nameEnd = at = this.#skipString(this.nameStart);
    if (at < 0) return -1;
    this.tagStart = -1;
    if (bytes[at + 1] === COMMA) {
      at = this.#skipSpace(at + 2);
      if (!this.#isAt(at, TAG_START) || !this.#isAt(at + 2, TAG_END)) return -1;
      this.tagStart = this.#skipSpace(at + 6) + 1;
      at = this.#skipString(this.tagStart);
      if (at < 0) return -1;
    }
    return bytes[at + 1] === CLOSE_BRACE ? at + 2 : -1;
  }

  /** The id of the plant that was matched. */
  get id(): bigint {
    const { idHigh, idLow } = this;
    // A double holds 53 bits exactly, and becomes a bigint faster than two words do.
    if (Math.abs(idHigh) < 2 ** 20) return BigInt(idHigh * WORD + (idLow >>> 0));
    return (BigInt(idHigh) << 32n) | BigInt(idLow >>> 0);
  }

  /** Whether the four bytes of `word` are at an offset: comparing one by one takes twice the time of a match. */
  #isAt(at: number, word: number): boolean {
    return at + 4 <= this.#bytes.length && this.#view.getInt32(at, true) === word;
  }

  #skipSpace(at: number): number {
    return this.#mayHaveSpaces && this.#bytes[at] === SPACE ? at + 1 : at;
  }

  /** Returns the offset after the id, or -1. */
  #readId(start: number): number {
    const bytes = this.#bytes;
    const isNegative = bytes[start] === MINUS;
    const first = isNegative ? start + 1 : start;
    let at = first;
    let low = 0; // the magnitude, as two unsigned words
    let high = 0;
    // Four digits at once: each in a byte of a word, then two in a half, then one number.
    for (; at <= first + DIGITS_MAX - 4 && at + 4 <= bytes.length; at += 4) {
      const digits = this.#view.getInt32(at, true) ^ FOUR_ZEROS;
      if (((digits | (digits + 0x06060606)) & 0xf0f0f0f0) !== 0) break; // one is no digit
      const pairs = (Math.imul(digits, 10) + (digits >>> 8)) & 0x00ff00ff;
      const sum = low * 10_000 + (pairs & 0xff) * 100 + (pairs >>> 16);
      low = sum >>> 0;
      high = high * 10_000 + (sum - low) / WORD;
    }
    for (; at <= first + DIGITS_MAX && IS_DIGIT[bytes[at] as number] === 1; at++) {
      const sum = low * 10 + (bytes[at] as number) - ZERO;
      low = sum >>> 0;
      high = high * 10 + (sum - low) / WORD;
    }
    const isLowest = isNegative && high === WORD / 2 && low === 0;
    if (at === first || (high >= WORD / 2 && !isLowest)) return -1;
    // A leading zero is invalid JSON, and -0 has the shorter spelling 0.
    if (bytes[first] === ZERO && (isNegative || at > first + 1)) return -1;
    this.idLow = (isNegative ? -low : low) | 0;
    this.idHigh = (isNegative ? (low === 0 ? -high : ~high) : high) | 0;
    return at;
  }

  /** Returns the offset of the quote that ends the string whose opening quote is before `start`, or -1. */
  #skipString(start: number): number {
    const bytes = this.#bytes;
    if (bytes[start - 1] !== QUOTE) return -1;
    for (let at = start; ; ) {
      while (IS_PLAIN[bytes[at] as number] === 1) at++;
      if (bytes[at] === QUOTE) return at;
      if (bytes[at] !== BACKSLASH) return -1;
      if (IS_SHORT_ESCAPE[bytes[at + 1] as number] === 1) at += 2;
      else if (bytes[at + 1] === LETTER_U && this.#areHexDigits(at + 2)) at += 6;
      else return -1;
    }
  }

  #areHexDigits(start: number): boolean {
    for (let at = start; at < start + 4; at++) {
      if (IS_HEX_DIGIT[this.#bytes[at] as number] !== 1) return false;
    }
    return true;
  }
}

/** Of the longest int64. */
const DIGITS_MAX = 19;
const WORD = 2 ** 32;

const SPACE = 0x20;
const QUOTE = 0x22;
const COMMA = 0x2c;
const MINUS = 0x2d;
const ZERO = 0x30;
const BACKSLASH = 0x5c;
const LETTER_U = 0x75;
const CLOSE_BRACE = 0x7d;

const ID_START = wordOf('{"id');
const ID_END = wordOf('id":');
const NAME_START = wordOf('"nam');
const NAME_END = wordOf('me":');
const TAG_START = wordOf('"tag');
const TAG_END = wordOf('ag":');
const FOUR_ZEROS = wordOf("0000");

/** Each table has 1 for the bytes of its kind. Plain ones need no escape in a string. */
const IS_PLAIN = tableOf(/[ !#-[\]-\xff]/);
const IS_SHORT_ESCAPE = tableOf(/["\\/bfnrt]/);
const IS_DIGIT = tableOf(/[0-9]/);
const IS_HEX_DIGIT = tableOf(/[0-9a-fA-F]/);

/** Four ASCII characters as a little-endian word. */
function wordOf(text: string): number {
  return new DataView(new TextEncoder().encode(text).buffer).getInt32(0, true);
}

function tableOf(pattern: RegExp): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_, byte) =>
    Number(pattern.test(String.fromCharCode(byte))),
  );
}
