/**
 * What a plant is, and its one JSON form.
 *
 * Names and tags are any JSON string and are never trimmed or normalised; an id is an exact int64. What
 * `encodeNewPlant` writes, `parseNewPlant` reads as the same plant. Uses nothing that a browser lacks.
 */
import { PlantStoreError } from "./errors.ts";
import { assertInt64, INT64_RANGE, parseInt64, scanJson } from "./json.ts";
import { RECORD_BYTES_MAX } from "./options.ts";
import { PlantMatcher } from "./plant-matcher.ts";
import { quote, shorten } from "./text.ts";

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
 * Checks and copies a plant that was built in code.
 *
 * @throws TypeError or RangeError; PlantStoreError `body_too_large` if its line would be longer than a record.
 */
export function validatePlant({ id, name, tag }: NewPlant): NewPlant {
  assertInt64(id);
  if (typeof name !== "string") throw new TypeError(`name: expected a string, got ${typeof name}`);
  if (tag !== undefined && typeof tag !== "string") {
    throw new TypeError(`tag: expected a string or undefined, got ${typeof tag}`);
  }
  const plant = newPlant(id, name, tag);
  // A character takes at most six bytes of a line, so most plants need not be counted.
  if (6 * (name.length + (tag ?? "").length + 64) <= RECORD_BYTES_MAX) return plant;
  const bytes = new TextEncoder().encode(encodeNewPlant(plant)).length + 1;
  if (bytes <= RECORD_BYTES_MAX) return plant;
  const message = `The plant: expected at most ${RECORD_BYTES_MAX} bytes as a line, got ${bytes}`;
  throw new PlantStoreError("body_too_large", message);
}

/** `{"name":…[,"tag":…]}`: what the create operation returns. */
export function encodePlant({ name, tag }: Plant): string {
  return JSON.stringify({ name, tag });
}

/** A plant as JSON, `{"id":…,"name":…[,"tag":…]}`: a line of the log. `JSON.stringify` throws for a bigint. */
export function encodeNewPlant(plant: NewPlant): string {
  return `{"id":${plant.id},${encodePlant(plant).slice(1)}`;
}

/** Whether two plants are equal; an absent tag differs from an empty one. */
export function isSamePlant(a: NewPlant, b: NewPlant): boolean {
  return a.id === b.id && a.name === b.name && a.tag === b.tag;
}

export function conflict(id: bigint): PlantStoreError {
  const why = "the id belongs to a plant with another name or tag; get that one, or use another id";
  return new PlantStoreError("conflict", `Cannot create plant ${id}: ${why}`);
}

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
 */
export function parseNewPlant(bytes: Uint8Array): NewPlant {
  let text: string;
  try {
    utf8 ??= new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
    text = utf8.decode(bytes);
  } catch {
    throw new PlantStoreError("invalid_utf8", "expected text in UTF-8, got other bytes");
  }
  // Most bodies match, and are read several times as fast.
  const plant = new PlantMatcher(bytes, { mayHaveSpaces: true });
  if (text.includes("\\") || plant.match(0) !== bytes.length) return parsePlantText(text);
  // Up to the name, characters and bytes have the same offsets.
  const { id, nameStart, nameEnd, tagStart } = plant;
  const end = text.indexOf('"', nameStart);
  const tag = tagStart < 0 ? undefined : text.slice(tagStart - nameEnd + end, -2);
  return newPlant(id, text.slice(nameStart, end), tag);
}

type Member = "id" | "name" | "tag";

/** Reads a NewPlant from a text. @throws PlantStoreError as `parseNewPlant`. */
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
    // RFC 7493 section 2.3: programs differ in which of two values they take, so neither counts.
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
  return literal.startsWith("[") ? "an array" : shorten(literal);
}
