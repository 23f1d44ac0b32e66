/** A start that has something to put aside and no room for it. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import {
  appendFileSync,
  existsSync,
  readFileSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { type NewPlant, verifyLog } from "../../src/index.ts";
import { readCheckpoint } from "../../src/log/checkpoint.ts";
import { LogFile } from "../../src/log/file.ts";
import { makeFolder } from "../support/folders.ts";
import { readQuarantines } from "../support/snapshot.ts";
import { collect, logPath, openStore, readLog, writeLog } from "../support/stores.ts";
import { collectWarnings } from "../support/watch.ts";

const A = '{"id":1,"name":"a"}\n';
const B = '{"id":2,"name":"b"}';
const C = '{"id":3,"name":"c"}\n';
const LOST = `{"id":9,"na${"\0".repeat(1024)}"}\n`;
const PLANT_A: NewPlant = { id: 1n, name: "a" };
const PLANT_B: NewPlant = { id: 2n, name: "b" };
const PLANT_C: NewPlant = { id: 3n, name: "c" };

/** Lets the store's pause between two attempts pass at once. */
function passTime(t: TestContext): void {
  const now = performance.now() + 1001;
  t.mock.method(performance, "now", () => now);
}

/** A small file system of the test's own, where that is permitted. */
function mountSmall(t: TestContext): string | undefined {
  let folder = "";
  t.after(() => spawnSync("umount", ["-l", folder])); // before the folder is removed
  folder = makeFolder(t);
  const options = ["-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", folder];
  return spawnSync("mount", options).status === 0 ? folder : undefined;
}

/** Takes all the room there is; removing the file gives it back. */
function fill(folder: string): string {
  const filler = join(folder, "filler");
  const { bavail, bsize } = statfsSync(folder);
  writeFileSync(filler, Buffer.alloc(bavail * bsize, "x"));
  return filler;
}

interface Case {
  readonly says: string;
  readonly log: string;
  /** Before there is room, and after the first create behind that. */
  readonly known: readonly NewPlant[];
  readonly quarantined: string;
  readonly settled: string;
}

const CASES: readonly Case[] = [
  {
    says: "a torn end",
    log: `${A}{"id":2,"na`,
    known: [PLANT_A],
    quarantined: '{"id":2,"na',
    settled: A,
  },
  {
    says: "a line that lost pages, and plants behind it",
    log: `${A}${LOST}${C}${B}`,
    known: [PLANT_A],
    quarantined: LOST,
    settled: `${A}${" ".repeat(LOST.length - 1)}\n${C}${B}\n`,
  },
  {
    says: "a line that lost pages, and a torn end",
    log: `${LOST}${C}{"id":`,
    known: [],
    quarantined: `${LOST}{"id":`,
    settled: `${" ".repeat(LOST.length - 1)}\n${C}`,
  },
];

test("a store whose torn end waits for room fails when another process has written the log meanwhile", async (t) => {
  const folder = mountSmall(t);
  if (folder === undefined) {
    t.skip("needs the right to mount a tmpfs");
    return;
  }
  writeLog(folder, `${A}{"id":2,"na`);
  const filler = fill(folder);
  const store = await openStore(t, folder);
  rmSync(filler);
  appendFileSync(logPath(folder), 'me":"b"}\n'); // it was not torn: another process was writing it
  const log = readLog(folder);
  passTime(t);
  await assert.rejects(store.create(PLANT_C), { code: "store_failed" });
  assert.equal((await store.failed).code, "store_failed");
  assert.equal(readLog(folder), log);
});

