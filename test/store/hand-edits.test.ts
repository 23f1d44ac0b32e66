/** Edits by hand in a data directory between two runs, with a checkpoint beside the log. */
import assert from "node:assert/strict";
import {
  appendFileSync,
  copyFileSync,
  mkdirSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { type TestContext, test } from "node:test";
import { crc32 } from "node:zlib";
import { type NewPlant, PlantStore } from "../../src/index.ts";
import { checkpointPath, encodeCheckpoint, readCheckpoint } from "../../src/log/checkpoint.ts";
import { LogFile } from "../../src/log/file.ts";
import { isSound, repairLog, verifyLog } from "../../src/tools.ts";
import { makeFolder } from "../support/folders.ts";
import { readQuarantines, snapshot } from "../support/snapshot.ts";
import { collect, logPath, openStore, readLog, writeLog } from "../support/stores.ts";
import { collectWarnings } from "../support/watch.ts";

const A = '{"id":1,"name":"a"}\n';
const B = '{"id":2,"name":"b","tag":"t"}\n';
const C = '{"id":3,"name":"c"}\n';
const PLANT_A: NewPlant = { id: 1n, name: "a" };
const PLANT_B: NewPlant = { id: 2n, name: "b", tag: "t" };
const PLANT_C: NewPlant = { id: 3n, name: "c" };

/** A store of A and B after a clean stop. */
async function makeStopped(t: TestContext): Promise<string> {
  const folder = makeFolder(t);
  const store = await openStore(t, folder);
  for (const plant of [PLANT_A, PLANT_B]) await store.create(plant);
  await store.close();
  assert.equal((await readCheckpoint(logPath(folder)))?.bytes, A.length + B.length);
  return folder;
}

/** Edits after the checkpoint that a start accepts by itself. `kept`: the log after the start. */
const ADDED: readonly {
  readonly says: string;
  readonly added: string;
  readonly kept?: string;
  readonly plants?: readonly NewPlant[];
}[] = [
  { says: "a line", added: C, plants: [PLANT_C] },
  { says: "a line without its line feed", added: C.trimEnd(), kept: C, plants: [PLANT_C] },
  { says: "the beginning of a line", added: '{"id":3,', kept: "" },
];

for (const { says, added, kept = added, plants = [] } of ADDED) {
  test(`${says} added by hand at the end needs no repair`, async (t) => {
    const folder = await makeStopped(t);
    writeLog(folder, A + B + added);
    const store = await openStore(t, folder);
    assert.equal(readLog(folder), A + B + kept);
    assert.deepEqual(await collect(store.list()), [PLANT_A, PLANT_B, ...plants]);
    assert.deepEqual(readQuarantines(folder), kept === "" && added !== "" ? [added] : []);
    assert.equal(await store.create({ id: 99n, name: "fresh" }), "created");
    await store.close();
    const report = await verifyLog(folder);
    assert.deepEqual([isSound(report), report.checksum], [true, "matches"]);
    assert.equal(report.checkpointBytes, readLog(folder).length);
  });
}

/** Edits of bytes that the checkpoint covers: a person has to accept them. */
const CHANGED: readonly [says: string, log: string, plants: readonly NewPlant[]][] = [
  ["a letter changed", A.replace('"a"', '"c"') + B, [{ id: 1n, name: "c" }, PLANT_B]],
  ["a digit of an id changed", A.replace("1", "7") + B, [{ id: 7n, name: "a" }, PLANT_B]],
  ["a line removed from the end", A, [PLANT_A]],
  ["a line removed from the start", B, [PLANT_B]],
  ["everything removed", "", []],
  ["the lines in another order", B + A, [PLANT_B, PLANT_A]],
  ["a line added at the start", C + A + B, [PLANT_C, PLANT_A, PLANT_B]],
  ["a plant doubled in the middle", A + A + B, [PLANT_A, PLANT_B]],
  ["a blank line added at the start", `\n${A}${B}`, [PLANT_A, PLANT_B]],
  ["a byte order mark added", `\ufeff${A}${B}`, [PLANT_A, PLANT_B]],
  ["its endings changed to CRLF", (A + B).replaceAll("\n", "\r\n"), [PLANT_A, PLANT_B]],
  ["a space added within", A.replace(",", ", ") + B, [PLANT_A, PLANT_B]],
  ["its last line feed removed", (A + B).trimEnd(), [PLANT_A, PLANT_B]],
  ["its last line feed changed to a space", `${(A + B).trimEnd()} `, [PLANT_A, PLANT_B]],
];

for (const [says, log, plants] of CHANGED) {
  test(`a log with ${says} refuses to start until repair accepts it`, async (t) => {
    const folder = await makeStopped(t);
    writeLog(folder, log);
    const before = snapshot(folder);
    for (let attempt = 0; attempt < 2; attempt++) {
      await assert.rejects(PlantStore.open(folder), (error: Error & { code?: string }) => {
        assert.equal(error.code, "corruption");
        assert.ok(error.message.includes(logPath(folder)));
        assert.ok(error.message.includes("repair"), "the advice is there");
        return true;
      });
    }
    assert.deepEqual(snapshot(folder), before);
    assert.equal(isSound(await verifyLog(folder)), false);

    const { ino } = statSync(logPath(folder));
    const { checkpoint, ...outcome } = await repairLog(folder, { confirm: async () => true });
    const accepted = { action: "accept", plants: plants.length, leftOut: 0, isDone: true };
    assert.deepEqual([outcome, checkpoint?.bytes], [accepted, A.length + B.length]);
    assert.deepEqual([readLog(folder), statSync(logPath(folder)).ino], [log, ino]);
    const lines = Buffer.from(log.slice(0, log.lastIndexOf("\n") + 1));
    assert.deepEqual(await readCheckpoint(logPath(folder)), {
      bytes: lines.length,
      records: String(lines).split("{").length - 1,
      crc32: crc32(lines),
    });
    assert.deepEqual(await collect((await openStore(t, folder)).list()), plants);
  });
}

test("a log whose last record was lengthened and lost its line feed is refused", async (t) => {
  const folder = await makeStopped(t);
  writeLog(folder, `${(A + B).trimEnd()}   torn`);
  await assert.rejects(PlantStore.open(folder), { code: "corruption" });
  assert.deepEqual(readQuarantines(folder), []);
});

test("a start whose log is missing and whose checkpoint counts plants refuses, and makes no new log", async (t) => {
  const folder = await makeStopped(t);
  rmSync(logPath(folder));
  const before = snapshot(folder);
  for (let attempt = 0; attempt < 2; attempt++) {
    await assert.rejects(PlantStore.open(folder), { code: "corruption" });
  }
  assert.deepEqual(snapshot(folder), before);
});

/** Checkpoints that say nothing about the log, so that only its lines are judged. */
const SILENT: readonly [says: string, content: string][] = [
  ["of zero bytes", ""],
  ["that is torn", '{"bytes":50,"rec'],
  ["of NULs", "\0".repeat(80)],
  ["of an empty log", encodeCheckpoint({ bytes: 0, records: 0, crc32: 0 })],
];

for (const [says, content] of SILENT) {
  test(`a checkpoint ${says} is ignored, and replaced at the stop`, async (t) => {
    const folder = await makeStopped(t);
    writeLog(folder, C + B);
    writeFileSync(checkpointPath(logPath(folder)), content);
    const warnings = collectWarnings(t);
    const store = await openStore(t, folder);
    assert.deepEqual(await collect(store.list()), [PLANT_C, PLANT_B]);
    assert.equal(warnings.length, 0);
    await store.close();
    const bytes = Buffer.from(C + B);
    assert.deepEqual(await readCheckpoint(logPath(folder)), {
      bytes: bytes.length,
      records: 2,
      crc32: crc32(bytes),
    });
  });
}

test("without its checkpoint, an edited log is accepted as it is", async (t) => {
  const folder = await makeStopped(t);
  rmSync(checkpointPath(logPath(folder)));
  writeLog(folder, C);
  assert.deepEqual(await collect((await openStore(t, folder)).list()), [PLANT_C]);
});

test("a checkpoint that cannot be read is an io_error, and is not ignored", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, A);
  mkdirSync(checkpointPath(logPath(folder)));
  await assert.rejects(PlantStore.open(folder), { code: "io_error" });
});

