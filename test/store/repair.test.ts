import assert from "node:assert/strict";
import fs from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { crc32 } from "node:zlib";
import { PlantStore } from "../../src/index.ts";
import {
  checkpointPath,
  isUnsynced,
  readCheckpoint,
  unsyncedPath,
} from "../../src/log/checkpoint.ts";
import { disk } from "../../src/log/disk.ts";
import { isSound, type LineFault, type RepairPlan, repairLog, verifyLog } from "../../src/tools.ts";
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

const A = '{"id":1,"name":"a"}\n';
const B = '{"id":2,"name":"b","tag":"t"}\n';
const A_OTHER = '{"id":1,"name":"other"}\n';

const YES = async () => true;

/** How many different plants a log has. */
function countPlants(log: string): number {
  return new Set(log.split("\n").filter((line) => line.includes("{"))).size;
}

/** Repairs that write a new log. `torn`: what follows its last line feed. */
const REWRITTEN: readonly {
  readonly says: string;
  readonly log: string;
  readonly torn?: string;
  readonly kept: string;
  readonly leftOut: readonly (readonly [LineFault["kind"], line: number, byte: number])[];
  readonly records: number;
}[] = [
  {
    says: "unreadable lines at both ends and between",
    log: `x\n${A}{"id":\n${B}[]\n`,
    kept: A + B,
    leftOut: [
      ["unreadable", 1, 0],
      ["unreadable", 3, 22],
      ["unreadable", 5, 59],
    ],
    records: 2,
  },
  {
    says: "an id with other content",
    log: A + A_OTHER + B,
    kept: A + B,
    leftOut: [["conflict", 2, 20]],
    records: 2,
  },
  {
    says: "an id with other content, and then its first again",
    log: A + A_OTHER + A + B,
    kept: A + A + B,
    leftOut: [["conflict", 2, 20]],
    records: 3,
  },
  {
    says: "nothing that is readable",
    log: "x\ny\n",
    kept: "",
    leftOut: [
      ["unreadable", 1, 0],
      ["unreadable", 2, 2],
    ],
    records: 0,
  },
  {
    says: "an unreadable line and a torn tail",
    log: `${A}x\n`,
    torn: '{"id":3,"na',
    kept: A,
    leftOut: [["unreadable", 2, 20]],
    records: 1,
  },
  {
    says: "an unreadable line and a last plant without its line feed",
    log: `x\n${A}`,
    torn: B.trimEnd(),
    kept: A,
    leftOut: [["unreadable", 1, 0]],
    records: 1,
  },
  {
    says: "sectors of zeros before the checkpoint",
    log: `${A}${"\0".repeat(2000)}\n${B}`,
    kept: A + B,
    leftOut: [["unreadable", 2, 20]],
    records: 2,
  },
  {
    says: "a byte order mark and an unreadable line",
    log: `\ufeff${A}x\n${B}`,
    kept: A + B,
    leftOut: [["unreadable", 2, 23]],
    records: 2,
  },
];

for (const { says, log, torn = "", kept, leftOut, records } of REWRITTEN) {
  test(`repair of a log that holds ${says} writes a new one and keeps the old`, async (t) => {
    const folder = makeFolder(t);
    writeLog(folder, log + torn);
    writeCheckpointOf(folder, log);
    const { "plants.jsonl": old } = snapshot(folder);
    const found: LineFault[] = [];
    const plans: RepairPlan[] = [];
    const outcome = await repairLog(folder, {
      confirm: async (plan) => {
        plans.push(plan);
        return true;
      },
      onLeftOut: (fault) => found.push(fault),
    });

    const { "plants.jsonl": written, "plants.jsonl.before-repair-1": before } = snapshot(folder);
    assert.equal(written, kept + torn);
    assert.equal(before, old);
    assert.deepEqual(
      found
        .map(({ kind, position }) => [kind, position.line, position.offset])
        .sort((a, b) => Number(a[2]) - Number(b[2])),
      leftOut,
    );
    const [plan, ...others] = plans;
    assert.deepEqual(others, [], "asked once");
    assert.deepEqual(
      [plan?.action, plan?.plants, plan?.leftOut],
      ["rewrite", countPlants(kept) + (torn.endsWith("}") ? 1 : 0), leftOut.length],
    );
    assert.deepEqual(outcome, { ...plan, isDone: true, keptAs: "plants.jsonl.before-repair-1" });
    assert.deepEqual(await readCheckpoint(logPath(folder)), {
      bytes: kept.length,
      records,
      crc32: crc32(kept),
    });
    assert.equal(fs.statSync(logPath(folder)).mode & 0o777, 0o600);
    assert.equal(isSound(await verifyLog(folder)), true);
    assert.deepEqual(openFilesIn(folder), []);

    const store = await openStore(t, folder); // settles the torn tail by its own rule
    assert.equal(await store.create({ id: 1_000_000n, name: "fresh" }), "created");
  });
}

