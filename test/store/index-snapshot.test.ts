import assert from "node:assert/strict";
import fs from "node:fs";
import { type TestContext, test } from "node:test";
import { crc32 } from "node:zlib";
import { type Checkpoint, writeCheckpoint } from "../../src/log/checkpoint.ts";
import { LogFile } from "../../src/log/file.ts";
import { SEED_BYTES } from "../../src/store/id-hash.ts";
import { IdIndex } from "../../src/store/id-index.ts";
import {
  type IndexSnapshot,
  type LogEnd,
  readSnapshot,
  removeSnapshot,
  type SnapshotParts,
  snapshotPath,
  warnOfSnapshot,
  writeSnapshot,
} from "../../src/store/index-snapshot.ts";
import { openLog } from "../support/logs.ts";
import { collectWarnings } from "../support/watch.ts";

const PAGE_BYTES = 32_768 * 13;
/** More than a mebibyte of log, so that not all of it is compared. */
const LINE = `{"id":1,"name":"${"x".repeat(40)}"}\n`;
const RECORDS = 30_000;

/** An index in the middle of a move: two pages of the old table, one of the new. */
function makeIndex(): IdIndex {
  const index = new IdIndex(0, new Uint8Array(SEED_BYTES).fill(3));
  for (let n = 0; n < 31_500; n++) index.add(BigInt(n) << 20n, n * 40);
  return index;
}

interface Written {
  readonly file: LogFile;
  readonly index: IdIndex;
  readonly end: LogEnd;
  readonly path: string;
  write(parts?: Partial<SnapshotParts>): Promise<void>;
  read(checkpoint?: Checkpoint): Promise<IndexSnapshot | undefined>;
}

/** A log and its snapshot; what the lines of the log say counts for nothing here. */
async function makeSnapshot(t: TestContext): Promise<Written> {
  const content = LINE.repeat(RECORDS);
  const file = await openLog(t, `${content}{"id":2`);
  const end = { bytes: content.length, records: RECORDS, crc32: crc32(content), line: 77 };
  const index = makeIndex();
  const write = async (parts: Partial<SnapshotParts> = {}) => {
    const copy = index.beginCopy(end.bytes);
    const nothing = async () => {};
    const size = index.size;
    try {
      await writeSnapshot(file, {
        copy,
        end,
        size,
        rest: nothing,
        saveCheckpoint: nothing,
        ...parts,
      });
    } finally {
      copy.end();
    }
  };
  await write();
  const read = (checkpoint: Checkpoint = end) => readWhole(file, checkpoint);
  return { file, index, end, path: snapshotPath(file.path), write, read };
}

/** As a start reads it that needs all of it. */
async function readWhole(
  file: LogFile,
  checkpoint: Checkpoint,
): Promise<IndexSnapshot | undefined> {
  const found = await readSnapshot(file, checkpoint);
  try {
    await found?.pages.readAll();
    return found;
  } catch (cause) {
    warnOfSnapshot(file, cause);
    return undefined;
  }
}

function assertSame(found: IndexSnapshot | undefined, { index, end }: Written): void {
  assert.deepEqual(found?.end, end);
  assert.equal(found?.index.size, index.size);
  for (let n = 0; n < 32_000; n++) {
    assert.equal(found?.index.get(BigInt(n) << 20n), index.get(BigInt(n) << 20n));
  }
}

test("a snapshot gives the index back as it was, and where in the log that was", async (t) => {
  const written = await makeSnapshot(t);
  const warnings = collectWarnings(t);
  assertSame(await written.read(), written);
  assert.deepEqual(warnings, []);
  assert.equal(fs.statSync(written.path).mode & 0o777, 0o600);
  assert.equal(fs.statSync(written.path).size, 3 * (PAGE_BYTES + 16) + 512);
});

test("a snapshot of an index that holds nothing is one too", async (t) => {
  const file = await openLog(t, "\n\n");
  const end = { bytes: 2, records: 0, crc32: crc32("\n\n"), line: 3 };
  const copy = new IdIndex().beginCopy(2);
  const nothing = async () => {};
  await writeSnapshot(file, { copy, end, size: 0, rest: nothing, saveCheckpoint: nothing });
  await writeCheckpoint(file.path, end);
  const found = await readWhole(file, end);
  assert.deepEqual([found?.index.size, found?.end], [0, end]);
});

/** Of so many pages that they are read in several goes. */
async function makeLong(t: TestContext): Promise<Pick<Written, "file" | "end">> {
  const file = await openLog(t, LINE.repeat(RECORDS));
  const end = { bytes: LINE.length * RECORDS, records: RECORDS, crc32: 1, line: 1 };
  const index = new IdIndex(800_000);
  for (let n = 0; n < RECORDS; n++) index.add(BigInt(n), n);
  const copy = index.beginCopy(end.bytes);
  const nothing = async () => {};
  await writeSnapshot(file, { copy, end, size: RECORDS, rest: nothing, saveCheckpoint: nothing });
  await writeCheckpoint(file.path, end);
  return { file, end };
}

