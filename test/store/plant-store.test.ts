/** A store in a folder: what is created, repeated, read and listed, and what makes it fail. */
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { clock } from "../../src/clock.ts";
import { encodeNewPlant } from "../../src/core/plant.ts";
import type { NewPlant, PlantStore } from "../../src/index.ts";
import { failReads } from "../support/failing-reads.ts";
import { endWrites } from "../support/failing-writes.ts";
import { makeFolder } from "../support/folders.ts";
import { holdReads } from "../support/held-reads.ts";
import { collect, logPath, openFilesIn, openStore, readLog } from "../support/stores.ts";
import { until } from "../support/watch.ts";

const FERN: NewPlant = { id: 7n, name: "Fern", tag: "indoor" };
const IVY: NewPlant = { id: 8n, name: "Ivy" };
const FERN_LINE = '{"id":7,"name":"Fern","tag":"indoor"}\n';
const PLANTS: readonly NewPlant[] = [1n, 2n, 3n].map((id) => ({ id, name: "a" }));
const LINE = `${encodeNewPlant({ id: 1n, name: "a" })}\n`;

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
  const { plants, logBytes, queueBytes } = store.status();
  assert.deepEqual([plants, logBytes, queueBytes], [2, log.length, 0]);
});

test("a repeated create writes nothing, and one with other content is a conflict", async (t) => {
  const { folder, store } = await openWith(t, [FERN]);
  assert.equal(await store.create({ ...FERN }), "replayed");
  for (const other of [
    { id: 7n, name: "Fern" },
    { ...FERN, tag: "" },
    { ...FERN, name: "fern" },
  ]) {
    await assert.rejects(store.create(other), { code: "conflict" });
  }
  assert.equal(readLog(folder), FERN_LINE);
});

test("a tag of undefined is an absent tag", async (t) => {
  // A program in JavaScript may pass this, although the type forbids it.
  const untagged = { id: 1n, name: "a", tag: undefined } as unknown as NewPlant;
  const { folder, store } = await openWith(t, [untagged]);
  assert.equal(readLog(folder), LINE);
  assert.equal(await store.create({ id: 1n, name: "a" }), "replayed");
});

