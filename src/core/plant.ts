/**
 * What a plant is, and its one JSON form.
 *
 * `parseNewPlant` judges bytes that nobody vouches for, a request body or a
 * line of the log; the `encode` functions write what it reads back to the same
 * plant. Names and tags are any JSON string and are never trimmed or
 * normalised; an id is an exact int64. Knows nothing of HTTP or files.
 */
import { isUtf8 } from "node:buffer";
import { PlantStoreError } from "./errors.ts";
import { assertInt64, parseInt64 } from "./int64.ts";
import { decodeJsonString, type JsonValue, jsonKindAt, scanJson } from "./json.ts";
import { PlainPlantFinder } from "./plain-plant.ts";
import { cut, encodeJsonString } from "./text.ts";

/** Interface 2.1: what the create operation answers. */
export interface Plant {
  readonly name: string;
  readonly tag?: string;
}

/** Interface 2.2: what a client creates and the store keeps. */
export interface NewPlant extends Plant {
  /** An int64: from -9223372036854775808 to 9223372036854775807. */
  readonly id: bigint;
}

/**
 * Reads a NewPlant from JSON text. Members other than `id`, `name` and `tag`
 * are ignored, whatever they are called.
 *
 * @throws PlantStoreError `invalid_utf8`, `invalid_json`, `duplicate_member` or
 * `invalid_plant`; the message of the last two names every faulty member at once.
 * @internal
 */
export function parseNewPlant(bytes: Buffer): NewPlant {
  return parsePlain(bytes) ?? parseAny(bytes);
}

/** A part of a text keeps all of it: no plant may keep a body longer than this. */
const TEXT_BYTES_MAX = 1024;

/** The plant, where it is written as nearly every one is. */
function parsePlain(bytes: Buffer): NewPlant | undefined {
  const finder = new PlainPlantFinder();
  if (finder.find(bytes, 0) !== bytes.length) return undefined;
  if (!finder.isAscii && !isUtf8(bytes)) return undefined;
  const { id, nameStart, nameEnd, tagStart, tagEnd } = finder;
  if (!finder.isAscii || bytes.length > TEXT_BYTES_MAX) {
    const name = bytes.toString("utf8", nameStart, nameEnd);
    const tag = tagStart < 0 ? undefined : bytes.toString("utf8", tagStart, tagEnd);
    return newPlant(id, name, tag);
  }
  // One call into Node for both strings.
  const text = bytes.toString("latin1");
  const tag = tagStart < 0 ? undefined : text.slice(tagStart, tagEnd);
  return newPlant(id, text.slice(nameStart, nameEnd), tag);
}

function parseAny(bytes: Buffer): NewPlant {
  if (!isUtf8(bytes)) {
    throw new PlantStoreError("invalid_utf8", "expected text in UTF-8, got other bytes");
  }
  const members = scanMembers(bytes);
  const { id, name, tag } = members;
  // A valid plant pays for no fault report.
  if (id?.count === 1 && name?.count === 1 && (tag === undefined || tag.count === 1)) {
    const idValue = readInt64(bytes, id);
    const nameValue = readString(bytes, name);
    const tagValue = tag && readString(bytes, tag);
    if (
      idValue !== undefined &&
      nameValue !== undefined &&
      (tagValue !== undefined || tag === undefined)
    ) {
      return newPlant(idValue, nameValue, tagValue);
    }
  }
  throw describeFaults(bytes, members);
}

/**
 * A plant built in code, judged by the same rules and copied: its members are
 * read once, so what is stored is what was judged, whatever its giver does.
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

/** `{"id":…,"name":…[,"tag":…]}`: one line of the log, without its newline. @internal */
export function encodeNewPlant(plant: NewPlant): string {
  return `{"id":${plant.id},${encodeMembers(plant)}}`;
}

/**
 * Whether two plants are the same in every member; an absent tag differs from an empty one.
 * @internal
 */
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

/** Where the value of a member stands (of its last occurrence), and how often it was given. */
interface Member extends Span {
  readonly count: number;
}

type Span = Pick<JsonValue, "start" | "end">;

interface Members {
  id?: Member;
  name?: Member;
  tag?: Member;
}

function scanMembers(bytes: Buffer): Members {
  const members: Members = {};
  const whole = scanJson(bytes, (nameStart, nameEnd, start, end) => {
    const name = readMemberName(bytes, nameStart, nameEnd);
    if (name === undefined) return;
    members[name] = { start, end, count: (members[name]?.count ?? 0) + 1 };
  });
  if (whole.kind === "object") return members;
  throw new PlantStoreError(
    "invalid_plant",
    `expected a JSON object, got ${describeValue(bytes, whole)}`,
  );
}

/** `"\u006e\u0061\u006d\u0065"` is "name" at its longest; other members need no decoding. */
const MEMBER_NAME_BYTES_MAX = 26;

function readMemberName(bytes: Buffer, start: number, end: number): keyof Members | undefined {
  if (end - start > MEMBER_NAME_BYTES_MAX) return undefined;
  const name = decodeJsonString(bytes, start, end);
  return name === "id" || name === "name" || name === "tag" ? name : undefined;
}

function readInt64(bytes: Buffer, { start, end }: Span): bigint | undefined {
  return parseInt64(bytes.toString("latin1", start, end));
}

function readString(bytes: Buffer, { start, end }: Span): string | undefined {
  return jsonKindAt(bytes, start) === "string" ? decodeJsonString(bytes, start, end) : undefined;
}

function describeFaults(bytes: Buffer, { id, name, tag }: Members): PlantStoreError {
  const faults: string[] = [];
  let code: "invalid_plant" | "duplicate_member" = "invalid_plant";

  const judge = (field: string, member: Member | undefined, expected: string, fits: boolean) => {
    if (member === undefined) {
      if (field !== "tag") faults.push(`${field}: required`);
    } else if (member.count > 1) {
      // RFC 7493 2.3: which of the values counts is anybody's guess, so none does.
      code = "duplicate_member";
      faults.push(`${field}: expected once, given ${member.count} times`);
    } else if (!fits) {
      faults.push(`${field}: expected ${expected}, got ${describeValue(bytes, member)}`);
    }
  };
  judge("id", id, "an int64", id !== undefined && readInt64(bytes, id) !== undefined);
  judge("name", name, "a string", name !== undefined && readString(bytes, name) !== undefined);
  judge("tag", tag, "a string", tag !== undefined && readString(bytes, tag) !== undefined);
  return new PlantStoreError(code, faults.join("; "));
}

function describeValue(bytes: Buffer, { start, end }: Span): string {
  const kind = jsonKindAt(bytes, start);
  switch (kind) {
    case "object":
      return "an object";
    case "array":
      return "an array";
    case "string":
      return `the string ${encodeJsonString(cut(decodeJsonString(bytes, start, end)))}`;
    case "number":
      return cut(bytes.toString("latin1", start, end));
    default:
      return kind;
  }
}