test("what is told while a snapshot is read rises up to all of it", async (t) => {
  const { file, end } = await makeLong(t);
  const told: number[] = [];
  const found = await readSnapshot(file, end);
  await found?.pages.readAll((share) => told.push(share));
  assert.equal(found?.index.size, RECORDS);
  assert.ok(told.length > 2);
  assert.deepEqual(
    told,
    told.toSorted((a, b) => a - b),
  );
  assert.equal(told.at(-1), 1);
});

test("whoever is told while a snapshot is read may end that, once", async (t) => {
  const { file, end } = await makeLong(t);
  const enough = new Error("enough");
  let told = 0;
  const giveUp = () => {
    told++;
    throw enough;
  };
  const { pages } = (await readSnapshot(file, end)) as IndexSnapshot;
  await assert.rejects(pages.readAll(giveUp), (error) => error === enough);
  await new Promise(setImmediate);
  assert.equal(told, 1);
  assert.equal((await readWhole(file, end))?.index.size, RECORDS);
});

test("the log may grow behind a snapshot, and its checkpoint too", async (t) => {
  const written = await makeSnapshot(t);
  fs.appendFileSync(written.file.path, `,"name":"b"}\n${LINE}`);
  const { bytes, records } = written.end;
  assertSame(await written.read({ bytes: bytes + 20, records: records + 1, crc32: 1 }), written);
});

test("a snapshot without a checkpoint that knows as much is left aside", async (t) => {
  const { file, end } = await makeSnapshot(t);
  for (const checkpoint of [undefined, { ...end, bytes: end.bytes - 1 }]) {
    assert.equal(await readSnapshot(file, checkpoint), undefined);
  }
  assert.notEqual(await readSnapshot(file, { ...end, bytes: end.bytes + 1 }), undefined);
});

