/**
 * Reads JSON text without the losses of `JSON.parse`.
 *
 * `JSON.parse` rounds numbers, hides duplicate members, and builds objects whose keys an attacker may
 * choose to collide. This scanner checks the whole text against RFC 8259, builds nothing, and reports
 * the members of the top-level object. It is iterative: a level of depth takes one bit, never a stack
 * frame. It knows nothing about plants, and uses nothing that a browser lacks.
 */
import { PlantStoreError } from "./errors.ts";
import { encodeJsonString } from "./text.ts";

/** Receives the literals of name and value of each member of the top-level object. */
type MemberVisitor = (name: string, value: string) => void;

/**
 * Checks one JSON text and returns the literal of its value: the text without white space around it.
 *
 * @throws PlantStoreError `invalid_json`; the message names the byte of the first fault, from 1.
 */
export function scanJson(text: string, onMember: MemberVisitor): string {
  return new Scanner(text, onMember).scan();
}

const QUOTE = 0x22;
const PLUS = 0x2b;
const COMMA = 0x2c;
const MINUS = 0x2d;
const DOT = 0x2e;
const ZERO = 0x30;
const COLON = 0x3a;
const OPEN_BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

const LETTER_U = 0x75;

const LITERALS = ["true", "false", "null"];

/** Two bits of `ESCAPE_PARTS`: what may follow a backslash, except `u`; what may follow that. @internal */
export const SHORT_ESCAPE = 1;
/** @internal */
export const HEX_DIGIT = 2;

/** What each byte, or character, may be in an escape (RFC 8259 section 7). @internal */
export const ESCAPE_PARTS = new Uint8Array(256);
for (let code = 0; code < ESCAPE_PARTS.length; code++) {
  const character = String.fromCharCode(code);
  const isShort = '"\\/bfnrt'.includes(character);
  const isDigit = "0123456789abcdefABCDEF".includes(character);
  ESCAPE_PARTS[code] = (isShort ? SHORT_ESCAPE : 0) | (isDigit ? HEX_DIGIT : 0);
}

class Scanner {
  readonly #text: string;
  readonly #onMember: MemberVisitor;
  readonly #open = new OpenContainers();
  #at = 0;
  /** Name, and start of the value, of the top-level member that is being read. */
  #name = "";
  #valueStart = 0;

  constructor(text: string, onMember: MemberVisitor) {
    this.#text = text;
    this.#onMember = onMember;
  }

