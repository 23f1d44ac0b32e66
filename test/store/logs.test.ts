/** What each reader makes of a log: the rows of `test/cases/logs`. */
import assert from "node:assert/strict";
import fs from "node:fs";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import {
  backup,
  exportLines,
  importPlants,
  PlantStore,
  PlantStoreError,
  repairLog,
  restore,
  verifyLog,
} from "../../src/index.ts";
import { LOGS, type LogCase } from "../cases/logs.ts";
import { makeFolder } from "../support/folders.ts";
import { collect, logPath, openFilesIn, snapshot, writeCheckpointOf } from "../support/stores.ts";
import { collectWarnings } from "../support/watch.ts";

function logOf(folder: string): string | undefined {
  return snapshot(folder)["plants.jsonl"];
}

function countLines(text = ""): number {
  return text.split("\n").length - 1;
}

/** What was moved to quarantine since the row was made. */
function quarantineOf(folder: string, { beside }: LogCase): string {
  const older = beside?.[".quarantine"] ?? "";
  const whole = snapshot(folder)["plants.jsonl.quarantine"] ?? "";
  assert.ok(whole.startsWith(older));
  return whole.slice(older.length);
}

/** What a reader gives, or its refusal: the code, with the place if it names one. That leaves the folder as it was. */
async function read<T>(
  t: TestContext,
  { log, known, beside }: LogCase,
  reader: (folder: string) => Promise<T>,
): Promise<T | string> {
  const folder = makeFolder(t);
  if (known !== undefined) writeCheckpointOf(folder, Buffer.from(known, "latin1"));
  const files = { ...beside, ...(log !== undefined && { "": log }) };
  for (const [end, content] of Object.entries(files)) {
    if (content === null) fs.mkdirSync(logPath(folder) + end);
    else fs.writeFileSync(logPath(folder) + end, content, "latin1");
  }
  const before = snapshot(folder);
  try {
    return await reader(folder);
  } catch (error) {
    assert.ok(error instanceof PlantStoreError, String(error));
    assert.ok(error.message.includes(folder), error.message);
    assert.deepEqual(snapshot(folder), before);
    const [, line, byte] = /\bline (\d+), byte offset (\d+)/.exec(error.message) ?? [];
    return line === undefined ? error.code : `${error.code} ${line}:${byte}`;
  } finally {
    assert.deepEqual(openFilesIn(folder), []);
  }
}

/** Starts twice, and appends in between. Returns the log after the start. */
async function serve(folder: string): Promise<string> {
  const store = await PlantStore.open(folder);
  const kept = logOf(folder) ?? "";
  assert.equal(Buffer.concat(await collect(store.listLines())).toString("latin1"), kept);
  for (const plant of await collect(store.list())) {
    assert.equal(await store.create(plant), "replayed");
  }
  assert.equal(await store.create({ id: 99n, name: "fresh" }), "created");
  await store.close();
  await verifyLog(folder);
  await (await PlantStore.open(folder)).close();
  assert.equal(logOf(folder), `${kept}{"id":99,"name":"fresh"}\n`);
  assert.equal(fs.existsSync(`${logPath(folder)}.new`), false);
  return kept;
}

async function verify(folder: string): Promise<string> {
  const { plants, bytes, tornBytes } = await verifyLog(folder);
  assert.equal(bytes + tornBytes, logOf(folder)?.length);
  return tornBytes > 0 ? `${plants}, ${tornBytes} torn` : `${plants}`;
}

/** The log of a copy, in a folder that was missing. */
async function copy(t: TestContext, source: string, make: typeof backup): Promise<string> {
  const target = join(makeFolder(t), "copy");
  const before = snapshot(source);
  try {
    await make(source, target);
  } catch (error) {
    const left = fs.existsSync(target) ? fs.readdirSync(target) : [];
    assert.deepEqual(left, make === backup ? [] : ["lock.1"]);
    throw error;
  }
  assert.deepEqual(snapshot(source), before);
  return serve(target);
}

async function importFile(t: TestContext, file: string): Promise<string> {
  const store = await PlantStore.open(makeFolder(t));
  const importing = importPlants(store, fs.createReadStream(file)).finally(() => store.close());
  return importing.then(
    ({ created, replayed, refused }) => `${created} ${replayed} ${refused}`,
    ({ code }) => code,
  );
}

describe("a log", { concurrency: 4 }, () => {
  for (const row of LOGS) {
    test(`every reader treats a log that ${row.says} as the table says`, async (t) => {
      const { log, refused = "", repair = "nothing" } = row;
      const given = refused || (row.kept ?? log);
      const found = { cut: "", left: "", repaired: undefined as string | undefined };
      const start = await read(t, row, async (folder) => {
        const warnings = collectWarnings(t, logPath(folder));
        const kept = await serve(folder);
        found.cut = quarantineOf(folder, row);
        assert.equal(warnings.length > 0, found.cut !== "", "a cut is reported");
        return kept;
      });
      const repairing = await read(t, row, async (folder) => {
        const { isChanged, plants, leftOut } = await repairLog(folder);
        found.repaired = logOf(folder);
        found.left = quarantineOf(folder, row);
        if (isChanged) assert.equal(`${plants}`, await verify(folder));
        await serve(folder);
        return isChanged ? `${leftOut} left out` : "nothing";
      });
      assert.deepEqual(
        {
          ...found,
          start,
          repair: repairing,
          verify: await read(t, row, verify),
          exported: await read(t, row, async (folder) =>
            Buffer.concat(await collect(exportLines(folder))).toString("latin1"),
          ),
          backup: await read(t, row, (folder) => copy(t, folder, backup)),
          restore: await read(t, row, (folder) => copy(t, folder, restore)),
          imported: log && (await read(t, row, (folder) => importFile(t, logPath(folder)))),
        },
        {
          cut: row.cut ?? "",
          left: row.left ?? "",
          repaired: /^[a-z]+_|^corr/.test(repair) ? undefined : (row.repaired ?? log),
          start: given,
          repair,
          verify: row.verify ?? (refused || `${countLines(given)}`),
          exported: row.exported ?? given,
          backup: row.copied ?? given,
          restore: row.copied ?? given,
          imported: log && (row.imported ?? `${countLines(log)} 0 0`),
        },
      );
    });
  }
});
