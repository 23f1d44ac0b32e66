import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { PlantStoreError } from "../../src/core/errors.ts";
import { INT64_MAX, INT64_MIN } from "../../src/core/json.ts";
import { RECORD_BYTES_MAX } from "../../src/core/options.ts";
import type { NewPlant } from "../../src/core/plant.ts";
import { encodeNewPlant, encodePlant, parseNewPlant, validatePlant } from "../../src/core/plant.ts";
import { anyPlant } from "../support/arbitraries.ts";

test("parseNewPlant() is the inverse of encodeNewPlant(), which writes one line, on any plant", () => {
  fc.assert(
    fc.property(anyPlant, (plant) => {
      const line = encodeNewPlant(plant);
      assert.doesNotMatch(line, /[\r\n]/);
      assert.deepEqual(parseNewPlant(Buffer.from(line)), { ...plant });
      const { id: _, ...rest } = plant;
      assert.deepEqual(JSON.parse(encodePlant(plant)), rest);
    }),
  );
});

function errorOf(text: string): PlantStoreError {
  try {
    parseNewPlant(Buffer.from(text));
  } catch (error) {
    if (error instanceof PlantStoreError) return error;
    throw error;
  }
  return assert.fail("expected an error");
}

test("messages of parseNewPlant() show a value as one short line", () => {
  const long = "x".repeat(500_000);
  for (const body of [
    `{"id":"${long}","name":${"7".repeat(500_000)},"tag":[${"[],".repeat(9999)}0]}`,
    `{"id":0.${"0".repeat(500_000)}1,"name":{"a":"${long}"}}`,
    `{"id":"\\u001b[2J${"\\u0000".repeat(100_000)}"}`,
    `"${long}"`,
    `{"${long}"}`,
  ]) {
    assert.match(errorOf(body).message, /^[ -~\u2026]{1,1000}$/);
  }
});

test("validatePlant() throws a TypeError or RangeError for anything but a plant", () => {
  const fern = { id: 7n, name: "Fern" };
  for (const change of [{ id: 7 }, { id: undefined }, { name: undefined }, { tag: null }]) {
    assert.throws(() => validatePlant({ ...fern, ...change } as unknown as NewPlant), TypeError);
  }
  for (const id of [INT64_MIN - 1n, INT64_MAX + 1n]) {
    assert.throws(() => validatePlant({ ...fern, id }), RangeError);
  }
});

test("validatePlant() copies every plant, and nothing else, unless its line is longer than a record", () => {
  const more = { id: INT64_MIN, name: "", tag: undefined, height: 3 } as unknown as NewPlant;
  assert.deepEqual(validatePlant(more), { id: INT64_MIN, name: "" });
  fc.assert(
    fc.property(anyPlant, (plant) => {
      assert.deepEqual(validatePlant(plant), { ...plant });
      assert.notEqual(validatePlant(plant), plant);
    }),
  );
  const rest = Buffer.byteLength(encodeNewPlant({ id: 7n, name: "" })) + 1;
  const most = "\u{1f33f}".repeat((RECORD_BYTES_MAX - rest) / 4);
  assert.equal(validatePlant({ id: 7n, name: most }).name, most);
  assert.throws(() => validatePlant({ id: 7n, name: `${most}abcd` }), { code: "body_too_large" });
});
