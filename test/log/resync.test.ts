/**
 * Bytes that this process did not write are made durable. FAKE syncs fail here; real ones fail in
 * test/faults/start-sync.
 */

import assert from "node:assert/strict";
import fs from "node:fs";
import { type TestContext, test } from "node:test";
import { crc32 } from "node:zlib";
import {
  type Checkpoint,
  checkpointPath,
  EMPTY_LOG,
  encodeCheckpoint,
  isUnsynced,
  markSynced,
  markUnsynced,
  readCheckpoint,
  unsyncedPath,
} from "../../src/log/checkpoint.ts";
import { disk } from "../../src/log/disk.ts";
import type { LogFile } from "../../src/log/file.ts";
import { BATCH_BYTES_LIMIT } from "../../src/log/mend.ts";
import { makeDurable, newLogPath, rewriteLog, syncFound } from "../../src/log/resync.ts";
import { LogWriter } from "../../src/log/writer.ts";
import { MEDDLING, openLog } from "../support/logs.ts";

const LINES = '{"id":1}\n{"id":2}\n';

/** A line of this many bytes with its line feed; its content depends on its place. */
function lineOf(bytes: number, index: number): string {
  return `${String(index)
    .repeat(bytes)
    .slice(0, bytes - 1)}\n`;
}

function checkpointOf(content: string | Buffer): Checkpoint {
  return { bytes: content.length, records: 2, crc32: crc32(content) };
}

function failure(): Error {
  return Object.assign(new Error("EIO: i/o error, fdatasync"), { code: "EIO" });
}

/** Watches what is written over a log: from where, and all bytes together. */
function watchOverwrites(t: TestContext, file: LogFile) {
  const { mock } = t.mock.method(file, "overwrite");
  return {
    start: () => mock.calls[0]?.arguments[1],
    bytes: () => Buffer.concat(mock.calls.map(({ arguments: [bytes] }) => bytes)),
  };
}

/** The lines of a log, and where the rewrite of its last batch begins. */
const REWRITES: readonly [what: string, lengths: readonly number[], start: number][] = [
  ["one line", [10], 0],
  ["one blank line", [1], 0],
  ["a log of less than a batch", [10, 20, 30], 0],
  ["one line longer than a batch", [3 * BATCH_BYTES_LIMIT], 0],
  ["a last line that ends one batch after the start", [BATCH_BYTES_LIMIT - 7, 7, 5], 0],
  ["a last line one byte farther", [BATCH_BYTES_LIMIT - 7, 8, 5], 1],
  [
    "a log of many batches",
    [BATCH_BYTES_LIMIT, 100, BATCH_BYTES_LIMIT, 50, 5],
    BATCH_BYTES_LIMIT + 150,
  ],
  [
    "a long line after a long log",
    [3 * BATCH_BYTES_LIMIT, 2 * BATCH_BYTES_LIMIT],
    2 * BATCH_BYTES_LIMIT,
  ],
];

for (const [what, lengths, start] of REWRITES) {
  test(`the last batch is written again unchanged with ${what}`, async (t) => {
    const content = Buffer.from(lengths.map(lineOf).join(""));
    const file = await openLog(t, content);
    const written = watchOverwrites(t, file);
    const known = (earliest: number) => checkpointOf(content.subarray(0, earliest));
    await makeDurable(file, checkpointOf(content), known);
    assert.equal(written.start(), start);
    assert.equal(written.bytes().equals(content.subarray(start)), true);
    assert.equal(fs.readFileSync(file.path).equals(content), true);
  });
}

test("nothing is written to an empty log", async (t) => {
  const file = await openLog(t);
  const written = watchOverwrites(t, file);
  await makeDurable(file, EMPTY_LOG);
  assert.equal(written.start(), undefined);
});

test("the longest batch that a writer makes is written again whole", async (t) => {
  const file = await openLog(t, "before\n");
  const appends = t.mock.method(file, "append");
  const written = watchOverwrites(t, file);
  const writer = new LogWriter(file, {
    batchBytesMax: BATCH_BYTES_LIMIT,
    queueBytesMax: 16 * BATCH_BYTES_LIMIT,
    end: { ...EMPTY_LOG, bytes: 7 },
  });
  // A batch that is one byte short of full still takes a record of the greatest length.
  const records = ["a".repeat(BATCH_BYTES_LIMIT - 2), "b".repeat(3 * BATCH_BYTES_LIMIT)];
  await Promise.all(records.map((record) => writer.append(record)));
  await makeDurable(file, checkpointOf(fs.readFileSync(file.path)));
  assert.equal(appends.mock.callCount(), 1, "one batch");
  assert.ok((written.start() ?? Number.NaN) <= 7);
});

for (const [what, known] of [
  ["a checkpoint", true],
  ["no checkpoint", false],
] as const) {
  test(`a failed sync of a log with ${what} is remembered until the log was replaced by a copy`, async (t) => {
    const file = await openLog(t, LINES);
    const end = checkpointOf(LINES);
    if (known) fs.writeFileSync(checkpointPath(file.path), encodeCheckpoint(end));
    t.mock.method(file, "sync", () => Promise.reject(failure()), { times: 1 });
    await syncFound(file);
    assert.equal(isUnsynced(file.path), true);
    assert.equal(fs.existsSync(checkpointPath(file.path)), false);
    assert.deepEqual(await readCheckpoint(file.path), known ? end : undefined);

    const { ino } = fs.statSync(file.path);
    assert.equal(await makeDurable(file, end), true);
    assert.equal(fs.readFileSync(file.path, "utf8"), LINES);
    assert.notEqual(fs.statSync(file.path).ino, ino);
    assert.equal(isUnsynced(file.path), false);
    assert.deepEqual(await readCheckpoint(file.path), known ? end : undefined);
  });
}

