/**
 * JSON text, read as bytes, without what `JSON.parse` loses.
 *
 * `JSON.parse` rounds numbers, hides duplicate members and builds objects whose keys an attacker may
 * choose to collide. This scanner checks the whole text against RFC 8259, builds nothing, and reports
 * where the members of the top-level object are, so that a caller decides what to read. It is
 * iterative: depth costs one array slot a level, never the call stack. Knows no plants, and does not
 * check UTF-8: the caller has.
 */
import { PlantStoreError } from "./errors.ts";
import { encodeJsonString } from "./text.ts";

export type JsonKind = "object" | "array" | "string" | "number" | "true" | "false" | "null";

/** Told of each member of the top-level object: byte offsets of name (with quotes) and value. */
type MemberVisitor = (
  nameStart: number,
  nameEnd: number,
  valueStart: number,
  valueEnd: number,
) => void;

/** A value in a text: what it is, and the byte offsets where it starts and ends. */
export interface JsonValue {
  readonly kind: JsonKind;
  readonly start: number;
  readonly end: number;
}

/**
 * Checks one JSON text and says what it is.
 *
 * @throws PlantStoreError `invalid_json` with the byte of the first fault,
 * counted from 1 within the text: where that stands is not known here.
 */
export function scanJson(bytes: Buffer, onMember: MemberVisitor): JsonValue {
  return new Scanner(bytes).scanText(onMember);
}

/** The kind of the valid JSON value that starts at `offset`. */
export function jsonKindAt(bytes: Buffer, offset: number): JsonKind {
  switch (bytes[offset]) {
    case OPEN_BRACE:
      return "object";
    case OPEN_BRACKET:
      return "array";
    case QUOTE:
      return "string";
    case 0x74:
      return "true";
    case 0x66:
      return "false";
    case 0x6e:
      return "null";
    default:
      return "number";
  }
}

