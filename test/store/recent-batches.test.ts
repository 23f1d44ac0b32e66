/** The newest lines are found as they are in the log, and none that may have been forgotten is made up. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { RecentBatches } from "../../src/store/recent-batches.ts";

const MIB = 1024 * 1024;

test("any line is found as it is in the log, or not at all; those of the newest batches are found", () => {
  const length = fc.oneof(fc.nat(200), fc.nat(300_000), fc.constantFrom(MIB - 1, MIB, MIB + 1));
  const batch = fc.array(length, { minLength: 1, maxLength: 5 });
  const anyBatches = fc.array(batch, { minLength: 1, maxLength: 12 });
  const find = (batches: number[][], before: number) => {
    const recent = new RecentBatches();
    const lines: { offset: number; line: Buffer; start: number }[] = [];
    let end = before;
    for (const lengths of batches) {
      const start = end;
      const bytes = lengths.map((size, at) => Buffer.alloc(size + 1, 65 + at).fill("\n", size));
      for (const line of bytes) {
        lines.push({ offset: end, line: line.subarray(0, -1), start });
        end += line.length;
      }
      recent.add(Buffer.concat(bytes), start);
    }
    for (const { offset, line, start } of lines) {
      const found = recent.lineAt(offset);
      if (found !== undefined) assert.ok(found.equals(line));
      assert.equal(found !== undefined, end - start <= MIB);
    }
  };
  fc.assert(fc.property(anyBatches, fc.nat(1000), find), { numRuns: 50 });
});
