/** Group commit on real files, and what a writer does when its disk fails (fakes of a write). */
import assert from "node:assert/strict";
import fs from "node:fs";
import { type TestContext, test } from "node:test";
import fc from "fast-check";
import { clock } from "../../src/clock.ts";
import type { BatchMessage } from "../../src/core/channels.ts";
import { EMPTY_LOG, extendCheckpoint } from "../../src/log/checkpoint.ts";
import type { LogFile } from "../../src/log/file.ts";
import { BATCH_BYTES_MAX, LogWriter } from "../../src/log/writer.ts";
import { anyString } from "../support/arbitraries.ts";
import { type End, endSyncs, endWrites } from "../support/failing-writes.ts";
import { openLog } from "../support/stores.ts";
import { collectMessages, collectWarnings } from "../support/watch.ts";

const OLD = "old\n";

interface Opened {
  readonly file: LogFile;
  readonly writer: LogWriter;
  /** The text of each write so far. */
  readonly writes: string[];
  content(): string;
}

/** A writer on a real file. `during` runs inside the first write, so its records arrive during a sync. */
async function openWriter(
  t: TestContext,
  { queueBytesMax, during }: { queueBytesMax?: number; during?: (writer: LogWriter) => void } = {},
): Promise<Opened> {
  const file = await openLog(t, OLD);
  const writer = new LogWriter(file, extendCheckpoint(EMPTY_LOG, Buffer.from(OLD)), queueBytesMax);
  const writes: string[] = [];
  const append = file.append.bind(file);
  t.mock.method(file, "append", (bytes: Buffer) => {
    writes.push(bytes.toString());
    if (writes.length === 1) during?.(writer);
    return append(bytes);
  });
  return { file, writer, writes, content: () => fs.readFileSync(file.path, "utf8") };
}

/** The outcome of each append: its offset or its error code. */
function outcomes(appends: readonly Promise<number>[]): Promise<(number | string)[]> {
  return Promise.all(appends.map((append) => append.catch((error) => error.code)));
}

async function append(writer: LogWriter, record: string): Promise<number> {
  const { start, at } = writer.append(record);
  return (await start) + at;
}

const appendAll = (writer: LogWriter, ...records: readonly string[]) =>
  records.map((record) => append(writer, record));

test("the end covers what is durable, and grows with the sync, not before", async (t) => {
  const during: number[] = [];
  const { writer, content } = await openWriter(t, {
    during: ({ end }) => during.push(end.bytes),
  });
  const appended = append(writer, "one");
  assert.equal(writer.end.bytes, 4);
  await appended;
  assert.deepEqual(during, [4]);
  assert.deepEqual(writer.end, extendCheckpoint(EMPTY_LOG, Buffer.from(content())));
});

test("the records of one turn are one write, and those that arrive during a sync are the next", async (t) => {
  const late: Promise<number>[] = [];
  const { writer, writes } = await openWriter(t, {
    during: (open) => late.push(...appendAll(open, "three", "four")),
  });
  assert.deepEqual(await outcomes(appendAll(writer, "one", "two")), [4, 8]);
  assert.deepEqual(await outcomes(late), [12, 18]);
  assert.deepEqual(writes, ["one\ntwo\n", "three\nfour\n"]);
});

test("a record that comes in the next turn is in the same write", async (t) => {
  t.mock.method(clock, "monotonicMs", () => 0); // a busy machine may need more than the millisecond that it waits
  const { writer, writes } = await openWriter(t);
  const first = append(writer, "one");
  await new Promise(setImmediate);
  await Promise.all([first, append(writer, "two")]);
  assert.deepEqual(writes, ["one\ntwo\n"]);
});

test("after a slow sync, a batch waits for the clients of the one before", async (t) => {
  let now = 0;
  t.mock.method(clock, "monotonicMs", () => now);
  t.mock.method(clock, "setTimeout", () => {}); // a busy machine may need longer than the wait lasts
  let late: Promise<number> | undefined;
  const { writer, writes } = await openWriter(t, {
    during: (open) => {
      late = append(open, "two");
      now = 10;
    },
  });
  await append(writer, "one");
  for (let turns = 0; turns < 3; turns++) await new Promise(setImmediate);
  await Promise.all([late, append(writer, "three")]);
  assert.deepEqual(writes, ["one\n", "two\nthree\n"]);
});

test("a batch is closed once it has a MiB, so it is at most one record longer", async (t) => {
  const half = "x".repeat(BATCH_BYTES_MAX / 2 - 1);
  const { writer, writes } = await openWriter(t);
  await Promise.all(appendAll(writer, half, half, "a", half, half, "b"));
  assert.deepEqual(
    writes.map(({ length }) => length),
    [BATCH_BYTES_MAX, BATCH_BYTES_MAX + 2, 2],
  );
});

