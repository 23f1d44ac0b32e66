import assert from "node:assert/strict";
import { appendFileSync, existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { checkpointPath } from "../../src/log/checkpoint.ts";
import {
  backup,
  exportLines,
  isSound,
  type LineFault,
  readPlants,
  type VerifyReport,
  verifyLog,
} from "../../src/tools.ts";
import { makeFolder } from "../support/folders.ts";
import { snapshot } from "../support/snapshot.ts";
import {
  collect,
  logPath,
  openFilesIn,
  openStore,
  readLog,
  writeCheckpointOf,
  writeLog,
} from "../support/stores.ts";

const A = '{"id":1,"name":"a"}\n'; // 20 bytes
const B = '{"id":2,"name":"b","tag":"t"}\n'; // 30 bytes

/** A record of a batch whose pages did not all reach the disk. */
const LOST = `{"id":3,"name":"${"\0".repeat(1100)}"}\n`;

const SOUND = { duplicates: 0, damaged: 0, mendable: 0, tornBytes: 0, checksum: "none" } as const;

const CASES: readonly {
  readonly says: string;
  readonly log: string;
  /** The log as the checkpoint describes it; without it there is no checkpoint. */
  readonly known?: string;
  /** What is not as in a sound log; the length is that of the whole lines. */
  readonly report: Partial<VerifyReport>;
}[] = [
  { says: "empty, without a checkpoint", log: "", report: { records: 0 } },
  { says: "empty, as its checkpoint knows", log: "", known: "", report: { records: 0 } },
  { says: "plants, without a checkpoint", log: A + B, report: { records: 2 } },
  { says: "plants, as its checkpoint knows", log: A + B, known: A + B, report: { records: 2 } },
  { says: "longer than its checkpoint", log: A + B, known: A, report: { records: 2 } },
  {
    says: "blank lines, CRLF and a byte order mark",
    log: `\ufeff\n${A.replace("\n", "\r\n")}  \n`,
    report: { records: 1 },
  },
  { says: "one plant twice", log: A + B + A, report: { records: 3, duplicates: 1 } },
  { says: "a torn tail", log: `${A}{"id":2`, known: A, report: { records: 1, tornBytes: 7 } },
  {
    says: "lines that lost pages in a power cut, after its checkpoint",
    log: `${A}${LOST}${B}${LOST}`,
    known: A,
    report: { records: 2, mendable: 2 },
  },
  {
    says: "lost pages farther from its end than a batch",
    log: `${A}${LOST}${" ".repeat(2 ** 20)}\n${B}`,
    report: { records: 2, damaged: 1 },
  },
  {
    says: "lost pages that its checkpoint knew whole",
    log: A + LOST,
    known: A + LOST.replaceAll("\0", "x"),
    report: { records: 1, damaged: 1, checksum: "differs" },
  },
  {
    says: "lost pages, and a line that cannot be read",
    log: `${LOST}x\n`,
    report: { records: 0, damaged: 1, mendable: 1 },
  },
  { says: "an unreadable line", log: `${A}x\n${B}`, report: { records: 2, damaged: 1 } },
  {
    says: "one id with two contents",
    log: `${A}{"id":1,"name":"b"}\n`,
    report: { records: 2, damaged: 1 },
  },
  {
    says: "a letter that its checkpoint did not know",
    log: A.replace('"a"', '"c"') + B,
    known: A + B,
    report: { records: 2, checksum: "differs" },
  },
  {
    says: "fewer plants than its checkpoint knows",
    log: A,
    known: A + B,
    report: { records: 1, checksum: "shorter" },
  },
  {
    says: "a torn tail within what its checkpoint knows",
    log: A + B.slice(0, 12),
    known: A + B,
    report: { records: 1, tornBytes: 12, checksum: "shorter" },
  },
  {
    says: "as long as its checkpoint knows, with another last byte",
    log: `${A}${B.trimEnd()} `,
    known: A + B,
    report: { records: 1, tornBytes: 30, checksum: "differs" },
  },
  {
    says: "its last line feed lost, which its checkpoint knew",
    log: (A + B).trimEnd(),
    known: A + B,
    report: { records: 1, tornBytes: 29, checksum: "shorter" },
  },
];

for (const { says, log, known, report } of CASES) {
  const compared = { checksum: "matches", checkpointBytes: known?.length } as const;
  const bytes = Buffer.byteLength(log) - (report.tornBytes ?? 0);
  const expected = { ...SOUND, bytes, ...(known !== undefined && compared), ...report };
  const isGood = expected.damaged === 0 && /none|matches/.test(expected.checksum);
  test(`verify reports as ${isGood ? "sound" : "damaged"}, and leaves alone, a log: ${says}`, async (t) => {
    const folder = makeFolder(t);
    writeLog(folder, log);
    if (known !== undefined) writeCheckpointOf(folder, known);
    const before = snapshot(folder);
    const found = await verifyLog(folder);
    assert.deepEqual(found, expected);
    assert.equal(isSound(found), isGood);
    assert.deepEqual(snapshot(folder), before);
    assert.deepEqual(openFilesIn(folder), []);
    assert.equal(readdirSync(folder).length, Object.keys(before).length, "no lock was taken");
  });
}

test("verify reports every fault with its place, and its progress", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, `${A}x\n${A}{"id":1,"name":"b"}\n${LOST}`);
  const faults: LineFault[] = [];
  const reported: [number, number][] = [];
  await verifyLog(folder, {
    onFault: (fault) => faults.push(fault),
    onProgress: (bytes, total) => reported.push([bytes, total]),
  });
  assert.deepEqual(
    faults.map(({ kind, position }) => [kind, position.line, position.offset]),
    [
      ["unreadable", 2, 20],
      ["repeat", 3, 22],
      ["conflict", 4, 42],
      ["mendable", 5, 62],
    ],
  );
  const size = 62 + LOST.length;
  assert.deepEqual(reported, [[size, size]]);
});

