import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { PlantStoreError } from "../../src/core/errors.ts";
import { INT64_MAX, INT64_MIN } from "../../src/core/json.ts";
import {
  conflict,
  encodeNewPlant,
  encodePlant,
  type NewPlant,
  parseNewPlant,
  validatePlant,
} from "../../src/core/plant.ts";
import { anyPlant } from "../support/arbitraries.ts";

test("parseNewPlant() is the inverse of encodeNewPlant() on any plant", () => {
  fc.assert(
    fc.property(anyPlant, (plant) => {
      const parsed = parseNewPlant(Buffer.from(encodeNewPlant(plant)));
      assert.deepEqual(parsed, { ...plant });
      assert.deepEqual(Object.keys(parsed).sort(), Object.keys(plant).sort());
    }),
  );
});

/** C0 controls, and what some readers take for the end of a line. */
const LINE_ENDS = /[^\P{Cc}\u007f-\u0084\u0086-\u009f]|[\u2028\u2029]/u;

test("encodeNewPlant() and encodePlant() write one line", () => {
  fc.assert(
    fc.property(anyPlant, (plant) => {
      assert.doesNotMatch(encodeNewPlant(plant), /[\r\n]/);
      assert.doesNotMatch(encodePlant(plant), /[\r\n]/);
    }),
  );
});

test("encodePlant() writes the name and, if there is one, the tag, and nothing else", () => {
  fc.assert(
    fc.property(anyPlant, (plant) => {
      const { name, tag } = plant;
      const expected = tag === undefined ? { name } : { name, tag };
      assert.deepEqual(JSON.parse(encodePlant(plant)), expected);
    }),
  );
});

test("encodeNewPlant() and encodePlant() write members in the order of the interface", () => {
  const plant = { tag: "indoor", name: "Fern", id: -7n };
  assert.equal(encodeNewPlant(plant), '{"id":-7,"name":"Fern","tag":"indoor"}');
  assert.equal(encodePlant(plant), '{"name":"Fern","tag":"indoor"}');
  assert.equal(encodeNewPlant({ name: "", id: INT64_MAX }), '{"id":9223372036854775807,"name":""}');
});

const FAULTS: readonly [text: string, code: string, fields: string][] = [
  ["", "invalid_json", ""],
  ['{"id":7,"name":"Fern"', "invalid_json", ""],
  ['{"id":07,"name":"Fern"}', "invalid_json", ""],
  ['{"id":7,"name":"Fern"} {}', "invalid_json", ""],
  // Invalid JSON is reported before other faults, because its members are unknown.
  ['{"id":"7","id":7,', "invalid_json", ""],
  ["[]", "invalid_plant", ""],
  ['[{"id":7,"name":"Fern"}]', "invalid_plant", ""],
  ['"Fern"', "invalid_plant", ""],
  ["7", "invalid_plant", ""],
  ["null", "invalid_plant", ""],
  ["true", "invalid_plant", ""],
  ["{}", "invalid_plant", "id name"],
  ['{"name":"Fern"}', "invalid_plant", "id"],
  ['{"id":7}', "invalid_plant", "name"],
  ['{"tag":"indoor"}', "invalid_plant", "id name"],
  ['{"id":"7","name":"Fern"}', "invalid_plant", "id"],
  ['{"id":7.5,"name":"Fern"}', "invalid_plant", "id"],
  ['{"id":9007199254740992.5,"name":"Fern"}', "invalid_plant", "id"],
  ['{"id":1e-400,"name":"Fern"}', "invalid_plant", "id"],
  ['{"id":9223372036854775808,"name":"Fern"}', "invalid_plant", "id"],
  ['{"id":-9223372036854775809,"name":"Fern"}', "invalid_plant", "id"],
  ['{"id":null,"name":"Fern"}', "invalid_plant", "id"],
  ['{"id":true,"name":"Fern"}', "invalid_plant", "id"],
  ['{"id":[7],"name":"Fern"}', "invalid_plant", "id"],
  ['{"id":7,"name":null}', "invalid_plant", "name"],
  ['{"id":7,"name":8}', "invalid_plant", "name"],
  ['{"id":7,"name":["Fern"]}', "invalid_plant", "name"],
  ['{"id":7,"name":"Fern","tag":null}', "invalid_plant", "tag"],
  ['{"id":7,"name":"Fern","tag":false}', "invalid_plant", "tag"],
  ['{"id":7,"name":"Fern","tag":{}}', "invalid_plant", "tag"],
  ['{"tag":1,"name":{},"id":""}', "invalid_plant", "id name tag"],
  ['{"id":7,"id":7,"name":"Fern"}', "duplicate_member", "id"],
  ['{"id":"x","id":7,"name":"Fern"}', "duplicate_member", "id"],
  ['{"id":7,"\\u0069\\u0064":8,"name":"Fern"}', "duplicate_member", "id"],
  ['{"name":"a","id":7,"name":"a","name":"a"}', "duplicate_member", "name"],
  ['{"id":7,"name":"Fern","tag":"a","tag":"a"}', "duplicate_member", "tag"],
  ['{"id":7,"id":8,"name":"a","name":"b","tag":"c","tag":"d"}', "duplicate_member", "id name tag"],
  ['{"tag":"a","tag":"b"}', "duplicate_member", "id name tag"],
  ['{"id":7.5,"name":"a","name":"b","tag":null}', "duplicate_member", "id name tag"],
];

