/** What an import makes of a text: line by line, in any chunks, until the store or the text fails. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { importPlants, type PlantStore, PlantStoreError } from "../../src/index.ts";
import { makeFolder } from "../support/folders.ts";
import { collect, openStore, readLog } from "../support/stores.ts";

const A = '{"id":1,"name":"a"}';
const B = '{"id":2,"name":"b","tag":"t"}';

async function* chunksOf(text: string | Buffer, ...cuts: number[]): AsyncGenerator<Buffer> {
  const bytes = Buffer.from(text);
  const places = [0, ...cuts, bytes.length];
  for (const [n, place] of places.slice(0, -1).entries()) {
    yield bytes.subarray(place, places[n + 1]);
  }
}

/** Imports the text, and returns the report with the lines that were refused. */
async function importText(store: PlantStore, text: string | Buffer, ...cuts: number[]) {
  const lines: number[] = [];
  const onRefused = (line: number, reason: string) => {
    assert.notEqual(reason, "");
    lines.push(line);
  };
  return { ...(await importPlants(store, chunksOf(text, ...cuts), { onRefused })), lines };
}

const BAD = Buffer.concat([
  Buffer.from(`x\n${A}\n{"id":3}\n\n{"id":4,"id":4,"name":"d"}\n`),
  Buffer.from('{"id":5,"name":"\xff"}\n', "latin1"),
  Buffer.from(`{"id":"6","name":"f"}\n${B}\n[]\n{"id":7,"na`),
]);

type Counts = readonly [created: number, replayed: number, refused: number];
const TEXTS: readonly [says: string, text: string | Buffer, counts: Counts, lines?: number[]][] = [
  ["nothing", "", [0, 0, 0]],
  ["byte order marks", `\ufeff${A}\n\ufeff${B}\n`, [2, 0, 0]],
  ["blank lines", `\n${A}\n \t\r\n\n${B}\n\n  `, [2, 0, 0]],
  ["other content for an id", `${A}\n{"id":1,"name":"b"}\n${B}\n`, [2, 0, 1], [2]],
  ["every kind of line that is no plant", BAD, [2, 0, 7], [1, 3, 5, 6, 7, 9, 10]],
];

for (const [says, text, [created, replayed, refused], lines = []] of TEXTS) {
  test(`a text that holds ${says} is imported line by line; a second import creates nothing`, async (t) => {
    const folder = makeFolder(t);
    const store = await openStore(t, folder);
    assert.deepEqual(await importText(store, text), { created, replayed, refused, lines });
    const log = readLog(folder);
    const again = { created: 0, replayed: created + replayed, refused, lines };
    assert.deepEqual(await importText(store, text), again);
    assert.equal(readLog(folder), log);
  });
}

test("a text is imported in order, like requests, however it is cut into chunks", async (t) => {
  const folder = makeFolder(t);
  const store = await openStore(t, folder);
  const odd = '\ufeff{"tag":"t","extra":1,"name":"b","id":2.0}\r\n';
  const other = '{"id":3,"name":"\u00e9\ud83c\udf35"}\n';
  const text = Buffer.from(`${odd}\n${other}x\n${A}`);
  await importText(store, text);
  assert.equal(readLog(folder), `${B}\n${other}${A}\n`);
  await fc.assert(
    fc.asyncProperty(fc.array(fc.nat(text.length)), async (cuts) => {
      const again = await importText(store, text, ...cuts.sort((a, b) => a - b));
      assert.deepEqual(again, { created: 0, replayed: 3, refused: 1, lines: [4] });
    }),
    { examples: [[Array.from(text.keys())]] },
  );
});

test("an import reports how many bytes it has processed", async (t) => {
  const store = await openStore(t, makeFolder(t));
  const reported: number[] = [];
  const text = `${A}\n${B}\n{"id":3,"name":"c"}\n`;
  await importPlants(store, chunksOf(text, 25), { onProgress: (bytes) => reported.push(bytes) });
  assert.deepEqual(reported, [20, 70]);
});

test("an import ends at the first failure of the store; what was created before it stays", async (t) => {
  const store = await openStore(t, makeFolder(t));
  for (const code of ["write_failed", "closed", "overloaded"] as const) {
    const failing: Pick<PlantStore, "create"> = {
      create: (plant) =>
        plant.id === 2n ? Promise.reject(new PlantStoreError(code, "no")) : store.create(plant),
    };
    await assert.rejects(importPlants(failing, chunksOf(`${A}\n${B}\n`)), { code });
    assert.deepEqual(await collect(store.list()), [{ id: 1n, name: "a" }]);
  }
});

test("an import of one endless line fails before it fills the memory, and keeps the plants before it", async (t) => {
  const store = await openStore(t, makeFolder(t));
  let pieces = 0;
  async function* endless(): AsyncGenerator<Buffer> {
    yield Buffer.from(`${A}\n[`);
    for (; pieces < 1000; pieces++) yield Buffer.alloc(1024 * 1024, " ");
  }
  await assert.rejects(importPlants(store, endless()), { code: "invalid_json" });
  assert.ok(pieces < 10, `${pieces} MiB`);
  assert.equal(store.status().plants, 1);
});
