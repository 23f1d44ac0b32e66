/** The newest lines are found as they are in the log, and none that may have been forgotten is made up. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { RecentBytes } from "../../src/store/recent-bytes.ts";

const MIB = 1024 * 1024;

test("any line is found as it is in the log, or not at all; those of the newest MiB are found", () => {
  const length = fc.oneof(fc.nat(200), fc.nat(300_000), fc.constantFrom(MIB - 1, MIB, MIB + 1));
  const anyLengths = fc.array(length, { minLength: 1, maxLength: 25 });
  fc.assert(
    fc.property(anyLengths, fc.nat(1000), (lengths, before) => {
      const recent = new RecentBytes();
      const lines: [offset: number, line: Buffer][] = [];
      let end = before;
      for (const [at, bytes] of lengths.entries()) {
        const line = Buffer.alloc(bytes, 65 + at);
        lines.push([end, line]);
        recent.add(Buffer.concat([line, Buffer.of(10)]), end);
        end += bytes + 1;
      }
      for (const [offset, line] of lines) {
        const found = recent.lineAt(offset);
        if (found !== undefined) assert.ok(found.equals(line));
        const isNew =
          offset >= end - MIB && lines.every(([at, { length }]) => at < offset || length < MIB);
        if (isNew) assert.ok(found !== undefined);
      }
      assert.equal(recent.lineAt(end), undefined);
    }),
    { numRuns: 50 },
  );
});

test("a line that was given does not change when others come", () => {
  const recent = new RecentBytes();
  recent.add(Buffer.from("one\n"), 0);
  const line = recent.lineAt(0);
  for (let at = 4; at < 4 * MIB; at += 1000) recent.add(Buffer.alloc(1000, "x\n"), at);
  assert.equal(String(line), "one");
});
