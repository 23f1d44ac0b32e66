import assert from "node:assert/strict";
import fs from "node:fs";
import fsPromises from "node:fs/promises";
import path from "node:path";
import { type TestContext, test } from "node:test";
import {
  type Checkpoint,
  checkpointPath,
  EMPTY_LOG,
  readCheckpoint,
} from "../../src/log/checkpoint.ts";
import { Checkpointer } from "../../src/log/checkpointer.ts";
import { makeFolder } from "../support/folders.ts";
import { collectWarnings } from "../support/watch.ts";

const MIB_16 = 16 * 1024 * 1024;

/** The timer of a checkpointer, which goes off when the test says so. */
interface FakeTimer {
  readonly delayMs: number;
  /** How often it was set or set anew. */
  starts: number;
  isRefed: boolean;
  isCleared: boolean;
  goOff(): void;
}

/** FAKE timers: those of `t.mock.timers` cannot be set anew (`refresh`) on Node 20. */
function fakeTimers(t: TestContext): readonly FakeTimer[] {
  const timers: FakeTimer[] = [];
  t.mock.method(globalThis, "setTimeout", (goOff: () => void, delayMs: number) => {
    const timer = {
      delayMs,
      starts: 1,
      isRefed: true,
      isCleared: false,
      goOff,
      refresh: () => ++timer.starts,
      unref: () => {
        timer.isRefed = false;
      },
    };
    timers.push(timer);
    return timer;
  });
  t.mock.method(globalThis, "clearTimeout", (timer: FakeTimer | undefined) => {
    if (timer !== undefined) timer.isCleared = true;
  });
  return timers;
}

function at(bytes: number, sum = 7): Checkpoint {
  return { bytes, records: 1, crc32: sum };
}

function makeCheckpointer(
  t: TestContext,
  latest: Checkpoint,
  written: Checkpoint | undefined,
): { logPath: string; checkpointer: Checkpointer } {
  const logPath = path.join(makeFolder(t), "test.jsonl");
  return { logPath, checkpointer: new Checkpointer(logPath, latest, written) };
}

const DISTANCES: readonly [written: number, latest: number, isDue: boolean][] = [
  [0, 1, false],
  [0, MIB_16 - 1, false],
  [0, MIB_16, true],
  [0, 3 * MIB_16, true],
  [1000, MIB_16, false],
  [1000, MIB_16 + 999, false],
  [1000, MIB_16 + 1000, true],
];

for (const [from, to, isDue] of DISTANCES) {
  const written = isDue ? "writes one" : "waits";
  test(`Checkpointer ${written} at ${to} bytes when the last one spoke of ${from}`, async (t) => {
    fakeTimers(t);
    const { logPath, checkpointer } = makeCheckpointer(t, at(from), at(from));
    checkpointer.note(at(to));
    await checkpointer.stop();
    assert.deepEqual(await readCheckpoint(logPath), isDue ? at(to) : undefined);
  });
}

test("Checkpointer without any checkpoint counts the 16 MiB from the start of the log", async (t) => {
  fakeTimers(t);
  const { logPath, checkpointer } = makeCheckpointer(t, at(MIB_16 - 1), undefined);
  checkpointer.note(at(MIB_16));
  await checkpointer.stop();
  assert.deepEqual(await readCheckpoint(logPath), at(MIB_16));
});

test("Checkpointer writes one after 10 s of quiet, and every note begins the 10 s anew", async (t) => {
  const timers = fakeTimers(t);
  const { logPath, checkpointer } = makeCheckpointer(t, EMPTY_LOG, EMPTY_LOG);
  assert.equal(timers.length, 0, "nothing to write");
  for (const bytes of [10, 20, 30]) checkpointer.note(at(bytes));
  assert.equal(timers.length, 1);
  const [timer] = timers;
  assert.equal(timer?.delayMs, 10_000);
  assert.equal(timer?.starts, 3);
  assert.equal(timer?.isRefed, false, "keeps no process alive");

  timer?.goOff();
  await checkpointer.stop();
  assert.deepEqual(await readCheckpoint(logPath), at(30));
});

test("Checkpointer is set again by what comes after a quiet", async (t) => {
  const timers = fakeTimers(t);
  const { logPath, checkpointer } = makeCheckpointer(t, EMPTY_LOG, EMPTY_LOG);
  checkpointer.note(at(10));
  timers[0]?.goOff();
  checkpointer.note(at(20));
  assert.equal(timers[0]?.starts, 2);
  await checkpointer.stop(); // the first one is written
  timers[0]?.goOff();
  await checkpointer.stop();
  assert.deepEqual(await readCheckpoint(logPath), at(20));
});

test("Checkpointer writes one at once at a start with 16 MiB and no checkpoint", async (t) => {
  fakeTimers(t);
  const { logPath, checkpointer } = makeCheckpointer(t, at(MIB_16), undefined);
  await checkpointer.stop();
  assert.deepEqual(await readCheckpoint(logPath), at(MIB_16));
});

const STARTS: readonly [says: string, written: Checkpoint | undefined, waits: boolean][] = [
  ["is there", at(100), false],
  ["is missing", undefined, true],
  ["speaks of fewer bytes", at(99), true],
  ["has another checksum", at(100, 8), true],
];

