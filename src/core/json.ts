/**
 * Reads JSON text without the losses of `JSON.parse`.
 *
 * `JSON.parse` rounds numbers, hides duplicate members, and builds objects whose keys an attacker may
 * choose to collide. This scanner checks the whole text against RFC 8259, builds nothing, and reports
 * the members of the top-level object. It is iterative: a level of depth takes one array
 * slot, never a stack frame. It knows nothing about plants.
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
const BACKSLASH = 0x5c;

/** Values other than strings and containers (RFC 8259 sections 3 and 6). */
const SCALAR = /true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
/** What may follow a backslash. */
const ESCAPE = /["\\/bfnrt]|u[0-9a-fA-F]{4}/y;

class Scanner {
  readonly #text: string;
  readonly #onMember: MemberVisitor;
  #at = 0;
  /** The bracket that ends each open container. */
  readonly #closers: string[] = [];
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
    } while (this.#closers.length > 0);
    const value = this.#text.slice(start, this.#at);
    this.#skipSpace();
    if (this.#at < this.#text.length) this.#fail("the end of the text");
    return value;
  }

  #isTopLevel(): boolean {
    return this.#closers.length === 1 && this.#closers[0] === "}";
  }

  /** Reads up to the first value in a container (true), or a scalar or an empty container (false). */
  #openContainer(): boolean {
    const opener = this.#text[this.#at];
    if (opener !== "{" && opener !== "[") {
      this.#scanScalar();
      return false;
    }
    const closer = opener === "{" ? "}" : "]";
    this.#at++;
    this.#skipSpace();
    if (this.#take(closer)) return false;
    this.#closers.push(closer);
    if (closer === "}") this.#scanName();
    return true;
  }

  /** After a value: reads the brackets that close here, and up to the next value if one follows. */
  #closeContainers(): void {
    for (;;) {
      const closer = this.#closers.at(-1);
      if (closer === undefined) return;
      if (this.#isTopLevel()) {
        this.#onMember(this.#name, this.#text.slice(this.#valueStart, this.#at));
      }
      this.#skipSpace();
      if (this.#take(",")) {
        this.#skipSpace();
        if (closer === "}") this.#scanName();
        return;
      }
      if (!this.#take(closer)) this.#fail(`"," or "${closer}"`);
      this.#closers.pop();
    }
  }

  /** Reads a member name, its colon, and up to the value. */
  #scanName(): void {
    const start = this.#at;
    this.#scanString("a member name");
    const end = this.#at;
    this.#skipSpace();
    if (!this.#take(":")) this.#fail('":"');
    this.#skipSpace();
    if (!this.#isTopLevel()) return;
    this.#name = this.#text.slice(start, end);
    this.#valueStart = this.#at;
  }

  #scanScalar(): void {
    if (this.#code() === QUOTE) this.#scanString("a value");
    else this.#takeMatch(SCALAR, "a value");
  }

  #scanString(expected: string): void {
    if (!this.#take('"')) this.#fail(expected);
    for (;;) {
      const code = this.#code();
      if (code < 0x20) this.#fail("a control character as an escape");
      if (Number.isNaN(code)) this.#fail("the end of the string");
      this.#at++;
      if (code === QUOTE) return;
      if (code === BACKSLASH) this.#takeMatch(ESCAPE, "an escape of RFC 8259");
    }
  }

  #skipSpace(): void {
    let code = this.#code();
    while (code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09) {
      this.#at++;
      code = this.#code();
    }
  }

  /** The next UTF-16 code unit; NaN at the end of the text. */
  #code(): number {
    return this.#text.charCodeAt(this.#at);
  }

  #take(character: string): boolean {
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
    const byte = Buffer.byteLength(this.#text.slice(0, this.#at)) + 1;
    const code = this.#text.codePointAt(this.#at);
    const got =
      code === undefined ? "the end of the text" : encodeJsonString(String.fromCodePoint(code));
    throw new PlantStoreError(
      "invalid_json",
      `invalid JSON at byte ${byte}: expected ${expected}, got ${got}`,
    );
  }
}
