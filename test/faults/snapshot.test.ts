/** The snapshot of the index in the life of a real server: stops, kills, and disks without room. */
import assert from "node:assert/strict";
import {
  existsSync,
  readdirSync,
  readFileSync,
  statfsSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { describe, type TestContext, test } from "node:test";
import { snapshotPath } from "../../src/store/index-snapshot.ts";
import { makeFolder } from "../support/folders.ts";
import { logPath, writeLog } from "../support/stores.ts";
import { TIMEOUT } from "../support/watch.ts";
import { canRun, canTrace, limit, mountSmallDisk, traced } from "./machine.ts";
import { assertGoesOn, assertKept, plant, startRefused, Trial } from "./trial.ts";

const AT_ONCE = { concurrency: 2, ...TIMEOUT };
const MIB = 1024 * 1024;
const NAME = "Fern".repeat(256);
/** A log so long that a stop leaves a snapshot. */
const PLANTS = 16_500;
/** What the check in the background reads at once, which is none of the start's. */
const CHECK_BYTES = 512 * 1024;

function writeLongLog(folder: string): void {
  writeLog(folder, Array.from({ length: PLANTS }, (_, id) => `${plant(id, NAME)}\n`).join(""));
  assert.ok(statSync(logPath(folder)).size > 16 * MIB);
}

/** A folder with a snapshot, after a clean stop. */
async function makeStopped(t: TestContext): Promise<string> {
  const folder = makeFolder(t);
  writeLongLog(folder);
  const trial = await Trial.start(t, { folder });
  assert.equal((await trial.stop()).status, 0);
  assert.ok(existsSync(snapshotPath(logPath(folder))));
  return folder;
}

function snapshotsIn(folder: string): string[] {
  return readdirSync(folder).filter((name) => name.includes(".index"));
}

/** What a start reads of the log: the first byte of it, and how many. */
async function traceStart(
  t: TestContext,
  folder: string,
  id: number,
): Promise<{ first: number; bytes: number }> {
  const calls = ["-P", logPath(folder), "-e", "trace=pread64"];
  const { wrapper, env, read } = traced(t, calls);
  const trial = await Trial.start(t, { folder, wrapper, env });
  assert.equal(await trial.create(id), 200);
  assert.equal((await trial.stop()).status, 0);
  const reads = [...read().matchAll(/, (\d+), (\d+)\) += \d+$/gm)]
    .map(([, length, offset]) => ({ length: Number(length), offset: Number(offset) }))
    .filter(({ length }) => length !== CHECK_BYTES);
  assert.ok(reads.length > 0);
  return {
    first: Math.min(...reads.map(({ offset }) => offset)),
    bytes: reads.reduce((sum, { length }) => sum + length, 0),
  };
}

describe("a snapshot of the index", AT_ONCE, () => {
  test("a start after a clean stop reads the end of the log alone, and all of it where the snapshot is torn", async (t) => {
    if (!canTrace(t)) return;
    const folder = await makeStopped(t);
    const { size } = statSync(logPath(folder));
    const quick = await traceStart(t, folder, 1_000_000);
    assert.ok(quick.first >= size - 3 * MIB, `from byte ${quick.first} of ${size}`);
    assert.ok(quick.bytes <= 8 * MIB, `${quick.bytes} bytes`);
    writeFileSync(snapshotPath(logPath(folder)), "torn");
    const slow = await traceStart(t, folder, 1_000_001);
    assert.equal(slow.first, 0);
    assert.ok(slow.bytes >= size);
  });

  test("what came between a snapshot and a SIGKILL is there after the next start", async (t) => {
    const folder = await makeStopped(t);
    const before = readFileSync(snapshotPath(logPath(folder)));
    const trial = await Trial.start(t, { folder });
    await trial.createAll(Array.from({ length: 50 }, (_, n) => 1_000_000 + n));
    assert.equal((await trial.stop("SIGKILL")).signal, "SIGKILL");
    assert.ok(before.equals(readFileSync(snapshotPath(logPath(folder)))), "the older one");
    assert.equal(trial.acknowledged.length, 50);
    await assertGoesOn(t, folder, [...trial.acknowledged, plant(0, NAME), plant(PLANTS - 1, NAME)]);
  });

  test("a damage that a start did not see ends the server with status 1, and the next start with 3", async (t) => {
    const folder = await makeStopped(t);
    const log = readFileSync(logPath(folder));
    log[log.indexOf("Fern")] = "G".charCodeAt(0);
    const { atime, mtime } = statSync(logPath(folder));
    writeFileSync(logPath(folder), log);
    utimesSync(logPath(folder), atime, mtime); // a disk leaves no time behind
    const end = await (await Trial.start(t, { folder })).ended;
    assert.deepEqual([end.status, end.messages.length], [1, 1], end.messages.join("\n"));
    assert.ok(end.messages[0]?.includes(logPath(folder)));
    assert.equal(existsSync(snapshotPath(logPath(folder))), false);
    assert.equal((await startRefused(t, folder)).status, 3);
  });

  test("a stop whose snapshot grows beyond a limit ends well, warns once, and leaves nothing of it", async (t) => {
    if (!canRun(t, "prlimit", "--version")) return;
    const folder = makeFolder(t);
    writeLongLog(folder);
    const trial = await Trial.start(t, { folder });
    assert.equal(await trial.create(1_000_000), 200);
    limit(trial.pid, "--fsize=300000");
    const end = await trial.stop();
    assert.deepEqual([end.status, end.messages.length], [0, 1], end.messages.join("\n"));
    assert.match(end.messages[0] ?? "", /\bEFBIG\b/);
    assert.deepEqual(snapshotsIn(folder), []);
    await assertGoesOn(t, folder, trial.acknowledged);
  });

  test("where the disk has little room, the log keeps it: there is no snapshot, and creates go on", async (t) => {
    const folder = mountSmallDisk(t, "19m");
    if (folder === undefined) return;
    writeLongLog(folder);
    const trial = await Trial.start(t, { folder });
    const { bavail, bsize } = statfsSync(folder);
    writeFileSync(`${folder}/filler`, Buffer.alloc(bavail * bsize - 600_000)); // one page, not two
    assert.equal(await trial.create(1_000_000), 200);
    const end = await trial.stop();
    assert.deepEqual([end.status, end.messages.length], [0, 1], end.messages.join("\n"));
    assert.deepEqual(snapshotsIn(folder), []);
    assertKept(folder, trial.acknowledged);
  });
});
