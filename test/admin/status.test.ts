import assert from "node:assert/strict";
import { test } from "node:test";
import { requests } from "../../src/core/channels.ts";
import { startAdmin } from "../support/admin.ts";

/** In milliseconds since 1970. */
const START = 1_800_000_000_000;

test("errors are listed in the order of their numbers, over all operations, whichever came last", async (t) => {
  const admin = await startAdmin(t);
  const now = t.mock.method(Date, "now");
  const fail = (at: number, error: number, operation?: string) => {
    now.mock.mockImplementation(() => START + at);
    requests.publish({ status: Math.floor(error / 100), error, operation, bodyBytes: 0 });
  };
  const errors = async () => JSON.parse((await admin.get("/status.json")).text).errors;
  fail(1000, 40006, "createPlant");
  fail(3000, 40402, "getPlant");
  fail(2000, 40101);
  assert.deepEqual(await errors(), [
    { error: 40006, code: "conflict", count: 1, lastAt: START + 1000 },
    { error: 40101, code: "missing_token", count: 1, lastAt: START + 2000 },
    { error: 40402, code: "unknown_plant", count: 1, lastAt: START + 3000 },
  ]);
  fail(4000, 40101, "createPlant");
  admin.wait();
  const [, second] = await errors();
  assert.deepEqual(second, { error: 40101, code: "missing_token", count: 2, lastAt: START + 4000 });
});

test("before the store is open its tokens are unknown, and not none", async (t) => {
  const admin = await startAdmin(t);
  const tokens = async () => JSON.parse((await admin.get("/status.json")).text).tokens;
  assert.deepEqual(await tokens(), []);
  admin.status.known = undefined;
  admin.wait();
  assert.equal(await tokens(), undefined);
});

test("the reads and the latency of the last ten seconds are shown, a missing plant among them, without failures", async (t) => {
  const now = t.mock.method(Date, "now", () => START);
  const admin = await startAdmin(t);
  const request = { status: 200, bodyBytes: 0, durationMs: 2, operation: "getPlant" };
  requests.publish({ ...request, durationMs: 10_000 }); // too long ago for what follows
  now.mock.mockImplementation(() => START + 1000);
  for (let n = 0; n < 98; n++) requests.publish(request);
  requests.publish({ ...request, operation: "listPlants", durationMs: 40 });
  requests.publish({ ...request, operation: "createPlant", durationMs: 40 });
  requests.publish({ ...request, operation: "listPlants", sentBytes: 9, durationMs: 60_000 });
  requests.publish({ ...request, status: 404, error: 40402, durationMs: undefined });
  requests.publish({ ...request, status: 503, error: 50301, durationMs: undefined });
  requests.publish({ ...request, status: 200, cut: true });
  now.mock.mockImplementation(() => START + 11_000);
  const { history } = JSON.parse((await admin.get("/status.json")).text);
  assert.deepEqual(history.reads, [1, 101, ...new Array(9).fill(0)]);
  assert.equal(history.recent.reads, 10.1);
  // Within the bucket from 1 to 2.5 ms, and within that from 25 to 50 ms.
  assert.ok(history.recent.requestMsP50 > 1 && history.recent.requestMsP50 <= 2.5);
  assert.ok(history.recent.requestMsP99 > 25 && history.recent.requestMsP99 <= 50);
  assert.deepEqual(history.requestMsP99.slice(2), new Array(9).fill(0));
});

test("the data directory and the memory of the process are shown", async (t) => {
  const admin = await startAdmin(t);
  const status = JSON.parse((await admin.get("/status.json")).text);
  assert.equal(status.folder, "/var/lib/plant-store");
  assert.ok(status.memoryBytes > 1_000_000);
});
