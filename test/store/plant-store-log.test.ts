/** A store and its log: how it is opened, listed and published, and what makes the store fail. */
import assert from "node:assert/strict";
import * as fs from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { encodeNewPlant } from "../../src/core/plant.ts";
import { type NewPlant, PlantStore } from "../../src/index.ts";
import { failReads } from "../support/failing-reads.ts";
import { makeFolder } from "../support/folders.ts";
import { snapshot } from "../support/snapshot.ts";
import { collect, logPath, openFilesIn, openStore, readLog, writeLog } from "../support/stores.ts";

const PLANTS: readonly NewPlant[] = [1n, 2n, 3n].map((id) => ({ id, name: "a" }));
const LINE = `${encodeNewPlant({ id: 1n, name: "a" })}\n`;

test("of many opens at once one succeeds, and every other is refused as locked", async (t) => {
  const folder = makeFolder(t);
  const opens = Array.from({ length: 8 }, () => openStore(t, folder));
  const settled = await Promise.allSettled(opens);
  const codes = settled.map((each) => (each.status === "rejected" ? each.reason.code : "open"));
  assert.deepEqual(codes.toSorted(), [...Array(7).fill("locked"), "open"]);
});

test("an onProgress that throws aborts the open, which changes nothing and holds no lock and no file", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, `${LINE}{"id":2`);
  const before = snapshot(folder);
  const enough = new Error("enough");
  const onProgress = () => {
    throw enough;
  };
  await assert.rejects(PlantStore.open(folder, { onProgress }), (error) => error === enough);
  assert.deepEqual(openFilesIn(folder), []);
  assert.deepEqual(snapshot(folder), before);
  assert.equal((await openStore(t, folder)).size, 1);
});

test("open refuses a number out of its range before it touches the disk", async (t) => {
  const folder = join(makeFolder(t), "new");
  const opening = PlantStore.open(folder, { queueBytesMax: Number.NaN });
  await assert.rejects(opening, { name: "RangeError", message: /queueBytesMax/ });
  assert.equal(fs.existsSync(folder), false);
});

test("open refuses a file in place of its directory", async (t) => {
  const file = join(makeFolder(t), "file");
  fs.writeFileSync(file, "");
  await assert.rejects(PlantStore.open(file), { code: "io_error" });
});

test("a create that does not fit in the queue is refused as overloaded, and can be sent again later", async (t) => {
  const folder = makeFolder(t);
  const store = await openStore(t, folder, { queueBytesMax: LINE.length });
  const first = store.create({ id: 1n, name: "a" });
  await assert.rejects(store.create({ id: 2n, name: "b" }), { code: "overloaded" });
  await first;
  assert.equal(readLog(folder), LINE);
  assert.equal(await store.create({ id: 2n, name: "b" }), "created");
  // A client that retries would send a record longer than the queue for ever.
  assert.equal(await store.create({ id: 3n, name: "longer" }), "created");
});

/** What may happen to the log while a store has it open. */
const DISPLACEMENTS: readonly [says: string, displace: (log: string) => void][] = [
  ["is deleted", (log) => fs.unlinkSync(log)],
  ["is renamed", (log) => fs.renameSync(log, `${log}.old`)],
  [
    "is replaced by a copy",
    (log) => {
      fs.copyFileSync(log, `${log}.copy`);
      fs.renameSync(`${log}.copy`, log);
    },
  ],
  // As long as the next record of the store, so that the length alone does not reveal it.
  ["gets a line from an editor", (log) => fs.appendFileSync(log, '{"id":2,"name":"?"}\n')],
  ["is emptied", (log) => fs.truncateSync(log)],
  ["loses its lock", (log) => fs.unlinkSync(join(dirname(log), "lock.1"))],
];

for (const [says, displace] of DISPLACEMENTS) {
  test(`a store whose log ${says} fails for good and acknowledges nothing more`, async (t) => {
    const folder = makeFolder(t);
    const store = await openStore(t, folder);
    await store.create({ id: 1n, name: "a" });
    displace(logPath(folder));

    await assert.rejects(store.create({ id: 2n, name: "b" }), { code: "store_failed" });
    const failure = await store.failed;
    // The message reaches clients; the reason is for the operator only.
    assert.ok(failure.code === "store_failed" && failure.cause instanceof Error);
    assert.equal(failure.message.includes(folder), false);
    await assert.rejects(store.create({ id: 1n, name: "a" }), { code: "store_failed" });
    await assert.rejects(store.get(1n), { code: "store_failed" });
    await assert.rejects(collect(store.list()), { code: "store_failed" });
  });
}