for (const [text, code, fields] of FAULTS) {
  test(`parseNewPlant() answers ${JSON.stringify(text)} with ${code}: ${fields}`, () => {
    const error = faultOf(Buffer.from(text));
    assert.equal(error.code, code);
    if (code !== "invalid_json") assert.equal(fieldsOf(error), fields);
  });
}

const NO_UTF8: readonly [what: string, bytes: string][] = [
  ["a byte that UTF-8 never uses", "ff"],
  ["a continuation byte alone", "80"],
  ["an overlong form", "c0af"],
  ["a character cut short", "e282"],
  ["an encoded surrogate", "eda080"],
  ["bytes beyond U+10FFFF", "f4908080"],
];

for (const [what, hex] of NO_UTF8) {
  test(`parseNewPlant() answers ${what} with invalid_utf8`, () => {
    const [head, end] = [Buffer.from('{"id":7,"name":"'), Buffer.from('"}')];
    const error = faultOf(Buffer.concat([head, Buffer.from(hex, "hex"), end]));
    assert.equal(error.code, "invalid_utf8");
  });
}

test("parseNewPlant() accepts exactly the objects whose id, name and tag fit the interface", () => {
  const value = fc.oneof(
    fc.jsonValue({ maxDepth: 1 }),
    fc.constantFrom(7, 7.5, -0, "7", "", null, 2 ** 53),
  );
  const body = fc.record({ id: value, name: value, tag: value, x: value }, { requiredKeys: [] });
  fc.assert(
    fc.property(body, ({ id, name, tag, x }) => {
      const expected =
        Number.isInteger(id) &&
        Number(id) >= -(2 ** 63) &&
        Number(id) < 2 ** 63 &&
        typeof name === "string" &&
        (tag === undefined || typeof tag === "string");
      const bytes = Buffer.from(JSON.stringify({ x, id, name, tag }));
      if (expected) assert.equal(parseNewPlant(bytes).name, name);
      else assert.equal(faultOf(bytes).code, "invalid_plant");
    }),
    { numRuns: 500 },
  );
});

/** Longer than a useful message, and far shorter than a body may be. */
const MESSAGE_CHARACTERS_MAX = 1000;

test("parseNewPlant() cuts long values in its messages", () => {
  const long = "x".repeat(500_000);
  for (const body of [
    `{"id":"${long}","name":${"7".repeat(500_000)},"tag":[${"[],".repeat(9999)}0]}`,
    `{"id":0.${"0".repeat(500_000)}1,"name":{"a":"${long}"}}`,
    `{"id":"${"\\u0000".repeat(100_000)}"}`,
    `"${long}"`,
    `{"${long}"}`,
  ]) {
    assert.ok(faultOf(Buffer.from(body)).message.length < MESSAGE_CHARACTERS_MAX);
  }
});

