/** One plant in several spellings: old lines with more escapes, and lines that were written by hand. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { encodeNewPlant, type NewPlant, parseNewPlant } from "../../src/core/plant.ts";
import { isPlantOfRow } from "../../src/postgres/schema.ts";
import { makeFolder } from "../support/folders.ts";
import { collect, openStore, readLog, writeLog } from "../support/stores.ts";

/** The characters that version 1.0.0 escaped, beside those that JSON demands. */
const FORMERLY_ESCAPED = [
  ...range(0x7f, 0x9f),
  ...range(0x2028, 0x202e),
  ...range(0x2066, 0x2069),
  0xfeff,
];

const PLANTS: readonly NewPlant[] = FORMERLY_ESCAPED.flatMap((code) => {
  const character = String.fromCharCode(code);
  return [
    { id: BigInt(code), name: `a${character}b` },
    { id: -BigInt(code), name: character, tag: `${character}"\\${character}\t` },
  ];
});

function range(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, at) => first + at);
}

function hexEscape(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** How a line with the plants may be spelt. */
const SPELLINGS: readonly [what: string, spell: (line: string) => string][] = [
  ["as they are written now", (line) => line],
  ["as version 1.0.0 wrote them", (line) => line.replace(/[^\0-~]/g, hexEscape)],
  [
    "with capital digits",
    (line) => line.replace(/[^\0-~]/g, (each) => `\\u${hexEscape(each).slice(2).toUpperCase()}`),
  ],
  [
    "with each letter escaped",
    (line) => line.replace(/(?<=[:"])[ab](?=["\\\u007f-\uffff])|[^\0-~]/g, hexEscape),
  ],
  [
    "with raw separators",
    (line) => line.replace(/\\u(0085|2028|2029)/g, (each) => JSON.parse(`"${each}"`)),
  ],
  ["with an escaped tab in digits", (line) => line.replaceAll("\\t", "\\u0009")],
];

for (const [what, spell] of SPELLINGS) {
  const lines = PLANTS.map((plant) => `${spell(encodeNewPlant(plant))}\n`);

  test(`lines that are spelt ${what} are repeated, passed on as they are, and written nowhere`, async (t) => {
    const folder = makeFolder(t);
    writeLog(folder, lines.join(""));
    const store = await openStore(t, folder);
    for (const [at, plant] of PLANTS.entries()) {
      assert.equal(await store.create(plant), "replayed", lines[at]);
      const other = { ...plant, name: `${plant.name}.` };
      await assert.rejects(store.create(other), { code: "conflict" }, lines[at]);
      assert.deepEqual(await store.get(plant.id), plant);
      assert.equal(`${await store.getLine(plant.id)}\n`, lines[at]);
    }
    assert.equal(Buffer.concat(await collect(store.listLines())).toString(), lines.join(""));
    assert.deepEqual(await collect(store.list()), PLANTS);
    assert.equal(readLog(folder), lines.join(""));
  });

  test(`rows whose records are spelt ${what} have the content of their plants, and of no other`, () => {
    for (const [at, plant] of PLANTS.entries()) {
      const isPlant = (given: NewPlant) =>
        isPlantOfRow(given, [String(plant.id), "", null, (lines[at] as string).trimEnd()]);
      assert.equal(isPlant(plant), true, lines[at]);
      assert.equal(isPlant({ ...plant, name: `${plant.name}.` }), false, lines[at]);
      assert.equal(isPlant({ ...plant, tag: "other" }), false, lines[at]);
    }
  });
}

for (const exact of ["", "{broken", '{"id":7}', '"Fern"', '{"id":8,"name":"Fern"}']) {
  test(`a row whose record was changed by hand to ${exact || "nothing"} has the content of no plant`, () => {
    assert.equal(isPlantOfRow({ id: 7n, name: "Fern" }, ["7", "Fern", null, exact]), false);
  });
}

test("plants that were just created are repeated by the bytes in memory, and read as they were written", async (t) => {
  const store = await openStore(t, makeFolder(t));
  for (const plant of PLANTS) assert.equal(await store.create(plant), "created");
  for (const plant of PLANTS) {
    assert.equal(await store.create(plant), "replayed");
    assert.equal(String(await store.getLine(plant.id)), encodeNewPlant(plant));
  }
});

const OTHER_FORMS: readonly string[] = [
  '{"name":"\\u007f","id":7}',
  '{"id":7,"name":"\\u007f","more":[1,2]}',
  '{"id": 7,"name":"\\u007f"}',
  '{"id":7.0,"name":"\\u007f"}',
  '{"\\u0069d":7,"name":"\\u007f"}',
  '  {"id":7,"name":"\\u007f"} \r',
];

for (const form of OTHER_FORMS) {
  test(`a line in the form ${form} is read and listed in the canonical form`, async (t) => {
    const folder = makeFolder(t);
    writeLog(folder, `${form}\n`);
    const store = await openStore(t, folder);
    const line = encodeNewPlant({ id: 7n, name: "\u007f" });
    assert.equal(String(await store.getLine(7n)), line);
    assert.equal(String(Buffer.concat(await collect(store.listLines()))), `${line}\n`);
    assert.deepEqual(await store.get(7n), parseNewPlant(Buffer.from(form)));
    assert.equal(await store.create({ id: 7n, name: "\u007f" }), "replayed");
  });
}
