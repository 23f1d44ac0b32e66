/**
 * What a writer does when its disk fails. Most tests use real files. A refused write and a failed
 * sync cannot be produced inside a healthy process, so those tests have a FAKE `append` and are named
 * so. The kernel itself produces these faults in test/faults and test/crash; how an append handles
 * them is tested in test/log/file.test.ts.
 */
import assert from "node:assert/strict";
import fs from "node:fs";
import { type TestContext, test } from "node:test";
import { clock } from "../../src/clock.ts";
import { PlantStoreError } from "../../src/core/errors.ts";
import { EMPTY_LOG } from "../../src/log/checkpoint.ts";
import type { AppendResult, LogFile } from "../../src/log/file.ts";
import { LogWriter } from "../../src/log/writer.ts";
import { openLog } from "../support/logs.ts";
import { collectWarnings } from "../support/watch.ts";

const OLD = "old\n";

function writerOn(file: LogFile, queueBytesMax = 1024): LogWriter {
  const end = { ...EMPTY_LOG, bytes: OLD.length };
  return new LogWriter(file, { batchBytesMax: 8, queueBytesMax, end });
}

/** FAKE: the first append of the file reports `result`; later ones are real. `during` runs inside it. */
function failFirstAppend(
  t: TestContext,
  file: LogFile,
  result: AppendResult,
  during: () => void = () => {},
): { callCount(): number } {
  const appendToFile = file.append.bind(file);
  const spy = t.mock.method(file, "append", async (bytes: Buffer) => {
    if (spy.mock.callCount() > 0) return appendToFile(bytes);
    during();
    return result;
  });
  return spy.mock;
}

const DURABLE: AppendResult = { outcome: "durable" };
const REFUSED: AppendResult = { outcome: "refused", cause: new Error("disk full") };
const UNKNOWN: AppendResult = { outcome: "unknown", cause: new Error("i/o error") };

/** The outcome of each append: its offset or its error code. */
async function outcomes(appends: readonly Promise<number>[]): Promise<(number | string)[]> {
  return Promise.all(appends.map((append) => append.catch((error) => error.code)));
}

test("LogWriter.append() rejects a refused batch with write_failed and continues (fake refusal)", async (t) => {
  const file = await openLog(t, OLD);
  failFirstAppend(t, file, REFUSED);
  const writer = writerOn(file);
  assert.equal(writer.refusedMsAgo, undefined);
  assert.deepEqual(await outcomes([writer.append("one"), writer.append("two")]), [
    "write_failed",
    "write_failed",
  ]);
  const start = clock.steadyMs();
  const now = t.mock.method(clock, "steadyMs", () => start + 5000);
  assert.ok((writer.refusedMsAgo ?? 0) >= 5000);
  now.mock.restore();
  assert.equal(fs.readFileSync(file.path, "utf8"), OLD);
  assert.equal(writer.durableBytes, OLD.length);
  assert.equal(writer.failure, undefined);
  assert.equal(await writer.append("three"), OLD.length);
  assert.equal(writer.refusedMsAgo, undefined);
  assert.equal(fs.readFileSync(file.path, "utf8"), `${OLD}three\n`);
  assert.equal(await isPending(writer.failed), true);
});

test("LogWriter.append() writes waiting records at the place of a refused batch (fake refusal)", async (t) => {
  const file = await openLog(t, OLD);
  const late: Promise<number>[] = [];
  failFirstAppend(t, file, REFUSED, () => {
    late.push(writer.append("two"), writer.append("three"));
  });
  const writer = writerOn(file);
  assert.deepEqual(await outcomes([writer.append("one")]), ["write_failed"]);
  assert.deepEqual(await outcomes(late), [4, 8]);
  assert.equal(fs.readFileSync(file.path, "utf8"), `${OLD}two\nthree\n`);
});

test("LogWriter.append() no longer counts a refused batch as waiting once it is answered (fake refusal)", async (t) => {
  const file = await openLog(t, OLD);
  failFirstAppend(t, file, REFUSED);
  const writer = writerOn(file, 4);
  const retried = writer.append("one").catch(() => writer.append("one"));
  assert.deepEqual(await outcomes([retried]), [OLD.length]);
});

test("LogWriter.append() that runs out of memory after a write leaves nothing in the log (fake shortage)", async (t) => {
  const file = await openLog(t, OLD);
  const appendToFile = file.append.bind(file);
  const allocate = Buffer.allocUnsafeSlow;
  const late: Promise<void>[] = [];
  const appends = t.mock.method(file, "append", (bytes: Buffer) => {
    const shortage = t.mock.method(Buffer, "allocUnsafeSlow", (size: number) => {
      if (size > 8) throw new RangeError("Array buffer allocation failed");
      return allocate(size);
    });
    late.push(assert.rejects(writer.append("longer than 8 bytes"), RangeError));
    shortage.mock.restore();
    return appendToFile(bytes);
  });
  const writer = writerOn(file);
  assert.equal(await writer.append("one"), OLD.length);
  await Promise.all(late);
  await writer.drain();
  assert.equal(appends.mock.callCount(), 1, "a batch without a record is not written");
  assert.equal(writer.queuedBytes, 0);
  appends.mock.restore();
  assert.equal(await writer.append("two"), OLD.length + "one\n".length);
});

