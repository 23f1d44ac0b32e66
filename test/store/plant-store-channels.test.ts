import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { test } from "node:test";
import type { CreateMessage } from "../../src/index.ts";
import { makeFolder } from "../support/folders.ts";
import { logPath, openStore, readLog } from "../support/stores.ts";
import { collectMessages } from "../support/watch.ts";

test("every new plant is published once, when it is durable and before its create resolves", async (t) => {
  const folder = makeFolder(t);
  const store = await openStore(t, folder);
  await store.create({ id: 1n, name: "before anyone listens" });
  const start = Buffer.byteLength(readLog(folder));
  const messages = collectMessages<CreateMessage>(t, "plant-store:create");
  const fern = { id: -(2n ** 63n), name: "Färn", tag: "" };

  const both = await Promise.all([store.create(fern), store.create({ ...fern })]);
  assert.deepEqual(both.sort(), ["created", "replayed"]);
  assert.equal(messages.length, 1);
  await store.create(fern);
  await assert.rejects(store.create({ ...fern, tag: "other" }), { code: "conflict" });
  await store.create({ id: 2n, name: "b" });

  const log = logPath(folder);
  const bytes = Buffer.byteLength('{"id":-9223372036854775808,"name":"Färn","tag":""}\n');
  assert.deepEqual(messages, [
    { log, ...fern, offset: start, bytes },
    { log, id: 2n, name: "b", tag: undefined, offset: start + bytes, bytes: 20 },
  ]);
  // Offset and length are those of the line itself.
  const line = Buffer.from(readLog(folder))
    .subarray(start, start + bytes)
    .toString();
  assert.equal(line, '{"id":-9223372036854775808,"name":"Färn","tag":""}\n');
});

test("a subscriber is called in the asynchronous context of the program that created the plant", async (t) => {
  const store = await openStore(t, makeFolder(t));
  const context = new AsyncLocalStorage<bigint>();
  const seen: unknown[] = [];
  const note = (message: unknown) => seen.push([(message as CreateMessage).id, context.getStore()]);
  subscribe("plant-store:create", note);
  t.after(() => unsubscribe("plant-store:create", note));
  const create = (id: bigint) => context.run(id, () => store.create({ id, name: "a" }));
  await Promise.all([1n, 2n, 3n].map(create));
  assert.deepEqual(seen, [
    [1n, 1n],
    [2n, 2n],
    [3n, 3n],
  ]);
});

test("a plant that could not be written is not published", async (t) => {
  const store = await openStore(t, makeFolder(t), { queueBytesMax: 1 });
  const messages = collectMessages<CreateMessage>(t, "plant-store:create");
  const creates = [1n, 2n].map((id) => store.create({ id, name: "a" }));
  const [first, second] = await Promise.allSettled(creates);
  assert.deepEqual([first?.status, second?.status], ["fulfilled", "rejected"]);
  assert.deepEqual(
    messages.map(({ id }) => id),
    [1n],
  );
});

test("messages name the log, so two stores in one process can be distinguished", async (t) => {
  const folders = [makeFolder(t), makeFolder(t)];
  const messages = collectMessages<CreateMessage>(t, "plant-store:create");
  for (const folder of folders) {
    const store = await openStore(t, folder);
    await store.create({ id: 1n, name: "a" });
  }
  assert.deepEqual(
    messages.map(({ log }) => log),
    folders.map(logPath),
  );
});
