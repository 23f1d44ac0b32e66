/** The longest line there may be. */
import assert from "node:assert/strict";
import { appendFileSync, truncateSync } from "node:fs";
import { test } from "node:test";
import { LOG_START, readBlocks, visitLines } from "../../src/log/lines.ts";
import { openLog } from "../support/logs.ts";

test("readBlocks() refuses a line that is longer than 512 MiB, and yields those before it", async (t) => {
  const content = "one\ntwo\n";
  const file = await openLog(t, content);
  truncateSync(file.path, content.length + 2 ** 29); // a hole, which takes no space
  appendFileSync(file.path, "\n");
  const lines: unknown[] = [];
  const reading = (async () => {
    for await (const block of readBlocks(file, LOG_START, file.size())) {
      visitLines(block, (record, place) => lines.push({ text: record.toString(), ...place }));
    }
  })();
  await assert.rejects(reading, { code: "corruption" });
  assert.deepEqual(lines, [
    { text: "one", offset: 0, line: 1 },
    { text: "two", offset: 4, line: 2 },
  ]);
});
