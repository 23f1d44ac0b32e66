import assert from "node:assert/strict";
import { test } from "node:test";
import { count } from "../../src/cli/output.ts";

for (const [number, says] of [
  [0, "0 plants"],
  [1, "1 plant"],
  [2, "2 plants"],
] as const) {
  test(`count() says "${says}"`, () => {
    assert.equal(count(number, "plant"), says);
  });
}
