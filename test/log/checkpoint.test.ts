import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { crc32 } from "node:zlib";
import fc from "fast-check";
import { clock } from "../../src/clock.ts";
import type { Timer } from "../../src/core/services.ts";
import {
  type Checkpoint,
  Checkpointer,
  checkpointPath,
  EMPTY_LOG,
  encodeCheckpoint,
  extendCheckpoint,
  newCheckpointPath,
  readCheckpoint,
  writeCheckpoint,
} from "../../src/log/checkpoint.ts";
import { disk } from "../../src/log/disk.ts";
import { makeFolder } from "../support/folders.ts";
import { collectWarnings } from "../support/watch.ts";

const SOME: Checkpoint = { bytes: 1234, records: 56, crc32: 0x0a0b0c0d };

function logIn(t: TestContext): string {
  return path.join(makeFolder(t), "test.jsonl");
}

/** The result of reading a checkpoint file with these bytes. */
function decode(logPath: string, content: string | Buffer): Promise<Checkpoint | undefined> {
  fs.writeFileSync(checkpointPath(logPath), content);
  return readCheckpoint(logPath);
}

test("encodeCheckpoint() makes one line of JSON, whose last member is a checksum of the rest", () => {
  const line = encodeCheckpoint(SOME);
  assert.match(line, /^[^\n]+\n$/);
  const { check, ...members } = JSON.parse(line);
  assert.deepEqual(members, { bytes: 1234, records: 56, crc32: "0a0b0c0d" });
  const before = line.slice(0, line.indexOf(',"check"'));
  assert.equal(check, crc32(before).toString(16).padStart(8, "0"));
});

test("a checkpoint is read as it was written, with any numbers", async (t) => {
  const logPath = logIn(t);
  const any = fc.record({
    bytes: fc.integer({ min: 0, max: 2 ** 40 }),
    records: fc.integer({ min: 0, max: 2 ** 36 }),
    crc32: fc.integer({ min: 0, max: 2 ** 32 - 1 }),
  });
  await fc.assert(
    fc.asyncProperty(any, async (checkpoint) => {
      assert.deepEqual(await decode(logPath, encodeCheckpoint(checkpoint)), { ...checkpoint });
    }),
  );
  await writeCheckpoint(logPath, SOME);
  assert.deepEqual(await readCheckpoint(logPath), SOME);
  assert.equal(fs.readFileSync(checkpointPath(logPath), "utf8"), encodeCheckpoint(SOME));
});

test("a checkpoint with any bit flipped is ignored", async (t) => {
  const logPath = logIn(t);
  const whole = Buffer.from(encodeCheckpoint(SOME));
  for (let at = 0; at < whole.length; at++) {
    for (let bit = 0; bit < 8; bit++) {
      const flipped = Buffer.from(whole);
      flipped[at] = (whole[at] ?? 0) ^ (1 << bit);
      assert.equal(await decode(logPath, flipped), undefined, `byte ${at}, bit ${bit}`);
    }
  }
});

test("a checkpoint that is torn at any byte is ignored, without an error", async (t) => {
  const logPath = logIn(t);
  const whole = encodeCheckpoint(SOME);
  for (let length = 0; length < whole.length; length++) {
    assert.equal(await decode(logPath, whole.slice(0, length)), undefined, `${length} bytes`);
    const padded = whole.slice(0, length).padEnd(whole.length, "\0");
    assert.equal(await decode(logPath, padded), undefined, `${length} bytes, then NULs`);
  }
});

const FOREIGN: readonly [says: string, content: string][] = [
  ["white space", " \n"],
  ["an empty object", "{}\n"],
  ["another JSON document", '{"bytes":1,"records":1,"crc32":"00000000"}\n'],
  ["two lines", encodeCheckpoint(SOME).repeat(2)],
  ["a line that an editor ended with CRLF", encodeCheckpoint(SOME).replace("\n", "\r\n")],
  ["a line after a byte order mark", `\ufeff${encodeCheckpoint(SOME)}`],
  ["a negative length with a right check", withCheck('{"bytes":-1,"records":1,"crc32":"00000000"')],
  ["a fraction with a right check", withCheck('{"bytes":1.5,"records":1,"crc32":"00000000"')],
];

