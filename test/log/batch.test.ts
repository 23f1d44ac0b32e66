/** Records on their way to the disk together. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { PlantStoreError } from "../../src/core/errors.ts";
import { Batch, type Waiter } from "../../src/log/batch.ts";
import { lineBytes } from "../../src/log/format.ts";
import { anyString } from "../support/arbitraries.ts";

const BYTES_MAX = 64 * 1024;

/** A batch of these records, and what their waiters are told. */
function fill(records: readonly string[]): { batch: Batch; told: (number | PlantStoreError)[] } {
  const batch = new Batch(BYTES_MAX);
  const told: (number | PlantStoreError)[] = [];
  const waiter: Waiter = {
    durable: (offset) => told.push(offset),
    failed: (error) => told.push(error),
  };
  for (const record of records) batch.add(record, lineBytes(record), waiter);
  return { batch, told };
}

test("a batch is its records as lines, and tells each where its line stands", () => {
  const long = fc.integer({ min: 0, max: 40_000 }).map((length) => "é".repeat(length));
  const record = fc.oneof(anyString, long).map((text) => text.replaceAll("\n", ""));
  fc.assert(
    fc.property(fc.array(record, { maxLength: 30 }), fc.nat(), (records, start) => {
      const { batch, told } = fill(records);
      const text = records.map((each) => `${each}\n`).join("");
      assert.equal(batch.bytes.toString(), Buffer.from(text).toString());
      assert.equal(batch.records, records.length);
      const room = batch.bytes.buffer.byteLength;
      assert.ok(room <= Math.max(BYTES_MAX, batch.bytes.length), "it grows to what it needs");
      assert.equal(batch.isFull, Buffer.byteLength(text) >= BYTES_MAX);
      batch.acknowledge(start);
      let offset = start;
      for (const [at, each] of records.entries()) {
        assert.equal(told[at], offset);
        offset += Buffer.byteLength(each) + 1;
      }
      assert.equal(told.length, records.length);
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
  const waiter: Waiter = { durable: () => {}, failed: () => {} };
  assert.throws(() => batch.add("é", 2, waiter), RangeError);
  assert.throws(() => batch.add("e", 3, waiter), RangeError);
  assert.equal(batch.records, 0);
  assert.equal(batch.bytes.length, 0);
});

test("a batch that fails tells every waiter the same error, once", () => {
  const { batch, told } = fill(["one", "two"]);
  const error = new PlantStoreError("store_failed", "gone");
  batch.fail(error);
  assert.deepEqual(told, [error, error]);
});