for (const { says, log, known, quarantined, settled } of CASES) {
  test(`a start without room for the quarantine of ${says} serves replays, and settles once there is room`, async (t) => {
    const folder = mountSmall(t);
    if (folder === undefined) {
      t.skip("needs the right to mount a tmpfs");
      return;
    }
    writeLog(folder, log);
    const warnings = collectWarnings(t);
    const filler = fill(folder);

    const store = await openStore(t, folder);
    assert.equal(warnings.length, 1);
    assert.equal(readLog(folder), log, "left alone");
    assert.deepEqual(readQuarantines(folder), []);
    assert.deepEqual(await collect(store.list()), known);
    for (const plant of known) assert.equal(await store.create(plant), "replayed");
    const fresh = { id: 77n, name: "fresh" };
    for (let time = 0; time < 3; time++) {
      await assert.rejects(store.create(fresh), { code: "not_stored", retryAfterSeconds: 1 });
    }
    if (known.length > 0) {
      await assert.rejects(store.create({ id: 1n, name: "other" }), { code: "conflict" });
    }
    assert.equal(readLog(folder), log);

    rmSync(filler);
    passTime(t);
    const creates = [fresh, PLANT_B, PLANT_C].map((plant) => store.create(plant));
    const outcomes = await Promise.all(creates);
    t.mock.restoreAll();
    const found = [fresh, PLANT_B, PLANT_C].map(({ name }) =>
      settled.includes(`"name":"${name}"`) ? "replayed" : "created",
    );
    assert.deepEqual(outcomes, found, "what was settled is found");
    assert.deepEqual(readQuarantines(folder), [quarantined]);
    assert.equal(readLog(folder).startsWith(settled), true);
    await store.close();
    assert.equal(
      (await readCheckpoint(logPath(folder)))?.bytes,
      Buffer.byteLength(readLog(folder)),
    );

    const report = await verifyLog(folder);
    assert.deepEqual([report.damaged, report.duplicates, report.checksum], [0, 0, "matches"]);
    const again = await openStore(t, folder);
    for (const plant of [...known, PLANT_B, PLANT_C, fresh]) {
      assert.deepEqual(await again.get(plant.id), plant);
    }
    await again.close();
  });
}

/** FAKE: the disk has no room for quarantine files until the test gives it some. */
function refuseQuarantine(t: TestContext): { attempts: number; hasRoom: boolean } {
  const disk = { attempts: 0, hasRoom: false };
  const { create } = LogFile;
  t.mock.method(LogFile, "create", async (path: string) => {
    disk.attempts++;
    const file = await create(path);
    if (file !== undefined && !disk.hasRoom) {
      const cause = Object.assign(new Error("ENOSPC: no space left on device, write"), {
        code: "ENOSPC",
        errno: -28,
      });
      t.mock.method(file, "append", async () => ({ outcome: "refused", cause }));
    }
    return file;
  });
  return disk;
}

test("a stop leaves a checkpoint of an end that was settled, also where nothing was stored behind it (fake disk)", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, `${A}${LOST}${C}`);
  const disk = refuseQuarantine(t);
  const store = await openStore(t, folder);
  disk.hasRoom = true;
  passTime(t);
  assert.equal(await store.create(PLANT_C), "replayed");
  t.mock.restoreAll();
  await store.close();
  assert.equal(readLog(folder).endsWith(` \n${C}`), true);
  assert.equal((await readCheckpoint(logPath(folder)))?.bytes, readLog(folder).length);
});

test("the end of a log is tried again at most once a second, by one create at a time (fake disk)", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, `${A}torn`);
  const disk = refuseQuarantine(t);
  const store = await openStore(t, folder);
  assert.equal(disk.attempts, 1, "the start's own");
  const create = () =>
    Promise.allSettled([10n, 11n, 12n].map((id) => store.create({ id, name: "x" })));

  let now = Math.ceil(performance.now()); // whole, so that sums are exact
  t.mock.method(performance, "now", () => now);
  const STEPS: readonly [passedMs: number, attempts: number][] = [
    [0, 2],
    [0, 2],
    [1000, 2],
    [1, 3],
    [999, 3],
    [2, 4],
  ];
  for (const [passedMs, attempts] of STEPS) {
    now += passedMs;
    for (const result of await create()) {
      assert.equal(result.status === "rejected" && result.reason.code, "not_stored");
    }
    assert.equal(disk.attempts, attempts, `after ${passedMs} ms`);
  }
  disk.hasRoom = true;
  now += 1001;
  for (const result of await create()) assert.equal(result.status, "fulfilled");
  assert.equal(disk.attempts, 5);
  assert.deepEqual(readQuarantines(folder), ["torn"]);
});

test("a store that is closed before there was room leaves its end to the next start (fake disk)", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, `${A}torn`);
  const disk = refuseQuarantine(t);
  const store = await openStore(t, folder);
  await assert.rejects(store.create(PLANT_B), { code: "not_stored" });
  await store.close();
  assert.equal(readLog(folder), `${A}torn`);
  assert.equal(existsSync(`${logPath(folder)}.quarantine-1`), false, "no half of one is left");
  disk.hasRoom = true;
  const again = await openStore(t, folder);
  assert.equal(readLog(folder), A);
  assert.equal(readFileSync(`${logPath(folder)}.quarantine-1`, "utf8"), "torn");
  assert.equal(await again.create(PLANT_B), "created");
});