function withCheck(text: string): string {
  return `${text},"check":"${crc32(text).toString(16).padStart(8, "0")}"}\n`;
}

for (const [says, content] of FOREIGN) {
  test(`a checkpoint file that holds ${says} is ignored`, async (t) => {
    assert.equal(await decode(logIn(t), content), undefined);
  });
}

test("writeCheckpoint() replaces the last one, with mode 0600, and leaves no other file", async (t) => {
  const logPath = logIn(t);
  await writeCheckpoint(logPath, EMPTY_LOG);
  const first = fs.statSync(checkpointPath(logPath)).ino;
  await writeCheckpoint(logPath, SOME);
  assert.deepEqual(await readCheckpoint(logPath), SOME);
  const { ino, mode } = fs.statSync(checkpointPath(logPath));
  assert.equal(mode & 0o777, 0o600);
  assert.notEqual(ino, first, "never written in place");
  assert.deepEqual(fs.readdirSync(path.dirname(logPath)), ["test.jsonl.checkpoint"]);
});

test("writeCheckpoint() does not go on with what a killed process left", async (t) => {
  const logPath = logIn(t);
  fs.writeFileSync(newCheckpointPath(logPath), encodeCheckpoint(EMPTY_LOG).slice(0, 9));
  await writeCheckpoint(logPath, SOME);
  assert.deepEqual(await readCheckpoint(logPath), SOME);
});

test("writeCheckpoint() throws io_error for every obstacle", async (t) => {
  const obstacles: readonly ((logPath: string) => void)[] = [
    (logPath) => fs.rmSync(path.dirname(logPath), { recursive: true }),
    (logPath) => fs.mkdirSync(path.join(checkpointPath(logPath), "full"), { recursive: true }),
    (logPath) => fs.mkdirSync(`${checkpointPath(logPath)}.new`),
  ];
  for (const obstruct of obstacles) {
    const logPath = logIn(t);
    obstruct(logPath);
    await assert.rejects(writeCheckpoint(logPath, SOME), { code: "io_error" });
  }
});

test("extendCheckpoint() gives the same result however the bytes are split", () => {
  const anyBytes = fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes));
  fc.assert(
    fc.property(fc.array(anyBytes), (parts) => {
      let end = EMPTY_LOG;
      for (const part of parts) end = extendCheckpoint(end, part, 2);
      const bytes = Buffer.concat(parts);
      const whole = { bytes: bytes.length, records: 2 * parts.length, crc32: crc32(bytes) };
      assert.deepEqual(end, whole);
    }),
  );
});

const MIB_16 = 16 * 1024 * 1024;

/** The timer of a checkpointer, which fires when the test calls `goOff`. */
interface FakeTimer extends Timer {
  readonly delayMs: number;
  /** How often it was set or refreshed. */
  starts: number;
  isRefed: boolean;
  isCleared: boolean;
  goOff(): void;
}

