/**
 * Lines as bytes, one behind the other, put together piece by piece where they
 * stay, so that a line leaves little garbage.
 *
 * Invariant: a line is here whole or not at all, and never beyond the room it
 * was given. That no piece has a line feed in it is its maker's to see to.
 */

const LINE_FEED = 0x0a;
const ZERO = 0x30;
/** A longer text is copied faster by Node than character by character. */
const SHORT_TEXT = 32;

/** Puts one line together, and does nothing else: where it found no room it is asked again. */
export type PutLine = (line: LineBytes) => void;

export class LineBytes {
  readonly #bytes: Buffer;
  /** Where the whole lines end. */
  #length = 0;
  /** Where the line under way ends: beyond the limit once a piece found no room. */
  #end = 0;
  #limit = 0;

  constructor(capacity: number) {
    this.#bytes = Buffer.allocUnsafeSlow(capacity);
  }

  get length(): number {
    return this.#length;
  }

  /** The whole lines, as they are until one is added behind a `clear`. */
  get lines(): Buffer {
    return this.#bytes.subarray(0, this.#length);
  }

  clear(): void {
    this.#length = 0;
  }

  /** Whether there was room for the line, its line feed included. */
  add(put: PutLine, room: number): boolean {
    this.#end = this.#length;
    this.#limit = Math.min(this.#length + room, this.#bytes.length);
    put(this);
    if (!this.#hasRoom(1)) return false;
    this.#bytes[this.#end] = LINE_FEED;
    this.#length = this.#end + 1;
    return true;
  }

  /** Adds a piece that was encoded before. */
  piece(piece: Uint8Array): void {
    if (!this.#hasRoom(piece.length)) return;
    this.#bytes.set(piece, this.#end);
    this.#end += piece.length;
  }

  text(text: string): void {
    if (text.length > SHORT_TEXT || !this.#putAscii(text)) this.#putUtf8(text);
  }

  /** Adds a whole number that is not negative, in so many digits or more; `null` for any other. */
  number(value: number, digitsMin = 1): void {
    if (isNatural(value)) this.#putDigits(value, digitsMin);
    else this.text("null");
  }

  #putDigits(value: number, digitsMin: number): void {
    let digits = digitsMin;
    for (let limit = 10 ** digits; value >= limit; limit *= 10) digits++;
    if (!this.#hasRoom(digits)) return;
    let rest = value;
    for (let at = this.#end + digits - 1; at >= this.#end; at--) {
      const tens = Math.floor(rest / 10);
      this.#bytes[at] = ZERO + (rest - tens * 10);
      rest = tens;
    }
    this.#end += digits;
  }

  /** False, and nothing put, where the text is no ASCII or finds no room. */
  #putAscii(text: string): boolean {
    const start = this.#end;
    if (start + text.length > this.#limit) return false;
    for (let at = 0; at < text.length; at++) {
      const code = text.charCodeAt(at);
      if (code >= 0x80) return false;
      this.#bytes[start + at] = code;
    }
    this.#end = start + text.length;
    return true;
  }

  #putUtf8(text: string): void {
    // No character takes more than three bytes a unit, so few texts have to be counted.
    const isNear = this.#end + text.length * 3 > this.#limit;
    if (isNear && !this.#hasRoom(Buffer.byteLength(text))) return;
    this.#end += this.#bytes.write(text, this.#end);
  }

  #hasRoom(bytes: number): boolean {
    if (this.#end + bytes <= this.#limit) return true;
    this.#end = this.#limit + 1;
    return false;
  }
}

/** Whether it is a whole number that is exact and not negative. */
export function isNatural(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}
