import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { type NewPlant, PlantStore } from "../../src/index.ts";
import { makeFolder } from "../support/folders.ts";
import { collect, logPath, openStore, readLog, writeLog } from "../support/stores.ts";
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
  },
  {
    says: "one id with and without a tag",
    log: `${A}\n{"id":1,"name":"a","tag":""}\n`,
    at: { line: 2, byte: 20 },
  },
  {
    says: "one id with two contents, the last without a line feed",
    log: `${A}\n{"id":1,"name":"c"}`,
    at: { line: 2, byte: 20 },
  },
];

for (const { says, log, at } of DAMAGED) {
  test(`a log with ${says} is refused, naming the place, and left as it is`, async (t) => {
    const folder = makeFolder(t);
    writeLog(folder, log);
    for (let attempt = 0; attempt < 2; attempt++) {
      await assert.rejects(PlantStore.open(folder), (error: Error & { code?: string }) => {
        assert.equal(error.code, "corruption");
        // The wording is free, but a person needs the path, the line and the byte.
        assert.ok(error.message.includes(logPath(folder)));
        assert.match(error.message, new RegExp(`\\b${at.line}\\b.*\\b${at.byte}\\b`));
        return true;
      });
    }
    assert.deepEqual(readFileSync(logPath(folder)), Buffer.from(log));
    assert.equal(readQuarantine(folder), undefined);
  });
}

test("a record torn within a character is kept byte for byte in quarantine", async (t) => {
  const folder = makeFolder(t);
  const torn = Buffer.from('{"id":2,"name":"\xc3', "latin1");
  writeLog(folder, Buffer.concat([Buffer.from(`${A}\n`), torn]));
  await openStore(t, folder);
  assert.equal(readLog(folder), `${A}\n`);
  assert.deepEqual(readFileSync(`${logPath(folder)}.quarantine-1`), torn);
});

test("every torn tail goes to a quarantine file of its own", async (t) => {
  const folder = makeFolder(t);
  for (const number of [1, 2, 3]) {
    writeLog(folder, `${A}\ntorn ${number}`);
    await (await openStore(t, folder)).close();
    assert.equal(readLog(folder), `${A}\n`);
  }
  for (const number of [1, 2, 3]) {
    const file = `${logPath(folder)}.quarantine-${number}`;
    assert.equal(readFileSync(file, "utf8"), `torn ${number}`);
  }
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
