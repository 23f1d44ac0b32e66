/** What `verify` and `repair` do besides the rows of `test/cases/logs`: order, kills, other programs. */
import assert from "node:assert/strict";
import fs from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import {
  backup,
  exportLines,
  PlantStore,
  PlantStoreError,
  repairLog,
  verifyLog,
} from "../../src/index.ts";
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
import { changesOf, killAhead, watchDisk } from "../support/watched-disk.ts";

const A = '{"id":1,"name":"a"}\n';
const B = '{"id":2,"name":"b","tag":"t"}\n';
const LINES = Array.from({ length: 1000 }, (_, id) => `{"id":${id},"name":"plant ${id}"}\n`);

/** A folder whose log has bad lines, which its checkpoint knew as good ones. */
function makeDamaged(t: TestContext): { folder: string; repaired: string } {
  const folder = makeFolder(t);
  const isBad = (at: number) => at === 10 || at === 990;
  writeLog(folder, LINES.map((line, at) => (isBad(at) ? line.replace("{", "\0") : line)).join(""));
  writeCheckpointOf(folder, LINES.join(""));
  return { folder, repaired: LINES.filter((_, at) => !isBad(at)).join("") };
}

async function startsWith(folder: string): Promise<string | undefined> {
  const before = snapshot(folder);
  try {
    await (await PlantStore.open(folder)).close();
    return readLog(folder);
  } catch (error) {
    assert.ok(error instanceof PlantStoreError && error.code === "corruption", String(error));
    assert.deepEqual(snapshot(folder), before);
    return undefined;
  }
}

test("a repair that is killed at any step loses nothing, and runs again", async (t) => {
  const bad = LINES.filter((_, at) => at === 10 || at === 990).map((line) =>
    line.replace("{", "\0"),
  );
  for (let change = 0, isKilled = true; isKilled; change++) {
    const { folder, repaired } = makeDamaged(t);
    isKilled = await killAhead(change, () => repairLog(folder));
    const isReplaced = readLog(folder) === repaired;
    const quarantine = snapshot(folder)["plants.jsonl.quarantine"] ?? "";
    if (isReplaced) assert.equal(quarantine, bad.join(""), `${change}`);
    const served = await startsWith(folder);
    assert.ok(served === undefined || (isReplaced && served === repaired), `${change}`);
    const { plants } = await repairLog(folder);
    assert.equal(plants, LINES.length - 2);
    assert.equal(await startsWith(folder), repaired, `${change}`);
    for (const line of bad) {
      assert.ok(snapshot(folder)["plants.jsonl.quarantine"]?.includes(line));
    }
    assert.equal(fs.existsSync(`${logPath(folder)}.new`), false);
  }
});

test("a sector that is lost between the steps of a repair is not taken for an unfinished write", async (t) => {
  const { folder, repaired } = makeDamaged(t);
  let isReplaced = false;
  const atCheckpoint = (change: string) => {
    isReplaced ||= change === `rename ${logPath(folder)}`;
    if (isReplaced && change.includes("checkpoint")) throw new Error("killed");
  };
  await assert.rejects(
    watchDisk(atCheckpoint, () => repairLog(folder)),
    /killed/,
  );
  const log = Buffer.from(readLog(folder));
  assert.equal(String(log), repaired);
  writeLog(folder, log.fill(0, 512, 1024));
  assert.equal(await startsWith(folder), undefined);
  const { plants, leftOut } = await repairLog(folder);
  assert.ok(plants > 950 && leftOut > 0, `${plants}, ${leftOut}`);
});

test("what a repair leaves out is in quarantine before the log is replaced, and the checkpoint is last", async (t) => {
  const { folder } = makeDamaged(t);
  const changes = await changesOf(() => repairLog(folder));
  const steps = changes.map((each) => each.replace(logPath(folder), "LOG").replace(folder, "DIR"));
  const order = ["append LOG.quarantine", "syncFolder DIR", "rename LOG", "syncFolder DIR"];
  const isStep = (step: string) => order.includes(step) || /rename|checkpoint$/.test(step);
  assert.deepEqual(steps.filter(isStep), [...order, "rename LOG.checkpoint", "syncFolder DIR"]);
});

