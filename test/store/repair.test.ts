/** What `verify` and `repair` do besides the rows of `test/cases/logs`: order, kills, other programs. */
import assert from "node:assert/strict";
import fs from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { backup, exportLines, PlantStore, repairLog, verifyLog } from "../../src/index.ts";
import { makeFolder } from "../support/folders.ts";
import {
  collect,
  logPath,
  openFilesIn,
  openStore,
  readLog,
  snapshot,
  writeCheckpointOf,
  writeLog,
} from "../support/stores.ts";
import { changesOf, watchDisk } from "../support/watched-disk.ts";

const A = '{"id":1,"name":"a"}\n';
const B = '{"id":2,"name":"b","tag":"t"}\n';
const LINES = Array.from({ length: 1000 }, (_, id) => `{"id":${id},"name":"plant ${id}"}\n`);
const BAD = [10, 990].map((id) => `\0"id":${id},"name":"plant ${id}"}\n`);
const REPAIRED = LINES.filter((_, id) => id !== 10 && id !== 990).join("");

/** A folder whose log has bad lines, which its checkpoint knew as good ones. */
function makeDamaged(t: TestContext): string {
  const folder = makeFolder(t);
  writeLog(
    folder,
    LINES.with(10, BAD[0] ?? "")
      .with(990, BAD[1] ?? "")
      .join(""),
  );
  writeCheckpointOf(folder, LINES.join(""));
  return folder;
}

function quarantineOf(folder: string): string | undefined {
  return snapshot(folder)["plants.jsonl.quarantine"];
}

test("what a repair leaves out is in quarantine before the log is replaced, and the checkpoint is last", async (t) => {
  const folder = makeDamaged(t);
  const changes = await changesOf(folder, () => repairLog(folder));
  assert.deepEqual(
    changes.filter((step) => !/^open|\.new$/.test(step) || step === "append LOG.new"),
    [
      "append LOG", // a line feed, in case the last line lacks it
      "append LOG.quarantine",
      "syncFolder DIR",
      "append LOG.new", // all lines at once
      "rename LOG",
      "syncFolder DIR",
      "rename LOG.checkpoint",
      "syncFolder DIR",
    ],
  );
});

test("after a repair that was killed at any step a start is right or refuses, and a repair runs again", async (t) => {
  for (let change = 0, isKilled = true; isKilled; change++) {
    const folder = makeDamaged(t);
    let left = change;
    const kill = () => assert.ok(left-- > 0, "killed");
    const repairing = watchDisk(kill, () => repairLog(folder));
    isKilled = (await repairing.catch(({ message }) => message)) === "killed";
    const isReplaced = readLog(folder) === REPAIRED;
    if (isReplaced) assert.equal(quarantineOf(folder), BAD.join(""), `${change}`);
    const opening = PlantStore.open(folder).then((store) => store.close());
    const refusal = await opening.catch(({ code }) => code);
    assert.ok(refusal === "corruption" || (refusal === undefined && isReplaced), `${change}`);
    await repairLog(folder);
    assert.equal(readLog(folder), REPAIRED, `${change}`);
    for (const line of BAD) assert.ok(quarantineOf(folder)?.includes(line));
    assert.equal(fs.existsSync(`${logPath(folder)}.new`), false);
  }
});

test("a repair with nothing to do writes nothing, and syncs the folder for one that was killed", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, A + B);
  const changes = await changesOf(folder, async () => {
    assert.deepEqual(await repairLog(folder), { isChanged: false, plants: 2, leftOut: 0 });
  });
  assert.deepEqual(changes, ["syncFolder DIR", "syncFolder DIR/.."]);
});

test("a repair replaces no log to which another program has appended meanwhile", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, `${A}x\n`);
  const append = (change: string) => {
    if (change === `open ${logPath(folder)}.quarantine`) fs.appendFileSync(logPath(folder), B);
  };
  const repairing = watchDisk(append, () => repairLog(folder));
  await assert.rejects(repairing, { code: "locked" });
  assert.equal(readLog(folder), `${A}x\n\n${B}`);
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

test("beside an open store a last line that lost its end is damage, because it was durable", async (t) => {
  for (const end of ['\0\0"}\n', 'xx"}\0', 'xx"} ']) {
    const folder = makeFolder(t);
    const store = await openStore(t, folder);
    await store.create({ id: 1n, name: "a" });
    await store.create({ id: 2n, name: "xx" });
    writeLog(folder, readLog(folder).replace('xx"}\n', end));
    await assert.rejects(verifyLog(folder), { code: "corruption" });
    await assert.rejects(collect(exportLines(folder)), { code: "corruption" });
    await assert.rejects(backup(folder, join(makeFolder(t), "copy")), { code: "corruption" });
  }
});
