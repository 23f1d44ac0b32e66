/**
 * What a plant is, and its one JSON form.
 *
 * `parseNewPlant` judges untrusted bytes: a request body, or a line of the log. It reads what the
 * `encode` functions write back to the same plant. Names and tags are any JSON string and are never
 * trimmed or normalised; an id is an exact int64.
 *
 * `PlantMatcher` recognises a plant in the form in which the store writes it, the only form of a line of the
 * log, without making a string or an object. `parseNewPlant` agrees on every plant that it matches.
 */
import { isUtf8 } from "node:buffer";
import { PlantStoreError } from "./errors.ts";
import {
  copyNewPlant,
  encodeNewPlant,
  INT64_RANGE,
  type NewPlant,
  newPlant,
  parseCanonicalInt64,
  parseInt64,
  scanJson,
} from "./json.ts";
import { RECORD_BYTES_MAX } from "./options.ts";
import { quote, truncate } from "./text.ts";

export type { NewPlant, Plant } from "./json.ts";
/** @internal */
export { encodeNewPlant, encodePlant } from "./json.ts";

/**
 * Reads a NewPlant from JSON text. Ignores members other than `id`, `name` and `tag`.
 *
 * @throws PlantStoreError `invalid_utf8`, `invalid_json`, `duplicate_member` or `invalid_plant`; the
 * message of the last two names every faulty member.
 * @internal
 */
export function parseNewPlant(bytes: Buffer): NewPlant {
  if (!isUtf8(bytes)) {
    throw new PlantStoreError("invalid_utf8", "expected text in UTF-8, got other bytes");
  }
  const text = bytes.toString();
  return parseCommon(text) ?? parseAny(text);
}

const SPACE = "[ \\t\\r\\n]*";
const COMMA = `${SPACE},${SPACE}`;
const ID = `"id"${SPACE}:${SPACE}(-?[0-9]+)`;
const TEXT = `${SPACE}:${SPACE}"([ !#-[\\]-\\uffff]*)"`;
/** A plant as most clients write it: the id first or last, and no escapes. */
const COMMON_PLANT = new RegExp(
  `^\\{${SPACE}(?:${ID}${COMMA})?"name"${TEXT}(?:${COMMA}"tag"${TEXT})?(?:${COMMA}${ID})?${SPACE}\\}$`,
);

/** A pattern takes memory in proportion to the text. */
const COMMON_LENGTH_MAX = 1024 * 1024;

/** `undefined` for everything that is left to `parseAny`, which takes several times as long. */
function parseCommon(text: string): NewPlant | undefined {
  if (text.length > COMMON_LENGTH_MAX) return undefined;
  const members = COMMON_PLANT.exec(text);
  if (members === null) return undefined;
  const [, first, name = "", tag, last] = members;
  if (first !== undefined && last !== undefined) return undefined;
  const id = parseCanonicalInt64(first ?? last ?? "");
  return id === undefined ? undefined : newPlant(id, name, tag);
}

type Field = "id" | "name" | "tag";

/** What may spell one of them with escapes: decoding every escaped name would double the time of a body. */
const ESCAPED_FIELD = /^"(?:[adegimnt]|\\u00[67][0-9a-fA-F]){2,4}"$/;

function parseAny(text: string): NewPlant {
  const literals: Record<Field, string[]> = { id: [], name: [], tag: [] };
  const whole = scanJson(text, (nameLiteral, literal) => {
    const isEscaped = nameLiteral.includes("\\");
    if (isEscaped && !ESCAPED_FIELD.test(nameLiteral)) return;
    const name = isEscaped ? JSON.parse(nameLiteral) : nameLiteral.slice(1, -1);
    if (Object.hasOwn(literals, name)) literals[name as Field].push(literal);
  });
  if (!whole.startsWith("{")) {
    const message = `expected a JSON object, got ${describeValue(whole)}`;
    throw new PlantStoreError("invalid_plant", message);
  }
  let code: "invalid_plant" | "duplicate_member" = "invalid_plant";
  const faults: string[] = [];
  const read = <T>(name: Field, expected: string, parse: (literal: string) => T | undefined) => {
    const { 0: literal, length } = literals[name];
    if (literal === undefined) {
      if (name !== "tag") faults.push(`${name}: required`);
    } else if (length > 1) {
      // RFC 7493 section 2.3: nobody knows which of the values counts, so none does.
      code = "duplicate_member";
      faults.push(`${name}: expected once, given ${length} times`);
    } else {
      const value = parse(literal);
      if (value !== undefined) return value;
      faults.push(`${name}: expected ${expected}, got ${describeValue(literal)}`);
    }
    return undefined;
  };
  const isBeyond = Math.abs(Number(literals.id[0])) >= 2 ** 63;
  const id = read("id", isBeyond ? `an int64, ${INT64_RANGE}` : "an int64", parseInt64);
  const name = read("name", "a string", parseString);
  const tag = read("tag", "a string", parseString);
  if (faults.length === 0 && id !== undefined && name !== undefined) return newPlant(id, name, tag);
  throw new PlantStoreError(code, faults.join("; "));
}

