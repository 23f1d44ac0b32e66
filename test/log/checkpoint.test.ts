/** A checkpoint is read as it was written; any other content is damage. */
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import fc from "fast-check";
import {
  checkpointPath,
  EMPTY_LOG,
  extendCheckpoint,
  readCheckpoint,
  writeCheckpoint,
} from "../../src/log/checkpoint.ts";
import { makeFolder } from "../support/folders.ts";

test("any checkpoint is read as it was written, and replaces the one before", async (t) => {
  const logPath = path.join(makeFolder(t), "log");
  const anyCheckpoint = fc.record({ bytes: fc.nat(2 ** 31), crc32: fc.nat(2 ** 31) });
  await fc.assert(
    fc.asyncProperty(anyCheckpoint, async (checkpoint) => {
      await writeCheckpoint(logPath, checkpoint);
      assert.deepEqual(await readCheckpoint(logPath), { ...checkpoint });
    }),
    { numRuns: 20 },
  );
  const longest = { bytes: 2 ** 49, crc32: 2 ** 32 - 1 };
  await writeCheckpoint(logPath, longest);
  assert.deepEqual(await readCheckpoint(logPath), longest);
  assert.deepEqual(fs.readdirSync(path.dirname(logPath)), ["log.checkpoint"]);
});

test("its file is one line of JSON", async (t) => {
  const logPath = path.join(makeFolder(t), "log");
  await writeCheckpoint(logPath, extendCheckpoint(EMPTY_LOG, Buffer.from("123456789")));
  const text = fs.readFileSync(checkpointPath(logPath), "utf8");
  assert.equal(text, '{"bytes":9,"crc32":3421780262}\n');
});

const GOOD = '{"bytes":18,"crc32":3421780262}\n';

const DAMAGED = [
  ...["", "\n", GOOD.slice(0, -1), `${GOOD}\n`, `${GOOD.slice(0, -2)},"records":2}\n`],
  ...["-18", "1.8", ""].map((bytes) => GOOD.replace("18", bytes)),
  ...[GOOD.replace(",", ", "), "\0".repeat(GOOD.length), "x".repeat(1000)],
];

for (const text of DAMAGED) {
  test(`${JSON.stringify(text.slice(0, 50))} is no checkpoint`, async (t) => {
    const logPath = path.join(makeFolder(t), "log");
    fs.writeFileSync(checkpointPath(logPath), text);
    await assert.rejects(readCheckpoint(logPath), { code: "corruption" });
  });
}
