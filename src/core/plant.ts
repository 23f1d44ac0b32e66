/**
 * What a plant is, and its one JSON form.
 *
 * `parseNewPlant` judges untrusted bytes: a request body, or a line of the log. It reads what the
 * `encode` functions write back to the same plant. Names and tags are any JSON string and are never
 * trimmed or normalised; an id is an exact int64.
 */
import { isAscii, isUtf8 } from "node:buffer";
import { PlantStoreError } from "./errors.ts";
import { assertInt64, parseCanonicalInt64, parseInt64 } from "./int64.ts";
import { type JsonValue, jsonKindAt, scanJson } from "./json.ts";
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
  const isPlainAscii = isAscii(bytes);
  if (!isPlainAscii && !isUtf8(bytes)) {
    throw new PlantStoreError("invalid_utf8", "expected text in UTF-8, got other bytes");
  }
  const text = bytes.toString(isPlainAscii ? "latin1" : "utf8"); // latin1 is several times as fast
  return parseCommon(text) ?? parseAny(text);
}

const ID = '"id": ?(-?[0-9]+)';
const TEXT = '"([ !#-[\\]-\\uffff]*)"';
/** A plant as most clients write it: the id first or last, and no escapes. */
const COMMON_PLANT = new RegExp(
  `^\\{(?:${ID}, ?)?"name": ?${TEXT}(?:, ?"tag": ?${TEXT})?(?:, ?${ID})?\\}$`,
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

function parseAny(text: string): NewPlant {
  const members = scanMembers(text);
  const { id, name, tag } = members;
  // A valid plant pays for no fault report.
  if (id?.count === 1 && name?.count === 1 && (tag === undefined || tag.count === 1)) {
    const idValue = parseInt64(text.slice(id.start, id.end));
    const nameValue = readString(text, name);
    const tagValue = tag && readString(text, tag);
    const isTagGood = tagValue !== undefined || tag === undefined;
    if (idValue !== undefined && nameValue !== undefined && isTagGood) {
      return newPlant(idValue, nameValue, tagValue);
    }
  }
  throw describeFaults(text, members);
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

/** `{"name":…[,"tag":…]}`: the answer of the create operation. @internal */
export function encodePlant(plant: Plant): string {
  return `{${encodeMembers(plant)}}`;
}

/** `{"id":…,"name":…[,"tag":…]}`: one line of the log, without its line feed. @internal */
export function encodeNewPlant(plant: NewPlant): string {
  return `{"id":${plant.id},${encodeMembers(plant)}}`;
}

/** Whether two plants are equal; an absent tag differs from an empty one. @internal */
export function isSamePlant(a: NewPlant, b: NewPlant): boolean {
  return a.id === b.id && a.name === b.name && a.tag === b.tag;
}

function encodeMembers({ name, tag }: Plant): string {
  const member = `"name":${encodeJsonString(name)}`;
  return tag === undefined ? member : `${member},"tag":${encodeJsonString(tag)}`;
}

function newPlant(id: bigint, name: string, tag: string | undefined): NewPlant {
  return tag === undefined ? { id, name } : { id, name, tag };
}

/** The place of a member's value (of the last one), and how often the member was given. */
interface Member extends Span {
  readonly count: number;
}

type Span = Pick<JsonValue, "start" | "end">;

interface Members {
  id: Member | undefined;
  name: Member | undefined;
  tag: Member | undefined;
}

function scanMembers(text: string): Members {
  const members: Members = { id: undefined, name: undefined, tag: undefined };
  const whole = scanJson(text, (nameStart, nameEnd, start, end) => {
    const name = readMemberName(text, nameStart, nameEnd);
    if (name === undefined) return;
    members[name] = { start, end, count: (members[name]?.count ?? 0) + 1 };
  });
  if (whole.kind === "object") return members;
  throw new PlantStoreError(
    "invalid_plant",
    `expected a JSON object, got ${describeValue(text, whole)}`,
  );
}

/** `"\u006e\u0061\u006d\u0065"` is "name" at its longest; other members need no decoding. */
const MEMBER_NAME_LENGTH_MAX = 26;

function readMemberName(text: string, start: number, end: number): keyof Members | undefined {
  if (end - start > MEMBER_NAME_LENGTH_MAX) return undefined;
  const literal = text.slice(start, end);
  const name = literal.includes("\\") ? JSON.parse(literal) : literal.slice(1, -1);
  return name === "id" || name === "name" || name === "tag" ? name : undefined;
}

/** `JSON.parse` also copies: a slice would keep the whole text in memory. */
function readString(text: string, { start, end }: Span): string | undefined {
  return jsonKindAt(text, start) === "string" ? JSON.parse(text.slice(start, end)) : undefined;
}

function describeFaults(text: string, { id, name, tag }: Members): PlantStoreError {
  const faults: string[] = [];
  let code: "invalid_plant" | "duplicate_member" = "invalid_plant";

  const judge = (field: string, member: Member | undefined, expected: string, fits: boolean) => {
    if (member === undefined) {
      if (field !== "tag") faults.push(`${field}: required`);
    } else if (member.count > 1) {
      // RFC 7493 section 2.3: nobody knows which of the values counts, so none does.
      code = "duplicate_member";
      faults.push(`${field}: expected once, given ${member.count} times`);
    } else if (!fits) {
      faults.push(`${field}: expected ${expected}, got ${describeValue(text, member)}`);
    }
  };
  const isInt64 = id !== undefined && parseInt64(text.slice(id.start, id.end)) !== undefined;
  judge("id", id, "an int64", isInt64);
  judge("name", name, "a string", name !== undefined && readString(text, name) !== undefined);
  judge("tag", tag, "a string", tag !== undefined && readString(text, tag) !== undefined);
  return new PlantStoreError(code, faults.join("; "));
}

function describeValue(text: string, { start, end }: Span): string {
  const kind = jsonKindAt(text, start);
  switch (kind) {
    case "object":
      return "an object";
    case "array":
      return "an array";
    case "string":
      return `the string ${encodeJsonString(cut(JSON.parse(text.slice(start, end))))}`;
    case "number":
      return cut(text.slice(start, end));
    default:
      return kind;
  }
}
