import assert from "node:assert/strict";
import { appendFileSync, existsSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { NewPlant } from "../../src/index.ts";
import { exportLines, readPlants } from "../../src/tools.ts";
import { makeFolder } from "../support/folders.ts";
import { collect, logPath, openFilesIn, openStore, readLog, writeLog } from "../support/stores.ts";

const PLANTS: readonly NewPlant[] = [
  { id: 2n, name: "b", tag: "t" },
  { id: 1n, name: "a" },
];

test("the plants of a closed store are read in order, and nothing is changed", async (t) => {
  const folder = makeFolder(t);
  const store = await openStore(t, folder);
  for (const plant of PLANTS) await store.create(plant);
  await store.close();
  const names = readdirSync(folder);
  const log = readLog(folder);

  assert.deepEqual(await collect(readPlants(folder)), PLANTS);
  assert.deepEqual(await collect(readPlants(folder)), PLANTS);

  assert.deepEqual(readdirSync(folder), names);
  assert.equal(readLog(folder), log);
});

test("reading needs no lock: a store can be open, or be opened, at the same time", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, '{"id":1,"name":"a"}\n{"id":2,"name":"b"}\n');
  const reading = readPlants(folder);
  await reading.next();
  const store = await openStore(t, folder);
  await store.create({ id: 3n, name: "c" });
  // The plants that were there when the reading began.
  assert.deepEqual(await collect(reading), [{ id: 2n, name: "b" }]);
});

test("while a store is open, only its durable plants are read", async (t) => {
  const folder = makeFolder(t);
  const store = await openStore(t, folder);
  for (const plant of PLANTS) await store.create(plant);
  // As if a batch were being written: in the file, but not synced yet.
  for (const bytes of ['{"id":3,"name":"not yet"}', "\n"]) {
    appendFileSync(logPath(folder), bytes);
    assert.deepEqual(await collect(readPlants(folder)), PLANTS);
  }
});

test("a torn tail is not read, and stays where it is", async (t) => {
  const folder = makeFolder(t);
  const log = '{"id":1,"name":"a"}\n{"id":2,"na';
  writeLog(folder, log);
  assert.deepEqual(await collect(readPlants(folder)), [{ id: 1n, name: "a" }]);
  assert.equal(readLog(folder), log);
  assert.deepEqual(readdirSync(folder), ["plants.jsonl"]);
});

test("a last record that lacks only its line feed is read: the next start completes it", async (t) => {
  const folder = makeFolder(t);
  const log = '{"id":2,"name":"b","tag":"t"}\n{"id":1,"name":"a"}';
  writeLog(folder, log);
  assert.deepEqual(await collect(readPlants(folder)), PLANTS);
  assert.equal(readLog(folder), log);
});

test("an empty log has no plants", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, "");
  assert.deepEqual(await collect(readPlants(folder)), []);
});

test("a log whose path is too long for a socket address is read beside its store", async (t) => {
  const folder = join(makeFolder(t), "long".repeat(30));
  const store = await openStore(t, folder);
  await store.create({ id: 1n, name: "a" });
  assert.deepEqual(await collect(readPlants(folder)), [{ id: 1n, name: "a" }]);
});

test("reading a missing folder is an io_error, and makes none", async (t) => {
  const folder = join(makeFolder(t), "none");
  await assert.rejects(collect(readPlants(folder)), { code: "io_error" });
  assert.equal(existsSync(folder), false);
});

test("reading a missing log is an io_error, and makes none", async (t) => {
  const folder = makeFolder(t);
  await assert.rejects(collect(readPlants(folder)), { code: "io_error" });
  assert.deepEqual(readdirSync(folder), []);
});

test("reading a folder in place of the log is an io_error", async (t) => {
  const folder = makeFolder(t);
  mkdirSync(logPath(folder));
  await assert.rejects(collect(readPlants(folder)), { code: "io_error" });
});

test("reading a damaged log is refused, naming path, line and byte", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, '{"id":1,"name":"a"}\ndamage\n');
  await assert.rejects(collect(readPlants(folder)), (error: Error & { code?: string }) => {
    assert.equal(error.code, "corruption");
    assert.ok(error.message.includes(logPath(folder)));
    assert.match(error.message, /\b2\b.*\b20\b/);
    return true;
  });
});

