/**
 * What a plant is, and its one JSON form.
 *
 * `parseNewPlant` judges untrusted bytes: a request body, or a line of the log. It reads what the
 * `encode` functions write back to the same plant. Names and tags are any JSON string and are never
 * trimmed or normalised; an id is an exact int64.
 */
import { isUtf8 } from "node:buffer";
import { PlantStoreError } from "./errors.ts";
import { assertInt64, parseCanonicalInt64, parseInt64 } from "./int64.ts";
import { scanJson } from "./json.ts";
import { assertRecordSize, RECORD_BYTES_MAX } from "./options.ts";
import { cut, encodeJsonString } from "./text.ts";

/** What the create operation answers (interface, section 2.1). */
export interface Plant {
  readonly name: string;
  readonly tag?: string;
}

/** What a client creates and the store keeps (interface, section 2.2). */
export interface NewPlant extends Plant {
  /** An int64: from -9223372036854775808 to 9223372036854775807. */
  readonly id: bigint;
}

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
  const id = read("id", "an int64", parseInt64);
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
  if (literal.startsWith('"')) return `the string ${encodeJsonString(cut(JSON.parse(literal)))}`;
  return CONTAINERS[literal.charAt(0)] ?? cut(literal);
}

/**
 * Judges a plant that was built in code by the same rules, and copies it: the plant that is stored is
 * the one that was judged, even if the caller changes its object later.
 *
 * @throws TypeError or RangeError: a mistake of the calling program.
 * @internal
 */
export function validateNewPlant({ id, name, tag }: NewPlant): NewPlant {
  assertInt64(id);
  if (typeof name !== "string") throw new TypeError(`name: expected a string, got ${typeof name}`);
  if (tag !== undefined && typeof tag !== "string") {
    throw new TypeError(`tag: expected a string or undefined, got ${typeof tag}`);
  }
  return newPlant(id, name, tag);
}

/**
 * `{"name":…[,"tag":…]}`: the answer of the create operation.
 *
 * @param start what comes before the name.
 * @internal
 */
export function encodePlant({ name, tag }: Plant, start = "{"): string {
  const named = `${start}"name":${encodeJsonString(name)}`;
  return tag === undefined ? `${named}}` : `${named},"tag":${encodeJsonString(tag)}}`;
}

/** `{"id":…,"name":…[,"tag":…]}`: one line of the log, without its line feed. @internal */
export function encodeNewPlant(plant: NewPlant): string {
  return encodePlant(plant, `{"id":${plant.id},`);
}

/**
 * The plants as lines with their line feeds: slices of whole lines, which take about a millisecond each.
 * Encodes one plant more than `countMax`, if there are so many.
 *
 * @internal
 */
export async function* encodeLines(
  plants: AsyncIterable<NewPlant>,
  countMax = Number.POSITIVE_INFINITY,
): AsyncGenerator<Buffer, undefined> {
  let slice = "";
  let count = 0;
  for await (const plant of plants) {
    slice += `${encodeNewPlant(plant)}\n`;
    if (++count > countMax) break;
    if (slice.length < SLICE_CHARACTERS) continue;
    yield Buffer.from(slice);
    slice = "";
  }
  if (slice !== "") yield Buffer.from(slice);
}

const SLICE_CHARACTERS = 32 * 1024;

/** Pieces that cut no surrogate pair. */
const PIECES = /.{1,65536}/gsu;

/**
 * Checks the length of the line of a plant before the line is made, which may take six times the memory of
 * the plant.
 *
 * @throws PlantStoreError `body_too_large` if the line is longer than a record may be.
 * @internal
 */
export function assertPlantSize({ id, name, tag }: NewPlant): void {
  // A character takes six bytes at most.
  if (name.length + (tag?.length ?? 0) <= RECORD_BYTES_MAX / 6 - 64) return;
  let bytes = encodeNewPlant(newPlant(id, "", tag && "")).length + 1;
  for (const text of [name, tag ?? ""]) {
    for (const [piece] of text.matchAll(PIECES)) {
      bytes += Buffer.byteLength(encodeJsonString(piece)) - 2; // without its quotes
    }
  }
  assertRecordSize(bytes);
}

/** Whether two plants are equal; an absent tag differs from an empty one. @internal */
export function isSamePlant(a: NewPlant, b: NewPlant): boolean {
  return a.id === b.id && a.name === b.name && a.tag === b.tag;
}

function newPlant(id: bigint, name: string, tag: string | undefined): NewPlant {
  return tag === undefined ? { id, name } : { id, name, tag };
}
