/**
 * Reads JSON text without the losses of `JSON.parse`, and its numbers as exact int64s.
 *
 * `JSON.parse` rounds numbers, hides duplicate members, and builds objects whose keys an attacker may choose to
 * collide. This scanner checks the text against RFC 8259, builds nothing, and reports the members of the top-level
 * object. Each level of nesting takes a byte, not a stack frame. Uses nothing that a browser lacks.
 */
import { PlantStoreError } from "./errors.ts";
import { quote } from "./text.ts";

type OnMember = (name: string, literal: string) => void;

/**
 * Returns the literal of a JSON text, which has no white space around it, and reports the name and the literal of
 * each member at its top level. @throws PlantStoreError `invalid_json`, which names the byte of the error, from 1.
 */
export function scanJson(text: string, onMember: OnMember): string {
  return new Scanner(text, onMember).scan();
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
/** Values other than strings and containers (RFC 8259 sections 3 and 6). */
const SCALAR = /true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;

class Scanner {
  readonly #text: string;
  readonly #onMember: OnMember;
  #at = 0;
  /** Whether each open container is an object. Pages of it that are never written take no memory. */
  readonly #isObject: Uint8Array;
  #depth = 0;
  /** Name, and start of the value, of the top-level member that is being read. */
  #name = "";
  #valueStart = 0;

  constructor(text: string, onMember: OnMember) {
    this.#text = text;
    this.#isObject = new Uint8Array(text.length);
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
    return this.#depth === 1 && this.#isObject[0] === 1;
  }

  /** Reads up to the first value in a container (true), or a scalar or an empty container (false). */
  #openContainer(): boolean {
    const isObject = this.#take("{");
    if (!isObject && !this.#take("[")) {
      if (this.#text[this.#at] === '"') this.#scanString();
      else this.#takeMatch(SCALAR, "a value");
      return false;
    }
    if (this.#take(isObject ? "}" : "]")) return false;
    this.#isObject[this.#depth++] = Number(isObject);
    if (isObject) this.#scanName();
    return true;
  }

  /** After a value: reads the brackets that close here, and up to the next value if one follows. */
  #closeContainers(): void {
    for (; this.#depth > 0; this.#depth--) {
      const isObject = this.#isObject[this.#depth - 1] === 1;
      if (this.#isTopLevel()) {
        this.#onMember(this.#name, this.#text.slice(this.#valueStart, this.#at));
      }
      if (this.#take(",")) {
        if (isObject) this.#scanName();
        return;
      }
      const closer = isObject ? "}" : "]";
      if (!this.#take(closer)) this.#fail(`"," or "${closer}"`);
    }
  }

  /** Reads a member name, its colon, and up to the value. */
  #scanName(): void {
    this.#skipSpace();
    const start = this.#at;
    if (this.#text[start] !== '"') this.#fail("a member name");
    this.#scanString();
    const name = this.#isTopLevel() ? this.#text.slice(start, this.#at) : "";
    if (!this.#take(":")) this.#fail('":"');
    this.#skipSpace();
    if (name === "") return;
    this.#name = name.includes("\\") ? JSON.parse(name) : name.slice(1, -1);
    this.#valueStart = this.#at;
  }

  /** Reads a string from its opening quote. */
  #scanString(): void {
    for (let at = this.#at + 1; ; at++) {
      const code = this.#text.charCodeAt(at);
      if (code >= 0x20 && code !== QUOTE && code !== BACKSLASH) continue;
      this.#at = at;
      if (code === QUOTE) break;
      this.#takeMatch(ESCAPE, "a character, an escape of RFC 8259, or the end of the string");
      at = this.#at - 1;
    }
    this.#at++;
  }

  #skipSpace(): void {
    let at = this.#at;
    let code = this.#text.charCodeAt(at);
    while (code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09) {
      code = this.#text.charCodeAt(++at);
    }
    this.#at = at;
  }

  /** Skips white space, and the character if it is the next one. */
  #take(character: string): boolean {
    this.#skipSpace();
    if (this.#text[this.#at] !== character) return false;
    this.#at++;
    return true;
  }

  #takeMatch(pattern: RegExp, expected: string): void {
    pattern.lastIndex = this.#at;
    if (!pattern.test(this.#text)) this.#fail(expected);
    this.#at = pattern.lastIndex;
  }

  #fail(expected: string): never {
    const { length } = new TextEncoder().encode(this.#text.slice(0, this.#at));
    const [next] = this.#text.slice(this.#at, this.#at + 2); // a whole character
    const got = next === undefined ? "the end of the text" : quote(next);
    const message = `invalid JSON at byte ${length + 1}: expected ${expected}, got ${got}`;
    throw new PlantStoreError("invalid_json", message);
  }
}

export const INT64_MIN = -(2n ** 63n);
export const INT64_MAX = 2n ** 63n - 1n;
export const INT64_RANGE = `from ${INT64_MIN} to ${INT64_MAX}`; // for messages

/** RFC 8259 section 6: sign, integer part, fraction, exponent. */
const JSON_NUMBER = /^(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$/;
/** The shortest spelling of a number that may be an int64: the longest one is 9223372036854775807. */
const CANONICAL = /^(?:0|-?[1-9][0-9]{0,18})$/;

/** @throws TypeError or RangeError for an id that is no int64: a mistake of the calling program. */
export function assertInt64(id: bigint): void {
  if (typeof id !== "bigint") throw new TypeError(`id: expected a bigint, got ${typeof id}`);
  if (BigInt.asIntN(64, id) === id) return;
  throw new RangeError(`id: expected a bigint ${INT64_RANGE}, got ${id}`);
}

/**
 * The int64 that a JSON number spells: 7, 7.0 and 70e-1 are the same, and -0 is 0. `undefined` for a fraction, a
 * value out of range, or any other text. No larger number is ever built, so 1e999999999 takes no time.
 */
export function parseInt64(text: string): bigint | undefined {
  const parts = JSON_NUMBER.exec(text);
  if (parts === null) return undefined;
  const [, sign, integer = "", fraction = "", exponent = "0"] = parts;

  // The value is digits x 10^zeros, without zeros at either end of the digits.
  const padded = (integer + fraction).replace(/^0+/, "");
  let end = padded.length;
  while (padded[end - 1] === "0") end--; // /0+$/ takes quadratic time on a megabyte of inner zeros
  if (end === 0) return 0n;
  const zeros = Number(exponent) - fraction.length + (padded.length - end);
  if (zeros < 0 || end + zeros > 19) return undefined; // a fraction is left, or too many digits
  return parseCanonicalInt64(sign + padded.slice(0, end) + "0".repeat(zeros));
}

/** The int64 whose shortest spelling is this text, as in a path; `undefined` for any other text. */
export function parseCanonicalInt64(text: string): bigint | undefined {
  if (!CANONICAL.test(text)) return undefined;
  // A double holds 15 digits exactly, and becomes a bigint faster than text does.
  if (text.length <= 15) return BigInt(Number(text));
  const id = BigInt(text);
  return BigInt.asIntN(64, id) === id ? id : undefined;
}