/** `JSON.parse` also copies: a slice would keep the whole text in memory. */
function parseString(literal: string): string | undefined {
  return literal.startsWith('"') ? JSON.parse(literal) : undefined;
}

const CONTAINERS: Readonly<Record<string, string>> = { "{": "an object", "[": "an array" };

function describeValue(literal: string): string {
  if (literal.startsWith('"')) return `the string ${quote(JSON.parse(literal))}`;
  return CONTAINERS[literal.charAt(0)] ?? truncate(literal);
}

/**
 * Checks a plant that was built in code, also the length of its line, and copies it.
 *
 * @throws TypeError or RangeError: a mistake of the calling program. PlantStoreError `body_too_large` if the
 * line of the plant is longer than a record may be.
 * @internal
 */
export function validateNewPlant(given: NewPlant): NewPlant {
  const plant = copyNewPlant(given);
  const characters = plant.name.length + (plant.tag ?? "").length;
  if (characters <= SHORT_CHARACTERS) return plant;
  const isLong = characters > RECORD_BYTES_MAX; // such a line may be too long to be made
  const bytes = isLong ? characters : Buffer.byteLength(encodeNewPlant(plant)) + 1;
  if (bytes <= RECORD_BYTES_MAX) return plant;
  throw new PlantStoreError(
    "body_too_large",
    `The plant: expected at most ${RECORD_BYTES_MAX} bytes as a line of a log, got ${bytes}`,
  );
}

/** A line of so many characters fits, because each takes six bytes at most. */
const SHORT_CHARACTERS = RECORD_BYTES_MAX / 6 - 64;

/** Whether two plants are equal; an absent tag differs from an empty one. @internal */
export function isSamePlant(a: NewPlant, b: NewPlant): boolean {
  return a.id === b.id && a.name === b.name && a.tag === b.tag;
}

/** @internal */
export function conflict(id: bigint): PlantStoreError {
  return new PlantStoreError(
    "conflict",
    `Cannot create plant ${id}: the id belongs to a plant with another name or tag; ` +
      "get that one, or use another id",
  );
}

/** @internal */
export function unknownCursor(after: bigint | undefined): PlantStoreError {
  return new PlantStoreError("unknown_cursor", `after: expected the id of a plant, got ${after}`);
}

/**
 * Recognises a plant in the form that `encodeNewPlant` writes, which is the form of every line of a log:
 *
 *   {"id":7,"name":"Fern"}  or  {"id":7,"name":"Fern","tag":"indoor"}
 *
 * without spaces, with the shortest spelling of the id, and with any escape of JSON in its strings. It makes
 * no strings and no objects: after a match, its fields say what was found and where.
 *
 * @internal
 */
export class PlantMatcher {
  /** The id as two signed words, the halves of an int64 in two's complement. */
  idLow = 0;
  idHigh = 0;
  /** The name between its quotes, as JSON. */
  nameStart = 0;
  nameEnd = 0;
  /** The tag between its quotes, as JSON; both are -1 if there is none. */
  tagStart = -1;
  tagEnd = -1;
  readonly #bytes: Uint8Array;
  readonly #view: DataView;

