import assert from "node:assert/strict";
import { appendFileSync, writeFileSync } from "node:fs";
import { type TestContext, test } from "node:test";
import { type PlantService, PlantStoreError } from "../../src/index.ts";
import { locks } from "../../src/log/lock.ts";
import { type ImportReport, importPlants, openImportFile } from "../../src/tools.ts";
import { makeFolder } from "../support/folders.ts";
import { collect, logPath, openFilesIn, openStore, readLog, writeLog } from "../support/stores.ts";

const A = '{"id":1,"name":"a"}';
const B = '{"id":2,"name":"b","tag":"t"}';

async function* chunksOf(text: string | Buffer, ...cuts: number[]): AsyncGenerator<Buffer> {
  const bytes = Buffer.from(text);
  const places = [0, ...cuts, bytes.length];
  for (const [n, place] of places.slice(0, -1).entries()) {
    yield bytes.subarray(place, places[n + 1]);
  }
}

/** Imports the text into a new store. */
async function importInto(t: TestContext, text: string | Buffer) {
  const folder = makeFolder(t);
  const store = await openStore(t, folder);
  const refusedLines: number[] = [];
  const reasons: string[] = [];
  const report = await importPlants(store, chunksOf(text), {
    onRefused: (line, reason) => {
      refusedLines.push(line);
      reasons.push(reason);
    },
  });
  return { folder, store, report, refusedLines, reasons };
}

function reportOf(created: number, replayed = 0, refused = 0): ImportReport {
  return { created, replayed, refused };
}

const TEXTS: readonly {
  readonly says: string;
  readonly text: string | Buffer;
  readonly report: ImportReport;
  readonly refused?: readonly number[];
}[] = [
  { says: "nothing", text: "", report: reportOf(0) },
  { says: "a line feed", text: "\n", report: reportOf(0) },
  { says: "a byte order mark", text: "\ufeff", report: reportOf(0) },
  { says: "plants", text: `${A}\n${B}\n`, report: reportOf(2) },
  { says: "plants, the last without its line feed", text: `${A}\n${B}`, report: reportOf(2) },
  { says: "one plant without its line feed", text: A, report: reportOf(1) },
  { says: "CRLF endings", text: `${A}\r\n${B}\r\n`, report: reportOf(2) },
  { says: "CRLF endings except the last", text: `${A}\r\n${B}`, report: reportOf(2) },
  { says: "plants after a byte order mark", text: `\ufeff${A}\n${B}\n`, report: reportOf(2) },
  { says: "one plant after a byte order mark", text: `\ufeff${A}`, report: reportOf(1) },
  { says: "blank lines", text: `\n${A}\n \t\r\n\n${B}\n\n  `, report: reportOf(2) },
  { says: "a plant twice", text: `${A}\n${B}\n${A}\n`, report: reportOf(2, 1) },
  {
    says: "other content for an id",
    text: `${A}\n{"id":1,"name":"b"}\n${B}\n`,
    report: reportOf(2, 0, 1),
    refused: [2],
  },
  {
    says: "every kind of line that is no plant",
    text: Buffer.concat([
      Buffer.from(`x\n${A}\n{"id":3}\n\n{"id":4,"id":4,"name":"d"}\n`),
      Buffer.from('{"id":5,"name":"\xff"}\n', "latin1"),
      Buffer.from(`{"id":"6","name":"f"}\n${B}\n[]\n{"id":7,"na`),
    ]),
    report: reportOf(2, 0, 7),
    refused: [1, 3, 5, 6, 7, 9, 10],
  },
  {
    says: "a byte order mark on a later line",
    text: `${A}\n\ufeff${B}\n`,
    report: reportOf(1, 0, 1),
    refused: [2],
  },
];

for (const { says, text, report, refused = [] } of TEXTS) {
  test(`a text that holds ${says} is imported line by line; again, it creates nothing and refuses the same lines`, async (t) => {
    const { folder, store, ...result } = await importInto(t, text);
    assert.deepEqual(result.report, report);
    assert.deepEqual(result.refusedLines, refused);
    for (const reason of result.reasons) assert.notEqual(reason, "");
    assert.equal(store.size, report.created);
    const log = readLog(folder);
    const onRefused = (line: number) => assert.ok(refused.includes(line), `${line}`);
    const again = await importPlants(store, chunksOf(text), { onRefused });
    assert.deepEqual(again, reportOf(0, report.created + report.replayed, report.refused));
    assert.equal(readLog(folder), log);
  });
}

