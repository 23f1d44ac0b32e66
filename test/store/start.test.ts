/** What a log holds, by hand or after a crash, to a start and to everything else that reads it. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { parseNewPlant } from "../../src/core/plant.ts";
import { type NewPlant, PlantStore } from "../../src/index.ts";
import {
  backup,
  exportLines,
  importPlants,
  isSound,
  openImportFile,
  readPlants,
  restore,
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
import { collectWarnings } from "../support/watch.ts";

const A = '{"id":1,"name":"a"}';
const B = '{"id":2,"name":"b","tag":"t"}';
const PLANT_A: NewPlant = { id: 1n, name: "a" };
const PLANT_B: NewPlant = { id: 2n, name: "b", tag: "t" };

/** Logs left by an editor or a crash that a start opens by itself. `kept`: the log after the start. */
const GOOD: readonly {
  readonly says: string;
  readonly log: string;
  readonly plants: readonly NewPlant[];
  readonly kept?: string;
  /** What a backup holds, if a start would keep more. */
  readonly copied?: string;
  readonly quarantined?: string;
}[] = [
  { says: "is empty", log: "", plants: [] },
  { says: "holds only a line feed", log: "\n", plants: [] },
  { says: "holds only blank lines", log: "\n  \n\t\r\n\n", plants: [] },
  {
    says: "has blank lines between records",
    log: `\n${A}\n\n  \n${B}\n\n`,
    plants: [PLANT_A, PLANT_B],
  },
  { says: "has lines that end in CRLF", log: `${A}\r\n${B}\r\n`, plants: [PLANT_A, PLANT_B] },
  {
    says: "has its members in another order",
    log: '{"tag":"t","name":"b","id":2}\n',
    plants: [PLANT_B],
  },
  {
    says: "has spaces around everything",
    log: ' { "id" : 2 ,\t"name" : "b" , "tag" : "t" } \n',
    plants: [PLANT_B],
  },
  {
    says: "has unknown members",
    log: '{"id":1,"name":"a","soil":{"id":9},"__proto__":{"tag":"x"}}\n',
    plants: [PLANT_A],
  },
  {
    says: "spells ids and letters in another way",
    log: '{"\\u0069d":0.1e1,"name":"\\u0061"}\n',
    plants: [PLANT_A],
  },
  { says: "holds one plant twice", log: `${A}\n${B}\n${A}\n`, plants: [PLANT_A, PLANT_B] },
  {
    says: "holds one plant twice in two spellings",
    log: `${A}\n{"name":"a","id":1}\n`,
    plants: [PLANT_A],
  },
  {
    says: "lacks only its last line feed",
    log: `${A}\n${B}`,
    plants: [PLANT_A, PLANT_B],
    kept: `${A}\n${B}\n`,
  },
  { says: "is one record without a line feed", log: A, plants: [PLANT_A], kept: `${A}\n` },
  {
    says: "lacks its last line feed after a carriage return",
    log: `${A}\r`,
    plants: [PLANT_A],
    kept: `${A}\r\n`,
  },
  {
    says: "ends in a repeat without a line feed",
    log: `${A}\n${A}`,
    plants: [PLANT_A],
    kept: `${A}\n${A}\n`,
  },
  {
    says: "ends in a torn record",
    log: `${A}\n${B.slice(0, -1)}`,
    plants: [PLANT_A],
    kept: `${A}\n`,
    quarantined: B.slice(0, -1),
  },
  {
    says: "ends in blanks without a line feed",
    log: `${A}\n \t\r`,
    plants: [PLANT_A],
    kept: `${A}\n \t\r\n`,
    copied: `${A}\n`,
  },
  { says: "begins with a byte order mark", log: `\ufeff${A}\n${B}\n`, plants: [PLANT_A, PLANT_B] },
  {
    says: "is one record after a byte order mark, without a line feed",
    log: `\ufeff${A}`,
    plants: [PLANT_A],
    kept: `\ufeff${A}\n`,
    copied: `${A}\n`,
  },
  { says: "is one torn byte", log: "{", plants: [], kept: "", quarantined: "{" },
  {
    says: "ends in NUL bytes",
    log: `${A}\n${"\0".repeat(1000)}`,
    plants: [PLANT_A],
    kept: `${A}\n`,
    quarantined: "\0".repeat(1000),
  },
];

for (const { says, log, plants, kept = log, quarantined } of GOOD) {
  test(`a log that ${says} is served, and appended to correctly`, async (t) => {
    const folder = makeFolder(t);
    writeLog(folder, log);
    const warnings = collectWarnings(t);
    const store = await openStore(t, folder);

    assert.equal(readLog(folder), kept);
    assert.equal(readQuarantine(folder), quarantined);
    assert.equal(warnings.length, kept === log ? 0 : 1); // a change is reported
    assert.equal(store.size, plants.length);
    assert.deepEqual(await collect(store.list()), plants);
    for (const plant of plants) assert.equal(await store.create(plant), "replayed");

    const fresh = { id: 99n, name: "fresh" };
    assert.equal(await store.create(fresh), "created");
    assert.equal(readLog(folder), `${kept}{"id":99,"name":"fresh"}\n`);
    assert.deepEqual(await store.get(99n), fresh);
    await store.close();

    assert.deepEqual(await collect((await openStore(t, folder)).list()), [...plants, fresh]);
  });
}

