/**
 * Reads JSON text without the losses of `JSON.parse`, and its numbers as exact int64s.
 *
 * `JSON.parse` rounds numbers, hides duplicate members, and builds objects whose keys an attacker may
 * choose to collide. This scanner checks the whole text against RFC 8259, builds nothing, and reports
 * the members of the top-level object. It is iterative: a level of depth takes a byte, never a stack
 * frame. It knows nothing about plants, and uses nothing that a browser lacks.
 */
import { PlantStoreError } from "./errors.ts";
import { encodeJsonString } from "./text.ts";

/** Receives the name, and the literal of the value, of each member of the top-level object. */
type MemberVisitor = (name: string, literal: string) => void;

/**
 * Checks one JSON text and returns the literal of its value: the text without white space around it.
 *
 * @throws PlantStoreError `invalid_json`; the message names the byte of the first error, from 1.
 */
export function scanJson(text: string, onMember: MemberVisitor): string {
  return new Scanner(text, onMember).scan();
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
/** It has no width. */
const BYTE_ORDER_MARK = 0xfeff;
/** From the code of a bracket or brace to the one that closes it. */
const CLOSING = 2;

/** Values other than strings and containers (RFC 8259 sections 3 and 6). */
const SCALAR = /true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
/** What may follow a backslash. */
const ESCAPE = /["\\/bfnrt]|u[0-9a-fA-F]{4}/y;

class Scanner {
  readonly #text: string;
  readonly #onMember: MemberVisitor;
  #at = 0;
  /** The bracket that ends each open container. The system gives room only to the pages that are written to. */
  readonly #closers: Uint8Array;
  #depth = 0;
  /** Name, and start of the value, of the top-level member that is being read. */
  #name = "";
  #valueStart = 0;

  constructor(text: string, onMember: MemberVisitor) {
    this.#text = text;
    this.#closers = new Uint8Array(text.length);
    this.#onMember = onMember;
  }

  scan(): string {
    this.#skipSpace();
    const start = this.#at;
    do {
      if (!this.#openContainer()) this.#closeContainers();
    } while (this.#depth > 0);
    const value = this.#text.slice(start, this.#at);
    this.#skipSpace();
    if (this.#at < this.#text.length) this.#fail("the end of the text");
    return value;
  }

  #isTopLevel(): boolean {
    return this.#depth === 1 && this.#closers[0] === CLOSE_BRACE;
  }

  /** Reads up to the first value in a container (true), or a scalar or an empty container (false). */
  #openContainer(): boolean {
    const opener = this.#code();
    if (opener !== OPEN_BRACE && opener !== OPEN_BRACKET) {
      if (opener === QUOTE) this.#scanString();
      else this.#takeMatch(SCALAR, "a value");
      return false;
    }
    this.#at++;
    this.#skipSpace();
    if (this.#take(opener + CLOSING)) return false;
    this.#closers[this.#depth++] = opener + CLOSING;
    if (opener === OPEN_BRACE) this.#scanName();
    return true;
  }

  /** After a value: reads the brackets that close here, and up to the next value if one follows. */
  #closeContainers(): void {
    while (this.#depth > 0) {
      const closer = this.#closers[this.#depth - 1] as number;
      if (this.#isTopLevel()) {
        this.#onMember(this.#name, this.#text.slice(this.#valueStart, this.#at));
      }
      this.#skipSpace();
      if (this.#take(COMMA)) {
        this.#skipSpace();
        if (closer === CLOSE_BRACE) this.#scanName();
        return;
      }
      if (!this.#take(closer)) this.#fail(`"," or "${String.fromCharCode(closer)}"`);
      this.#depth--;
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
    if (!this.#isTopLevel()) return;
    const name = this.#text.slice(start, end);
    this.#name = name.includes("\\") ? JSON.parse(name) : name.slice(1, -1);
    this.#valueStart = this.#at;
  }

  /** Reads a string from its opening quote. */
  #scanString(): void {
    this.#at++;
    for (;;) {
      const code = this.#skipPlainText();
      if (code < 0x20) this.#fail("a control character as an escape");
      if (Number.isNaN(code)) this.#fail("the end of the string");
      this.#at++;
      if (code === QUOTE) return;
      this.#takeMatch(ESCAPE, "an escape of RFC 8259");
    }
  }

  /** Returns the code unit after a run of characters that mean nothing in a string; NaN at the end. */
  #skipPlainText(): number {
    let at = this.#at;
    let code = this.#text.charCodeAt(at);
    while (code >= 0x20 && code !== QUOTE && code !== BACKSLASH) code = this.#text.charCodeAt(++at);
    this.#at = at;
    return code;
  }

  #skipSpace(): void {
    let at = this.#at;
    let code = this.#text.charCodeAt(at);
    while (code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09) {
      code = this.#text.charCodeAt(++at);
    }
    this.#at = at;
  }

  /** The next code unit; NaN at the end of the text. */
  #code(): number {
    return this.#text.charCodeAt(this.#at);
  }

  #take(code: number): boolean {
    if (this.#code() !== code) return false;
    this.#at++;
    return true;
  }

  #takeMatch(pattern: RegExp, expected: string): void {
    pattern.lastIndex = this.#at;
    if (!pattern.test(this.#text)) this.#fail(expected);
    this.#at = pattern.lastIndex;
  }

  #fail(expected: string): never {
    const byte = new TextEncoder().encode(this.#text.slice(0, this.#at)).length + 1;
    const code = this.#text.codePointAt(this.#at);
    let got = "the end of the text";
    if (code === BYTE_ORDER_MARK) got = "U+FEFF, a byte order mark";
    else if (code !== undefined) got = encodeJsonString(String.fromCodePoint(code));
    throw new PlantStoreError(
      "invalid_json",
      `invalid JSON at byte ${byte}: expected ${expected}, got ${got}`,
    );
  }
}

export const INT64_MIN = -(2n ** 63n);
export const INT64_MAX = 2n ** 63n - 1n;
/** For messages. */
export const INT64_RANGE = `from ${INT64_MIN} to ${INT64_MAX}`;

/** RFC 8259 section 6: sign, integer part, fraction, exponent. */
const JSON_NUMBER = /^(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$/;
/** The shortest spelling of a number that may be an int64: the longest one is 9223372036854775807. */
const CANONICAL = /^(?:0|-?[1-9][0-9]{0,18})$/;

/** @throws TypeError or RangeError for an id that is no int64: a mistake of the calling program. */
export function assertInt64(id: bigint): void {
  if (typeof id !== "bigint") throw new TypeError(`id: expected a bigint, got ${typeof id}`);
  if (id < INT64_MIN || id > INT64_MAX) {
    throw new RangeError(`id: expected a bigint ${INT64_RANGE}, got ${id}`);
  }
}

/**
 * The int64 that a JSON number spells: 7, 7.0 and 70e-1 are the same, and -0 is 0. `undefined` for a fraction, a
 * value out of range, or any other text. No larger number is ever built, so 1e999999999 takes no time.
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
  if (digits.length + zeros > 19) return undefined; // more than the longest int64
  return parseCanonicalInt64(sign + digits + "0".repeat(zeros));
}

/** Not /0+$/, which takes quadratic time on a megabyte of inner zeros. */
function dropLastZeros(digits: string): string {
  let end = digits.length;
  while (digits[end - 1] === "0") end--;
  return digits.slice(0, end);
}

/** The int64 whose shortest spelling is this text, as in a path; `undefined` for any other text. */
export function parseCanonicalInt64(text: string): bigint | undefined {
  if (!CANONICAL.test(text)) return undefined;
  // A double holds 15 digits exactly, and becomes a bigint faster than text does.
  if (text.length <= 15) return BigInt(Number(text));
  const value = BigInt(text);
  return value >= INT64_MIN && value <= INT64_MAX ? value : undefined;
}
