import assert from "node:assert/strict";
import { test } from "node:test";
import type { NewPlant } from "../../src/index.ts";
import { type AppendResult, LogFile } from "../../src/log/file.ts";
import { makeFolder } from "../support/folders.ts";
import { collect, openStore, readLog } from "../support/stores.ts";

const FERN: NewPlant = { id: 7n, name: "Fern", tag: "indoor" };
const IVY: NewPlant = { id: 8n, name: "Ivy" };

test("a created plant is one line, and get and list return it", async (t) => {
  const folder = makeFolder(t);
  const store = await openStore(t, folder);

  assert.equal(await store.create(FERN), "created");
  assert.equal(await store.create(IVY), "created");

  assert.equal(readLog(folder), '{"id":7,"name":"Fern","tag":"indoor"}\n{"id":8,"name":"Ivy"}\n');
  assert.deepEqual(await store.get(7n), FERN);
  assert.deepEqual(await store.get(8n), IVY);
  assert.deepEqual(await collect(store.list()), [FERN, IVY]);
  assert.equal(store.size, 2);
});

test("get returns undefined for an unknown id", async (t) => {
  const store = await openStore(t, makeFolder(t));
  await store.create(FERN);
  for (const id of [0n, -7n, 8n, 7n + 2n ** 32n, 7n - 2n ** 63n]) {
    assert.equal(await store.get(id), undefined, String(id));
  }
});

test("plants are listed in the order of their creation, not of their ids", async (t) => {
  const store = await openStore(t, makeFolder(t));
  const ids = [3n, -1n, 2n, 0n, 1n];
  for (const id of ids) await store.create({ id, name: "x" });
  assert.deepEqual(
    (await collect(store.list())).map(({ id }) => id),
    ids,
  );
});

test("the same plant sent again is answered as stored and writes nothing", async (t) => {
  const folder = makeFolder(t);
  const store = await openStore(t, folder);
  await store.create(FERN);
  const before = readLog(folder);

  assert.equal(await store.create({ ...FERN }), "replayed");
  assert.equal(readLog(folder), before);
  assert.equal(store.size, 1);
});

test("a tag of undefined is an absent tag", async (t) => {
  const folder = makeFolder(t);
  const store = await openStore(t, folder);
  // A program in JavaScript may pass this, although the type forbids it.
  const untagged = { id: 1n, name: "a", tag: undefined } as unknown as NewPlant;
  assert.equal(await store.create(untagged), "created");
  assert.equal(readLog(folder), '{"id":1,"name":"a"}\n');
  assert.equal(await store.create({ id: 1n, name: "a" }), "replayed");
});

test("a program that creates no plant gets an error, and nothing is written", async (t) => {
  const folder = makeFolder(t);
  const store = await openStore(t, folder);
  await assert.rejects(store.create({ id: 7, name: "x" } as never), TypeError);
  await assert.rejects(store.create({ id: 2n ** 63n, name: "x" }), RangeError);
  assert.equal(readLog(folder), "");
});

test("when a create fails, its repeats in flight fail in the same way, and the next create tries again", async (t) => {
  const folder = makeFolder(t);
  const store = await openStore(t, folder);
  const refused: AppendResult = { outcome: "refused", cause: new Error("disk full") };
  const append = t.mock.method(LogFile.prototype, "append", async () => refused);
  const errors = await Promise.all(
    [FERN, { ...FERN }, { ...FERN, tag: "other" }].map((plant) =>
      store.create(plant).catch(String),
    ),
  );
  assert.equal(append.mock.callCount(), 1);
  assert.match(errors[0] as string, /send the identical request again/);
  assert.equal(new Set(errors).size, 1);
  append.mock.restore();
  assert.equal(await store.create(FERN), "created");
  assert.equal(readLog(folder), '{"id":7,"name":"Fern","tag":"indoor"}\n');
});

test("a repeat in flight is not answered before the plant is durable and can be read", async (t) => {
  const folder = makeFolder(t);
  const store = await openStore(t, folder);
  const first = store.create(FERN);
  const assertStored = async () => {
    assert.equal(readLog(folder), '{"id":7,"name":"Fern","tag":"indoor"}\n');
    assert.deepEqual(await store.get(7n), FERN);
  };
  const repeat = store.create({ ...FERN }).then(assertStored);
  const other = store.create({ ...FERN, tag: "outdoor" }).catch((error) => {
    assert.equal(error.code, "conflict");
    return assertStored();
  });
  assert.equal(readLog(folder), ""); // both have waited
  await Promise.all([first, repeat, other]);
});

