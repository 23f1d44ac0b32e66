/** What each reader makes of a log: the rows of `test/cases/logs`, and any cut and any flipped bit. */
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import fc from "fast-check";
import { PlantStore, PlantStoreError } from "../../src/index.ts";
import {
  backup,
  exportLines,
  importPlants,
  isSound,
  openImportFile,
  repairLog,
  restore,
  verifyLog,
} from "../../src/tools.ts";
import { type Bytes, LOGS, type LogCase } from "../cases/logs.ts";
import { makeFolder } from "../support/folders.ts";
import { readQuarantines, snapshot } from "../support/snapshot.ts";
import {
  collect,
  logPath,
  openFilesIn,
  openStore,
  writeCheckpointOf,
  writeLog,
} from "../support/stores.ts";
import { collectWarnings } from "../support/watch.ts";

/** A folder with the files of a row. */
function makeDirectory(t: TestContext, { log, known, beside = {} }: LogCase): string {
  const folder = makeFolder(t);
  if (log !== undefined) writeLog(folder, log);
  if (known !== undefined) writeCheckpointOf(folder, Buffer.from(known));
  for (const [end, content] of Object.entries(beside)) {
    const path = logPath(folder) + end;
    if (content === null) mkdirSync(path);
    else writeFileSync(path, content);
  }
  return folder;
}

function latin1(bytes: Bytes): string {
  return Buffer.from(bytes as string).toString("latin1");
}

function logOf(folder: string): string | undefined {
  const isFile = "plants.jsonl" in snapshot(folder);
  return isFile ? readFileSync(logPath(folder), "latin1") : undefined;
}

/** What a refused reader says: the code, with the place if the column has one. */
function describeRefusal(error: unknown, folder: string): string {
  assert.ok(error instanceof PlantStoreError, String(error));
  assert.ok(error.message.includes(folder), error.message);
  const [, line, byte] = /\bline (\d+), byte offset (\d+)/.exec(error.message) ?? [];
  return line === undefined ? error.code : `${error.code} ${line}:${byte}`;
}

/** What a reader gives. One that is refused, or only reads, leaves the folder as it was. */
async function read(
  t: TestContext,
  row: LogCase,
  reader: (folder: string) => Promise<string | undefined>,
  mayChange = false,
): Promise<string | undefined> {
  const folder = makeDirectory(t, row);
  const before = snapshot(folder);
  const refused = (error: unknown) => {
    assert.deepEqual(snapshot(folder), before);
    return describeRefusal(error, folder);
  };
  const given = await reader(folder).catch(refused);
  if (!mayChange) assert.deepEqual(snapshot(folder), before);
  assert.deepEqual(openFilesIn(folder), []);
  return given;
}

/** The ids that a start serves; `then` has the open store. */
async function serve(folder: string, then?: (store: PlantStore) => unknown): Promise<string> {
  const store = await PlantStore.open(folder);
  try {
    const plants = await collect(store.list());
    for (const plant of plants) assert.equal(await store.create(plant), "replayed");
    await then?.(store);
    return plants.map(({ id }) => id).join(" ");
  } finally {
    await store.close();
  }
}

/** Starts twice, and appends in between. */
async function start(t: TestContext, row: LogCase) {
  let kept: string | undefined;
  let quarantined = "";
  const ids = await read(
    t,
    row,
    async (folder) => {
      const warnings = collectWarnings(t, folder);
      const served = await serve(folder, async (store) => {
        kept = logOf(folder);
        assert.equal(await store.create({ id: 99n, name: "fresh" }), "created");
      });
      quarantined = readQuarantines(folder)
        .filter((content) => content !== row.beside?.[".quarantine-1"])
        .join();
      const isChanged = row.log !== undefined && kept !== latin1(row.log);
      assert.equal(warnings.length > 0, isChanged, "a change is reported");
      assert.equal(logOf(folder), `${kept}{"id":99,"name":"fresh"}\n`);
      assert.equal(isSound(await verifyLog(folder)), true);
      assert.equal(await serve(folder), `${served} 99`.trim());
      return served;
    },
    true,
  );
  return { start: ids, kept, quarantined };
}

async function verify(folder: string): Promise<string> {
  const report = await verifyLog(folder);
  const counts = {
    repeated: report.duplicates,
    damaged: report.damaged,
    mendable: report.mendable,
    torn: report.tornBytes,
  };
  const found = Object.entries(counts).flatMap(([what, n]) => (n > 0 ? `${n} ${what}` : []));
  const verdict = isSound(report) ? "sound" : "damaged";
  const checksum = report.checksum === "none" ? [] : [report.checksum];
  return [`${verdict}: ${report.records}`, ...found, ...checksum].join(", ");
}

async function repair(t: TestContext, row: LogCase) {
  let repaired: string | undefined;
  const outcome = await read(
    t,
    row,
    async (folder) => {
      const before = snapshot(folder);
      const asked = await repairLog(folder, { confirm: async () => false });
      assert.equal(asked.isDone, asked.action === "nothing");
      if (!asked.isDone) assert.deepEqual(snapshot(folder), before);

      const { action, keptAs } = await repairLog(folder, { confirm: async () => true });
      repaired = logOf(folder);
      if (action === "rewrite") assert.equal(snapshot(folder)[`${keptAs}`], before["plants.jsonl"]);
      else assert.equal(repaired, before["plants.jsonl"]);
      if (action !== "start_empty") assert.equal(isSound(await verifyLog(folder)), true);
      return `${action}: ${await serve(folder)}`;
    },
    true,
  );
  return { repair: outcome, repaired };
}