  scan(): string {
    this.#skipSpace();
    const start = this.#at;
    do {
      if (!this.#openContainer()) this.#closeContainers();
    } while (this.#open.depth > 0);
    const value = this.#text.slice(start, this.#at);
    this.#skipSpace();
    if (this.#at < this.#text.length) this.#fail("the end of the text");
    return value;
  }

  /** Reads up to the first value in a container (true), or a scalar or an empty container (false). */
  #openContainer(): boolean {
    const opener = this.#code();
    if (opener !== OPEN_BRACE && opener !== OPEN_BRACKET) {
      this.#scanScalar(opener);
      return false;
    }
    const isObject = opener === OPEN_BRACE;
    this.#at++;
    this.#skipSpace();
    if (this.#take(isObject ? CLOSE_BRACE : CLOSE_BRACKET)) return false;
    this.#open.push(isObject);
    if (isObject) this.#scanName();
    return true;
  }

  /** After a value: reads the brackets that close here, and up to the next value if one follows. */
  #closeContainers(): void {
    const open = this.#open;
    while (open.depth > 0) {
      const { isObject } = open;
      if (isObject && open.depth === 1) {
        this.#onMember(this.#name, this.#text.slice(this.#valueStart, this.#at));
      }
      this.#skipSpace();
      if (this.#take(COMMA)) {
        this.#skipSpace();
        if (isObject) this.#scanName();
        return;
      }
      if (!this.#take(isObject ? CLOSE_BRACE : CLOSE_BRACKET)) {
        this.#fail(`"," or "${isObject ? "}" : "]"}"`);
      }
      open.pop();
    }
  }

  /** Reads a member name, its colon, and up to the value. */
  #scanName(): void {
    const start = this.#at;
    if (this.#code() !== QUOTE) this.#fail("a member name");
    this.#scanString();
    const end = this.#at;
    this.#skipSpace();
    if (!this.#take(COLON)) this.#fail('":"');
    this.#skipSpace();
    if (this.#open.depth > 1) return;
    this.#name = this.#text.slice(start, end);
    this.#valueStart = this.#at;
  }

  #scanScalar(first: number): void {
    if (first === QUOTE) this.#scanString();
    else if (first === MINUS || isDigit(first)) this.#scanNumber(first);
    else {
      const literal = LITERALS.find((text) => this.#text.startsWith(text, this.#at));
      if (literal === undefined) this.#fail("a value");
      this.#at += literal.length;
    }
  }

  /** RFC 8259 section 6. A fraction or an exponent without digits is left to what follows. */
  #scanNumber(first: number): void {
    const text = this.#text;
    const start = first === MINUS ? this.#at + 1 : this.#at;
    let at = text.charCodeAt(start) === ZERO ? start + 1 : this.#digitsEnd(start);
    if (at === start) this.#fail("a value");
    if (text.charCodeAt(at) === DOT) {
      const end = this.#digitsEnd(at + 1);
      if (end > at + 1) at = end;
    }
    if ((text.charCodeAt(at) | 0x20) === 0x65) {
      const sign = text.charCodeAt(at + 1);
      const digits = sign === PLUS || sign === MINUS ? at + 2 : at + 1;
      const end = this.#digitsEnd(digits);
      if (end > digits) at = end;
    }
    this.#at = at;
  }

  #digitsEnd(start: number): number {
    let at = start;
    while (isDigit(this.#text.charCodeAt(at))) at++;
    return at;
  }

  /** Reads a string from its opening quote. Runs of characters that mean nothing cost a comparison each. */
  #scanString(): void {
    const text = this.#text;
    for (let at = this.#at + 1; ; at++) {
      const code = text.charCodeAt(at);
      if (code >= 0x20 && code !== QUOTE && code !== BACKSLASH) continue;
      if (code === BACKSLASH) {
        at = this.#escapeEnd(at + 1);
        continue;
      }
      this.#at = at;
      if (code < 0x20) this.#fail("a control character as an escape");
      if (code !== QUOTE) this.#fail("the end of the string");
      this.#at++;
      return;
    }
  }

  /** Returns the offset of the last character of an escape, given that after its backslash. */
  #escapeEnd(start: number): number {
    const text = this.#text;
    const code = text.charCodeAt(start);
    if (isEscapePart(code, SHORT_ESCAPE)) return start;
    let at = start;
    if (code === LETTER_U) {
      while (at < start + 4 && isEscapePart(text.charCodeAt(at + 1), HEX_DIGIT)) at++;
      if (at === start + 4) return at;
    }
    this.#at = start;
    return this.#fail("an escape of RFC 8259");
  }

  #skipSpace(): void {
    const text = this.#text;
    let at = this.#at;
    for (;;) {
      const code = text.charCodeAt(at);
      if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) break;
      at++;
    }
    this.#at = at;
  }

  /** The next UTF-16 code unit; NaN at the end of the text. */
  #code(): number {
    return this.#text.charCodeAt(this.#at);
  }

  #take(code: number): boolean {
    if (this.#code() !== code) return false;
    this.#at++;
    return true;
  }

  #fail(expected: string): never {
    const byte = utf8Length(this.#text, this.#at) + 1;
    const code = this.#text.codePointAt(this.#at);
    const got =
      code === undefined ? "the end of the text" : encodeJsonString(String.fromCodePoint(code));
    throw new PlantStoreError(
      "invalid_json",
      `invalid JSON at byte ${byte}: expected ${expected}, got ${got}`,
    );
  }
}

/** The kinds of the open containers, a bit each: a text of brackets alone must not take many times its length. */
class OpenContainers {
  depth = 0;
  /** Whether the innermost one is an object. */
  isObject = false;
  #bits = new Uint8Array(16);

  push(isObject: boolean): void {
    const at = this.depth++;
    this.isObject = isObject;
    if (at >> 3 === this.#bits.length) {
      const bits = new Uint8Array(2 * this.#bits.length);
      bits.set(this.#bits);
      this.#bits = bits;
    }
    const bit = 1 << (at & 7);
    if (isObject) (this.#bits[at >> 3] as number) |= bit;
    else (this.#bits[at >> 3] as number) &= ~bit;
  }

  pop(): void {
    const at = --this.depth - 1;
    this.isObject = at >= 0 && (((this.#bits[at >> 3] as number) >> (at & 7)) & 1) === 1;
  }
}

function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39;
}

function isEscapePart(code: number, part: number): boolean {
  return code < ESCAPE_PARTS.length && ((ESCAPE_PARTS[code] as number) & part) !== 0;
}

/** The length in UTF-8 of the first code units of a text; half of a surrogate pair takes two of four bytes. */
function utf8Length(text: string, end: number): number {
  let bytes = 0;
  for (let at = 0; at < end; at++) {
    const code = text.charCodeAt(at);
    if (code < 0x80) bytes++;
    else bytes += code < 0x800 || (code >= 0xd800 && code < 0xe000) ? 2 : 3;
  }
  return bytes;
}
