/**
 * A data directory that version 1.0.0 wrote, with edits by hand. Every later version opens it in place,
 * finds the same plants and tokens, and changes none of its bytes. The fixture is never written again;
 * a later form of the files gets a folder beside it.
 */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { chmodSync, cpSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import { type NewPlant, PlantStore, TokenRegistry, type VerifiedToken } from "../src/index.ts";
import { backup, isSound, readPlants, verifyLog } from "../src/tools.ts";
import { makeFolder } from "./support/folders.ts";
import { collect, openStore } from "./support/stores.ts";
import { collectWarnings } from "./support/watch.ts";

const GOLDEN = fileURLToPath(new URL("fixtures/golden-1.0.0/", import.meta.url));
const FILES = ["plants.jsonl", "plants.jsonl.checkpoint", "tokens.jsonl"];

/** A fixture that was made again would prove nothing about the version in its name. */
const SHA256: Readonly<Record<string, string>> = {
  "expected.json": "542fe98329a6a4a91bc80cd3eda9542e2d2d078d70d605e9125cc532ccabc79d",
  "plants.jsonl": "fc722b7b4b11f3f03bb45793e00f60b76533acb0cf59904a002e824bd2b75120",
  "plants.jsonl.checkpoint": "144f3a21ef3a1ed197985182cb2d93eacfd755dfdf4059f2f202456700cf65ef",
  "tokens.jsonl": "173739d855b4cfac1db2e9d3f85d028466a9857edc8eb030f1916d94194c2133",
};

/** The plants in the log, with ids as text because JSON numbers lose digits. */
const expected: {
  readonly plants: readonly { readonly id: string; readonly name: string; readonly tag?: string }[];
  readonly tokens: readonly ({ readonly token: string } & Partial<VerifiedToken>)[];
} = JSON.parse(readFileSync(path.join(GOLDEN, "expected.json"), "utf8"));

const PLANTS: readonly NewPlant[] = expected.plants.map((plant) => ({
  ...plant,
  id: BigInt(plant.id),
}));

function copyGolden(t: TestContext): string {
  const folder = makeFolder(t);
  for (const file of FILES) {
    cpSync(path.join(GOLDEN, file), path.join(folder, file));
    chmodSync(path.join(folder, file), 0o600);
  }
  return folder;
}

function read(folder: string, file: string): Buffer {
  return readFileSync(path.join(folder, file));
}

test("the plants of version 1.0.0 are all there, and opening changes no byte", async (t) => {
  const warnings = collectWarnings(t);
  const folder = copyGolden(t);
  const store = await PlantStore.open(folder);
  assert.deepEqual(await collect(store.list()), PLANTS);
  assert.equal(store.size, PLANTS.length);
  for (const plant of PLANTS) assert.deepEqual(await store.get(plant.id), plant);
  await store.close();
  assert.deepEqual(read(folder, "plants.jsonl"), read(GOLDEN, "plants.jsonl"));
  assert.deepEqual(warnings, []);
});

test("the index that version 1.0.0 keeps beside a long log is not looked at: the log decides", async (t) => {
  const folder = copyGolden(t);
  for (const name of ["index", "index.new"]) {
    writeFileSync(path.join(folder, `plants.jsonl.${name}`), "an index of other plants");
  }
  const store = await PlantStore.open(folder);
  assert.deepEqual(await collect(store.list()), PLANTS);
  await store.close();
  assert.deepEqual(read(folder, "plants.jsonl"), read(GOLDEN, "plants.jsonl"));
});

test("lines of version 1.0.0 in the canonical form are passed on as they are", async (t) => {
  const folder = copyGolden(t);
  const store = await openStore(t, folder);
  const lines = Buffer.concat(await collect(store.listLines()))
    .toString()
    .split("\n");
  const golden = read(GOLDEN, "plants.jsonl").toString().replace("\ufeff", "").split("\n");
  assert.deepEqual(lines.slice(0, 13), golden.slice(0, 13));
  for (const [at, { id }] of PLANTS.entries()) {
    assert.equal((await store.getLine(id))?.toString(), lines[at], String(id));
  }
});

test("a repeat of a plant of version 1.0.0 answers as before, and another plant with its id is a conflict", async (t) => {
  const folder = copyGolden(t);
  const store = await openStore(t, folder);
  for (const plant of PLANTS) {
    assert.equal(await store.create(plant), "replayed", String(plant.id));
    const other = { ...plant, name: `${plant.name}, another` };
    await assert.rejects(store.create(other), { code: "conflict" }, String(plant.id));
  }
  assert.deepEqual(read(folder, "plants.jsonl"), read(GOLDEN, "plants.jsonl"));
});

test("a new plant is appended after those of version 1.0.0", async (t) => {
  const folder = copyGolden(t);
  const store = await openStore(t, folder);
  assert.equal(await store.create({ id: 99n, name: "new" }), "created");
  const line = Buffer.from('{"id":99,"name":"new"}\n');
  const golden = read(GOLDEN, "plants.jsonl");
  assert.deepEqual(read(folder, "plants.jsonl"), Buffer.concat([golden, line]));
});

/** Version 1.0.0 escaped more than later ones do. */
const ONLY_1_0_0 = /\\u(?:007f|008[0-46-9a-f]|009.|202[a-e]|206[6-9]|feff)/g;

test("plants of version 1.0.0 that are written again have the same bytes, except for fewer escapes", async (t) => {
  const folder = makeFolder(t);
  const store = await openStore(t, folder);
  const untouched = read(GOLDEN, "plants.jsonl").toString().replace("\ufeff", "").split("\n", 13);
  for (const plant of PLANTS.slice(0, untouched.length)) await store.create(plant);
  const written = read(folder, "plants.jsonl").toString().split("\n").slice(0, -1);
  const decodeEscapes = (line: string) =>
    line.replace(ONLY_1_0_0, (each) => JSON.parse(`"${each}"`));
  assert.deepEqual(written, untouched.map(decodeEscapes));
  assert.notDeepEqual(written, untouched);
});

test("the tokens of version 1.0.0 are live or dead as they were", async (t) => {
  const folder = copyGolden(t);
  const tokens = await TokenRegistry.open(folder);
  t.after(() => tokens.close());
  for (const { token, ...verified } of expected.tokens) {
    assert.deepEqual(tokens.verify(token) ?? {}, verified);
  }
  assert.deepEqual(read(folder, "tokens.jsonl"), read(GOLDEN, "tokens.jsonl"));
});

test("the directory of version 1.0.0 is sound, its checksum matches, and it can be backed up", async (t) => {
  const folder = copyGolden(t);
  const report = await verifyLog(folder);
  assert.ok(isSound(report));
  const { records, bytes, duplicates, checksum, checkpointBytes } = report;
  const length = read(GOLDEN, "plants.jsonl").length;
  assert.deepEqual(
    { records, bytes, duplicates, checksum, checkpointBytes },
    {
      records: PLANTS.length + 1,
      bytes: length,
      duplicates: 1,
      checksum: "matches",
      checkpointBytes: length,
    },
  );
  const copy = path.join(makeFolder(t), "copy");
  await backup(folder, copy);
  for (const file of ["plants.jsonl", "tokens.jsonl"]) {
    assert.deepEqual(read(copy, file), read(GOLDEN, file), file);
  }
  // Another process reads a repeated line twice.
  assert.equal((await collect(readPlants(copy))).length, PLANTS.length + 1);
});

test("the files of version 1.0.0 are unchanged to the byte", () => {
  const names = Object.keys(SHA256);
  assert.deepEqual(readdirSync(GOLDEN).sort(), [".gitattributes", ...names].sort());
  for (const file of names) {
    assert.equal(createHash("sha256").update(read(GOLDEN, file)).digest("hex"), SHA256[file], file);
  }
});
