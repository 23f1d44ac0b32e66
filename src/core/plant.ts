/**
 * What a plant is, and its one JSON form.
 *
 * `parseNewPlant` reads untrusted bytes: the body of a request, or a line of a log. It reads what `encodeNewPlant`
 * writes back to the same plant. Names and tags are any JSON string and are never trimmed or normalised; an id is
 * an exact int64.
 *
 * `PlantMatcher` recognises a plant in the form in which the store writes it, without making a string or an
 * object. Whatever it matches, the general parser reads as the same plant. Uses nothing that a browser lacks.
 */
import { PlantStoreError } from "./errors.ts";
import { assertInt64, INT64_RANGE, parseInt64, scanJson } from "./json.ts";
import { RECORD_BYTES_MAX } from "./options.ts";
import { encodeJsonString, quote, truncate } from "./text.ts";

/** What the create operation returns (interface, section 2.1). */
export interface Plant {
  readonly name: string;
  readonly tag?: string;
}

/** What a client creates and the store keeps (interface, section 2.2). */
export interface NewPlant extends Plant {
  /** An int64: from -9223372036854775808 to 9223372036854775807. */
  readonly id: bigint;
}

function newPlant(id: bigint, name: string, tag: string | undefined): NewPlant {
  return tag === undefined ? { id, name } : { id, name, tag };
}

/**
 * Checks a plant that was built in code, and copies it: the plant that is stored is the one that was checked,
 * even if the caller changes its object later.
 *
 * @throws TypeError or RangeError: a mistake of the calling program. PlantStoreError `body_too_large` if its line
 * would be longer than a record may be.
 * @internal
 */
export function validatePlant({ id, name, tag }: NewPlant): NewPlant {
  assertInt64(id);
  if (typeof name !== "string") throw new TypeError(`name: expected a string, got ${typeof name}`);
  if (tag !== undefined && typeof tag !== "string") {
    throw new TypeError(`tag: expected a string or undefined, got ${typeof tag}`);
  }
  const plant = newPlant(id, name, tag);
  // A character takes at most six bytes of a line, so most plants need not be counted.
  if (6 * (name.length + (tag ?? "").length + 64) > RECORD_BYTES_MAX) assertFits(plant);
  return plant;
}

function assertFits(plant: NewPlant): void {
  const bytes = new TextEncoder().encode(encodeNewPlant(plant)).length + 1;
  if (bytes <= RECORD_BYTES_MAX) return;
  const message = `The plant: expected at most ${RECORD_BYTES_MAX} bytes as a line, got ${bytes}`;
  throw new PlantStoreError("body_too_large", message);
}

/** `{"name":…[,"tag":…]}`: what the create operation returns. @internal */
export function encodePlant({ name, tag }: Plant, start = "{"): string {
  const named = `${start}"name":${encodeJsonString(name)}`;
  return tag === undefined ? `${named}}` : `${named},"tag":${encodeJsonString(tag)}}`;
}

/**
 * JSON of a plant, which `JSON.stringify` cannot make of a bigint: `{"id":…,"name":…[,"tag":…]}`, as one
 * line of the log without its line feed.
 */
export function encodeNewPlant(plant: NewPlant): string {
  return encodePlant(plant, `{"id":${plant.id},`);
}

/** Whether two plants are equal; an absent tag differs from an empty one. @internal */
export function isSamePlant(a: NewPlant, b: NewPlant): boolean {
  return a.id === b.id && a.name === b.name && a.tag === b.tag;
}

/** @internal */
export function conflict(id: bigint): PlantStoreError {
  const why = "the id belongs to a plant with another name or tag; get that one, or use another id";
  return new PlantStoreError("conflict", `Cannot create plant ${id}: ${why}`);
}

/** @internal */
export function unknownCursor(after: bigint | undefined): PlantStoreError {
  return new PlantStoreError("unknown_cursor", `after: expected the id of a plant, got ${after}`);
}

/** Throws for bytes that are not UTF-8, and keeps a byte order mark, which JSON does not allow. */
let utf8: InstanceType<typeof TextDecoder> | undefined; // made late: jsdom lacks it

/**
 * Reads a NewPlant from JSON in UTF-8. Ignores members other than `id`, `name` and `tag`.
 *
 * @throws PlantStoreError `invalid_utf8`, `invalid_json`, `duplicate_member` or `invalid_plant`; the
 * message of the last two names every member that is wrong.
 * @internal
 */
export function parseNewPlant(bytes: Uint8Array): NewPlant {
  let text: string;
  try {
    utf8 ??= new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
    text = utf8.decode(bytes);
  } catch {
    throw new PlantStoreError("invalid_utf8", "expected text in UTF-8, got other bytes");
  }
  return (text.includes("\\") ? undefined : matchPlant(bytes, text)) ?? parsePlantText(text);
}

