/** An `AbortSignal` ends the wait for a store, and nothing else. */
import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { type TestContext, test } from "node:test";
import { eachUntilAborted, untilAborted } from "../src/clock.ts";
import type { PlantService } from "../src/index.ts";
import { createTestStore } from "../src/testing.ts";
import { makeFolder } from "./support/folders.ts";
import { openStore } from "./support/stores.ts";
import { makeLatch, until } from "./support/watch.ts";

const FERN = { id: 7n, name: "Fern" };
const REASON = new Error("the user has left");

interface Tried {
  readonly plants: PlantService;
  /** Whether a create of the fern was accepted. */
  readonly hasFern: () => unknown;
}

async function inFolder(t: TestContext): Promise<Tried> {
  const plants = await openStore(t, makeFolder(t));
  return { plants, hasFern: () => plants.get(FERN.id) };
}

async function inMemory(): Promise<Tried> {
  const { plants } = createTestStore();
  return { plants, hasFern: () => plants.get(FERN.id) };
}

const STORES = { "in a folder": inFolder, "in memory": inMemory };

const CALLS: readonly [
  what: string,
  (plants: PlantService, signal: AbortSignal) => Promise<unknown>,
][] = [
  ["create", (plants, signal) => plants.create(FERN, { signal })],
  ["get", (plants, signal) => plants.get(FERN.id, { signal })],
  ["list", (plants, signal) => firstOf(plants.list({ signal }))],
];

async function firstOf<T>(items: AsyncIterable<T>): Promise<T | undefined> {
  for await (const item of items) return item;
  return undefined;
}

const listenersOf = (signal: AbortSignal) => getEventListeners(signal, "abort").length;

for (const [where, open] of Object.entries(STORES)) {
  for (const [what, call] of CALLS) {
    test(`${what} ${where} does nothing if its signal has aborted before`, async (t) => {
      const { plants, hasFern } = await open(t);
      await assert.rejects(call(plants, AbortSignal.abort(REASON)), REASON);
      assert.ok(!(await hasFern()));
    });
  }

  test(`calls of a store ${where} leave no listener on a signal that does not abort`, async (t) => {
    const { plants } = await open(t);
    const { signal } = new AbortController();
    for (const [, call] of [...CALLS, ...CALLS]) await call(plants, signal);
    assert.equal(listenersOf(signal), 0);
  });
}

for (const where of ["in a folder"] as const) {
  test(`a signal that aborts ends each wait for a store ${where}, and a create goes on`, async (t) => {
    const { plants, hasFern } = await STORES[where](t);
    for (const [what, call] of CALLS) {
      const controller = new AbortController();
      const calling = call(plants, controller.signal);
      controller.abort(REASON);
      await assert.rejects(calling, REASON, what);
      assert.equal(listenersOf(controller.signal), 0);
      await until("the plant is stored", async () => Boolean(await hasFern()));
    }
  });
}

test("a list rejects at the next plant once its signal has aborted", async (t) => {
  for (const open of [inFolder, inMemory]) {
    const { plants } = await open(t);
    for (const id of [1n, 2n]) await plants.create({ id, name: "a" });
    const controller = new AbortController();
    const seen: bigint[] = [];
    const reading = (async () => {
      for await (const { id } of plants.list({ signal: controller.signal })) {
        seen.push(id);
        controller.abort(REASON);
      }
    })();
    await assert.rejects(reading, REASON);
    assert.deepEqual(seen, [1n]);
  }
});

test("a create that was overridden is called once", async (t) => {
  const { plants } = await inFolder(t);
  const create = t.mock.method(plants, "create");
  await plants.create(FERN, { signal: new AbortController().signal });
  assert.equal(create.mock.callCount(), 1);
});

test("a failure after the end of the wait is ignored", async () => {
  const controller = new AbortController();
  let fail = () => {};
  const failing = () =>
    new Promise<never>((_, reject) => {
      fail = () => reject(new Error("late"));
    });
  const waiting = untilAborted(controller.signal, failing);
  controller.abort(REASON);
  await assert.rejects(waiting, REASON);
  fail();
  await new Promise((resolve) => setImmediate(resolve));
});

test("many waits at once for one signal make no warning of Node.js, and share one listener", async (t) => {
  const { signal } = new AbortController();
  const warnings: Error[] = [];
  const note = (warning: Error) => warnings.push(warning);
  process.on("warning", note);
  t.after(() => process.off("warning", note));
  const { released, release } = makeLatch();
  const waits = Array.from({ length: 100 }, () => untilAborted(signal, () => released));
  assert.equal(listenersOf(signal), 1);
  release();
  await Promise.all(waits);
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(warnings, []);
  assert.equal(listenersOf(signal), 0);
});

test("a signal ends a wait for it after another wait is over", async () => {
  const controller = new AbortController();
  const waiting = untilAborted(controller.signal, () => new Promise<never>(() => {}));
  await untilAborted(controller.signal, async () => {});
  controller.abort(REASON);
  await assert.rejects(waiting, REASON);
});

test("a list that ends early waits until what it reads has ended", async () => {
  const { signal } = new AbortController();
  let hasEnded = false;
  async function* endless() {
    try {
      for (;;) yield 1;
    } finally {
      await new Promise((resolve) => setImmediate(resolve));
      hasEnded = true;
    }
  }
  assert.equal(await firstOf(eachUntilAborted(signal, endless())), 1);
  assert.deepEqual([hasEnded, listenersOf(signal)], [true, 0]);
});

test("a list that ends early throws what its source throws, unless its signal has aborted", async () => {
  const fault = new Error("a file that does not close");
  async function* failing() {
    try {
      for (;;) yield 1;
    } finally {
      await Promise.reject(fault);
    }
  }
  const controller = new AbortController();
  await assert.rejects(firstOf(eachUntilAborted(controller.signal, failing())), fault);
  for await (const _ of eachUntilAborted(controller.signal, failing())) {
    controller.abort(REASON);
    break;
  }
  await new Promise((resolve) => setImmediate(resolve)); // no rejection is unhandled
});