test("a program that creates no plant gets an error, and nothing is written", async (t) => {
  const { folder, store } = await openWith(t, []);
  await assert.rejects(store.create({ id: 7, name: "x" } as never), TypeError);
  await assert.rejects(store.create({ id: 2n ** 63n, name: "x" }), RangeError);
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

test("when a create fails, its repeats in flight fail too, and the next create tries again", async (t) => {
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
  const first = store.create(given);
  given.id = 2n;
  const second = store.create(given);
  given.name = "b";
  await Promise.all([first, second]);
  const stored = [1n, 2n].map((id) => ({ id, name: "a" }));
  assert.deepEqual(await collect(store.list()), stored);
});

test("a list begins after any plant, in the order of creation", async (t) => {
  const ids = [3n, -1n, 2n];
  const plants = ids.map((id) => ({ id, name: "x".repeat(50_000) }));
  const { folder, store } = await openWith(t, plants);
  const lines = readLog(folder).split("\n").slice(0, -1);
  for (const [at, after] of [undefined, ...ids].entries()) {
    assert.deepEqual(await collect(store.list({ after })), plants.slice(at));
    const rest = lines.slice(at).map((line) => `${line}\n`);
    assert.equal(await linesOf(store, after), rest.join(""));
  }
});

test("a list after an id that no plant has, or none can have, is refused", async (t) => {
  const { store } = await openWith(t, PLANTS);
  for (const list of ["list", "listLines"] as const) {
    const listAfter = (after: unknown) => collect<unknown>(store[list]({ after: after as bigint }));
    await assert.rejects(listAfter(9n), { code: "unknown_cursor" });
    await assert.rejects(listAfter(2n ** 63n), RangeError);
    await assert.rejects(listAfter(1), TypeError);
  }
  await assert.rejects(store.get(2n ** 64n + 1n), RangeError);
});

test("a close finishes what was accepted, and refuses what comes then", async (t) => {
  const folder = makeFolder(t);
  const store = await openStore(t, folder);
  const long = { id: 100n, name: "x".repeat(100_000) }; // takes more than one read
  await store.create(long);
  const plants = Array.from({ length: 20 }, (_, n) => ({ id: BigInt(n), name: "x" }));
  const accepted = [...plants, long].map((plant) => store.create(plant));
  const reading = store.get(100n);
  const closing = store.close();
  for (const call of [store.create(IVY), store.get(1n), collect(store.list())]) {
    await assert.rejects(call, { code: "closed" });
  }
  let isClosed = false;
  void closing.then(() => {
    isClosed = true;
  });
  await store.close();
  assert.ok(isClosed, "a second close waits for the first");
  assert.deepEqual(await Promise.all(accepted), [...plants.map(() => "created"), "replayed"]);
  assert.deepEqual(await reading, long);
  assert.deepEqual(await collect((await openStore(t, folder)).list()), [long, ...plants]);
});

test("a close waits for the read of a list, which then ends with the code closed (fake delay)", async (t) => {
  const plants = Array.from({ length: 3 }, (_, n) => ({ id: BigInt(n), name: "x".repeat(3e4) }));
  const { folder, store } = await openWith(t, plants);
  const lists = [store.listLines(), store.list()];
  const reads = holdReads(t);
  const firsts = lists.map((list) => list.next());
  await until("both lists read", () => reads.count() === 2);
  const closing = store.close();
  // Takes longer than a close.
  for (let n = 0; n < 5; n++) await (await openStore(t, makeFolder(t))).close();
  assert.ok(openFilesIn(folder).includes(logPath(folder)));
  reads.release();
  for (const first of await Promise.all(firsts)) assert.equal(first.done, false);
  await closing;
  for (const list of lists) await assert.rejects(list.next(), { code: "closed" });
});

/** What may happen to the log while a store has it open. */
const MEDDLINGS: Readonly<Record<string, (log: string) => void>> = {
  "is deleted": (log) => fs.unlinkSync(log),
  "is renamed": (log) => fs.renameSync(log, `${log}.old`),
  "is replaced by a copy": (log) => {
    fs.copyFileSync(log, `${log}.copy`);
    fs.renameSync(`${log}.copy`, log);
  },
  // As long as the next record of the store, so that the length alone does not reveal it.
  "gets a line from an editor": (log) => fs.appendFileSync(log, '{"id":2,"name":"?"}\n'),
  "is emptied": (log) => fs.truncateSync(log),
  "loses its lock": (log) => fs.unlinkSync(path.join(path.dirname(log), "lock.1")),
};

for (const [says, meddle] of Object.entries(MEDDLINGS)) {
  test(`a store whose log ${says} fails for good and acknowledges nothing more`, async (t) => {
    const { folder, store } = await openWith(t, PLANTS.slice(0, 1));
    meddle(logPath(folder));
    await assert.rejects(store.create({ id: 2n, name: "b" }), { code: "store_failed" });
    const failure = await store.failed;
    // The message reaches clients; the reason is for the operator only.
    assert.ok(failure.cause instanceof Error && !failure.message.includes(folder));
    for (const call of [store.create(PLANTS[0] as NewPlant), store.get(1n), linesOf(store)]) {
      await assert.rejects(call, { code: "store_failed" });
    }
  });

  test(`a store that is idle notices that its log ${says} (fake interval)`, async (t) => {
    let tick = () => {};
    t.mock.method(clock, "setInterval", (run: () => void) => {
      tick = run;
      return { unref() {}, refresh() {} };
    });
    const { folder, store } = await openWith(t, PLANTS);
    tick();
    assert.equal(await store.create({ id: 1n, name: "a" }), "replayed");
    meddle(logPath(folder));
    tick();
    // Lines that were added may be a batch that is being written; the next append tells.
    if (!says.includes("editor")) await assert.rejects(store.get(1n), { code: "store_failed" });
  });
}

const READS: Readonly<
  Record<string, [code: string, call: (store: PlantStore) => Promise<unknown>]>
> = {
  get: ["read_failed", (store) => store.get(1n)],
  "list after a plant": ["read_failed", (store) => collect(store.list({ after: 1n }))],
  "list of lines": ["read_failed", (store) => linesOf(store)],
  repeat: ["write_failed", (store) => store.create({ id: 1n, name: "a" })],
};

for (const [what, [code, call]] of Object.entries(READS)) {
  test(`a ${what} that cannot be read is ${code}, and the store goes on (fake fault)`, async (t) => {
    const { store } = await reopenWith(t, PLANTS);
    const reads = failReads(t);
    reads.begin();
    await assert.rejects(call(store), { code });
    assert.equal(await store.create({ id: 9n, name: "new" }), "created");
    reads.end();
    await call(store);
  });
}

/** What a disk may make of a log of three lines: bytes at an offset. */
const DAMAGES: Readonly<Record<string, [offset: number, text: string]>> = {
  "has a line that is no plant": [LINE.length, "["],
  "has another plant in its second line": [LINE.length + 6, "7"],
  "has bytes that are no text": [LINE.length + 16, "\xff"],
  "has no line feed at its end": [3 * LINE.length - 1, "X"],
};

for (const [says, [offset, text]] of Object.entries(DAMAGES)) {
  for (const list of ["get", "listLines"] as const) {
    test(`a ${list} fails the store if the log ${says}`, async (t) => {
      const { folder, store } = await reopenWith(t, PLANTS);
      const fd = fs.openSync(logPath(folder), "r+");
      fs.writeSync(fd, Buffer.from(text, "latin1"), 0, 1, offset);
      fs.closeSync(fd);
      const id = says.includes("its end") ? 3n : 2n;
      if (list === "get") await assert.rejects(store.get(id), { code: "store_failed" });
      // A list cannot know that a good line is another plant's.
      else if (says.includes("another")) await linesOf(store);
      else await assert.rejects(linesOf(store), { code: "store_failed" });
    });
  }
}

test("a list does not fail the store if its consumer throws", async (t) => {
  const { store } = await openWith(t, PLANTS);
  for (const which of ["list", "listLines"] as const) {
    const reading = async () => {
      for await (const _ of store[which]()) throw new Error("mine");
    };
    await assert.rejects(reading, /mine/);
  }
  assert.equal((await collect(store.list())).length, 3);
});