test("a plant is neither repeated nor read once the lock is lost", async (t) => {
  for (const lookUp of ["create", "get"] as const) {
    const folder = makeFolder(t);
    const store = await openStore(t, folder);
    await store.create({ id: 1n, name: "a" });
    fs.unlinkSync(join(folder, "lock.1"));
    const answer = lookUp === "get" ? store.get(1n) : store.create({ id: 1n, name: "a" });
    await assert.rejects(answer, { code: "store_failed" });
  }
});

/** Calls that read the log, and the code with which they fail if they cannot. */
const READS: readonly [
  what: string,
  code: string,
  call: (store: PlantStore) => Promise<unknown>,
][] = [
  ["get", "read_failed", (store) => store.get(1n)],
  ["list after a plant", "read_failed", (store) => collect(store.list({ after: 1n }))],
  ["list of lines", "read_failed", (store) => collect(store.listLines())],
  ["repeat", "write_failed", (store) => store.create({ id: 1n, name: "a" })],
];

for (const [what, code, call] of READS) {
  test(`a ${what} that cannot be read fails with ${code}, and succeeds when it can (fake fault)`, async (t) => {
    const folder = makeFolder(t);
    writeLog(folder, PLANTS.map((plant) => `${encodeNewPlant(plant)}\n`).join(""));
    const store = await openStore(t, folder);
    const reads = failReads(t);
    reads.begin();
    await assert.rejects(call(store), { code });
    assert.equal(await store.create({ id: 9n, name: "new" }), "created");
    reads.end();
    await call(store);
  });
}

const BOTH = ["list", "listLines"] as const;

test("a list begins after any plant, as plants and as lines", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, `\ufeff${LINE}\r\n{"name":"b","id":2.0}\n${LINE}{"id":3,"name":"c"}\n`);
  const store = await openStore(t, folder);
  for (const [after, expected] of [
    [undefined, [1n, 2n, 3n]],
    [1n, [2n, 3n]],
    [2n, [3n]],
    [3n, []],
  ] as const) {
    const plants = await collect(store.list({ after }));
    const lines = String(Buffer.concat(await collect(store.listLines({ after }))));
    assert.deepEqual(
      plants.map(({ id }) => id),
      expected,
    );
    assert.equal(lines, plants.map((plant) => `${encodeNewPlant(plant)}\n`).join(""));
  }
});

test("a list after an id that no plant has, or none can have, is refused", async (t) => {
  const store = await openStore(t, makeFolder(t));
  await store.create({ id: 1n, name: "a" });
  for (const list of BOTH) {
    const listAfter = (after: unknown) => collect<unknown>(store[list]({ after: after as bigint }));
    await assert.rejects(listAfter(2n), { code: "unknown_cursor" });
    await assert.rejects(listAfter(2n ** 63n), RangeError);
    await assert.rejects(listAfter(1), TypeError);
  }
  await assert.rejects(store.get(2n ** 64n + 1n), RangeError);
});

/** What may happen to a log of three lines while a store has it open. */
const DAMAGES: readonly [says: string, damage: (log: string) => void][] = [
  ["is cut before its second line", (log) => fs.truncateSync(log, LINE.length)],
  ["has a line that is no plant", (log) => overwrite(log, LINE.length, "[")],
  ["has a plant that was never stored", (log) => overwrite(log, LINE.length + 6, "7")],
  ["has a later plant in its second line", (log) => overwrite(log, LINE.length + 6, "3")],
  ["has no line feed at its end", (log) => overwrite(log, 3 * LINE.length - 1, "X")],
];

function overwrite(log: string, offset: number, text: string): void {
  const fd = fs.openSync(log, "r+");
  fs.writeSync(fd, text, offset);
  fs.closeSync(fd);
}

for (const [says, damage] of DAMAGES) {
  test(`a list throws, and the store fails, if the log ${says}`, async (t) => {
    for (const list of BOTH) {
      const folder = makeFolder(t);
      const store = await openStore(t, folder);
      for (const plant of PLANTS) await store.create(plant);
      damage(logPath(folder));
      await assert.rejects(collect<unknown>(store[list]()), { code: "store_failed" });
      assert.equal((await store.failed).code, "store_failed");
    }
  });
}

test("a list does not fail the store if its consumer throws", async (t) => {
  const store = await openStore(t, makeFolder(t));
  await store.create({ id: 1n, name: "a" });
  for (const which of BOTH) {
    const list = store[which]();
    await list.next();
    await assert.rejects(list.throw(new Error("mine")), /mine/);
  }
  assert.equal((await collect(store.list())).length, 1);
});