/** The value of the valid string literal between two offsets, quotes included. @internal */
export function decodeJsonString(bytes: Buffer, start: number, end: number): string {
  for (let at = start + 1; at < end - 1; at++) {
    if (bytes[at] === BACKSLASH) return JSON.parse(bytes.toString("utf8", start, end));
  }
  return bytes.toString("utf8", start + 1, end - 1);
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

const LITERALS = {
  true: Buffer.from("true"),
  false: Buffer.from("false"),
  null: Buffer.from("null"),
};

class Scanner {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  scanText(onMember: MemberVisitor): JsonValue {
    this.#skipSpace();
    const start = this.#at;
    const kind = jsonKindAt(this.#bytes, start);
    if (kind === "object") this.#scanTopObject(onMember);
    else this.#scanValue();
    const end = this.#at;
    this.#skipSpace();
    if (this.#at < this.#bytes.length) this.#fail("the end of the text");
    return { kind, start, end };
  }

  #scanTopObject(onMember: MemberVisitor): void {
    this.#at++;
    this.#skipSpace();
    if (this.#take(CLOSE_BRACE)) return;
    for (;;) {
      const nameStart = this.#at;
      this.#scanString("a member name");
      const nameEnd = this.#at;
      this.#scanColon();
      const valueStart = this.#at;
      this.#scanValue();
      onMember(nameStart, nameEnd, valueStart, this.#at);
      this.#skipSpace();
      if (this.#take(CLOSE_BRACE)) return;
      if (!this.#take(COMMA)) this.#fail('"," or "}"');
      this.#skipSpace();
    }
  }

  /** One value of any depth. `closers` holds the bracket that ends each open container. */
  #scanValue(): void {
    const closers: number[] = [];
    do {
      if (this.#openContainer(closers)) continue;
      this.#closeContainers(closers);
    } while (closers.length > 0);
  }

  /** Reads up to where the next value starts (true) or past a value that is complete (false). */
  #openContainer(closers: number[]): boolean {
    const byte = this.#bytes[this.#at];
    if (byte !== OPEN_BRACE && byte !== OPEN_BRACKET) {
      this.#scanScalar(byte);
      return false;
    }
    const closer = byte === OPEN_BRACE ? CLOSE_BRACE : CLOSE_BRACKET;
    this.#at++;
    this.#skipSpace();
    if (this.#take(closer)) return false;
    closers.push(closer);
    if (closer === CLOSE_BRACE) this.#scanName();
    return true;
  }

  /** After a value: reads the brackets that close here, and up to the next value if one follows. */
  #closeContainers(closers: number[]): void {
    for (;;) {
      const closer = closers.at(-1);
      if (closer === undefined) return;
      this.#skipSpace();
      if (this.#take(COMMA)) {
        this.#skipSpace();
        if (closer === CLOSE_BRACE) this.#scanName();
        return;
      }
      if (!this.#take(closer)) this.#fail(closer === CLOSE_BRACE ? '"," or "}"' : '"," or "]"');
      closers.pop();
    }
  }

  #scanName(): void {
    this.#scanString("a member name");
    this.#scanColon();
  }

  #scanColon(): void {
    this.#skipSpace();
    if (!this.#take(COLON)) this.#fail('":"');
    this.#skipSpace();
  }

  #scanScalar(byte: number | undefined): void {
    switch (byte) {
      case QUOTE:
        this.#scanString("a value");
        break;
      case 0x74:
        this.#scanLiteral(LITERALS.true);
        break;
      case 0x66:
        this.#scanLiteral(LITERALS.false);
        break;
      case 0x6e:
        this.#scanLiteral(LITERALS.null);
        break;
      default:
        this.#scanNumber();
    }
  }

  #scanLiteral(literal: Buffer): void {
    for (const byte of literal) {
      if (!this.#take(byte)) this.#fail(`"${literal}"`);
    }
  }

  #scanNumber(): void {
    this.#take(MINUS);
    if (!this.#take(ZERO) && !this.#takeDigits()) this.#fail("a value");
    if (this.#take(DOT) && !this.#takeDigits()) this.#fail("a digit");
    if (this.#take(0x65) || this.#take(0x45)) {
      if (!this.#take(PLUS)) this.#take(MINUS);
      if (!this.#takeDigits()) this.#fail("a digit");
    }
  }

  #scanString(expected: string): void {
    if (!this.#take(QUOTE)) this.#fail(expected);
    for (;;) {
      const byte = this.#bytes[this.#at];
      if (byte === undefined) this.#fail("the end of the string");
      if (byte < 0x20) this.#fail("a control character as an escape");
      this.#at++;
      if (byte === QUOTE) return;
      if (byte === BACKSLASH) this.#scanEscape();
    }
  }

  #scanEscape(): void {
    const byte = this.#bytes[this.#at];
    if (byte === undefined || !ESCAPES.includes(byte)) this.#fail("an escape of RFC 8259");
    this.#at++;
    if (byte !== 0x75) return;
    for (let digit = 0; digit < 4; digit++) {
      if (!isHexDigit(this.#bytes[this.#at])) this.#fail("a hexadecimal digit");
      this.#at++;
    }
  }

  #skipSpace(): void {
    const bytes = this.#bytes;
    let byte = bytes[this.#at];
    while (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09) {
      byte = bytes[++this.#at];
    }
  }

  #take(byte: number): boolean {
    if (this.#bytes[this.#at] !== byte) return false;
    this.#at++;
    return true;
  }

  #takeDigits(): boolean {
    const start = this.#at;
    while (isDigit(this.#bytes[this.#at])) this.#at++;
    return this.#at > start;
  }

  #fail(expected: string): never {
    throw new PlantStoreError(
      "invalid_json",
      `malformed JSON: expected ${expected} at its byte ${this.#at + 1}, got ${this.#got()}`,
    );
  }

  #got(): string {
    if (this.#at >= this.#bytes.length) return "the end of the text";
    // Four bytes hold any character of UTF-8; what follows it is dropped.
    const [character = ""] = this.#bytes.toString("utf8", this.#at, this.#at + 4);
    return encodeJsonString(character);
  }
}

/** What may follow a backslash: " \ / b f n r t u. */
const ESCAPES = Buffer.from('"\\/bfnrtu');

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= ZERO && byte <= 0x39;
}

function isHexDigit(byte: number | undefined): boolean {
  if (byte === undefined) return false;
  const lower = byte | 0x20;
  return isDigit(byte) || (lower >= 0x61 && lower <= 0x66);
}