/** The lines of plants, by the simplest code. */
function plantLines(log: string): string[] {
  return log
    .replace(/^\ufeff/, "")
    .split("\n")
    .filter((line) => /[^ \t\r]/.test(line));
}

for (const { says, log, plants, kept = log, copied = kept } of GOOD) {
  test(`a log that ${says} is listed, exported, copied and imported as a start would serve it`, async (t) => {
    const folder = makeFolder(t);
    const parent = makeFolder(t);
    writeLog(folder, log);

    const lines = plantLines(kept);
    const exported = Buffer.concat(await collect(exportLines(folder))).toString();
    assert.equal(exported, lines.map((line) => `${line}\n`).join(""));
    const listed = await collect(readPlants(folder));
    assert.deepEqual(
      listed,
      lines.map((line) => parseNewPlant(Buffer.from(line))),
    );
    assert.equal(isSound(await verifyLog(folder)), true);
    for (const copy of [backup, restore]) {
      const target = join(parent, copy.name);
      const bytes = Buffer.byteLength(copied);
      assert.deepEqual(await copy(folder, target), { plants: plants.length, bytes });
      assert.equal(readLog(target), copied);
      const { checksum, checkpointBytes } = await verifyLog(target);
      assert.deepEqual([checksum, checkpointBytes], ["matches", bytes]);
    }
    const store = await openStore(t, join(parent, "imported"));
    const { text } = await openImportFile(folder);
    const replayed = lines.length - plants.length;
    const report = { created: plants.length, replayed, refused: 0 };
    assert.deepEqual(await importPlants(store, text), report);
    assert.deepEqual(await collect(store.list()), plants);

    assert.deepEqual(snapshot(folder), { "plants.jsonl": Buffer.from(log).toString("latin1") });
    assert.deepEqual(openFilesIn(folder), []);
  });
}

/** The content of the only quarantine file, or `undefined`. */
function readQuarantine(folder: string): string | undefined {
  const names = readdirSync(folder).filter((name) => name.includes("quarantine"));
  assert.ok(names.length <= 1);
  return names[0] === undefined ? undefined : readFileSync(join(folder, names[0]), "utf8");
}

/** Logs that need a person. `at`: the place of the first fault. */
const DAMAGED: readonly {
  readonly says: string;
  readonly log: string | Buffer;
  readonly at: { readonly line: number; readonly byte: number };
  /** Each line by itself is a plant, so it is listed and exported. */
  readonly isListed?: boolean;
}[] = [
  { says: "an unreadable line in the middle", log: `${A}\nx\n${B}\n`, at: { line: 2, byte: 20 } },
  { says: "an unreadable first line", log: `x\n${A}\n`, at: { line: 1, byte: 0 } },
  { says: "an unreadable last line", log: `${A}\nx\n`, at: { line: 2, byte: 20 } },
  {
    says: "an unreadable line after blank ones",
    log: `${A}\n\n  \nx\n`,
    at: { line: 4, byte: 24 },
  },
  { says: "a record cut short in the middle", log: `{"id":1,\n${B}\n`, at: { line: 1, byte: 0 } },
  { says: "two records on one line", log: `${A}${B}\n`, at: { line: 1, byte: 0 } },
  { says: "an array", log: `${A}\n[1,"a"]\n`, at: { line: 2, byte: 20 } },
  { says: "a plant without a name", log: `${A}\n{"id":2}\n`, at: { line: 2, byte: 20 } },
  { says: "an id in quotes", log: '{"id":"1","name":"a"}\n', at: { line: 1, byte: 0 } },
  {
    says: "an id beyond int64",
    log: '{"id":9223372036854775808,"name":"a"}\n',
    at: { line: 1, byte: 0 },
  },
  { says: "a tag of null", log: '{"id":1,"name":"a","tag":null}\n', at: { line: 1, byte: 0 } },
  { says: "a member twice", log: '{"id":1,"id":1,"name":"a"}\n', at: { line: 1, byte: 0 } },
  { says: "a line of NUL bytes", log: `${A}\n\0\0\0\n${B}\n`, at: { line: 2, byte: 20 } },
  {
    says: "a byte that is not UTF-8",
    log: Buffer.from(`${A}\n{"id":2,"name":"\xff"}\n`, "latin1"),
    at: { line: 2, byte: 20 },
  },
  { says: "a fault before a torn tail", log: `x\n${A}\n{"id":`, at: { line: 1, byte: 0 } },
  {
    says: "one id with two names",
    log: `${A}\n${B}\n{"id":1,"name":"c"}\n`,
    at: { line: 3, byte: 50 },
    isListed: true,
  },
  {
    says: "one id with and without a tag",
    log: `${A}\n{"id":1,"name":"a","tag":""}\n`,
    at: { line: 2, byte: 20 },
    isListed: true,
  },
  {
    says: "one id with two contents, the last without a line feed",
    log: `${A}\n{"id":1,"name":"c"}`,
    at: { line: 2, byte: 20 },
    isListed: true,
  },
];