/** Reads a body as most clients send it, several times as fast; `undefined` for any other. */
function matchPlant(bytes: Uint8Array, text: string): NewPlant | undefined {
  const plant = new PlantMatcher(bytes, { mayHaveSpaces: true });
  if (plant.match(0) !== bytes.length) return undefined;
  // Up to the name, characters and bytes have the same offsets.
  const { id, nameStart, nameEnd, tagStart } = plant;
  const end = text.indexOf('"', nameStart);
  const tag = tagStart < 0 ? undefined : text.slice(tagStart - nameEnd + end, -2);
  return newPlant(id, text.slice(nameStart, end), tag);
}

type Member = "id" | "name" | "tag";

/** Reads a NewPlant from a text. @throws PlantStoreError as `parseNewPlant`. @internal */
export function parsePlantText(text: string): NewPlant {
  const literals: Record<Member, string[]> = { id: [], name: [], tag: [] };
  const whole = scanJson(text, (name, literal) => {
    if (Object.hasOwn(literals, name)) literals[name as Member].push(literal);
  });
  if (!whole.startsWith("{")) {
    const message = `expected a JSON object, got ${describeValue(whole)}`;
    throw new PlantStoreError("invalid_plant", message);
  }
  const errors: string[] = [];
  const read = <T>(name: Member, expected: string, parse: (literal: string) => T | undefined) => {
    const { 0: literal, length } = literals[name];
    const value = literal === undefined ? undefined : parse(literal);
    // RFC 7493 section 2.3: nobody knows which of several values counts, so none does.
    if (length > 1) errors.push(`${name}: expected once, given ${length} times`);
    else if (literal === undefined && name !== "tag") errors.push(`${name}: required`);
    else if (literal !== undefined && value === undefined) {
      errors.push(`${name}: expected ${expected}, got ${describeValue(literal)}`);
    }
    return value;
  };
  const range = Math.abs(Number(literals.id[0])) >= 2 ** 63 ? `, ${INT64_RANGE}` : "";
  const id = read("id", `an int64${range}`, parseInt64);
  const name = read("name", "a string", parseString);
  const tag = read("tag", "a string", parseString);
  if (errors.length === 0 && id !== undefined && name !== undefined) return newPlant(id, name, tag);
  const isTwice = Object.values(literals).some(({ length }) => length > 1);
  throw new PlantStoreError(isTwice ? "duplicate_member" : "invalid_plant", errors.join("; "));
}

/** `JSON.parse` also copies: a slice would keep the whole text in memory. */
function parseString(literal: string): string | undefined {
  return literal.startsWith('"') ? JSON.parse(literal) : undefined;
}

function describeValue(literal: string): string {
  if (literal.startsWith('"')) return `the string ${quote(JSON.parse(literal))}`;
  if (literal.startsWith("{")) return "an object";
  return literal.startsWith("[") ? "an array" : truncate(literal);
}

/**
 * Recognises a plant in the form that `encodeNewPlant` writes, which is the form of every line of a log:
 *
 *   {"id":7,"name":"Fern"}  or  {"id":7,"name":"Fern","tag":"indoor"}
 *
 * with the shortest spelling of the id, and with any escape of JSON in its strings. It makes no strings and no
 * objects: after a match, its fields say what was found and where.
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
    this.tagStart = this.tagEnd = -1;
    if (bytes[at + 1] === COMMA) {
      at = this.#skipSpace(at + 2);
      if (!this.#isAt(at, TAG_START) || !this.#isAt(at + 2, TAG_END)) return -1;
      this.tagStart = this.#skipSpace(at + 6) + 1;
      this.tagEnd = at = this.#skipString(this.tagStart);
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
   * Returns the offset of the quote that ends the string after `start - 1`, or -1 if no string is there: no
   * opening quote, a control character, or a backslash that begins no escape.
   */
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

/** Of 9223372036854775807, the longest int64. */
const DIGITS_MAX = 19;
/** So many digits fit into one word. */
const SHORT_DIGITS = 9;
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

/** 1 for each byte that stands for itself in a string, that may follow a backslash, and that is a hexadecimal digit. */
const IS_PLAIN = tableOf(/[ !#-[\]-\xff]/);
const IS_SHORT_ESCAPE = tableOf(/["\\/bfnrt]/);
const IS_HEX_DIGIT = tableOf(/[0-9a-fA-F]/);

/** Four ASCII characters as a little-endian word. */
function wordOf(text: string): number {
  return new DataView(new TextEncoder().encode(text).buffer).getInt32(0, true);
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= ZERO && byte <= ZERO + 9;
}

function tableOf(pattern: RegExp): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_, byte) =>
    Number(pattern.test(String.fromCharCode(byte))),
  );
}
