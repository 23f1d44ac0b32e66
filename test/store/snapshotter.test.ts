import assert from "node:assert/strict";
import fs from "node:fs";
import fsPromises from "node:fs/promises";
import { dirname } from "node:path";
import { type TestContext, test } from "node:test";
import timers from "node:timers/promises";
import { type Checkpoint, writeCheckpoint } from "../../src/log/checkpoint.ts";
import type { LogFile } from "../../src/log/file.ts";
import { IdIndex } from "../../src/store/id-index.ts";
import { readSnapshot, snapshotPath } from "../../src/store/index-snapshot.ts";
import { Snapshotter, type SnapshotterOptions } from "../../src/store/snapshotter.ts";
import { StoreIndex } from "../../src/store/store-index.ts";
import { openLog } from "../support/logs.ts";
import { collectWarnings, TIMEOUT, until } from "../support/watch.ts";

/** So short that a test need not write much. */
const BYTES_MIN = 100;
/** Of every record here. */
const RECORD_BYTES = 10;

interface Trial {
  readonly file: LogFile;
  readonly snapshotter: Snapshotter;
  /** How often a copy of the index was begun. */
  begun(): number;
  /** How many copies are done with, whatever became of them. */
  ended(): number;
  /** Lets the log be so long, with an id for every record. */
  growTo(bytes: number): void;
  /** The length that the snapshot on disk covers; `undefined` where there is none. */
  covered(): Promise<number | undefined>;
}

async function start(
  t: TestContext,
  bytes: number,
  options: Partial<SnapshotterOptions> = {},
): Promise<Trial> {
  const file = await openLog(t, Buffer.alloc(20_000, "x"));
  const index = new IdIndex();
  let ids = 0;
  const addUpTo = (count: number) => {
    for (; ids < count; ids++) index.add(BigInt(ids), ids * RECORD_BYTES);
  };
  const at = (length: number): Checkpoint => ({
    bytes: length,
    records: Math.floor(length / RECORD_BYTES),
    crc32: length,
  });
  addUpTo(at(bytes).records);
  await writeCheckpoint(file.path, at(20_000));
  let ended = 0;
  const begin = index.beginCopy.bind(index);
  const beginCopy = t.mock.method(index, "beginCopy", (bytes: number) => {
    const copy = begin(bytes);
    const end = copy.end.bind(copy);
    t.mock.method(copy, "end", () => {
      ended++;
      end();
    });
    return copy;
  });
  const snapshotter = new Snapshotter({
    file,
    index: new StoreIndex(index),
    end: { ...at(bytes), line: at(bytes).records + 3 },
    coveredBytes: bytes,
    bytesMin: BYTES_MIN,
    saveCheckpoint: async () => {},
    ...options,
  });
  return {
    file,
    snapshotter,
    begun: () => beginCopy.mock.callCount(),
    ended: () => ended,
    growTo: (length) => {
      addUpTo(at(length).records);
      snapshotter.note(at(length));
    },
    covered: async () => {
      const found = await readSnapshot(file, at(20_000));
      if (found === undefined) return undefined;
      const { end } = found;
      assert.deepEqual(end, { ...at(end.bytes), line: at(end.bytes).records + 3 });
      assert.equal(found.index.size, end.records);
      return end.bytes;
    },
  };
}

/** A write in the background begins in the turn after the one that it was due in. */
async function turn(): Promise<void> {
  for (let count = 0; count < 3; count++) await new Promise(setImmediate);
}

function untilWritten({ file }: Trial): Promise<void> {
  return until("it is there", () => fs.existsSync(snapshotPath(file.path)));
}

const GROWTHS: readonly [covered: number, length: number, isDue: boolean][] = [
  [0, 100, false],
  [0, 390, false],
  [0, 400, true],
  [400, 790, false],
  [400, 800, true],
  [6000, 7990, false],
  [6000, 8000, true],
];

for (const [covered, length, isDue] of GROWTHS) {
  test(`a snapshot of ${covered} bytes is ${isDue ? "written anew" : "good enough"} at ${length}`, async (t) => {
    const trial = await start(t, covered);
    trial.growTo(length);
    await turn();
    assert.equal(trial.begun(), isDue ? 1 : 0);
    if (isDue) await untilWritten(trial);
    assert.equal(await trial.covered(), isDue ? length : undefined);
  });
}