/** What makes a snapshot say nothing about this log; none of it is damage. */
const FOREIGN: readonly [says: string, make: (written: Written) => void][] = [
  ["that is missing", ({ path }) => fs.rmSync(path)],
  ["that is empty", ({ path }) => fs.truncateSync(path)],
  [
    "of another version",
    ({ path }) => rewriteFooter(path, (text) => text.replace('"version":1', '"version":2')),
  ],
  [
    "of a log with another inode",
    ({ path }) => rewriteFooter(path, (text) => text.replace(/"inode":"\d/, '"inode":"')),
  ],
  ["of a log that was cut", ({ file, end }) => fs.truncateSync(file.path, end.bytes - 1)],
  ["of a log whose last MiB has another byte at its start", changeAt(-1024 * 1024)],
  ["of a log that has another last byte", changeAt(-1)],
];

for (const [says, make] of FOREIGN) {
  test(`a snapshot ${says} is left aside in silence`, async (t) => {
    const written = await makeSnapshot(t);
    const warnings = collectWarnings(t);
    assertSame(await written.read(), written);
    make(written);
    assert.equal(await written.read(), undefined);
    assert.deepEqual(warnings, []);
  });
}

/** Another byte in the log, so far from the snapshot's end. */
function changeAt(distance: number): (written: Written) => void {
  return ({ file, end }) => overwrite(file.path, end.bytes + distance, Buffer.from("#"));
}

function overwrite(path: string, position: number, bytes: Buffer): void {
  const fd = fs.openSync(path, "r+");
  fs.writeSync(fd, bytes, 0, bytes.length, position);
  fs.closeSync(fd);
}

/** Puts another footer there, with the right checksum. */
function rewriteFooter(path: string, change: (text: string) => string): void {
  const bytes = fs.readFileSync(path);
  const text = bytes.toString("latin1", bytes.length - 512, bytes.length - 9);
  const changed = change(text).padEnd(text.length);
  assert.notEqual(changed, text);
  const check = `${crc32(changed).toString(16).padStart(8, "0")}\n`;
  overwrite(path, bytes.length - 512, Buffer.from(changed + check));
}

test("a copy of a folder has no snapshot that counts, because the log is another file", async (t) => {
  const written = await makeSnapshot(t);
  const copied = `${written.file.path}.copy`;
  fs.copyFileSync(written.file.path, copied);
  fs.copyFileSync(written.path, snapshotPath(copied));
  const file = await LogFile.open(copied);
  t.after(() => file.close());
  assert.equal(await readSnapshot(file, written.end), undefined);
});

test("a snapshot that was cut short anywhere is left aside", async (t) => {
  const written = await makeSnapshot(t);
  const { size } = fs.statSync(written.path);
  const whole = fs.readFileSync(written.path);
  const cuts = [1, 2, 8, 9, 10, 511, 512, 513, 560, 561, 600].map((bytes) => size - bytes);
  for (let page = 0; page < 3; page++) cuts.push(page * PAGE_BYTES, page * PAGE_BYTES + 1);
  for (const length of cuts) {
    fs.truncateSync(written.path, length);
    assert.equal(await written.read(), undefined, `${length} bytes`);
    // A power cut may also leave the length, and zeros.
    fs.truncateSync(written.path, size);
    assert.equal(await written.read(), undefined, `${length} bytes, then zeros`);
    fs.writeFileSync(written.path, whole);
  }
  fs.appendFileSync(written.path, "x");
  assert.equal(await written.read(), undefined);
});

test("a snapshot with a changed bit anywhere is left aside, with a warning where it is this log's", async (t) => {
  const written = await makeSnapshot(t);
  const warnings = collectWarnings(t);
  const whole = fs.readFileSync(written.path);
  const directoryAt = 3 * PAGE_BYTES;
  const places: number[] = [];
  for (let place = 0; place < directoryAt; place += 31_337) places.push(place);
  for (let page = 1; page <= 3; page++) places.push(page * PAGE_BYTES - 1, page * PAGE_BYTES);
  for (let place = directoryAt; place < directoryAt + 48; place += 5) places.push(place);
  for (const [n, place] of places.entries()) {
    overwrite(written.path, place, Buffer.of((whole[place] ?? 0) ^ (1 << (n % 8))));
    assert.equal(await written.read(), undefined, `byte ${place}`);
    assert.equal(warnings.length, n + 1, `byte ${place}`);
    overwrite(written.path, place, whole.subarray(place, place + 1));
  }
  for (let place = directoryAt + 48; place < whole.length; place++) {
    overwrite(written.path, place, Buffer.of((whole[place] ?? 0) ^ (1 << (place % 8))));
    assert.equal(await written.read(), undefined, `byte ${place}`);
    overwrite(written.path, place, whole.subarray(place, place + 1));
  }
  assertSame(await written.read(), written);
});

test("a page that stands in the place of another one is left aside", async (t) => {
  const written = await makeSnapshot(t);
  const whole = fs.readFileSync(written.path);
  overwrite(written.path, PAGE_BYTES, whole.subarray(0, PAGE_BYTES));
  assert.equal(await written.read(), undefined);
});

test("a folder in the place of a snapshot is warned about and left aside", async (t) => {
  const written = await makeSnapshot(t);
  fs.rmSync(written.path);
  fs.mkdirSync(written.path);
  const warnings = collectWarnings(t);
  assert.equal(await written.read(), undefined);
  assert.equal(warnings.length, 1);
});

const FAILURES: readonly [says: string, parts: (written: Written) => Partial<SnapshotParts>][] = [
  ["cannot be written to its end", () => ({ rest: () => Promise.reject(new Error("the end")) })],
  ["has no checkpoint", () => ({ saveCheckpoint: () => Promise.reject(new Error("no room")) })],
  ["lacks an id", ({ index }) => ({ size: index.size + 1 })],
  ["holds one too many", ({ index }) => ({ size: index.size - 1 })],
  [
    "falls behind the store",
    ({ index, end }) => ({
      rest: async () => {
        for (let n = 0; n < 3000; n++) index.add(BigInt(n) - 3000n, end.bytes + n);
      },
    }),
  ],
];

for (const [says, parts] of FAILURES) {
  test(`a snapshot that ${says} leaves the one before it, and nothing else`, async (t) => {
    const written = await makeSnapshot(t);
    const before = fs.readFileSync(written.path);
    await assert.rejects(written.write(parts(written)));
    assert.ok(before.equals(fs.readFileSync(written.path)));
    assert.equal(fs.existsSync(`${written.path}.new`), false);
  });
}

test("the checkpoint is on disk before the snapshot has its name", async (t) => {
  const written = await makeSnapshot(t);
  await removeSnapshot(written.file.path);
  let wasThere: boolean | undefined;
  await written.write({
    saveCheckpoint: async () => {
      wasThere = fs.existsSync(written.path);
    },
  });
  assert.equal(wasThere, false);
  assertSame(await written.read(), written);
});

test("what a kill left of a snapshot goes with the next one", async (t) => {
  const written = await makeSnapshot(t);
  const left = `${written.path}.new`;
  fs.writeFileSync(left, "x".repeat(5_000_000));
  await written.write();
  assertSame(await written.read(), written);
  assert.equal(fs.existsSync(left), false);
});

test("a snapshot can be removed, and removed again", async (t) => {
  const written = await makeSnapshot(t);
  for (let time = 0; time < 2; time++) await removeSnapshot(written.file.path);
  assert.equal(fs.existsSync(written.path), false);
});
