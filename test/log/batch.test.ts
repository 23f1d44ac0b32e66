/** Records on their way to the disk together. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { PlantStoreError } from "../../src/core/errors.ts";
import { Batch } from "../../src/log/batch.ts";
import { lineBytes } from "../../src/log/format.ts";
import { anyString } from "../support/arbitraries.ts";

const BYTES_MAX = 64 * 1024;

/** A batch of these records, and where in it each of them starts. */
function fill(records: readonly string[]): { batch: Batch; starts: number[] } {
  const batch = new Batch(BYTES_MAX);
  const starts = records.map((record) => batch.add(record, lineBytes(record)));
  return { batch, starts };
}

test("a batch is its records as lines, and returns where each line starts", () => {
  const long = fc.integer({ min: 0, max: 40_000 }).map((length) => "é".repeat(length));
  const record = fc.oneof(anyString, long).map((text) => text.replaceAll("\n", ""));
  fc.assert(
    fc.property(fc.array(record, { maxLength: 30 }), (records) => {
      const { batch, starts } = fill(records);
      const text = records.map((each) => `${each}\n`).join("");
      assert.equal(batch.bytes.toString(), Buffer.from(text).toString());
      assert.equal(batch.records, records.length);
      const room = batch.bytes.buffer.byteLength;
      assert.ok(room <= Math.max(BYTES_MAX, batch.bytes.length), "it grows to what it needs");
      assert.equal(batch.isFull, Buffer.byteLength(text) >= BYTES_MAX);
      let offset = 0;
      for (const [at, each] of records.entries()) {
        assert.equal(starts[at], offset);
        offset += Buffer.byteLength(each) + 1;
      }
    }),
  );
});

test("a batch has room for no more than what makes it full", () => {
  for (const bytesMax of [1, 1000]) {
    assert.equal(new Batch(bytesMax).bytes.buffer.byteLength, bytesMax);
  }
});

test("a batch takes no record whose bytes are other than was said", () => {
  const batch = new Batch(BYTES_MAX);
  assert.throws(() => batch.add("é", 2), RangeError);
  assert.throws(() => batch.add("e", 3), RangeError);
  assert.equal(batch.records, 0);
  assert.equal(batch.bytes.length, 0);
});

test("the start of a batch resolves with its offset in the log, or rejects", async () => {
  const { batch } = fill(["one"]);
  batch.acknowledge(42);
  assert.equal(await batch.start, 42);
  const failed = fill(["one"]).batch;
  const error = new PlantStoreError("store_failed", "gone");
  failed.fail(error);
  await assert.rejects(failed.start, error);
});
