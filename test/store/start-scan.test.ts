import assert from "node:assert/strict";
import { closeSync, openSync, writeSync } from "node:fs";
import { type TestContext, test } from "node:test";
import { crc32 } from "node:zlib";
import { type Checkpoint, EMPTY_LOG } from "../../src/log/checkpoint.ts";
import { type LineFault, LogScan, type ScanOptions } from "../../src/store/start.ts";
import { openLog } from "../support/logs.ts";

const A = '{"id":1,"name":"a"}\n'; // 20 bytes
const B = '{"id":2,"name":"b","tag":"t"}\n'; // 30 bytes

async function scanLog(
  t: TestContext,
  content: string,
  options: Partial<ScanOptions> = {},
): Promise<{ scan: LogScan; faults: LineFault[] }> {
  const faults: LineFault[] = [];
  const file = await openLog(t, content);
  const onFault = (fault: LineFault) => faults.push(fault);
  const scan = await LogScan.run(file, content.length, { onFault, ...options });
  return { scan, faults };
}

/** The checkpoint of exactly this log; `records` does not matter here. */
function checkpointOf(content: string): Checkpoint {
  return { bytes: content.length, records: 0, crc32: crc32(content) };
}

const FAULTS: readonly {
  readonly says: string;
  readonly log: string;
  /** Kind, line, byte offset, bytes. */
  readonly faults: readonly (readonly [LineFault["kind"], number, number, number])[];
  readonly records: number;
  readonly ids: number;
}[] = [
  { says: "nothing", log: "", faults: [], records: 0, ids: 0 },
  { says: "plants", log: A + B, faults: [], records: 2, ids: 2 },
  { says: "blank lines", log: `\n${A} \t\r\n${B}\n`, faults: [], records: 2, ids: 2 },
  { says: "a torn tail", log: `${A}{"id":2`, faults: [], records: 1, ids: 1 },
  {
    says: "an unreadable line",
    log: `${A}x\n${B}`,
    faults: [["unreadable", 2, 20, 2]],
    records: 2,
    ids: 2,
  },
  {
    says: "a repeat",
    log: `${A}${B}${A}`,
    faults: [["repeat", 3, 50, 20]],
    records: 3,
    ids: 2,
  },
  {
    says: "a repeat in another spelling",
    log: `${A}{"name":"\\u0061","id":1.0}\r\n`,
    faults: [["repeat", 2, 20, 28]],
    records: 2,
    ids: 1,
  },
  {
    says: "another name for an id",
    log: `${A}{"id":1,"name":"b"}\n`,
    faults: [["conflict", 2, 20, 20]],
    records: 2,
    ids: 1,
  },
  {
    says: "a tag for a plant without one",
    log: `${A}{"id":1,"name":"a","tag":""}\n`,
    faults: [["conflict", 2, 20, 29]],
    records: 2,
    ids: 1,
  },
  {
    says: "everything, each judged by the first plant of its id",
    log: `x\n${A}\n{"id":1,"name":"b"}\n${A}{"id":1,"name":"b"}\n[]\n`,
    faults: [
      ["unreadable", 1, 0, 2],
      ["conflict", 4, 23, 20],
      ["repeat", 5, 43, 20],
      ["conflict", 6, 63, 20],
      ["unreadable", 7, 83, 3],
    ],
    records: 4,
    ids: 1,
  },
];

for (const { says, log, faults, records, ids } of FAULTS) {
  test(`a scan of a log that holds ${says} reports every fault with its kind and place, in the order of places`, async (t) => {
    const { scan, faults: found } = await scanLog(t, log);
    assert.deepEqual(
      found.map(({ kind, position, bytes }) => [kind, position.line, position.offset, bytes]),
      faults,
    );
    for (const { reason } of found) assert.notEqual(reason, "");
    const whole = log.slice(0, log.lastIndexOf("\n") + 1);
    assert.deepEqual(scan.end, { ...checkpointOf(whole), records });
    assert.equal(scan.index.size, ids);
  });
}

