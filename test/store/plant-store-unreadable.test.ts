/** Reads of an open store that throw: what fails only the call, and what the store. */
import assert from "node:assert/strict";
import { truncateSync } from "node:fs";
import { test } from "node:test";
import { clock } from "../../src/clock.ts";
import { encodeNewPlant } from "../../src/core/plant.ts";
import type { PlantStore } from "../../src/index.ts";
import { failReads } from "../support/failing-reads.ts";
import { makeFolder } from "../support/folders.ts";
import { collect, logPath, openStore, writeLog } from "../support/stores.ts";
import { collectWarnings } from "../support/watch.ts";

const LONG = "x".repeat(5000);
const PLANTS = [1n, 2n, 3n].map((id) => ({ id, name: id === 2n ? LONG : "a" }));
const LINES = PLANTS.map((plant) => `${encodeNewPlant(plant)}\n`);

/** Calls that read the log, and the code with which they fail if they cannot. */
const CALLS: readonly (readonly [
  what: string,
  code: string,
  call: (store: PlantStore) => Promise<unknown>,
])[] = [
  ["get of a short plant", "read_failed", (store) => store.get(1n)],
  ["get of a long plant", "read_failed", (store) => store.get(2n)],
  ["list", "read_failed", (store) => collect(store.list())],
  ["list after a plant", "read_failed", (store) => collect(store.list({ after: 1n }))],
  ["listLines", "read_failed", (store) => collect(store.listLines())],
  ["repeat of a short plant", "write_failed", (store) => store.create({ id: 1n, name: "a" })],
  ["repeat of a long plant", "write_failed", (store) => store.create({ id: 2n, name: LONG })],
];

const system = (code: string) => Object.assign(new Error(code), { code });
const ERRORS: readonly (() => Error)[] = [
  () => system("EIO"),
  () => system("ENOMEM"),
  () => system("EMFILE"),
  () => new RangeError("Array buffer allocation failed"),
  () => system("ERR_STRING_TOO_LONG"),
];

async function openWithPlants(t: Parameters<typeof openStore>[0]) {
  const folder = makeFolder(t);
  writeLog(folder, LINES.join(""));
  return { folder, store: await openStore(t, folder) };
}

for (const [what, code, call] of CALLS) {
  test(`a ${what} that cannot be read fails with ${code}, and the next one succeeds (fake faults)`, async (t) => {
    const { folder, store } = await openWithPlants(t);
    let makeError = ERRORS[0] as () => Error;
    const reads = failReads(t, () => makeError());
    for (const each of ERRORS) {
      makeError = each;
      reads.begin();
      await assert.rejects(call(store), ({ code: got, message }: Error & { code: string }) => {
        assert.equal(got, code);
        assert.ok(!message.includes(folder), message);
        return true;
      });
      assert.equal(
        await store.create({ id: 9n, name: "new" }),
        each === ERRORS[0] ? "created" : "replayed",
      );
      reads.end();
      await call(store);
    }
  });
}

for (const bytes of [60, 700, 1500]) {
  test(`a bad sector in lines of ${bytes} bytes fails its plant, and none farther away than a page (fake fault)`, async (t) => {
    const folder = makeFolder(t);
    const name = "x".repeat(bytes);
    const lines = Array.from({ length: 200 }, (_, id) => `{"id":${id},"name":"${name}"}\n`);
    writeLog(folder, lines.join(""));
    const store = await openStore(t, folder);
    const from = lines.slice(0, 100).join("").length;
    failReads(t, undefined, { from: from + bytes / 2, to: from + bytes }).begin();
    const ids = lines.map((_, id) => BigInt(id));
    const outcomes = await Promise.allSettled(ids.map((id) => store.get(id)));
    const failed = ids.filter((_, at) => outcomes[at]?.status === "rejected");
    assert.ok(failed.includes(100n));
    const farthest = 100 - Math.ceil(4096 / bytes);
    assert.ok(
      failed.every((id) => id >= farthest && id <= 100),
      `${failed}`,
    );
  });
}

test("failed reads give one warning a second, which names the log and the reason (fake fault)", async (t) => {
  const { folder, store } = await openWithPlants(t);
  const warnings = collectWarnings(t, logPath(folder));
  const start = Math.floor(clock.steadyMs()); // a sum with a fraction is rounded
  const now = t.mock.method(clock, "steadyMs", () => start);
  failReads(t).begin();
  const readAll = () => Promise.allSettled(CALLS.map(([, , call]) => call(store)));
  for (const [afterMs, count] of [
    [0, 1],
    [999, 1],
    [1000, 2],
    [1999, 2],
  ] as const) {
    now.mock.mockImplementation(() => start + afterMs);
    await readAll();
    assert.equal(warnings.length, count, `after ${afterMs} ms`);
  }
  assert.ok(warnings.every(({ message }) => message.includes("EIO")));
});

test("a lack of memory does not hide that the log was cut (fake fault)", async (t) => {
  const { folder, store } = await openWithPlants(t);
  failReads(t, () => new RangeError("Array buffer allocation failed")).begin();
  truncateSync(logPath(folder), 10);
  await assert.rejects(store.get(2n), { code: "store_failed" });
});