test("any records are lines of the log, in order, at the offsets that were reported", async (t) => {
  const long = fc.nat(40_000).map((length) => "é".repeat(length));
  const record = fc.oneof(anyString, long).map((text) => text.replaceAll("\n", ""));
  const runs = { numRuns: 30 };
  await fc.assert(
    fc.asyncProperty(fc.array(record, { minLength: 1, maxLength: 30 }), async (records) => {
      const { writer, file } = await openWriter(t);
      const offsets = await Promise.all(appendAll(writer, ...records));
      const bytes = fs.readFileSync(file.path);
      for (const [index, offset] of offsets.entries()) {
        const line = Buffer.from(`${records[index]}\n`);
        assert.ok(bytes.subarray(offset, offset + line.length).equals(line));
      }
      assert.equal(writer.end.bytes, bytes.length);
      assert.equal(writer.queuedBytes, 0);
    }),
    runs,
  );
});

test("a record is refused if more would wait than may; the batch under way counts", async (t) => {
  let late: Promise<(number | string)[]> | undefined;
  const { writer, content } = await openWriter(t, {
    queueBytesMax: 8,
    during: (open) => {
      late = outcomes(appendAll(open, "two", "six"));
    },
  });
  assert.equal(await append(writer, "one"), 4);
  assert.deepEqual(await late, [8, "overloaded"]);
  for (let count = 0; count < 3; count++) await append(writer, "long enough"); // nothing waits
  assert.ok(content().startsWith("old\none\ntwo\nlong enough\n"));
});

test("every synced batch is published, and a refused one is not", async (t) => {
  const { writer, file } = await openWriter(t);
  const messages = collectMessages<BatchMessage>(t, "plant-store:batch");
  await Promise.all(appendAll(writer, "one", "two"));
  await endWrites(t, { code: "ENOSPC" });
  await assert.rejects(append(writer, "four"), { code: "write_failed" });
  await append(writer, "five");
  assert.deepEqual(
    messages.map(({ syncMs, ...message }) => ({ ...message, isTimed: syncMs > 0 })),
    [
      { log: file.path, records: 2, bytes: 8, isTimed: true },
      { log: file.path, records: 1, bytes: 5, isTimed: true },
    ],
  );
});

test("without room a batch is rejected and leaves nothing, and the writer goes on", async (t) => {
  const { writer, content } = await openWriter(t, { queueBytesMax: 8 });
  assert.equal(writer.msSinceRefusal, undefined);
  await endWrites(t, { written: 2 }, { code: "ENOSPC" });
  const codes = await outcomes(appendAll(writer, "one", "two"));
  assert.deepEqual(codes, ["write_failed", "write_failed"]);
  assert.deepEqual([content(), writer.failure, writer.queuedBytes], [OLD, undefined, 0]);
  assert.ok((writer.msSinceRefusal ?? -1) >= 0);
  assert.equal(await append(writer, "three"), 4);
  assert.equal(writer.msSinceRefusal, undefined);
  assert.equal(content(), "old\nthree\n");
});

test("a full disk is one warning a minute, however often it refuses", async (t) => {
  const { writer, file } = await openWriter(t);
  const warnings = collectWarnings(t, file.path);
  let now = clock.monotonicMs();
  t.mock.method(clock, "monotonicMs", () => now);
  const full: End = { code: "ENOSPC" };
  await endWrites(t, full, { written: 100 }, full, full);
  const seen: number[] = [];
  for (const passedMs of [0, 1000, 30_000, 30_000]) {
    now += passedMs;
    await outcomes([append(writer, "one")]);
    seen.push(warnings.length);
  }
  assert.deepEqual(seen, [1, 1, 1, 2]);
});

for (const [what, ends, syncEnds, code] of [
  ["durable", [], [], undefined],
  ["refused", [{ code: "ENOSPC" }], [], undefined],
  ["not synced", [{ written: 4, code: "EIO" }], [], undefined],
  ["neither synced nor cut", [{ written: 4, code: "EIO" }], [{ code: "EIO" }], "unsynced"],
] as const) {
  test(`a writer that fails during a batch stays failed if the batch is ${what}`, async (t) => {
    const appends: Promise<unknown>[] = [];
    const catching = (writer: LogWriter, record: string) =>
      appends.push(append(writer, record).catch((error: unknown) => error));
    const { writer, writes } = await openWriter(t, {
      during: (open) => {
        catching(open, "two");
        open.fail(new Error("the log is another one"));
      },
    });
    await endWrites(t, ...ends);
    await endSyncs(t, ...syncEnds);
    catching(writer, "one");
    const failure = await writer.failed;
    for (const outcome of await Promise.all(appends)) assert.equal(outcome, failure);
    await writer.drain();
    assert.deepEqual([writes.length, writer.queuedBytes], [1, 0]);
    assert.equal(writer.fail(new Error("later")), failure);
    assert.equal((failure.cause as { code?: string }).code, code);
  });
}