  /** @param bytes valid UTF-8. */
  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  /**
   * Returns the offset after the closing brace of the plant that starts at `start`, or -1 if there is no plant
   * of this form. The fields are valid only after a match.
   */
  match(start: number): number {
    if (!this.#isAt(start, ID_START) || !this.#isAt(start + 2, ID_END)) return -1;
    const idEnd = this.#readId(start + 6);
    if (idEnd < 0 || !this.#isAt(idEnd, NAME_START) || !this.#isAt(idEnd + 4, NAME_END)) return -1;
    if (this.#bytes[idEnd + 8] !== QUOTE) return -1;
    this.nameStart = idEnd + 9;
    this.nameEnd = this.#skipString(this.nameStart);
    if (this.nameEnd < 0) return -1;
    this.tagStart = this.tagEnd = -1;
    let end = this.nameEnd + 1;
    if (this.#isAt(end, TAG_START) && this.#isAt(end + 4, TAG_END)) {
      this.tagStart = end + 8;
      this.tagEnd = this.#skipString(this.tagStart);
      if (this.tagEnd < 0) return -1;
      end = this.tagEnd + 1;
    }
    return this.#bytes[end] === CLOSE_BRACE ? end + 1 : -1;
  }

  /** Whether the plant that was matched has this id. */
  hasId(id: bigint): boolean {
    return Number(BigInt.asIntN(32, id)) === this.idLow && Number(id >> 32n) === this.idHigh;
  }

  /** Whether the four bytes of `word` are at an offset: comparing one by one takes twice the time of a match. */
  #isAt(at: number, word: number): boolean {
    return at + 4 <= this.#bytes.length && this.#view.getInt32(at, true) === word;
  }

  /** Returns the offset after the id, or -1. */
  #readId(start: number): number {
    const bytes = this.#bytes;
    const isNegative = bytes[start] === MINUS;
    const first = isNegative ? start + 1 : start;
    let at = first;
    let low = 0; // the magnitude, as two unsigned words
    let high = 0;
    for (; at < first + SHORT_DIGITS && isDigit(bytes[at]); at++) {
      low = low * 10 + (bytes[at] as number) - ZERO;
    }
    for (; at <= first + DIGITS_MAX && isDigit(bytes[at]); at++) {
      const sum = low * 10 + (bytes[at] as number) - ZERO;
      low = sum >>> 0;
      high = high * 10 + (sum - low) / WORD;
    }
    const length = at - first;
    if (length < 1 || length > DIGITS_MAX) return -1;
    const isLowest = isNegative && high === WORD / 2 && low === 0;
    if (high >= WORD / 2 && !isLowest) return -1;
    // A leading zero is invalid JSON, and -0 has the shorter spelling 0.
    if (bytes[first] === ZERO && (length > 1 || isNegative)) return -1;
    this.idLow = (isNegative ? -low : low) | 0;
    this.idHigh = (isNegative ? (low === 0 ? -high : ~high) : high) | 0;
    return at;
  }

  /**
   * Returns the offset of the quote that ends a string, or -1 if the string holds a control character, or a
   * backslash that begins no escape.
   */
  #skipString(start: number): number {
    const bytes = this.#bytes;
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

/** Of 9223372036854775807, the longest int64. */
const DIGITS_MAX = 19;
/** So many digits fit into one word. */
const SHORT_DIGITS = 9;
const WORD = 2 ** 32;

const QUOTE = 0x22;
const MINUS = 0x2d;
const ZERO = 0x30;
const BACKSLASH = 0x5c;
const LETTER_U = 0x75;
const CLOSE_BRACE = 0x7d;

const ID_START = wordOf('{"id');
const ID_END = wordOf('id":');
const NAME_START = wordOf(',"na');
const NAME_END = wordOf('me":');
const TAG_START = wordOf(',"ta');
const TAG_END = wordOf('g":"');

/** 1 for each byte that stands for itself in a string, that may follow a backslash, and that is a hexadecimal digit. */
const IS_PLAIN = tableOf(/[ !#-[\]-\xff]/);
const IS_SHORT_ESCAPE = tableOf(/["\\/bfnrt]/);
const IS_HEX_DIGIT = tableOf(/[0-9a-fA-F]/);

/** Four ASCII characters as a view reads them. */
function wordOf(text: string): number {
  return Buffer.from(text).readInt32LE();
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= ZERO && byte <= ZERO + 9;
}

function tableOf(pattern: RegExp): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_, byte) =>
    Number(pattern.test(String.fromCharCode(byte))),
  );
}
