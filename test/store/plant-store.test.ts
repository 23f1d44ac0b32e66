/** A store in a folder: what is created, repeated, read and listed, and what makes it fail. */
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { clock } from "../../src/clock.ts";
import type { NewPlant, PlantStore } from "../../src/index.ts";
import { LogFile } from "../../src/log/file.ts";
import { endWrites } from "../support/failing-writes.ts";
import { makeFolder } from "../support/folders.ts";
import { collect, logPath, openFilesIn, openStore, readLog } from "../support/stores.ts";
import { makeLatch, until } from "../support/watch.ts";

const FERN: NewPlant = { id: 7n, name: "Fern", tag: "indoor" };
const IVY: NewPlant = { id: 8n, name: "Ivy" };
const FERN_LINE = '{"id":7,"name":"Fern","tag":"indoor"}\n';
const PLANT: NewPlant = { id: 1n, name: "a" };
const PLANTS: readonly NewPlant[] = [1n, 2n, 3n].map((id) => ({ id, name: "a" }));
const LINE = '{"id":1,"name":"a"}\n';

async function openWith(t: TestContext, plants: readonly NewPlant[]) {
  const folder = makeFolder(t);
  const store = await openStore(t, folder);
  for (const plant of plants) await store.create(plant);
  return { folder, store };
}

/** The same, opened again: nothing is in memory but the index. */
async function reopenWith(t: TestContext, plants: readonly NewPlant[]) {
  const { folder, store } = await openWith(t, plants);
  await store.close();
  return { folder, store: await openStore(t, folder) };
}

async function linesOf(store: PlantStore, after?: bigint): Promise<string> {
  return Buffer.concat(await collect(store.listLines({ after }))).toString();
}

test("a created plant is one line, and is read as a plant and as a line, alone and in a list", async (t) => {
  const { folder, store } = await openWith(t, [FERN, IVY]);
  const log = readLog(folder);
  assert.equal(log, `${FERN_LINE}{"id":8,"name":"Ivy"}\n`);
  assert.deepEqual([await store.get(7n), await store.get(8n)], [FERN, IVY]);
  assert.equal(`${await store.getLine(7n)}\n`, FERN_LINE);
  assert.deepEqual(await collect(store.list()), [FERN, IVY]);
  assert.equal(await linesOf(store), log);
  const status = { plants: 2, logBytes: log.length, queueBytes: 0, msSinceRefusal: undefined };
  assert.deepEqual(store.status(), status);
});

test("a plant whose record would be too long is refused", async (t) => {
  const { folder, store } = await openWith(t, []);
  const long = { id: 7n, name: "\0".repeat(2 ** 20) };
  await assert.rejects(store.create(long), { code: "body_too_large" });
  assert.equal(readLog(folder), "");
});

test("creates of one id in flight share its outcome, which comes when the plant is durable", async (t) => {
  const { folder, store } = await openWith(t, [IVY]);
  const first = store.create(FERN);
  const others = [FERN, { ...FERN, tag: "outdoor" }].map(async (plant) => {
    const outcome = await store.create(plant).catch((error) => error.code);
    assert.ok(readLog(folder).endsWith(FERN_LINE));
    assert.deepEqual(await store.get(7n), FERN);
    return outcome;
  });
  assert.deepEqual([store.status().plants, await store.get(7n)], [1, undefined]);
  assert.deepEqual(await Promise.all([first, ...others]), ["created", "replayed", "conflict"]);
});

test("when a create fails, its repeats in flight fail, too, and the next create tries again", async (t) => {
  const { folder, store } = await openWith(t, []);
  await endWrites(t, { code: "ENOSPC" });
  const creating = [FERN, { ...FERN }, { ...FERN, tag: "other" }].map((plant) =>
    store.create(plant).catch(({ code }) => code),
  );
  assert.deepEqual(await Promise.all(creating), Array(3).fill("write_failed"));
  assert.equal(await store.create(FERN), "created");
  assert.equal(readLog(folder), FERN_LINE);
});

test("a plant that the caller changes after the call is stored as it was given", async (t) => {
  const { store } = await openWith(t, []);
  const given: { id: bigint; name: string } = { id: 1n, name: "a" };
  const creating = store.create(given);
  given.id = 2n;
  await creating;
  assert.deepEqual([await store.get(1n), await store.get(2n)], [PLANT, undefined]);
});

test("a list begins after any plant, in the order of creation", async (t) => {
  const ids = [3n, -1n, 2n];
  const plants = ids.map((id) => ({ id, name: "x".repeat(50_000) }));
  const { folder, store } = await openWith(t, plants);
  const lines = readLog(folder).split(/(?<=\n)/);
  for (const [at, after] of [undefined, ...ids].entries()) {
    assert.deepEqual(await collect(store.list({ after })), plants.slice(at));
    assert.equal(await linesOf(store, after), lines.slice(at).join(""));
  }
});

test("a list after an id that no plant has or can have is refused", async (t) => {
  const { store } = await openWith(t, PLANTS);
  await assert.rejects(linesOf(store, 9n), { code: "unknown_cursor" });
  await assert.rejects(linesOf(store, 2n ** 63n), RangeError);
  await assert.rejects(linesOf(store, 1 as never), TypeError);
  await assert.rejects(store.get(2n ** 64n + 1n), RangeError);
});