/** Copies into a folder that is missing, and returns the log of the copy. */
function copy(
  t: TestContext,
  row: LogCase,
  make: typeof backup | typeof restore,
): Promise<string | undefined> {
  return read(t, row, async (folder) => {
    const target = join(makeFolder(t), "copy");
    try {
      await make(folder, target);
    } catch (error) {
      const left = existsSync(target) ? readdirSync(target) : [];
      assert.deepEqual(
        left.filter((name) => !name.startsWith("lock.")),
        [],
      );
      throw error;
    }
    assert.match(await verify(target), /^sound: .*matches$/);
    return logOf(target);
  });
}

async function importFile(t: TestContext, folder: string): Promise<string> {
  const store = await openStore(t, makeFolder(t));
  const { text } = await openImportFile(logPath(folder));
  const { created, replayed, refused } = await importPlants(store, text);
  assert.equal(store.size, created);
  return `${created} ${replayed} ${refused}`;
}

for (const row of LOGS) {
  test(`a log that ${row.says} is to every reader what the table says`, async (t) => {
    const isRefused = /^[a-z]/.test(row.start);
    const log = row.log === undefined ? undefined : latin1(row.log);
    const kept = row.kept === undefined ? log : latin1(row.kept);
    const given = isRefused ? row.start : kept;
    const column = (bytes: Bytes | undefined, otherwise: string | undefined) =>
      bytes === undefined ? otherwise : latin1(bytes);
    const copied = column(row.backup, given);
    const exported = async (folder: string) =>
      Buffer.concat(await collect(exportLines(folder))).toString("latin1");
    const repaired = await repair(t, row);
    assert.deepEqual(
      {
        ...(await start(t, row)),
        ...repaired,
        verify: await read(t, row, verify),
        export: await read(t, row, exported),
        backup: await copy(t, row, backup),
        restore: await copy(t, row, restore),
        import: await read(t, row, (folder) => importFile(t, folder)),
      },
      {
        start: row.start,
        kept: isRefused ? undefined : kept,
        quarantined: latin1(row.quarantined ?? ""),
        repair: row.repair,
        repaired: /^[a-z_]+$/.test(row.repair) ? undefined : column(row.repaired, log),
        verify: row.verify,
        export: column(row.export, given),
        backup: copied,
        restore: column(row.restore, copied),
        import: row.import,
      },
    );
  });
}

const NAMES = ["a", "", "\u00e9\ud83c\udf35", '"\\', "x".repeat(600), "\ud800", "b", "last"];
const LINES = NAMES.map((name, id) => Buffer.from(`${JSON.stringify({ id, name })}\n`));
const LOG = Buffer.concat(LINES);
const KNOWN = Buffer.concat(LINES.slice(0, 5));

/** Starts from these bytes with a checkpoint of `KNOWN`; returns what is served, or `undefined`. */
async function startFrom(t: TestContext, log: Buffer): Promise<string | undefined> {
  const folder = makeFolder(t);
  writeLog(folder, log);
  writeCheckpointOf(folder, KNOWN);
  const before = snapshot(folder);
  try {
    const store = await PlantStore.open(folder);
    const lines = Buffer.concat(await collect(store.listLines()));
    await store.close();
    const kept = Buffer.from(logOf(folder) ?? "", "latin1");
    const [cut = ""] = readQuarantines(folder);
    assert.ok(log.subarray(0, kept.length).equals(kept) || cut.length === 0);
    if (cut.length > 0) assert.equal(kept.toString("latin1") + cut, log.toString("latin1"));
    return lines.toString("latin1");
  } catch (error) {
    assert.ok(error instanceof PlantStoreError && error.code === "corruption", String(error));
    assert.deepEqual(snapshot(folder), before);
    return undefined;
  }
}

test("a log that is cut at any byte is served with every whole line, or refused below its checkpoint", async (t) => {
  await fc.assert(
    fc.asyncProperty(fc.nat(LOG.length), async (length) => {
      const cut = LOG.subarray(0, length);
      const served = await startFrom(t, cut);
      assert.equal(served === undefined, length < KNOWN.length);
      if (served === undefined) return;
      const whole = LINES.filter((_, at) => {
        // A record that lacks only its line feed is whole.
        return Buffer.concat(LINES.slice(0, at + 1)).length - 1 <= length;
      });
      assert.equal(served, Buffer.concat(whole).toString("latin1"));
    }),
    { numRuns: 100 },
  );
});

test("a log with any bit flipped is refused below its checkpoint, and serves all of that if the bit is after it", async (t) => {
  await fc.assert(
    fc.asyncProperty(fc.nat(LOG.length - 1), fc.nat(7), async (at, bit) => {
      const flipped = Buffer.from(LOG);
      flipped[at] = (flipped[at] as number) ^ (1 << bit);
      const served = await startFrom(t, flipped);
      if (at < KNOWN.length) assert.equal(served, undefined);
      else if (served !== undefined) assert.ok(served.startsWith(KNOWN.toString("latin1")));
    }),
    { numRuns: 150 },
  );
});