test("a log that was read whole gets its snapshot without waiting for it to grow", async (t) => {
  const trial = await start(t, 400, { coveredBytes: 0 });
  await untilWritten(trial);
  assert.equal(await trial.covered(), 400);
});

const STOPS: readonly [covered: number, length: number, isWritten: boolean][] = [
  [0, 90, false],
  [0, 100, true],
  [0, 390, true],
  [6000, 6090, false],
  [6000, 6100, true],
];

for (const [covered, length, isWritten] of STOPS) {
  test(`a stop at ${length} bytes, of which ${covered} are covered, writes ${isWritten ? "one" : "none"}`, async (t) => {
    const trial = await start(t, covered);
    trial.growTo(length);
    await trial.snapshotter.finish();
    assert.equal(await trial.covered(), isWritten ? length : undefined);
  });
}

test("a stop ends a write under way and writes what came last", async (t) => {
  const saves: number[] = [];
  let isHeld = true;
  const trial = await start(t, 0, {
    saveCheckpoint: async (bytes) => {
      saves.push(bytes);
      while (isHeld) await turn();
    },
  });
  trial.growTo(400);
  await until("it is being written", () => saves.length === 1);
  trial.growTo(900); // not another one beside it
  await turn();
  assert.equal(trial.begun(), 1);
  isHeld = false;
  await trial.snapshotter.finish();
  assert.equal(saves.at(-1), 900);
  assert.equal(await trial.covered(), 900);
});

test("after a stop nothing is written any more", async (t) => {
  const trial = await start(t, 0);
  await trial.snapshotter.finish();
  trial.growTo(2000);
  await turn();
  assert.equal(trial.begun(), 0);
});

test("a snapshot that is discarded is gone for good, also one that is being written", async (t) => {
  const trial = await start(t, 0);
  trial.growTo(400);
  await untilWritten(trial);
  await until("the next one is begun", () => {
    trial.growTo(800); // which counts only once the first has ended
    return trial.begun() === 2;
  });
  await trial.snapshotter.discard();
  trial.growTo(2000);
  await turn();
  const names = fs.readdirSync(dirname(trial.file.path));
  assert.deepEqual(
    names.filter((name) => name.includes("index")),
    [],
  );
});

test("no snapshot is written while the index has other ids than the log that is vouched for", async (t) => {
  const trial = await start(t, 0);
  const warnings = collectWarnings(t);
  trial.snapshotter.note({ bytes: 500, records: 50, crc32: 1 });
  await turn();
  await trial.snapshotter.finish();
  assert.equal(trial.begun(), 0);
  assert.deepEqual(warnings, []);
});

test("a snapshot behind an end that was put in order counts lines and ids from there", async (t) => {
  const trial = await start(t, 0);
  trial.snapshotter.rebase({ bytes: 30, records: 0, crc32: 1, line: 6 }); // blanked lines
  trial.snapshotter.note({ bytes: 430, records: 0, crc32: 2 });
  await trial.snapshotter.finish();
  const found = await readSnapshot(trial.file, { bytes: 20_000, records: 0, crc32: 0 });
  assert.deepEqual(found?.end, { bytes: 430, records: 0, crc32: 2, line: 6 });
});

/** Has every copy of the index be overtaken, until what is returned is called. */
function overtakeCopies(t: TestContext): () => void {
  const { beginCopy } = IdIndex.prototype;
  let isBurst = true;
  t.mock.method(IdIndex.prototype, "beginCopy", function (this: IdIndex, limit: number) {
    const copy = beginCopy.call(this, limit);
    if (isBurst) copy.giveUp(); // as the index does where too many are added
    return copy;
  });
  return () => {
    isBurst = false;
  };
}