test("a repair writes a log of many lines in one append", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, LINES.join("").replaceAll("\n", "\r\n"));
  const changes = await changesOf(() => repairLog(folder));
  assert.equal(changes.filter((each) => each === `append ${logPath(folder)}.new`).length, 1);
  assert.equal(readLog(folder), LINES.join(""));
});

test("a repair with nothing to do writes nothing, and syncs the folder for one that was killed", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, A + B);
  const before = snapshot(folder);
  const changes = await changesOf(async () => {
    assert.deepEqual(await repairLog(folder), { isChanged: false, plants: 2, leftOut: 0 });
  });
  assert.deepEqual(snapshot(folder), before);
  assert.deepEqual(changes, [`syncFolder ${folder}`, `syncFolder ${folder}/..`]);
});

test("a repair replaces no log to which another program has appended meanwhile", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, `${A}x\n`);
  const append = () => fs.appendFileSync(logPath(folder), B);
  await assert.rejects(repairLog(folder, append), { code: "locked" });
  assert.equal(readLog(folder), `${A}x\n${B}`);
  assert.equal(fs.existsSync(`${logPath(folder)}.new`), false);
  assert.deepEqual(openFilesIn(folder), []);
});

test("beside an open store every reader sees what is durable, and a repair is refused", async (t) => {
  const folder = makeFolder(t);
  const store = await openStore(t, folder);
  await store.create({ id: 1n, name: "a" });
  const names = fs.readdirSync(folder);
  for (const bytes of [B.trimEnd(), "\n"]) {
    fs.appendFileSync(logPath(folder), bytes); // as if a batch were being written
    assert.equal(String(Buffer.concat(await collect(exportLines(folder)))), A);
    const { plants, tornBytes } = await verifyLog(folder);
    assert.deepEqual([plants, tornBytes], [1, 0]);
    const target = join(makeFolder(t), "copy");
    assert.deepEqual(await backup(folder, target), { plants: 1, bytes: A.length });
    assert.equal(readLog(target), A);
  }
  assert.deepEqual(fs.readdirSync(folder), names);
  await assert.rejects(repairLog(folder), { code: "locked" });
});

for (const [says, end] of [
  ["lost pages", '\0\0"}\n'],
  ["lost its line feed", 'xx"}\0'],
  ["has another byte for its line feed", 'xx"} '],
]) {
  test(`beside an open store a last line that ${says} is damage, because it was durable`, async (t) => {
    const folder = makeFolder(t);
    const store = await openStore(t, folder);
    await store.create({ id: 1n, name: "a" });
    await store.create({ id: 2n, name: "xx" });
    writeLog(folder, readLog(folder).replace('xx"}\n', `${end}`));
    await assert.rejects(verifyLog(folder), { code: "corruption" });
    await assert.rejects(collect(exportLines(folder)), { code: "corruption" });
    await assert.rejects(backup(folder, join(makeFolder(t), "copy")), { code: "corruption" });
  });
}

test("bad lines are reported by line and byte over many blocks, and one that is longer than a record once", async (t) => {
  const folder = makeFolder(t);
  const lines = Array.from(
    { length: 3000 },
    (_, id) => `{"id":${id},"name":"${"x".repeat(1500)}"}\n`,
  );
  const faulty: Record<number, string> = {
    7: "x\n",
    1499: lines[3] ?? "",
    2000: `${"y".repeat(6e6)}\n`,
  };
  for (const [at, line] of Object.entries(faulty)) lines[Number(at)] = line;
  writeLog(folder, lines.join(""));
  const found: unknown[] = [];
  const onLeftOut = (bad: { line: number; offset: number }) => found.push([bad.line, bad.offset]);
  const expected = Object.keys(faulty).map((at) => {
    return [Number(at) + 1, lines.slice(0, Number(at)).join("").length];
  });
  assert.equal((await repairLog(folder, onLeftOut)).leftOut, 3);
  assert.deepEqual(found, expected);
  assert.equal(snapshot(folder)["plants.jsonl.quarantine"], Object.values(faulty).join(""));
});
