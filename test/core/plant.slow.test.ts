/** Plants that are parsed from long bodies, and the memory that they hold. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { parseNewPlant } from "../../src/core/plant.ts";
import { usedBytes } from "../support/memory.ts";

test("parseNewPlant() returns plants that do not keep a long body in memory", () => {
  const count = 20;
  for (const [what, name] of [
    ["plain text", "a name that is longer than a few"],
    ["text beyond ASCII", "ä name that is longer than a few"],
    ["escapes", "a name \\u0074hat is longer than a few"],
  ] as const) {
    const before = usedBytes();
    const plants = Array.from({ length: count }, (_, id) =>
      parseNewPlant(Buffer.from(`{"id":${id},${" ".repeat(2 ** 20)}"name":"${name}"}`)),
    );
    const bytes = usedBytes() - before;
    assert.ok(bytes < (count * 2 ** 20) / 4, `${what}: ${bytes} bytes for ${plants.length} plants`);
  }
});