const LOST = `{"id":3,"na${"\0".repeat(1024)}"}\n`;

test("sectors of zeros before the checkpoint are bit rot and refused; after it they are mended", async (t) => {
  for (const isKnown of [true, false]) {
    const folder = makeFolder(t);
    writeLog(folder, A + LOST + B);
    const known = Buffer.from(isKnown ? A + LOST : A);
    const checkpoint = { bytes: known.length, records: 1, crc32: crc32(known) };
    writeFileSync(checkpointPath(logPath(folder)), encodeCheckpoint(checkpoint));
    const before = snapshot(folder);
    if (isKnown) {
      await assert.rejects(PlantStore.open(folder), { code: "corruption" });
      assert.deepEqual(snapshot(folder), before);
    } else {
      const store = await openStore(t, folder);
      assert.deepEqual(await collect(store.list()), [PLANT_A, PLANT_B]);
      assert.deepEqual(readQuarantines(folder), [LOST]);
    }
  }
});

/** How many bytes of valid lines are between the lost line and the last one. */
const DISTANCES: readonly [bytes: number, isSettled: boolean][] = [
  [1024 * 1024 - LOST.length, true],
  [1024 * 1024 - LOST.length + 1, false],
];

for (const [bytes, isSettled] of DISTANCES) {
  test(`without a checkpoint, zeros ${bytes} bytes before the last line are ${isSettled ? "mended" : "refused"}`, async (t) => {
    const folder = makeFolder(t);
    writeLog(folder, `${A}${LOST}${" ".repeat(bytes - 1)}\n${B}`);
    const opening = PlantStore.open(folder);
    if (isSettled) await (await opening).close();
    else await assert.rejects(opening, { code: "corruption" });
    assert.equal(readQuarantines(folder).length, isSettled ? 1 : 0);
  });
}