test("a reading that is stopped leaves no file open", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, '{"id":1,"name":"a"}\n{"id":2,"name":"b"}\n');
  for await (const plant of readPlants(folder)) {
    assert.equal(plant.id, 1n);
    break;
  }
  assert.deepEqual(openFilesIn(folder), []);
});

const A_LINE = '{"id":1,"name":"a"}\n';
const B_LINE = '{ "tag":"t", "name":"\\u0062","id":2.0,"more":[1] }\n';

/** The export of a log: its lines, byte for byte, without anything that is not a line. */
const EXPORTS: readonly [says: string, log: string, exported: string][] = [
  ["an empty log", "", ""],
  ["lines in any spelling", A_LINE + B_LINE, A_LINE + B_LINE],
  ["blank lines", `\n${A_LINE}  \n\t\r\n${B_LINE}\n`, A_LINE + B_LINE],
  ["nothing but blank lines", "\n \n", ""],
  [
    "CRLF endings",
    (A_LINE + B_LINE).replaceAll("\n", "\r\n"),
    (A_LINE + B_LINE).replaceAll("\n", "\r\n"),
  ],
  ["a byte order mark", `\ufeff${A_LINE}${B_LINE}`, A_LINE + B_LINE],
  ["one plant twice", A_LINE + A_LINE, A_LINE + A_LINE],
  ["a torn tail", `${A_LINE}{"id":2`, A_LINE],
  ["a last line without its line feed", A_LINE + B_LINE.trimEnd(), A_LINE + B_LINE],
  ["one line without its line feed", A_LINE.trimEnd(), A_LINE],
  ["a byte order mark and one line without its line feed", `\ufeff${A_LINE.trimEnd()}`, A_LINE],
  ["blanks after the last line feed", `${A_LINE}  `, A_LINE],
];

for (const [says, log, exported] of EXPORTS) {
  test(`the export of ${says} has the line of every plant as it is in the log`, async (t) => {
    const folder = makeFolder(t);
    writeLog(folder, log);
    const bytes = Buffer.concat(await collect(exportLines(folder)));
    assert.equal(bytes.toString(), exported);
    assert.equal(readLog(folder), log);
    assert.deepEqual(readdirSync(folder), ["plants.jsonl"]);
  });
}

test("the export of a log of several blocks is that log, byte for byte", async (t) => {
  const folder = makeFolder(t);
  const log = Array.from({ length: 6000 }, (_, id) => {
    return `{"id":${id},"name":"${"x".repeat((id * 7919) % 900)}"}\n`;
  }).join("");
  writeLog(folder, log);
  const blocks = await collect(exportLines(folder));
  assert.ok(blocks.length > 1, "in bounded memory");
  assert.equal(Buffer.concat(blocks).equals(Buffer.from(log)), true);
});

test("while a store is open, the export ends with its last durable plant", async (t) => {
  const folder = makeFolder(t);
  const store = await openStore(t, folder);
  await store.create({ id: 1n, name: "a" });
  appendFileSync(logPath(folder), '{"id":3,"name":"not yet"}\n');
  assert.equal(Buffer.concat(await collect(exportLines(folder))).toString(), A_LINE);
});

test("the export of a damaged log ends with an error at the damaged line", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, `${A_LINE}damage\n`);
  await assert.rejects(collect(exportLines(folder)), { code: "corruption" });
  assert.deepEqual(openFilesIn(folder), []);
  await assert.rejects(collect(exportLines(join(folder, "none"))), { code: "io_error" });
});

test("the lines before a damaged one are exported, and the fault names path, line and byte", async (t) => {
  const folder = makeFolder(t);
  const bad = Buffer.from('{"id":2,"name":"\xe9"}\n', "latin1");
  writeLog(folder, Buffer.concat([Buffer.from(`${A_LINE}\n${B_LINE}`), bad, Buffer.from(A_LINE)]));
  const given: Buffer[] = [];
  const reading = async () => {
    for await (const bytes of exportLines(folder)) given.push(bytes);
  };
  await assert.rejects(reading, (error: Error & { code?: string }) => {
    assert.equal(error.code, "corruption");
    assert.ok(error.message.includes(logPath(folder)));
    assert.match(error.message, /\b4\b.*\b72\b/);
    return true;
  });
  assert.equal(Buffer.concat(given).toString(), A_LINE + B_LINE);
});