test("the index keeps the first plant of an id", async (t) => {
  const { scan } = await scanLog(t, `${B}${A}${B}{"id":1,"name":"c"}\n`);
  assert.deepEqual([scan.index.get(1n), scan.index.get(2n)], [30, 0]);
});

/** Lines of 20 bytes and more with ids of their own, over several blocks. */
function manyLines(): string[] {
  return Array.from({ length: 40_000 }, (_, n) => `{"id":${n + 10},"name":"plant"}\n`);
}

test("a scan reports faults of every kind in the order of their places, over all blocks", async (t) => {
  const lines = manyLines();
  const put: readonly [number, string, LineFault["kind"]][] = [
    [2, '{"id":11,"name":"plant"}', "repeat"],
    [9_000, '{"id":10,"name":"other"}', "conflict"],
    [20_000, "x", "unreadable"],
    [20_001, '{"name":"other","id":9011}', "conflict"],
    [20_002, '{"name":"plant", "id":19010}', "repeat"],
    [39_000, "y", "unreadable"],
    [39_999, '{"id":30010,"name":"plant"}', "repeat"],
  ];
  for (const [at, line] of put) lines[at] = `${line}\n`;
  const { scan, faults } = await scanLog(t, lines.join(""));
  assert.deepEqual(
    faults.map(({ position, kind }) => [position.line, kind]),
    put.map(([at, , kind]) => [at + 1, kind]),
  );
  for (const { position, bytes } of faults) {
    assert.equal(position.offset, lines.slice(0, position.line - 1).join("").length);
    assert.equal(bytes, lines[position.line - 1]?.length);
  }
  assert.equal(scan.end.records, lines.length - 2);
});

const CHANGES: readonly [says: string, offset: number, text: string][] = [
  ["a repeat is no longer a plant", 40, "x".repeat(19)],
  ["a repeat has another id", 40, '{"id":9,"name":"a"}'],
  ["the first plant of a repeat is no longer a plant", 0, "x".repeat(19)],
  ["a repeat has lost its line feed", 40, "x".repeat(40)],
];

for (const [says, offset, text] of CHANGES) {
  test(`a scan during which ${says} fails with io_error`, async (t) => {
    const content = `${A}${A}${A}x\n`;
    const file = await openLog(t, content);
    // Called after the block was read, and before its repeats are read.
    const isLost = () => {
      const fd = openSync(file.path, "r+");
      writeSync(fd, text, offset);
      closeSync(fd);
      return false;
    };
    const scanning = LogScan.run(file, content.length, { onFault: () => {}, isLost });
    await assert.rejects(scanning, { code: "io_error" });
  });
}

test("a scan counts a line that lost pages as the spaces that will overwrite it, and continues", async (t) => {
  const asked: number[] = [];
  const isLost = (_: Buffer, { line }: { line: number }) => {
    asked.push(line);
    return line === 4;
  };
  const content = `${A}x\n${B}y\u0000z\nz\n{"id":3,"name":"c"}\n`;
  const { scan, faults } = await scanLog(t, content, { isLost });
  assert.deepEqual(asked, [2, 4, 5], "unreadable lines only");
  assert.deepEqual(scan.tail, { offset: content.length, line: 7 });
  assert.deepEqual(
    faults.map(({ kind, position, bytes }) => [kind, position.line, position.offset, bytes]),
    [
      ["unreadable", 2, 20, 2],
      ["mendable", 4, 52, 4],
      ["unreadable", 5, 56, 2],
    ],
  );
  assert.equal(scan.index.get(3n), 58);
  assert.deepEqual(scan.end, { ...checkpointOf(content.replace("y\u0000z", "   ")), records: 3 });
});

test("a scan continues where it ended, with the same sums and the same index", async (t) => {
  const content = `${A}y\n${B}${A}`;
  const file = await openLog(t, content);
  const faults: LineFault[] = [];
  const scan = await LogScan.run(file, 22, { onFault: (fault) => faults.push(fault) });
  assert.deepEqual(scan.tail, { offset: 22, line: 3 });
  const { index } = scan;
  await scan.scanTo(content.length);
  assert.deepEqual(scan.tail, { offset: 72, line: 5 });
  assert.deepEqual(scan.end, { ...checkpointOf(content), records: 3 });
  assert.equal(scan.index, index);
  assert.equal(index.get(2n), 22);
  assert.deepEqual(
    faults.map(({ kind, position }) => [kind, position.line]),
    [
      ["unreadable", 2],
      ["repeat", 4],
    ],
  );
});