test("a log whose last batch cannot be written is no log whose sync has failed", async (t) => {
  const file = await openLog(t, LINES);
  t.mock.method(file, "overwrite", () => Promise.reject(failure()));
  await assert.rejects(makeDurable(file, checkpointOf(LINES)), { code: "EIO" });
  assert.equal(isUnsynced(file.path), false);
});

test("a last batch of which the disk has other bytes is replaced by a copy (fake page cache)", async (t) => {
  const file = await openLog(t, LINES);
  const cached = Buffer.from(LINES.replace("2", "7"));
  t.mock.method(file, "overwrite", async () => {});
  t.mock.method(file, "read", async (buffer: Buffer, position: number) =>
    cached.copy(buffer, 0, position),
  );
  assert.equal(await makeDurable(file, checkpointOf(cached)), true);
  assert.equal(fs.readFileSync(file.path, "utf8"), cached.toString());
});

test("a log that can neither be synced nor copied is unsynced, and a later start copies it", async (t) => {
  const file = await openLog(t, LINES);
  const end = checkpointOf(LINES);
  t.mock.method(file, "sync", () => Promise.reject(failure()), { times: 1 });
  fs.mkdirSync(newLogPath(file.path));
  fs.writeFileSync(`${newLogPath(file.path)}/in-the-way`, "");
  await assert.rejects(makeDurable(file, end), { code: "unsynced" });
  assert.equal(isUnsynced(file.path), true);

  fs.rmSync(newLogPath(file.path), { recursive: true });
  assert.equal(await makeDurable(file, end), true);
  assert.equal(isUnsynced(file.path), false);
});

test("a checkpoint that was written beside the mark of a failed sync stays when the log was replaced", async (t) => {
  const file = await openLog(t, LINES);
  const end = checkpointOf(LINES);
  fs.writeFileSync(checkpointPath(file.path), encodeCheckpoint(end));
  fs.writeFileSync(unsyncedPath(file.path), ""); // of a repair that was killed
  await rewriteLog(file, end);
  assert.deepEqual(await readCheckpoint(file.path), end);
  assert.equal(isUnsynced(file.path), false);
});

test("bytes that another program appends are no sign of a failed sync", async (t) => {
  const file = await openLog(t, LINES);
  const { sync } = file;
  t.mock.method(file, "sync", async () => {
    await sync.call(file);
    fs.appendFileSync(file.path, '{"id":3}\n');
  });
  await makeDurable(file, checkpointOf(LINES));
  assert.equal(isUnsynced(file.path), false);
});

test("a last batch that the disk does not hold is replaced by a copy (fake disk)", async (t) => {
  const file = await openLog(t, LINES);
  t.mock.method(disk, "holds", async () => false);
  assert.equal(await makeDurable(file, checkpointOf(LINES)), true);
});

test("a failed sync that cannot be remembered is no start", async (t) => {
  const file = await openLog(t, LINES);
  fs.mkdirSync(unsyncedPath(file.path));
  t.mock.method(file, "sync", () => Promise.reject(failure()));
  await assert.rejects(syncFound(file), { code: "unsynced" });
});

test("bytes that were evicted, and are others when they are read again, leave the log unsynced", async (t) => {
  const file = await openLog(t, LINES);
  const before = LINES.replace("1", "7");
  await assert.rejects(rewriteLog(file, checkpointOf(before)), { code: "unsynced" });
  assert.equal(fs.readFileSync(file.path, "utf8"), LINES);
  assert.equal(fs.existsSync(newLogPath(file.path)), false);
});

test("what follows the lines of a log is copied, too", async (t) => {
  const file = await openLog(t, `${LINES}torn`);
  await rewriteLog(file, checkpointOf(LINES));
  assert.equal(fs.readFileSync(file.path, "utf8"), `${LINES}torn`);
});

for (const [what, meddle] of Object.entries(MEDDLING)) {
  test(`a log that another process has ${what} is not written again`, async (t) => {
    const file = await openLog(t, LINES);
    meddle(file.path);
    const content = fs.readFileSync(file.path, "utf8");
    const end = checkpointOf(LINES);
    await assert.rejects(makeDurable(file, end), { code: "locked" });
    await assert.rejects(rewriteLog(file, end), { code: "locked" });
    assert.equal(fs.readFileSync(file.path, "utf8"), content);
    assert.equal(isUnsynced(file.path), false);
  });
}

test("a log without a checkpoint that is synced again leaves no file beside it", async (t) => {
  const file = await openLog(t, LINES);
  await markUnsynced(file.path);
  markSynced(file.path);
  assert.equal(fs.existsSync(checkpointPath(file.path)), false);
  assert.equal(isUnsynced(file.path), false);
});

test("a last batch that is read otherwise than before is not served", async (t) => {
  const file = await openLog(t, LINES);
  const end = checkpointOf(LINES.replace("1", "2"));
  await assert.rejects(makeDurable(file, end), { code: "io_error" });
  assert.equal(isUnsynced(file.path), false, "the next start reads it again");
});