test("an import keeps the order of the text and writes plants as requests do", async (t) => {
  const { folder } = await importInto(
    t,
    '{"tag":"t","extra":1,"name":"b","id":2.0}\r\n{"name":"a","id":1}',
  );
  assert.equal(readLog(folder), `${B}\n${A}\n`);
});

test("a text cut into chunks at any two bytes is imported the same", async (t) => {
  const text = `\ufeff${A}\r\n\n{"id":3,"name":"\u00e9\ud83c\udf35"}\nx\n${B}`;
  const bytes = Buffer.byteLength(text);
  const store = await openStore(t, makeFolder(t));
  await importPlants(store, chunksOf(text));
  for (let first = 0; first <= bytes; first++) {
    for (const second of [first, first + 1, first + 7, bytes]) {
      if (second > bytes) continue;
      const refused: number[] = [];
      const report = await importPlants(store, chunksOf(text, first, second), {
        onRefused: (line) => refused.push(line),
      });
      assert.deepEqual(report, reportOf(0, 3, 1), `${first}, ${second}`);
      assert.deepEqual(refused, [4]);
    }
  }
});

test("a text that comes byte by byte is imported the same", async (t) => {
  const text = `${A}\n${B}\nx`;
  const store = await openStore(t, makeFolder(t));
  const cuts = Array.from({ length: text.length - 1 }, (_, n) => n + 1);
  assert.deepEqual(await importPlants(store, chunksOf(text, ...cuts)), reportOf(2, 0, 1));
});

test("an import reports how many bytes and lines it has processed", async (t) => {
  const store = await openStore(t, makeFolder(t));
  const reported: [number, number][] = [];
  const text = `${A}\n${B}\n{"id":3,"name":"c"}\n`;
  await importPlants(store, chunksOf(text, 25), {
    onProgress: (bytes, lines) => reported.push([bytes, lines]),
  });
  assert.deepEqual(reported, [
    [20, 1],
    [70, 3],
  ]);
});

test("an import ends at the first failure of the store; what was created before it stays", async (t) => {
  const store = await openStore(t, makeFolder(t));
  for (const code of [
    "write_failed",
    "not_stored",
    "store_failed",
    "closed",
    "overloaded",
  ] as const) {
    const failing: PlantService = {
      create: (plant) =>
        plant.id === 2n ? Promise.reject(new PlantStoreError(code, "no")) : store.create(plant),
      get: (id) => store.get(id),
      list: () => store.list(),
    };
    await assert.rejects(importPlants(failing, chunksOf(`${A}\n${B}\n`)), { code });
    assert.deepEqual(await collect(store.list()), [{ id: 1n, name: "a" }]);
  }
  assert.deepEqual(await importPlants(store, chunksOf(`${A}\n${B}\n`)), reportOf(1, 1));
});

test("an import of a text that cannot be read ends with that failure", async (t) => {
  const store = await openStore(t, makeFolder(t));
  async function* broken(): AsyncGenerator<Buffer> {
    yield Buffer.from(`${A}\n`);
    throw new Error("the stream broke");
  }
  await assert.rejects(importPlants(store, broken()), /the stream broke/);
  assert.equal(store.size, 1);
});

test("an import of one endless line fails before it fills the memory, and keeps the plants before it", async (t) => {
  const store = await openStore(t, makeFolder(t));
  let pieces = 0;
  async function* endless(): AsyncGenerator<Buffer> {
    yield Buffer.from(`${A}\n[`);
    for (; pieces < 1000; pieces++) yield Buffer.alloc(1024 * 1024, " ");
  }
  await assert.rejects(importPlants(store, endless()), { code: "invalid_json" });
  assert.ok(pieces < 100, `${pieces} MiB`);
  assert.equal(store.size, 1);
});