test("a copy that a burst of creates overtook is no fault, and is made again before the log is a tenth longer", async (t) => {
  const endBurst = overtakeCopies(t);
  const warnings = collectWarnings(t);
  const trial = await start(t, 6000);
  trial.growTo(8000);
  await until("it is given up", () => trial.ended() === 1);
  await turn();
  endBurst();
  trial.growTo(8600);
  await turn();
  assert.equal(trial.begun(), 1);
  await until("it is there", () => {
    trial.growTo(8700);
    return fs.existsSync(snapshotPath(trial.file.path));
  });
  assert.equal(await trial.covered(), 8700);
  assert.deepEqual(warnings, []);
});

/** FAKE: a disk with less room than it takes, by a byte. A full one for real is in test/faults. */
function fillDisk(t: TestContext): () => void {
  const { statfs } = fsPromises;
  const { mock } = t.mock.method(fsPromises, "statfs", async (path: string) => ({
    ...(await statfs(path)),
    bsize: 1,
    bavail: 2 * (32_768 * 13 + 16 + 512) - 1,
  }));
  return () => mock.restore();
}

test(
  "a copy that creates overtook is made again with twice as much of the time, up to all of it",
  TIMEOUT,
  async (t) => {
    const endBurst = overtakeCopies(t);
    const rests = watchRests(t);
    const trial = await start(t, 0);
    const attempt = async (length: number, attempts: number) => {
      trial.growTo(length);
      while (trial.ended() < attempts) await turn();
      await turn();
    };
    for (const [index, length] of [400, 800, 1200, 1600, 2000].entries()) {
      await attempt(length, index + 1);
    }
    assert.deepEqual(rests, [9, 4, 1.5, 0.25]); // a tenth, and in the end no rest
    endBurst();
    await attempt(2600, 6);
    assert.equal(await trial.covered(), 2600);
    await attempt(5000, 7);
    assert.deepEqual(rests.slice(4), [9]);
  },
);

/** FAKE: a page takes a millisecond. Returns how many were rested behind each. */
function watchRests(t: TestContext): readonly number[] {
  const rests: number[] = [];
  let now = 0;
  t.mock.method(performance, "now", () => ++now);
  t.mock.method(timers, "setTimeout", async (ms: number) => {
    rests.push(ms);
  });
  return rests;
}

test("a copy that was overtaken hides no fault of the disk, which is warned about once", async (t) => {
  const endBurst = overtakeCopies(t);
  const warnings = collectWarnings(t);
  const trial = await start(t, 0);
  const attempt = async (length: number, attempts: number) => {
    trial.growTo(length);
    await until("it has ended", () => trial.ended() === attempts);
    await turn();
  };
  const makeRoom = fillDisk(t);
  await attempt(400, 1);
  assert.equal(warnings.length, 1);
  makeRoom();
  await attempt(1200, 2); // overtaken alone
  endBurst();
  fillDisk(t);
  await attempt(2400, 3);
  assert.equal(warnings.length, 1);
});

const OBSTACLES: readonly [says: string, make: (t: TestContext, trial: Trial) => () => void][] = [
  [
    "there is a folder in its place",
    (_, { file }) => {
      const place = `${snapshotPath(file.path)}.new`;
      fs.mkdirSync(place);
      return () => fs.rmdirSync(place);
    },
  ],
  ["the disk has less than twice the room it takes", (t) => fillDisk(t)],
];

for (const [says, make] of OBSTACLES) {
  test(`where ${says}, that is warned about once and tried again as the log grows`, async (t) => {
    const warnings = collectWarnings(t);
    const trial = await start(t, 0);
    const remove = make(t, trial);
    for (const [attempt, length] of [400, 900, 1400].entries()) {
      trial.growTo(length);
      await until("it is tried", () => trial.begun() === attempt + 1);
      await until("it failed", () => trial.ended() === attempt + 1);
      await turn();
      assert.equal(warnings.length, 1);
      trial.growTo(length + 10); // not at once again
      await turn();
      assert.equal(trial.begun(), attempt + 1);
    }
    remove();
    assert.equal(await trial.covered(), undefined);
    await until("it is there", () => {
      trial.growTo(1900);
      return fs.existsSync(snapshotPath(trial.file.path));
    });
    assert.equal(await trial.covered(), 1900);
    assert.equal(warnings.length, 1);
  });
}