test("LogWriter.fail() rejects what is not written yet, and writes none of it", async (t) => {
  const file = await openLog(t, OLD);
  const appends = t.mock.method(file, "append");
  const writer = writerOn(file);
  const waiting = [writer.append("one"), writer.append("two")];
  const error = writer.fail(new Error("the log is another one"));
  for (const each of waiting) await assert.rejects(each, (rejection) => rejection === error);
  await writer.drain();
  assert.equal(appends.mock.callCount(), 0);
  assert.equal(writer.queuedBytes, 0);
  assert.equal(await writer.failed, error);
});

for (const [what, result] of [
  ["durable", DURABLE],
  ["refused", REFUSED],
  ["not synced", UNKNOWN],
] as const) {
  test(`LogWriter.fail() holds if the batch under way turns out to be ${what} (fake result)`, async (t) => {
    const file = await openLog(t, OLD);
    const outcomes: Promise<unknown>[] = [];
    const during = () => {
      outcomes.push(writer.append("two").catch((error: unknown) => error));
      writer.fail(new Error("the log is another one"));
    };
    const appends = failFirstAppend(t, file, result, during);
    const writer = writerOn(file);
    outcomes.push(writer.append("one").catch((error: unknown) => error));
    const error = await writer.failed;
    for (const each of outcomes) assert.equal(await each, error);
    await writer.drain();
    assert.equal(appends.callCount(), 1);
    assert.equal(writer.queuedBytes, 0);
    assert.equal(writer.fail(new Error("later")), error);
  });
}

test("LogWriter.append() fails for good if the log cannot be written at all", async (t) => {
  const file = await openLog(t, OLD);
  const writer = writerOn(file);
  await file.close();
  const first = writer.append("one");
  const error = await writer.failed;
  await assert.rejects(first, (rejection) => rejection === error);
  assert.deepEqual(await outcomes([writer.append("two")]), ["store_failed"]);
});

/**
 * FAKE: a disk that refuses the records named "no", and a clock. `run` appends records at the given
 * milliseconds after the first, and returns the warnings so far, by their kind.
 */
async function flap(t: TestContext) {
  const file = await openLog(t, OLD);
  const appendToFile = file.append.bind(file);
  t.mock.method(file, "append", async (bytes: Buffer) =>
    bytes.toString() === "no\n" ? REFUSED : appendToFile(bytes),
  );
  const start = Math.ceil(clock.steadyMs()); // a whole number, so that sums are exact
  let now = start;
  t.mock.method(clock, "steadyMs", () => now);
  const warnings = collectWarnings(t, file.path);
  const writer = writerOn(file);
  const states = () =>
    warnings.map(({ message }) => (message.includes("again") ? "can" : "cannot"));
  const run = async (atMs: number, ...records: readonly string[]) => {
    now = start + atMs;
    for (const record of records) await outcomes([writer.append(record)]);
    return states();
  };
  return { writer, run, states };
}

const FLAPPING = ["no", "ok", "no", "ok", "no", "ok", "no"];

test("a log that alternates between full and not full logs one warning per state and second (fake refusals, fake clock)", async (t) => {
  const { writer, run, states } = await flap(t);
  assert.deepEqual(await run(0, ...FLAPPING), ["cannot", "can"]);
  assert.deepEqual(await run(999, "no"), ["cannot", "can"]);
  assert.deepEqual(await run(1000, "no"), ["cannot", "can", "cannot"], "still refused");
  assert.deepEqual(await run(1000, ...FLAPPING.slice(1)), ["cannot", "can", "cannot", "can"]);
  assert.deepEqual(await run(1999, "no", "ok"), ["cannot", "can", "cannot", "can"]);
  await writer.drain();
  assert.equal(states().length, 4, "the last line is already right");
  assert.deepEqual(await run(5000, "no", "ok"), [...states().slice(0, 4), "cannot", "can"]);
});

test("a stop logs the state of the log if its last warning was held back (fake refusals, fake clock)", async (t) => {
  const { writer, run, states } = await flap(t);
  assert.deepEqual(await run(0, "no", "ok", "no"), ["cannot", "can"]);
  await writer.drain();
  assert.deepEqual(states(), ["cannot", "can", "cannot"]);
});

test("LogWriter.failed names the file in its cause, and no path in its message", async (t) => {
  const file = await openLog(t, OLD);
  const writer = writerOn(file);
  fs.rmSync(file.path);
  assert.deepEqual(await outcomes([writer.append("one")]), ["store_failed"]);
  const error = await writer.failed;
  assert.ok(error instanceof PlantStoreError && error.cause instanceof Error);
  assert.ok(error.cause.message.includes(file.path));
  assert.equal(error.message.includes(file.path), false);
});

test("LogWriter.failed stays pending while appends succeed", async (t) => {
  const writer = writerOn(await openLog(t, OLD));
  await writer.append("one");
  assert.equal(await isPending(writer.failed), true);
  assert.equal(writer.failure, undefined);
});

async function isPending(promise: Promise<unknown>): Promise<boolean> {
  const pending = Symbol("pending");
  return (await Promise.race([promise, Promise.resolve(pending)])) === pending;
}