test("a close finishes what was accepted, and refuses later calls", async (t) => {
  const folder = makeFolder(t);
  const store = await openStore(t, folder);
  const long = { id: 100n, name: "x".repeat(100_000) }; // takes more than one read
  await store.create(long);
  const plants = Array.from({ length: 20 }, (_, n) => ({ id: BigInt(n), name: "x" }));
  const accepted = [...plants, long].map((plant) => store.create(plant));
  const reading = store.get(100n);
  let isClosed = false;
  void store.close().then(() => {
    isClosed = true;
  });
  for (const call of [store.create(IVY), store.get(1n), collect(store.list())]) {
    await assert.rejects(call, { code: "closed" });
  }
  await store.close();
  assert.ok(isClosed, "a second close waits for the first");
  assert.deepEqual(await Promise.all(accepted), [...plants.map(() => "created"), "replayed"]);
  assert.deepEqual(await reading, long);
  assert.deepEqual(await collect((await openStore(t, folder)).list()), [long, ...plants]);
});

test("a close waits for the read of a list, which then ends with the code closed (fake delay)", async (t) => {
  const { folder, store } = await openWith(t, [PLANT, { id: 2n, name: "x".repeat(1e5) }]);
  const list = store.list();
  const { released, release } = makeLatch();
  const { read } = LogFile.prototype;
  const reads = t.mock.method(LogFile.prototype, "read", async function (this: LogFile, ...args) {
    await released;
    return read.apply(this, args);
  } as typeof read);
  const first = list.next();
  await until("the list reads", () => reads.mock.callCount() === 1);
  const closing = store.close();
  // Takes longer than a close.
  for (let n = 0; n < 5; n++) await (await openStore(t, makeFolder(t))).close();
  assert.ok(openFilesIn(folder).includes(logPath(folder)));
  release();
  assert.deepEqual((await first).value, PLANT);
  await closing;
  await assert.rejects(list.next(), { code: "closed" });
});

/** What may happen to the log while a store has it open. */
const MEDDLINGS: Readonly<Record<string, (log: string) => void>> = {
  "is deleted": (log) => fs.unlinkSync(log),
  "loses its lock": (log) => fs.unlinkSync(path.join(path.dirname(log), "lock.1")),
};

for (const [says, meddle] of Object.entries(MEDDLINGS)) {
  test(`a store whose log ${says} while it is idle fails for good (fake interval)`, async (t) => {
    let tick = () => {};
    t.mock.method(clock, "setInterval", (run: () => void) => {
      tick = run;
      return { unref() {} };
    });
    const { folder, store } = await openWith(t, [PLANT]);
    tick();
    assert.equal(await store.create(PLANT), "replayed");
    meddle(logPath(folder));
    tick();
    const failure = await store.failed;
    for (const call of [store.get(1n), linesOf(store), store.create(PLANT), store.create(IVY)]) {
      await assert.rejects(call, { code: "store_failed" });
    }
    // The message reaches clients; the reason is for the operator only.
    assert.ok(failure.cause instanceof Error && !failure.message.includes(folder));
  });
}

const READS: Readonly<Record<string, (store: PlantStore) => Promise<unknown>>> = {
  get: (store) => store.get(1n),
  list: (store) => linesOf(store),
  "list after a plant": (store) => linesOf(store, 1n),
  repeat: (store) => store.create(PLANT),
};

for (const [what, read] of Object.entries(READS)) {
  test(`a ${what} that cannot be read is 50307, and the store goes on (fake fault)`, async (t) => {
    const { store } = await reopenWith(t, PLANTS);
    const fault = Object.assign(new Error("EIO: i/o error, read"), { code: "EIO" });
    const { mock } = t.mock.method(LogFile.prototype, "read", () => Promise.reject(fault));
    await assert.rejects(read(store), { code: "read_failed" });
    assert.equal(await store.create({ id: 9n, name: "new" }), "created");
    mock.restore();
    await read(store);
  });
}

/** What a disk may make of one byte of a log of three lines, and which reads fail the store then. */
const DAMAGES: readonly [says: string, offset: number, byte: string, reads: readonly string[]][] = [
  ["has a line that is no plant", LINE.length, "[", ["get", "list"]],
  // A list cannot know that a good line is another plant's.
  ["has another plant in its second line", LINE.length + 6, "7", ["get"]],
  ["has bytes that are no text", LINE.length + 16, "\xff", ["get", "list"]],
  ["has no line feed at its end", 3 * LINE.length - 1, "X", ["list"]],
];

for (const [says, offset, byte, reads] of DAMAGES) {
  for (const read of reads) {
    test(`a ${read} fails the store if the log ${says}`, async (t) => {
      const { folder, store } = await reopenWith(t, PLANTS);
      const fd = fs.openSync(logPath(folder), "r+");
      fs.writeSync(fd, Buffer.from(byte, "latin1"), 0, 1, offset);
      fs.closeSync(fd);
      const reading = read === "get" ? store.get(2n) : linesOf(store);
      await assert.rejects(reading, { code: "store_failed" });
    });
  }
}