/** Faults after a line that lost pages which need a person: then nothing may be mended. */
const MIXED: readonly [says: string, log: string][] = [
  ["an unreadable line", `${A}${LOST}x\n`],
  ["a conflict with a line before it", `${A}${LOST}{"id":1,"name":"z"}\n`],
  ["a conflict between two lines after it", `${A}${LOST}${C}{"id":3,"name":"z"}\n`],
  ["a conflict with a last line without its line feed", `${A}${LOST}${C}{"id":3,"name":"z"}`],
];

for (const [says, log] of MIXED) {
  test(`a log with a lost batch, and after it ${says}, is refused and left as it is`, async (t) => {
    const folder = makeFolder(t);
    writeLog(folder, log);
    for (let attempt = 0; attempt < 2; attempt++) {
      await assert.rejects(PlantStore.open(folder), { code: "corruption" });
      assert.deepEqual(snapshot(folder), { "plants.jsonl": Buffer.from(log).toString("latin1") });
    }
  });
}

test("a log cut back to its checkpoint starts; cut one byte shorter, it refuses", async (t) => {
  const folder = await makeStopped(t);
  writeLog(folder, A + B + C);
  truncateSync(logPath(folder), A.length + B.length);
  await (await openStore(t, folder)).close();
  truncateSync(logPath(folder), A.length + B.length - 1);
  await assert.rejects(PlantStore.open(folder), { code: "corruption" });
});

test("a log that is shorter than its checkpoint is refused before it is read", async (t) => {
  const folder = await makeStopped(t);
  truncateSync(logPath(folder), A.length);
  const onProgress = t.mock.fn();
  await assert.rejects(PlantStore.open(folder, { onProgress }), { code: "corruption" });
  assert.equal(onProgress.mock.callCount(), 0);
});

/** Operations that change the times or the inode of a log, but none of its bytes. */
const TOUCHES: readonly [says: string, touch: (path: string) => void][] = [
  ["was touched", (path) => utimesSync(path, new Date(), new Date())],
  [
    "was copied back",
    (path) => {
      copyFileSync(path, `${path}.copy`);
      renameSync(`${path}.copy`, path);
    },
  ],
];

for (const [says, touch] of TOUCHES) {
  test(`a log that ${says} and has the same content is served`, async (t) => {
    const folder = await makeStopped(t);
    touch(logPath(folder));
    const store = await openStore(t, folder);
    assert.equal(store.status().checkpointBytes, A.length + B.length);
    assert.deepEqual(await collect(store.list()), [PLANT_A, PLANT_B]);
    assert.equal(await store.create(PLANT_C), "created");
  });
}

test("a cut of unacknowledged bytes does not hide an edit: the next start refuses (fake disk)", async (t) => {
  const folder = await makeStopped(t);
  const store = await openStore(t, folder);
  writeLog(folder, A.replace("a", "z") + B);
  const cause = Object.assign(new Error("ENOSPC: no space left on device"), { code: "ENOSPC" });
  const disk = t.mock.method(LogFile.prototype, "append", async () => {
    appendFileSync(logPath(folder), '{"id":1'); // a short write
    truncateSync(logPath(folder), A.length + B.length); // the writer undoes it
    return { outcome: "refused", cause };
  });
  await assert.rejects(store.create(PLANT_C), { code: "write_failed" });
  disk.mock.restore();
  await store.close();
  assert.equal(readLog(folder).length, A.length + B.length);
  await assert.rejects(PlantStore.open(folder), { code: "corruption" });
});