test("repair of a log whose sync has failed keeps a copy, because the old file may never be on the disk", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, `${A}no plant\n`);
  fs.writeFileSync(unsyncedPath(logPath(folder)), "");
  const { ino } = fs.statSync(logPath(folder));
  const { keptAs = "" } = await repairLog(folder, { confirm: YES });
  assert.equal(fs.readFileSync(join(folder, keptAs), "utf8"), `${A}no plant\n`);
  assert.notEqual(fs.statSync(join(folder, keptAs)).ino, ino);
  assert.equal(readLog(folder), A);
  assert.equal(isUnsynced(logPath(folder)), false);
});

test("repair leaves out a last line that has an id with other content and no line feed", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, A + A_OTHER.trimEnd());
  await assert.rejects(PlantStore.open(folder), { code: "corruption" });
  assert.equal(isSound(await verifyLog(folder)), false);
  const { action, plants, leftOut } = await repairLog(folder, { confirm: YES });
  assert.deepEqual({ action, plants, leftOut }, { action: "rewrite", plants: 1, leftOut: 1 });
  assert.equal(readLog(folder), A);
  assert.equal((await readCheckpoint(logPath(folder)))?.records, 1);
  await openStore(t, folder);
});

test("repair keeps a last plant without its line feed", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, (A + B).trimEnd());
  writeCheckpointOf(folder, A + B);
  const { action, plants } = await repairLog(folder, { confirm: YES });
  assert.deepEqual({ action, plants }, { action: "accept", plants: 2 });
  assert.equal((await openStore(t, folder)).size, 2);
});

test("repair of a log of several blocks leaves out exactly the damaged lines", async (t) => {
  const folder = makeFolder(t);
  const lines = Array.from({ length: 9000 }, (_, n) =>
    n % 1000 === 500 ? `damage ${n}\n` : `{"id":${n},"name":"${"x".repeat(n % 500)}"}\n`,
  );
  writeLog(folder, lines.join(""));
  const outcome = await repairLog(folder, { confirm: YES });
  assert.deepEqual([outcome.plants, outcome.leftOut], [8991, 9]);
  const kept = lines.filter((line) => line.startsWith("{")).join("");
  assert.equal(readLog(folder) === kept, true);
  assert.equal((await openStore(t, folder)).size, 8991);
});

test("repair of a missing log that had plants asks, and lets the store start empty", async (t) => {
  const folder = makeFolder(t);
  writeCheckpointOf(folder, A + B);
  await assert.rejects(PlantStore.open(folder), { code: "corruption" });
  const no = await repairLog(folder, { confirm: async () => false });
  assert.deepEqual([no.action, no.isDone], ["start_empty", false]);
  await assert.rejects(PlantStore.open(folder), { code: "corruption" });
  const yes = await repairLog(folder, { confirm: YES });
  assert.deepEqual([yes.action, yes.plants, yes.isDone], ["start_empty", 0, true]);
  assert.deepEqual(await collect((await openStore(t, folder)).list()), []);
});

const NOTHING: readonly [says: string, log: string, known: string | undefined][] = [
  ["that matches its checkpoint", A + B, A + B],
  ["without a checkpoint", A + B, undefined],
  ["that has grown", A + B, A],
  ["with a plant twice", A + B + A, undefined],
  ["with a torn tail, which a start settles", `${A}{"id"`, A],
  ["that is empty", "", undefined],
];

