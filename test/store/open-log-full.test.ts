/** A start that has no room for the quarantine file that it needs. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { rmSync, statfsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { PlantStore, verifyLog } from "../../src/index.ts";
import { LogFile } from "../../src/log/file.ts";
import { makeFolder } from "../support/folders.ts";
import { readQuarantines, snapshot } from "../support/snapshot.ts";
import { openStore, readLog, writeLog } from "../support/stores.ts";

const A = '{"id":1,"name":"a"}\n';
const B = '{"id":2,"name":"b"}';
const C = '{"id":3,"name":"c"}\n';
const LOST = `{"id":9,"na${"\0".repeat(1024)}"}\n`;

/** A small file system for the test, if mounting is permitted. */
function mountSmall(t: TestContext): string | undefined {
  let folder = "";
  t.after(() => spawnSync("umount", ["-l", folder])); // before the folder is removed
  folder = makeFolder(t);
  const options = ["-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", folder];
  return spawnSync("mount", options).status === 0 ? folder : undefined;
}

/** Fills the disk with a file; removing the file makes room again. */
function fill(folder: string): string {
  const filler = join(folder, "filler");
  const { bavail, bsize } = statfsSync(folder);
  writeFileSync(filler, Buffer.alloc(bavail * bsize, "x"));
  return filler;
}

/** Logs, and the result of a start that has room. */
const CASES: readonly {
  readonly says: string;
  readonly log: string;
  readonly quarantined: string;
  readonly mended: string;
}[] = [
  { says: "a torn tail", log: `${A}{"id":2,"na`, quarantined: '{"id":2,"na', mended: A },
  {
    says: "a line that lost pages, and plants after it",
    log: `${A}${LOST}${C}${B}`,
    quarantined: LOST,
    mended: `${A}${" ".repeat(LOST.length - 1)}\n${C}${B}\n`,
  },
  {
    says: "a line that lost pages, and a torn tail",
    log: `${LOST}${C}{"id":`,
    quarantined: `${LOST}{"id":`,
    mended: `${" ".repeat(LOST.length - 1)}\n${C}`,
  },
];

/** Asserts that a start fails because there is no room, and changes nothing. */
async function assertNoRoom(folder: string): Promise<void> {
  const before = snapshot(folder);
  await assert.rejects(PlantStore.open(folder), (error: Error & { code?: string }) => {
    assert.equal(error.code, "io_error");
    assert.match(error.message, /plants\.jsonl\.quarantine-1".*\bENOSPC\b/);
    return true;
  });
  assert.deepEqual(snapshot(folder), before);
}

for (const { says, log, quarantined, mended } of CASES) {
  test(`a start without room for the quarantine of ${says} fails and changes nothing; the next start with room mends the log`, async (t) => {
    const folder = mountSmall(t);
    if (folder === undefined) {
      t.skip("needs the right to mount a tmpfs");
      return;
    }
    writeLog(folder, log);
    const filler = fill(folder);
    await assertNoRoom(folder);
    await assertNoRoom(folder);

    rmSync(filler);
    const store = await openStore(t, folder);
    assert.deepEqual(readQuarantines(folder), [quarantined]);
    assert.equal(readLog(folder), mended);
    await store.close();
    const report = await verifyLog(folder);
    assert.deepEqual([report.damaged, report.duplicates, report.checksum], [0, 0, "matches"]);
  });
}

test("a start whose quarantine fails leaves no part of it (fake disk)", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, `${A}torn`);
  const { open } = LogFile;
  t.mock.method(LogFile, "open", async (path: string) => {
    const file = await open(path);
    if (!path.includes("quarantine")) return file;
    const cause = Object.assign(new Error("ENOSPC: no space left on device, write"), {
      code: "ENOSPC",
      errno: -28,
    });
    t.mock.method(file, "append", async () => ({ outcome: "refused", cause }));
    return file;
  });
  await assertNoRoom(folder);
  t.mock.restoreAll();
  await openStore(t, folder);
  assert.equal(readLog(folder), A);
  assert.deepEqual(readQuarantines(folder), ["torn"]);
});