/** Everything that reads a log and makes nothing of a damaged one; in `parent` a folder may be left. */
const READERS: Readonly<Record<string, (folder: string, parent: string) => Promise<unknown>>> = {
  list: (folder) => collect(readPlants(folder)),
  export: (folder) => collect(exportLines(folder)),
  start: (folder) => PlantStore.open(folder),
  backup: (folder, parent) => backup(folder, join(parent, "copy")),
  restore: (folder, parent) => restore(folder, join(parent, "data")),
  import: (folder) => openImportFile(folder),
};

function filesIn(parent: string): string[] {
  const names = readdirSync(parent, { recursive: true, encoding: "utf8" });
  return names.filter((name) => !/^data(\/lock\.\d+)?$/.test(name));
}

for (const { says, log, at, isListed = false } of DAMAGED) {
  test(`a log with ${says} is refused by every reader, naming the place, and left as it is`, async (t) => {
    const [folder, parent] = [makeFolder(t), makeFolder(t)];
    writeLog(folder, log);
    assert.equal(isSound(await verifyLog(folder)), false);
    for (const read of Object.values(READERS).slice(isListed ? 2 : 0)) {
      await assert.rejects(read(folder, parent), (error: Error & { code?: string }) => {
        assert.equal(error.code, "corruption");
        // The wording is free, but a person needs the path, the line and the byte.
        assert.ok(error.message.includes(logPath(folder)), error.message);
        assert.match(error.message, new RegExp(`\\b${at.line}\\b.*\\b${at.byte}\\b`));
        return true;
      });
    }
    assert.deepEqual(snapshot(folder), { "plants.jsonl": Buffer.from(log).toString("latin1") });
    assert.deepEqual(filesIn(parent), []);
    assert.deepEqual([...openFilesIn(folder), ...openFilesIn(parent)], []);
  });
}

for (const [says, log] of [
  ["a letter that differs from its checkpoint", `${A.replace('"a"', '"c"')}\n${B}\n`],
  ["less than its checkpoint covers", `${A}\n`],
  ["only a checkpoint", undefined],
] as const) {
  test(`a folder that holds ${says} is refused by all that copy or serve it, and left as it is`, async (t) => {
    const [folder, parent] = [makeFolder(t), makeFolder(t)];
    if (log !== undefined) writeLog(folder, log);
    writeCheckpointOf(folder, `${A}\n${B}\n`);
    const before = snapshot(folder);
    for (const read of Object.values(READERS).slice(log === undefined ? 0 : 2)) {
      await assert.rejects(read(folder, parent), { code: "corruption" });
    }
    assert.deepEqual(snapshot(folder), before);
    assert.deepEqual(filesIn(parent), []);
    assert.deepEqual(openFilesIn(folder), []);
  });
}

test("a line that lost pages in a power cut is refused by all that only read", async (t) => {
  const [folder, parent] = [makeFolder(t), makeFolder(t)];
  writeLog(folder, `${A}\n{"id":2,"name":"${"\0".repeat(1100)}"}\n`);
  const { start: _, ...others } = READERS;
  for (const read of Object.values(others)) {
    await assert.rejects(read(folder, parent), { code: "corruption" });
  }
  assert.equal((await openStore(t, folder)).size, 1);
});

test("a record torn within a character is kept byte for byte in quarantine", async (t) => {
  const folder = makeFolder(t);
  const torn = Buffer.from('{"id":2,"name":"\xc3', "latin1");
  writeLog(folder, Buffer.concat([Buffer.from(`${A}\n`), torn]));
  await openStore(t, folder);
  assert.equal(readLog(folder), `${A}\n`);
  assert.deepEqual(readFileSync(`${logPath(folder)}.quarantine-1`), torn);
});

test("a fault far into the log is named by its own line and byte", async (t) => {
  const folder = makeFolder(t);
  const lines = Array.from(
    { length: 60_000 },
    (_, n) => `{"id":${n},"name":"${"x".repeat(30)}"}\n`,
  );
  const before = lines.join("");
  writeLog(folder, `${before}damage\n${A}\n`);
  await assert.rejects(PlantStore.open(folder), (error: Error & { code?: string }) => {
    assert.equal(error.code, "corruption");
    assert.match(error.message, new RegExp(`\\b60001\\b.*\\b${before.length}\\b`));
    return true;
  });
});