/** FAKE timers. */
function fakeTimers(t: TestContext): readonly FakeTimer[] {
  const timers: FakeTimer[] = [];
  t.mock.method(clock, "setTimeout", (goOff: () => void, delayMs: number) => {
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
  t.mock.method(clock, "clearTimeout", (timer: Timer | undefined) => {
    if (timer !== undefined) (timer as FakeTimer).isCleared = true;
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
  mayWrite = () => true,
): { logPath: string; checkpointer: Checkpointer } {
  const logPath = path.join(makeFolder(t), "test.jsonl");
  return { logPath, checkpointer: new Checkpointer(logPath, latest, written, mayWrite) };
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
  test(`Checkpointer ${written} at ${to} bytes when the last one had ${from}`, async (t) => {
    fakeTimers(t);
    const { logPath, checkpointer } = makeCheckpointer(t, at(from), at(from));
    checkpointer.note(at(to));
    await checkpointer.idle();
    assert.deepEqual(await readCheckpoint(logPath), isDue ? at(to) : undefined);
  });
}

test("Checkpointer writes one after 10 s of quiet, and every note restarts the 10 s", async (t) => {
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
  await checkpointer.idle();
  assert.deepEqual(await readCheckpoint(logPath), at(30));
});

const STARTS: readonly [says: string, written: Checkpoint | undefined, waits: boolean][] = [
  ["is there", at(100), false],
  ["is missing", undefined, true],
  ["covers fewer bytes", at(99), true],
  ["has another checksum", at(100, 8), true],
];

for (const [says, written, waits] of STARTS) {
  test(`Checkpointer ${waits ? "waits for quiet" : "does nothing"} at a start whose checkpoint ${says}`, async (t) => {
    const timers = fakeTimers(t);
    const { logPath, checkpointer } = makeCheckpointer(t, at(100), written);
    assert.equal(timers.length, waits ? 1 : 0);
    timers[0]?.goOff();
    await checkpointer.idle();
    assert.deepEqual(await readCheckpoint(logPath), waits ? at(100) : undefined);
  });
}

test("Checkpointer.close() writes the latest state, and stops its timer", async (t) => {
  const timers = fakeTimers(t);
  const { logPath, checkpointer } = makeCheckpointer(t, EMPTY_LOG, EMPTY_LOG);
  checkpointer.note(at(10));
  checkpointer.note(at(20));
  await checkpointer.close();
  assert.equal(timers.at(-1)?.isCleared, true);
  assert.deepEqual(await readCheckpoint(logPath), at(20));
});

test("Checkpointer writes nothing more once another process may hold the folder", async (t) => {
  const timers = fakeTimers(t);
  let isHeld = true;
  const { logPath, checkpointer } = makeCheckpointer(t, EMPTY_LOG, EMPTY_LOG, () => isHeld);
  checkpointer.note(at(10));
  isHeld = false;
  timers[0]?.goOff();
  checkpointer.note(at(2 * MIB_16));
  await checkpointer.close();
  assert.equal(await readCheckpoint(logPath), undefined);
});

test("Checkpointer.close() waits for a write under way, then writes what came after it", async (t) => {
  fakeTimers(t);
  const { logPath, checkpointer } = makeCheckpointer(t, EMPTY_LOG, EMPTY_LOG);
  checkpointer.note(at(MIB_16));
  checkpointer.note(at(MIB_16 + 1)); // while the first is being written
  await checkpointer.close();
  assert.deepEqual(await readCheckpoint(logPath), at(MIB_16 + 1));
});

test("Checkpointer warns once while it cannot write, tries again, and warns again after a success", async (t) => {
  const timers = fakeTimers(t);
  const { logPath, checkpointer } = makeCheckpointer(t, EMPTY_LOG, EMPTY_LOG);
  const warnings = collectWarnings(t);
  const folder = path.dirname(logPath);
  let bytes = 0;
  const occasion = async () => {
    checkpointer.note(at(++bytes));
    timers[0]?.goOff();
    await checkpointer.idle();
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

test("Checkpointer that cannot write tries once per 16 MiB and at a clean stop, until it succeeds", async (t) => {
  const timers = fakeTimers(t);
  const { logPath, checkpointer } = makeCheckpointer(t, EMPTY_LOG, EMPTY_LOG);
  const folder = path.dirname(logPath);
  const opens = t.mock.method(disk, "openForChanges"); // counts, and opens all the same
  const attempts = () => opens.mock.calls.filter(({ arguments: [at] }) => at === newPath).length;
  const newPath = `${checkpointPath(logPath)}.new`;
  const batches = async (from: number) => {
    for (let batch = 0; batch < 200; batch++) {
      checkpointer.note(at(from + batch));
      await checkpointer.idle(); // waits for an attempt, so that the next batch could make another
    }
  };

  fs.renameSync(folder, `${folder}.away`);
  await batches(MIB_16);
  assert.equal(attempts(), 1);
  await batches(2 * MIB_16);
  assert.equal(attempts(), 2);
  timers[0]?.goOff();
  await checkpointer.idle();
  assert.equal(attempts(), 3, "after 10 s of quiet");
  await checkpointer.close();
  assert.equal(attempts(), 4, "at a clean stop");

  fs.renameSync(`${folder}.away`, folder);
  await batches(4 * MIB_16);
  assert.equal(attempts(), 5);
  assert.deepEqual(await readCheckpoint(logPath), at(4 * MIB_16));
});