for (const [says, written, waits] of STARTS) {
  test(`Checkpointer ${waits ? "waits for quiet" : "rests"} at a start whose checkpoint ${says}`, async (t) => {
    const timers = fakeTimers(t);
    const { logPath, checkpointer } = makeCheckpointer(t, at(100), written);
    assert.equal(timers.length, waits ? 1 : 0);
    timers[0]?.goOff();
    await checkpointer.stop();
    assert.deepEqual(await readCheckpoint(logPath), waits ? at(100) : undefined);
  });
}

test("Checkpointer.finish() writes what came last; stop() writes nothing more", async (t) => {
  for (const way of ["finish", "stop"] as const) {
    const timers = fakeTimers(t);
    const { logPath, checkpointer } = makeCheckpointer(t, EMPTY_LOG, EMPTY_LOG);
    checkpointer.note(at(10));
    checkpointer.note(at(20));
    await checkpointer[way]();
    assert.equal(timers.at(-1)?.isCleared, true);
    assert.deepEqual(await readCheckpoint(logPath), way === "finish" ? at(20) : undefined);
    t.mock.restoreAll();
  }
});

test("Checkpointer writes nothing more, whatever comes, once the folder may be another process's", async (t) => {
  const timers = fakeTimers(t);
  const { logPath, checkpointer } = makeCheckpointer(t, EMPTY_LOG, EMPTY_LOG);
  checkpointer.note(at(10));
  checkpointer.leave();
  timers[0]?.goOff();
  checkpointer.note(at(2 * MIB_16));
  await checkpointer.finish();
  assert.equal(await readCheckpoint(logPath), undefined);
});

test("Checkpointer.finish() waits for a write under way, then writes what came after it", async (t) => {
  fakeTimers(t);
  const { logPath, checkpointer } = makeCheckpointer(t, EMPTY_LOG, EMPTY_LOG);
  checkpointer.note(at(MIB_16));
  checkpointer.note(at(MIB_16 + 1)); // while the first is being written
  await checkpointer.finish();
  assert.deepEqual(await readCheckpoint(logPath), at(MIB_16 + 1));
});

test("Checkpointer.finish() leaves a checkpoint alone that is right already", async (t) => {
  fakeTimers(t);
  const { logPath, checkpointer } = makeCheckpointer(t, EMPTY_LOG, EMPTY_LOG);
  checkpointer.note(at(MIB_16));
  await checkpointer.stop();
  const { ino, mtimeMs } = fs.statSync(checkpointPath(logPath));
  await checkpointer.finish();
  const after = fs.statSync(checkpointPath(logPath));
  assert.deepEqual([after.ino, after.mtimeMs], [ino, mtimeMs]);
});

test("Checkpointer writes one for an empty log that never had any", async (t) => {
  fakeTimers(t);
  const { logPath, checkpointer } = makeCheckpointer(t, EMPTY_LOG, undefined);
  await checkpointer.finish();
  assert.deepEqual(await readCheckpoint(logPath), EMPTY_LOG);
});

test("Checkpointer warns once while it cannot write, tries again, and warns anew after a success", async (t) => {
  const timers = fakeTimers(t);
  const { logPath, checkpointer } = makeCheckpointer(t, EMPTY_LOG, EMPTY_LOG);
  const warnings = collectWarnings(t);
  const folder = path.dirname(logPath);
  let bytes = 0;
  const occasion = async () => {
    checkpointer.note(at(++bytes));
    timers[0]?.goOff();
    await checkpointer.stop();
  };

  fs.renameSync(folder, `${folder}.away`);
  for (let time = 0; time < 3; time++) await occasion();
  assert.equal(warnings.length, 1);

  fs.renameSync(`${folder}.away`, folder);
  await occasion();
  assert.deepEqual(await readCheckpoint(logPath), at(4));
  assert.equal(warnings.length, 1);

  fs.renameSync(folder, `${folder}.away`);
  for (let time = 0; time < 3; time++) await occasion();
  assert.equal(warnings.length, 2);
  fs.renameSync(`${folder}.away`, folder);
});

test("Checkpointer that cannot write tries once in 16 MiB, whatever is appended; a clean stop tries once more; it heals by itself", async (t) => {
  const timers = fakeTimers(t);
  const { logPath, checkpointer } = makeCheckpointer(t, EMPTY_LOG, EMPTY_LOG);
  const folder = path.dirname(logPath);
  const opens = t.mock.method(fsPromises, "open"); // counts, and opens all the same
  const attempts = () => opens.mock.calls.filter(({ arguments: [at] }) => at === newPath).length;
  const newPath = `${checkpointPath(logPath)}.new`;
  const batches = async (from: number) => {
    for (let batch = 0; batch < 200; batch++) {
      checkpointer.note(at(from + batch));
      await checkpointer.stop(); // waits for an attempt, so that the next batch could make another
    }
  };

  fs.renameSync(folder, `${folder}.away`);
  await batches(MIB_16);
  assert.equal(attempts(), 1);
  await batches(2 * MIB_16);
  assert.equal(attempts(), 2);
  timers[0]?.goOff();
  await checkpointer.stop();
  assert.equal(attempts(), 3, "after 10 s of quiet");
  await checkpointer.finish();
  assert.equal(attempts(), 4, "at a clean stop");

  fs.renameSync(`${folder}.away`, folder);
  await batches(4 * MIB_16);
  assert.equal(attempts(), 5);
  assert.deepEqual(await readCheckpoint(logPath), at(4 * MIB_16));
});
