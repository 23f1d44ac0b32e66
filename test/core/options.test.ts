import assert from "node:assert/strict";
import { test } from "node:test";
import { assertNumbers, NUMBER_OPTIONS, type NumberOption } from "../../src/core/options.ts";

for (const [name, bounds] of Object.entries<NumberOption>(NUMBER_OPTIONS)) {
  const { default: byDefault, min, max } = bounds;

  test(`${name} may be a whole number from ${min} to ${max}`, () => {
    for (const value of [min, byDefault, max, undefined]) assertNumbers({ [name]: value });
    for (const value of [min - 1, max + 1, min + 0.5, -1, NaN, Infinity, -Infinity]) {
      const message = new RegExp(`^${name}: expected `);
      assert.throws(() => assertNumbers({ [name]: value }), { name: "RangeError", message });
    }
  });
}
