/** The newest lines are found as they are in the log, and none that may have been forgotten is made up. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { NewestLines } from "../../src/store/newest-lines.ts";

const PIECE = 64 * 1024;
const MAX = 4 * PIECE;

test("a line is found as it is in the log, or not at all; of the newest, all that lie in one piece", () => {
  const length = fc.oneof(
    fc.nat(200),
    fc.nat(300_000),
    fc.constantFrom(PIECE - 2, PIECE - 1, PIECE),
  );
  const batch = fc.array(length, { minLength: 1, maxLength: 5 });
  const anyBatches = fc.array(batch, { minLength: 1, maxLength: 12 });
  const find = (batches: number[][], before: number) => {
    const newest = new NewestLines(MAX);
    const lines: { offset: number; line: Buffer }[] = [];
    let end = before;
    for (const lengths of batches) {
      const start = end;
      const bytes = lengths.map((size, at) => Buffer.alloc(size + 1, 65 + at).fill("\n", size));
      for (const line of bytes) {
        lines.push({ offset: end, line: line.subarray(0, -1) });
        end += line.length;
      }
      newest.add(Buffer.concat(bytes), start);
    }
    assert.equal(newest.lineAt(before - 1), undefined);
    for (const { offset, line } of lines) {
      const found = newest.lineAt(offset);
      const isWhole = (offset % PIECE) + line.length < PIECE;
      const isNew = Math.floor(offset / PIECE) > Math.floor((end - 1) / PIECE) - MAX / PIECE;
      assert.equal(found !== undefined, isWhole && isNew);
      if (found !== undefined) assert.ok(found.equals(line));
    }
  };
  fc.assert(fc.property(anyBatches, fc.nat(2 * PIECE), find), { numRuns: 100 });
});