test("a line that verify calls mendable is mended by the next start", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, A + LOST + B);
  assert.equal((await verifyLog(folder)).mendable, 1);
  const store = await openStore(t, folder);
  assert.equal(store.size, 2);
  await store.close();
  const { records, mendable, damaged } = await verifyLog(folder);
  assert.deepEqual([records, mendable, damaged], [2, 0, 0]);
});

test("while a store is open no line counts as mendable", async (t) => {
  const folder = makeFolder(t);
  const store = await openStore(t, folder);
  await store.create({ id: 1n, name: "x".repeat(1100) });
  writeLog(folder, readLog(folder).replaceAll("x", "\0"));
  const { mendable, damaged } = await verifyLog(folder);
  assert.deepEqual([mendable, damaged], [0, 1]);
});

test("a log after a clean stop matches its checkpoint; a torn checkpoint is no damage", async (t) => {
  const folder = makeFolder(t);
  const store = await openStore(t, folder);
  for (let id = 0n; id < 20n; id++) await store.create({ id, name: "x" });
  await store.close();
  const report = await verifyLog(folder);
  assert.deepEqual([report.records, report.checksum], [20, "matches"]);
  assert.equal(report.checkpointBytes, report.bytes);
  for (const torn of ["", "{", '{"bytes":10']) {
    writeFileSync(checkpointPath(logPath(folder)), torn);
    const { checksum, checkpointBytes } = await verifyLog(folder);
    assert.deepEqual([checksum, checkpointBytes], ["none", undefined]);
  }
});

test("beside an open store, verify reads only what the store knows to be durable", async (t) => {
  const folder = makeFolder(t);
  const store = await openStore(t, folder);
  await store.create({ id: 1n, name: "a" });
  appendFileSync(logPath(folder), "a batch on its wa"); // as if it were being written
  assert.deepEqual(await verifyLog(folder), { ...SOUND, records: 1, bytes: 20 });
});

test("verify, backup, list and export refuse a log that is gone and was not empty, as a start does, and make nothing", async (t) => {
  const folder = makeFolder(t);
  const target = join(makeFolder(t), "copy");
  writeCheckpointOf(folder, A);
  const before = snapshot(folder);
  const attempts = [
    () => openStore(t, folder),
    () => verifyLog(folder),
    () => backup(folder, target),
    () => collect(readPlants(folder)),
    () => collect(exportLines(folder)),
  ];
  for (const attempt of attempts) await assert.rejects(attempt(), { code: "corruption" });
  assert.deepEqual(snapshot(folder), before);
  assert.equal(existsSync(target), false);
});

test("verify without a log is an io_error, and makes nothing", async (t) => {
  const folder = makeFolder(t);
  await assert.rejects(verifyLog(folder), { code: "io_error" });
  await assert.rejects(verifyLog(join(folder, "none")), { code: "io_error" });
  assert.deepEqual(readdirSync(folder), []);
  assert.equal(existsSync(join(folder, "none")), false);
});