for (const [says, log, known] of NOTHING) {
  test(`repair of a log ${says} asks nothing and changes nothing`, async (t) => {
    const folder = makeFolder(t);
    writeLog(folder, log);
    if (known !== undefined) writeCheckpointOf(folder, known);
    const before = snapshot(folder);
    const outcome = await repairLog(folder, { confirm: () => assert.fail("asked") });
    assert.deepEqual([outcome.action, outcome.isDone], ["nothing", true]);
    assert.deepEqual(snapshot(folder), before);
  });
}

const REFUSED: readonly [says: string, log: string][] = [
  ["an edit", A],
  ["an unreadable line", `${A}x\n`],
];

for (const [says, log] of REFUSED) {
  test(`repair of ${says} that is not confirmed, or whose question fails, changes no byte`, async (t) => {
    const folder = makeFolder(t);
    writeLog(folder, log);
    writeCheckpointOf(folder, A + B);
    const before = snapshot(folder);
    const outcome = await repairLog(folder, { confirm: async () => false });
    assert.deepEqual([outcome.isDone, outcome.keptAs], [false, undefined]);
    assert.deepEqual(snapshot(folder), before);
    const fail = () => Promise.reject(new Error("no terminal"));
    await assert.rejects(repairLog(folder, { confirm: fail }), /no terminal/);
    assert.deepEqual(snapshot(folder), before);
    assert.deepEqual(openFilesIn(folder), []);
  });
}

for (const [action, log] of [
  ["accept", A + B],
  ["rewrite", `${A}x\n${B}`],
] as const) {
  test(`repair that is to ${action} a log changes nothing if another program wrote to it meanwhile`, async (t) => {
    const folder = makeFolder(t);
    writeLog(folder, log);
    writeCheckpointOf(folder, A_OTHER.slice(0, A.length));
    let before: ReturnType<typeof snapshot> = {};
    const confirm = async (plan: RepairPlan) => {
      assert.equal(plan.action, action);
      fs.appendFileSync(logPath(folder), '{"id":9,"name":"acknowledged by another"}\n');
      before = snapshot(folder);
      return true;
    };
    await assert.rejects(repairLog(folder, { confirm }), { code: "locked" });
    assert.deepEqual(snapshot(folder), before);
  });
}

test("repair does not replace a log to which another program has appended at the last moment", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, `${A}x\n${B}`);
  writeCheckpointOf(folder, A);
  const late = '{"id":9,"name":"acknowledged by another"}\n';
  const { unlink } = disk;
  t.mock.method(disk, "unlink", (path: string) => {
    // The checkpoint is removed between the first check of the log and the last one.
    if (path === checkpointPath(logPath(folder))) fs.appendFileSync(logPath(folder), late);
    unlink(path);
  });
  await assert.rejects(repairLog(folder, { confirm: YES }), { code: "locked" });
  assert.equal(readLog(folder), `${A}x\n${B}${late}`);
  assert.equal(fs.existsSync(`${logPath(folder)}.repaired`), false);
});

test("repair holds the lock of the directory, and releases it", async (t) => {
  const folder = makeFolder(t);
  const store = await openStore(t, folder);
  await assert.rejects(repairLog(folder, { confirm: YES }), { code: "locked" });
  await store.close();
  await repairLog(folder, {
    confirm: async () => true,
    onProgress: (bytes, total) => assert.ok(bytes <= total),
  });
  await openStore(t, folder);
});

test("repair without a log and without a checkpoint is an io_error", async (t) => {
  const folder = makeFolder(t);
  for (const place of [folder, join(folder, "none")]) {
    await assert.rejects(repairLog(place, { confirm: YES }), { code: "io_error" });
  }
  assert.deepEqual(snapshot(folder), {});
});

test("repair does not accept the loss of a log that has come back", async (t) => {
  const folder = makeFolder(t);
  writeCheckpointOf(folder, A);
  const confirm = async () => {
    writeLog(folder, A); // restored from a backup meanwhile
    return true;
  };
  await assert.rejects(repairLog(folder, { confirm }), { code: "locked" });
  assert.notEqual(await readCheckpoint(logPath(folder)), undefined);
});
