/** Group commit on real files; failures are tested in test/log/writer-failure.test.ts. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { type TestContext, test } from "node:test";
import fc from "fast-check";
import { clock } from "../../src/clock.ts";
import type { BatchMessage } from "../../src/core/channels.ts";
import { PlantStoreError } from "../../src/core/errors.ts";
import { EMPTY_LOG } from "../../src/log/checkpoint.ts";
import type { LogFile } from "../../src/log/file.ts";
import { readLineAt } from "../../src/log/lines.ts";
import { Batch, LogWriter, type LogWriterOptions } from "../../src/log/writer.ts";
import { anyString } from "../support/arbitraries.ts";
import { openLog } from "../support/logs.ts";
import { collectMessages } from "../support/watch.ts";

interface Watched {
  readonly file: LogFile;
  readonly writer: LogWriter;
  /** The text of each write. */
  batches(): { bytes: string; position: number }[];
  content(): string;
}

/**
 * A writer on a real file, whose writes are recorded. `during` runs inside the first write, so the
 * records that it appends arrive during a sync.
 */
async function openWriter(
  t: TestContext,
  { durableBytes = 0, ...options }: Partial<LogWriterOptions> & { durableBytes?: number } = {},
  during: () => void = () => {},
): Promise<Watched> {
  const file = await openLog(t, "x".repeat(durableBytes));
  const appendToFile = file.append.bind(file);
  const written: { bytes: string; position: number }[] = [];
  t.mock.method(file, "append", (bytes: Buffer) => {
    written.push({ bytes: String(bytes), position: file.end });
    if (written.length === 1) during();
    return appendToFile(bytes);
  });
  return {
    file,
    writer: new LogWriter(file, {
      batchBytesMax: 1024,
      queueBytesMax: 1024 * 1024,
      end: { ...EMPTY_LOG, bytes: durableBytes },
      ...options,
    }),
    batches: () => written,
    content: () => readFileSync(file.path, "utf8"),
  };
}

/** Appends records of two bytes over some turns of the event loop, and waits for all of them. */
async function appendByTurns(
  writer: LogWriter,
  { turns, recordsATurn }: { turns: number; recordsATurn: number },
): Promise<void> {
  const pending: Promise<number>[] = [];
  for (let turn = 0; turn < turns; turn++) {
    for (let count = 0; count < recordsATurn; count++) pending.push(writer.append("x"));
    await new Promise(setImmediate);
  }
  await Promise.all(pending);
}

test("LogWriter.append() resolves with the offset of a record that is in the file", async (t) => {
  const { writer, content } = await openWriter(t);
  assert.equal(await writer.append("one"), 0);
  assert.equal(content(), "one\n");
  assert.equal(await writer.append("é"), 4);
  assert.equal(content(), "one\né\n");
  assert.equal(await writer.append(""), 7);
  assert.equal(content(), "one\né\n\n");
});

test("LogWriter.append() continues at the end of the log", async (t) => {
  const { writer, content } = await openWriter(t, { durableBytes: 5 });
  assert.equal(writer.durableBytes, 5);
  assert.equal(await writer.append("one"), 5);
  assert.equal(content(), "xxxxxone\n");
});

test("LogWriter.append() writes the records of one turn of the event loop together", async (t) => {
  const { writer, batches } = await openWriter(t);
  const offsets = await Promise.all(["one", "two", "three"].map((text) => writer.append(text)));
  assert.deepEqual(offsets, [0, 4, 8]);
  assert.deepEqual(batches(), [{ bytes: "one\ntwo\nthree\n", position: 0 }]);
});

test("LogWriter.append() writes records that arrive during a sync together in the next one", async (t) => {
  const late: Promise<number>[] = [];
  const { writer, batches } = await openWriter(t, {}, () => {
    late.push(...["two", "three", "four"].map((text) => writer.append(text)));
  });
  assert.equal(await writer.append("one"), 0);
  assert.deepEqual(await Promise.all(late), [4, 8, 14]);
  assert.deepEqual(batches(), [
    { bytes: "one\n", position: 0 },
    { bytes: "two\nthree\nfour\n", position: 4 },
  ]);
});

