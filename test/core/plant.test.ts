import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";
import fc from "fast-check";
import { PlantStoreError } from "../../src/core/errors.ts";
import { INT64_MAX, INT64_MIN } from "../../src/core/json.ts";
import { RECORD_BYTES_MAX } from "../../src/core/options.ts";
import {
  encodeNewPlant,
  encodePlant,
  type NewPlant,
  parseNewPlant,
  validatePlant,
} from "../../src/core/plant.ts";
import { anyPlant } from "../support/arbitraries.ts";

test("parseNewPlant() is the inverse of encodeNewPlant(), which writes one line, on any plant", () => {
  fc.assert(
    fc.property(anyPlant, (plant) => {
      const line = encodeNewPlant(plant);
      assert.doesNotMatch(line, /[\r\n]/);
      const parsed = parseNewPlant(Buffer.from(line));
      assert.deepEqual(parsed, { ...plant });
      assert.deepEqual(Object.keys(parsed).sort(), Object.keys(plant).sort());
      const { id: _, ...rest } = plant;
      assert.deepEqual(JSON.parse(encodePlant(plant)), rest);
    }),
  );
});

test("encodeNewPlant() and encodePlant() write members in the order of the interface", () => {
  const plant = { tag: "indoor", name: "Fern", id: -7n };
  assert.equal(encodeNewPlant(plant), '{"id":-7,"name":"Fern","tag":"indoor"}');
  assert.equal(encodePlant(plant), '{"name":"Fern","tag":"indoor"}');
  assert.equal(encodeNewPlant({ name: "", id: INT64_MAX }), '{"id":9223372036854775807,"name":""}');
});

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
      else assert.equal(errorOf(bytes).code, "invalid_plant");
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
    assert.ok(errorOf(Buffer.from(body)).message.length < MESSAGE_CHARACTERS_MAX);
  }
});

test("parseNewPlant() never cuts a value within a character", () => {
  for (let before = 0; before < 100; before++) {
    const text = `${"x".repeat(before)}${"\u{1f33f}".repeat(100)}`;
    const { message } = errorOf(Buffer.from(JSON.stringify({ id: text, name: "Fern" })));
    assert.doesNotMatch(message, /\\ud|\p{Cs}/u, `after ${before} characters`);
  }
});

test("parseNewPlant() shows a value as one line", () => {
  const text = "\u001b[2J\u0000\n\u0085\u202e\u2028\ufeff";
  const { message } = errorOf(Buffer.from(JSON.stringify({ id: text })));
  assert.match(message, /^[ -~]+$/);
});

/** Mistakes of the calling program. */
const MISTAKES: readonly [plant: unknown, error: ErrorConstructor][] = [
  [{ id: 7, name: "Fern" }, TypeError],
  [{ id: "7", name: "Fern" }, TypeError],
  [{ name: "Fern" }, TypeError],
  [{ id: INT64_MIN - 1n, name: "Fern" }, RangeError],
  [{ id: INT64_MAX + 1n, name: "Fern" }, RangeError],
  [{ id: 7n }, TypeError],
  [{ id: 7n, name: null }, TypeError],
  [{ id: 7n, name: new String("Fern") }, TypeError],
  [{ id: 7n, name: "Fern", tag: null }, TypeError],
  [{ id: 7n, name: "Fern", tag: 1 }, TypeError],
];

for (const [plant, error] of MISTAKES) {
  test(`validatePlant() throws a ${error.name} for ${inspect(plant)}`, () => {
    assert.throws(() => validatePlant(plant as NewPlant), error);
  });
}

test("validatePlant() refuses a plant whose line is longer than a record", () => {
  const rest = Buffer.byteLength(encodeNewPlant({ id: 7n, name: "" })) + 1;
  const most = "\u{1f33f}".repeat((RECORD_BYTES_MAX - rest) / 4);
  assert.equal(validatePlant({ id: 7n, name: most }).name, most);
  assert.throws(() => validatePlant({ id: 7n, name: `${most}abcd` }), { code: "body_too_large" });
});

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

function errorOf(bytes: Buffer): PlantStoreError {
  try {
    parseNewPlant(bytes);
  } catch (error) {
    if (error instanceof PlantStoreError) return error;
    throw error;
  }
  throw new Error("expected an error");
}

test("the message about an id names the range only if the id is outside it", () => {
  const range = ", from -9223372036854775808 to 9223372036854775807";
  for (const id of [
    "9223372036854775808",
    "-9223372036854775809",
    "1e400",
    "7.5",
    "1e-400",
    "null",
  ]) {
    const { message } = errorOf(Buffer.from(`{"id":${id},"name":"Fern"}`));
    const isOutside = Math.abs(Number(id)) > 8;
    assert.equal(message, `id: expected an int64${isOutside ? range : ""}, got ${id}`);
  }
});