test("a plant that the caller changes after the call is stored as it was given", async (t) => {
  const folder = makeFolder(t);
  const store = await openStore(t, folder);
  const given: { id: bigint; name: string } = { id: 1n, name: "a" };
  const first = store.create(given);
  given.id = 2n;
  const second = store.create(given);
  given.name = "b";
  assert.deepEqual(await Promise.all([first, second]), ["created", "created"]);
  assert.deepEqual(await store.get(1n), { id: 1n, name: "a" });
  assert.deepEqual(await store.get(2n), { id: 2n, name: "a" });
  assert.equal(store.size, 2);
  assert.equal(await store.create({ id: 1n, name: "a" }), "replayed");
});

test("a plant is seen by get, list and size only once it is durable", async (t) => {
  const store = await openStore(t, makeFolder(t));
  await store.create(IVY);

  const creating = store.create(FERN);
  assert.equal(store.size, 1);
  assert.deepEqual(await Promise.all([store.get(7n), store.get(8n)]), [undefined, IVY]);
  await creating;

  assert.equal(store.size, 2);
  assert.deepEqual(await store.get(7n), FERN);
  assert.deepEqual(await collect(store.list()), [IVY, FERN]);
});

test("close finishes every accepted create, also those not in a batch yet", async (t) => {
  const folder = makeFolder(t);
  const store = await openStore(t, folder, { batchBytesMax: 1 });
  const plants = Array.from({ length: 20 }, (_, n) => ({ id: BigInt(n), name: "x" }));
  const outcomes = plants.map((plant) => store.create(plant));

  await store.close();

  assert.deepEqual(new Set(await Promise.all(outcomes)), new Set(["created"]));
  assert.deepEqual(await collect((await openStore(t, folder)).list()), plants);
});

// Too long for one read, so the log is still needed after the first one.
const LONG: NewPlant = { id: 1n, name: "x".repeat(100_000) };

test("close finishes a repeat of a long plant that was accepted", async (t) => {
  const store = await openStore(t, makeFolder(t));
  await store.create(LONG);
  const repeat = store.create(LONG);
  const [outcome] = await Promise.all([repeat, store.close()]);
  assert.equal(outcome, "replayed");
});

test("close finishes a get of a long plant that was accepted", async (t) => {
  const store = await openStore(t, makeFolder(t));
  await store.create(LONG);
  const found = store.get(1n);
  const [plant] = await Promise.all([found, store.close()]);
  assert.deepEqual(plant, LONG);
});

test("a list in progress when the store closes ends with the code closed, or yields every plant", async (t) => {
  const store = await openStore(t, makeFolder(t));
  const plants = Array.from({ length: 40 }, (_, n) => ({ id: BigInt(n), name: "x".repeat(1e5) }));
  await Promise.all(plants.map((plant) => store.create(plant)));
  const list = store.list();
  await list.next();

  await store.close();

  const rest = collect(list).then((others) => others.length);
  const end = await rest.catch((error) => error.code);
  assert.ok(end === "closed" || end === plants.length - 1, `ended with ${end}`);
});

test("a closed store refuses every call, and may be closed again", async (t) => {
  const store = await openStore(t, makeFolder(t));
  await store.create(FERN);
  await store.close();
  await store.close();

  await assert.rejects(store.create(FERN), { code: "closed" });
  await assert.rejects(store.create(IVY), { code: "closed" });
  await assert.rejects(store.get(7n), { code: "closed" });
  await assert.rejects(collect(store.list()), { code: "closed" });
});

test("a second close of a store resolves no earlier than the first", async (t) => {
  const store = await openStore(t, makeFolder(t));
  const order: string[] = [];
  const first = store.close().then(() => order.push("first"));
  const second = store.close().then(() => order.push("second"));
  await Promise.all([first, second]);
  assert.deepEqual(order, ["first", "second"]);
});

test("a store that is being closed refuses further calls", async (t) => {
  const store = await openStore(t, makeFolder(t));
  const first = store.create(FERN);
  const closing = store.close();
  await assert.rejects(store.create(IVY), { code: "closed" });
  await Promise.all([first, closing]);
});