test("LogWriter.append() writes the records of successive turns together (fake clock)", async (t) => {
  const { writer, batches } = await openWriter(t);
  t.mock.method(clock, "steadyMs", () => 0);
  await appendByTurns(writer, { turns: 5, recordsATurn: 1 });
  assert.deepEqual(
    batches().map(({ bytes }) => bytes.length),
    [10],
  );
});

test("LogWriter.append() does not wait once a batch has enough records (fake clock)", async (t) => {
  const { writer, batches } = await openWriter(t);
  t.mock.method(clock, "steadyMs", () => 0);
  await appendByTurns(writer, { turns: 3, recordsATurn: 16 });
  assert.equal(batches()[0]?.bytes.length, 2 * 32);
});

test("LogWriter.append() does not wait longer than a millisecond (fake clock)", async (t) => {
  const { writer, batches } = await openWriter(t);
  let now = 0;
  t.mock.method(clock, "steadyMs", () => now++);
  await appendByTurns(writer, { turns: 3, recordsATurn: 1 });
  assert.equal(batches()[0]?.bytes, "x\n");
});

for (const [waiting, batchBytesMax, writesBegun] of [
  [31, 1024, 1],
  [32, 1024, 2],
  [2, 2 * "late\n".length, 2],
] as const) {
  test(`LogWriter.append() has begun ${writesBegun} writes when it resolves, with ${waiting} records waiting and batches of ${batchBytesMax} bytes`, async (t) => {
    const late: Promise<number>[] = [];
    const { writer, batches } = await openWriter(t, { batchBytesMax }, () => {
      for (let count = 0; count < waiting; count++) late.push(writer.append("late"));
    });
    await writer.append("first");
    assert.equal(batches().length, writesBegun);
    await Promise.all(late);
    assert.equal(batches().length, 2);
  });
}

test("LogWriter.append() fills a batch up to batchBytesMax, with one record at least", async (t) => {
  const lengths = fc.array(fc.integer({ min: 0, max: 30 }), { minLength: 1, maxLength: 40 });
  await fc.assert(
    fc.asyncProperty(lengths, fc.integer({ min: 1, max: 60 }), async (list, batchBytesMax) => {
      const { writer, batches, content } = await openWriter(t, { batchBytesMax });
      await Promise.all(list.map((length) => writer.append("x".repeat(length))));
      for (const [index, { bytes }] of batches().entries()) {
        const lastLine = bytes.slice(0, -1).lastIndexOf("\n") + 1;
        assert.ok(lastLine < batchBytesMax, "the batch was not full before its last record");
        const isLast = index === batches().length - 1;
        assert.ok(isLast || bytes.length >= batchBytesMax, "a record waited without need");
      }
      assert.equal(
        batches()
          .map(({ bytes }) => bytes)
          .join(""),
        content(),
      );
      assert.equal(content(), list.map((length) => `${"x".repeat(length)}\n`).join(""));
    }),
    { numRuns: 30 },
  );
});

test("LogWriter.append() keeps the order of its calls, over many batches and turns", async (t) => {
  const { file, writer, batches } = await openWriter(t, { batchBytesMax: 50 });
  const records = Array.from({ length: 300 }, (_, number) => `record ${number}`);
  const pending: Promise<number>[] = [];
  for (const [index, record] of records.entries()) {
    pending.push(writer.append(record));
    if (index % 17 === 0) await new Promise(setImmediate);
  }
  const offsets = await Promise.all(pending);
  assert.ok(batches().length > 20);
  assert.equal(readFileSync(file.path, "utf8"), records.map((record) => `${record}\n`).join(""));
  for (const [index, offset] of offsets.entries()) {
    const line = await readLineAt(file, offset, writer.durableBytes);
    assert.equal(line.toString(), records[index]);
  }
});

test("LogWriter.durableBytes grows with the sync, not before", async (t) => {
  const during: number[] = [];
  const { writer } = await openWriter(t, { durableBytes: 3 }, () => {
    during.push(writer.durableBytes);
  });
  const appended = writer.append("one");
  assert.equal(writer.durableBytes, 3);
  await appended;
  assert.deepEqual(during, [3]);
  assert.equal(writer.durableBytes, 7);
});