test("parseNewPlant() never cuts a value within a character", () => {
  for (let before = 0; before < 100; before++) {
    const text = `${"x".repeat(before)}${"\u{1f33f}".repeat(100)}`;
    const { message } = faultOf(Buffer.from(JSON.stringify({ id: text, name: "Fern" })));
    assert.doesNotMatch(message, /\\ud|\p{Cs}/u, `after ${before} characters`);
  }
});

test("parseNewPlant() shows a value as one line", () => {
  const text = "\u001b[2J\u0000\n\u0085\u202e\u2028\ufeff";
  const { message } = faultOf(Buffer.from(JSON.stringify({ id: text })));
  assert.doesNotMatch(message, LINE_ENDS);
});

const MISTAKES: readonly [what: string, plant: unknown, error: ErrorConstructor][] = [
  ["a number for an id", { id: 7, name: "Fern" }, TypeError],
  ["a string for an id", { id: "7", name: "Fern" }, TypeError],
  ["no id", { name: "Fern" }, TypeError],
  ["an id below int64", { id: INT64_MIN - 1n, name: "Fern" }, RangeError],
  ["an id above int64", { id: INT64_MAX + 1n, name: "Fern" }, RangeError],
  ["no name", { id: 7n }, TypeError],
  ["null for a name", { id: 7n, name: null }, TypeError],
  ["an object for a name", { id: 7n, name: new String("Fern") }, TypeError],
  ["null for a tag", { id: 7n, name: "Fern", tag: null }, TypeError],
  ["a number for a tag", { id: 7n, name: "Fern", tag: 1 }, TypeError],
];

for (const [what, plant, error] of MISTAKES) {
  test(`validatePlant() throws a ${error.name} for ${what}`, () => {
    assert.throws(() => validatePlant(plant as NewPlant), error);
  });
}

test("validatePlant() copies every plant, and nothing else", () => {
  for (const id of [INT64_MIN, -1n, 0n, INT64_MAX]) {
    assert.deepEqual(validatePlant({ id, name: "" }), { id, name: "" });
  }
  const more = { id: 7n, name: "Fern", tag: undefined, height: 3 } as unknown as NewPlant;
  assert.deepEqual(validatePlant(more), { id: 7n, name: "Fern" });
  const isCopied = (plant: NewPlant) => {
    const copy = validatePlant(plant);
    assert.deepEqual(copy, { ...plant });
    assert.notEqual(copy, plant);
  };
  fc.assert(fc.property(anyPlant, isCopied));
});

function faultOf(bytes: Buffer): PlantStoreError {
  try {
    parseNewPlant(bytes);
  } catch (error) {
    if (error instanceof PlantStoreError) return error;
    throw error;
  }
  throw new Error("expected a fault");
}

const RANGE = ", from -9223372036854775808 to 9223372036854775807";

for (const [id, range] of [
  ["9223372036854775808", RANGE],
  ["-9223372036854775809", RANGE],
  ["1e400", RANGE],
  ["7.5", ""],
  ["1e-400", ""],
  ["null", ""],
] as const) {
  test(`the message for the id ${id} names the range only if the id is outside it`, () => {
    const { message } = faultOf(Buffer.from(`{"id":${id},"name":"Fern"}`));
    assert.equal(message, `id: expected an int64${range}, got ${id}`);
  });
}

test("the message of a conflict says what to do", () => {
  assert.match(conflict(7n).message, /; get that one, or use another id$/);
});

/** The fields that a message names: each is followed by a colon. */
function fieldsOf({ message }: PlantStoreError): string {
  return message
    .split("; ")
    .flatMap((fault) => /^\w+(?=:)/.exec(fault) ?? [])
    .join(" ");
}