test("a scan compares the checksum at any length within the whole lines, and never in the torn tail", async (t) => {
  const whole = `${A}\n${B}x\n${A}`;
  const content = `${whole}{"id":3`;
  for (let bytes = 1; bytes <= content.length + 1; bytes++) {
    const right = { ...checkpointOf(content.slice(0, bytes)), bytes };
    const wrong = { ...right, crc32: (right.crc32 ^ 1) >>> 0 };
    const { scan } = await scanLog(t, content, { checkpoint: right });
    const expected = bytes <= whole.length ? "matches" : "differs";
    assert.equal(scan.checksum, bytes > content.length ? "shorter" : expected, `${bytes} bytes`);
    const { scan: other } = await scanLog(t, content, { checkpoint: wrong });
    assert.notEqual(other.checksum, "matches", `${bytes} bytes`);
  }
});

test("a scan without a checkpoint, or with that of an empty log, accepts any log", async (t) => {
  for (const checkpoint of [undefined, EMPTY_LOG]) {
    for (const content of ["", A, `x\n${B}`]) {
      const { scan } = await scanLog(t, content, { checkpoint });
      assert.equal(scan.checksum, checkpoint === undefined ? "none" : "matches");
    }
  }
});

/** Lines of many lengths, some longer than a block, of 3 MiB and more. */
function longLog(): string[] {
  return Array.from({ length: 3000 }, (_, n) => {
    const length = n === 1500 ? 1_500_000 : (n * 7919) % 1200;
    return `{"id":${n},"name":"${"x".repeat(length)}"}\n`;
  });
}

test("a scan of several blocks compares the checksum at borders of lines and of blocks", async (t) => {
  const lines = longLog();
  const content = lines.join("");
  const file = await openLog(t, content);
  const borders = [1, 1499, 1500, 1501, 2999, 3000].map((n) => lines.slice(0, n).join("").length);
  const edges = [1, 2, 3].map((mib) => mib * 1024 * 1024);
  for (const bytes of [...borders, ...edges, ...edges.map((edge) => edge + 1)]) {
    const checkpoint = checkpointOf(content.slice(0, bytes));
    const options = { onFault: () => assert.fail(), checkpoint };
    const scan = await LogScan.run(file, content.length, options);
    assert.equal(scan.checksum, "matches", `${bytes} bytes`);
    assert.deepEqual(scan.end, { ...checkpointOf(content), records: lines.length });
  }
});

test("a scan reports its progress about once a MiB, and at last that it is done", async (t) => {
  const content = longLog().join("");
  const reported: number[] = [];
  await scanLog(t, content, { onProgress: (bytes) => reported.push(bytes) });
  assert.equal(reported.at(-1), content.length);
  assert.ok(reported.length >= 2 && reported.length <= content.length / 1024 / 1024 + 1);
  assert.deepEqual(
    reported,
    reported.toSorted((a, b) => a - b),
  );
});

const TAILS: readonly [tail: string, isNew: boolean, kind?: LineFault["kind"]][] = [
  ["", false],
  ["x", false],
  ['{"id":1,"name":"a"}', false, "repeat"],
  ['{"id":1,"name":"b"}', false, "conflict"],
  ['{"id":9,"name":"new"}', true],
];

for (const [tail, isNew, kind] of TAILS) {
  test(`a tail of "${tail}" is judged, and neither counted nor indexed`, async (t) => {
    const { scan, faults } = await scanLog(t, A + tail);
    assert.equal(scan.isTailNew, isNew);
    assert.deepEqual(
      faults.map((fault) => fault.kind),
      kind === undefined ? [] : [kind],
    );
    assert.equal(scan.index.get(9n), undefined);
    assert.deepEqual(scan.end, { ...checkpointOf(A), records: 1 });
  });
}