test("LogWriter.append() refuses a record if more than queueBytesMax would wait", async (t) => {
  const { writer, content } = await openWriter(t, { queueBytesMax: 8 });
  const taken = [writer.append("one"), writer.append("two")];
  await assert.rejects(writer.append(""), { code: "overloaded" });
  assert.deepEqual(await Promise.all(taken), [0, 4]);
  assert.equal(content(), "one\ntwo\n");
});

test("LogWriter.append() counts the batch that is being written as waiting", async (t) => {
  let late: Promise<PromiseSettledResult<number>[]> | undefined;
  const { writer, content } = await openWriter(t, { queueBytesMax: 8 }, () => {
    late = Promise.allSettled([writer.append("two"), writer.append("six")]);
  });
  await writer.append("one");
  const statuses = (await late)?.map(({ status }) => status);
  assert.deepEqual(statuses, ["fulfilled", "rejected"]);
  assert.equal(content(), "one\ntwo\n");
});

test("LogWriter.append() accepts a record again as soon as an earlier one is durable", async (t) => {
  const { writer } = await openWriter(t, { queueBytesMax: 4 });
  for (let count = 0; count < 5; count++) assert.equal(await writer.append("one"), 4 * count);
});

test("LogWriter.append() refuses a record with a line feed and writes nothing of it", async (t) => {
  const { writer, content } = await openWriter(t);
  for (const record of ["\n", "a\n", "\na", "a\nb", "a\r\nb"]) {
    await assert.rejects(writer.append(record), RangeError);
  }
  assert.equal(await writer.append("one"), 0);
  assert.equal(content(), "one\n");
});

test("LogWriter.drain() waits for everything accepted, and for nothing when idle", async (t) => {
  const { writer, content } = await openWriter(t, { batchBytesMax: 1 });
  await writer.drain();
  let answered = 0;
  for (const text of ["one", "two", "three"]) {
    writer.append(text).then(() => {
      answered++;
    });
  }
  await writer.drain();
  assert.equal(answered, 3);
  assert.equal(content(), "one\ntwo\nthree\n");
});

test("every synced batch is published on plant-store:batch, and a refused one is not", async (t) => {
  const { writer, file } = await openWriter(t, { batchBytesMax: 8 }, () => {
    void writer.append("three");
  });
  const appendToFile = file.append;
  const messages = collectMessages<BatchMessage>(t, "plant-store:batch");
  await Promise.all([writer.append("one"), writer.append("two")]);
  await writer.drain();
  file.append = async () => ({ outcome: "refused", cause: new Error("full") });
  await assert.rejects(writer.append("four"), { code: "write_failed" });
  file.append = appendToFile;
  await writer.append("five");

  const log = file.path;
  assert.deepEqual(
    messages.map(({ syncMs, ...message }) => ({ ...message, isTimed: syncMs > 0 })),
    [
      { log, records: 2, bytes: 8, isTimed: true },
      { log, records: 1, bytes: 6, isTimed: true },
      { log, records: 1, bytes: 5, isTimed: true },
    ],
  );
});

const BATCH_BYTES = 64 * 1024;

/** A batch of these records, and the offset of each in it. */
function fill(records: readonly string[]): { batch: Batch; starts: number[] } {
  const batch = new Batch(BATCH_BYTES);
  const starts = records.map((record) => batch.add(record, Buffer.byteLength(record) + 1));
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
      assert.ok(
        room <= Math.max(BATCH_BYTES, batch.bytes.length),
        "it grows only as much as it needs",
      );
      assert.equal(batch.isFull, Buffer.byteLength(text) >= BATCH_BYTES);
      let offset = 0;
      for (const [at, each] of records.entries()) {
        assert.equal(starts[at], offset);
        offset += Buffer.byteLength(each) + 1;
      }
    }),
  );
});

test("a batch takes records until it is full", () => {
  for (const bytesMax of [1, 1000]) {
    assert.equal(new Batch(bytesMax).bytes.buffer.byteLength, bytesMax);
  }
});

test("a batch refuses a record whose length is not the given one", () => {
  const batch = new Batch(BATCH_BYTES);
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