test("the lines of a chunk of more bytes than may wait for the disk are created 128 KiB at a time", async (t) => {
  const queueBytesMax = 1024 * 1024;
  const store = await openStore(t, makeFolder(t), { queueBytesMax });
  const line = (id: number) => `{"id":${id},"name":"${"x".repeat(1000)}"}\n`;
  let underWay = 0;
  let most = 0;
  const counting: PlantService = {
    create: async (plant) => {
      most = Math.max(++underWay, most);
      return store.create(plant).finally(() => underWay--);
    },
    get: (id) => store.get(id),
    list: () => store.list(),
  };
  const text = Array.from({ length: 2000 }, (_, at) => line(1000 + at)).join("");
  assert.ok(text.length > queueBytesMax);
  assert.deepEqual(await importPlants(counting, chunksOf(text)), reportOf(2000));
  const ofBlock = (128 * 1024) / line(1000).length;
  assert.ok(most > ofBlock / 2 && most < ofBlock + 1, `${most} at a time`);
});

test("lines that do not fit beside a long record wait until it is stored", async (t) => {
  const folder = makeFolder(t);
  const store = await openStore(t, folder, { queueBytesMax: 1000 });
  const name = "\u007f".repeat(200); // each takes six bytes of the record
  const lines = [
    `{"id":3,"name":"${name}"}`,
    A,
    "x",
    ...Array.from({ length: 50 }, (_, n) => `{"id":${10 + n},"name":"${"n".repeat(60)}"}`),
    '{"id":1,"name":"another"}',
    B,
  ];
  const refused: number[] = [];
  const report = await importPlants(store, chunksOf(lines.join("\n")), {
    onRefused: (line) => refused.push(line),
  });
  assert.deepEqual(report, reportOf(53, 0, 2));
  assert.deepEqual(refused, [3, 54]);
  const ids = (await collect(store.list())).map(({ id }) => Number(id));
  assert.deepEqual(ids, [3, 1, ...Array.from({ length: 50 }, (_, n) => 10 + n), 2]);
});

/** Imports a data directory into a new store. */
async function importFolder(t: TestContext, source: string) {
  const store = await openStore(t, makeFolder(t));
  const { text, bytes } = await openImportFile(source);
  const report = await importPlants(store, text);
  return { report, bytes, plants: await collect(store.list()) };
}

const FERN = { id: 1n, name: "a" };

test("a data directory is imported beside the process that uses it, up to what is durable", async (t) => {
  const source = makeFolder(t);
  const server = await openStore(t, source);
  await server.create(FERN);
  appendFileSync(logPath(source), `${B}\n`); // as if a batch were being written
  const { report, plants, bytes } = await importFolder(t, source);
  assert.deepEqual([report, plants, bytes], [reportOf(1), [FERN], `${A}\n`.length]);
});

/** Longer than the blocks in which a log is read. */
const MANY = Array.from({ length: 30_000 }, (_, id) => `{"id":${id},"name":"${"x".repeat(40)}"}\n`);

test("a folder without a log is an io_error, and leaves nothing open", async (t) => {
  const folder = makeFolder(t);
  await assert.rejects(openImportFile(folder), { code: "io_error" });
  assert.deepEqual(openFilesIn(folder), []);
});

test("a data directory whose holder does not say what is durable is refused", async (t) => {
  const source = makeFolder(t);
  writeLog(source, `${A}\n`);
  const lock = await locks.acquire(source, { name: "lock", command: "serve" });
  t.after(() => lock.close());
  await assert.rejects(openImportFile(source), { code: "locked" });
});

test("the log of a data directory that is replaced after it was verified ends the import", async (t) => {
  const source = makeFolder(t);
  const store = await openStore(t, makeFolder(t));
  writeLog(source, `${A}\n${B}\n`);
  const { text } = await openImportFile(source);
  writeFileSync(logPath(source), `${A}\n${B}\n`.replace('"b"', '"c"'));
  await assert.rejects(importPlants(store, text), { code: "corruption" });
});

test("openImportFile() reports how much of a data directory is verified", async (t) => {
  const source = makeFolder(t);
  writeLog(source, MANY.join(""));
  const reported: [number, number][] = [];
  const { bytes } = await openImportFile(source, (done, total) => reported.push([done, total]));
  assert.ok(reported.length > 1, "more than one block");
  assert.deepEqual(reported.at(-1), [bytes, bytes]);
});
