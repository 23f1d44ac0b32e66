import assert from "node:assert/strict";
import { test } from "node:test";
import { publishWarning, requests } from "../../src/core/channels.ts";
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

const TOKEN = `pst_${"x".repeat(43)}`;

test("an error shows the token and the reason of its last request", async (t) => {
  const admin = await startAdmin(t);
  const now = t.mock.method(Date, "now");
  const fail = (at: number, operation: string, token?: string, reason?: string) => {
    now.mock.mockImplementation(() => START + at);
    requests.publish({ status: 400, error: 40003, operation, token, reason, bodyBytes: 0 });
  };
  const errors = async () => {
    admin.wait();
    return JSON.parse((await admin.get("/status.json")).text).errors;
  };
  fail(2000, "listPlants", "gardener", "id: expected an int64");
  fail(1000, "createPlant", "other", "name: required");
  const { token, reason, count } = (await errors())[0];
  assert.deepEqual([token, reason, count], ["gardener", "id: expected an int64", 2]);
  fail(3000, "createPlant", "x".repeat(100), `tag: ${TOKEN}\n${"y".repeat(1000)}`);
  const [last] = await errors();
  assert.deepEqual(last.token, `${"x".repeat(64)}…`);
  assert.match(last.reason, /^tag: pst_\.\.\.\\u000ay{287}…$/);
  fail(4000, "createPlant");
  const [unknown] = await errors();
  assert.deepEqual([unknown.token, unknown.reason], [undefined, undefined]);
});

test("the last 20 warnings are kept, the newest first, and repeats in a row count up", async (t) => {
  const now = t.mock.method(Date, "now", () => START);
  const admin = await startAdmin(t);
  for (let n = 0; n < 21; n++) publishWarning(`warning ${n}`);
  now.mock.mockImplementation(() => START + 1000);
  publishWarning("warning 20");
  const { warnings } = JSON.parse((await admin.get("/status.json")).text);
  assert.equal(warnings.length, 20);
  assert.deepEqual(warnings[0], { message: "warning 20", count: 2, lastAt: START + 1000 });
  assert.deepEqual(warnings[19], { message: "warning 1", count: 1, lastAt: START });
});

test("a warning is kept with its cause, as one line, cut, without a stack or a token", async (t) => {
  const admin = await startAdmin(t);
  publishWarning("Cannot list", new Error(`${TOKEN}\nwas used`));
  publishWarning("x".repeat(1000));
  const { warnings } = JSON.parse((await admin.get("/status.json")).text);
  const [long, caused] = warnings.map(({ message }: { message: string }) => message);
  assert.equal(long, `${"x".repeat(300)}…`);
  assert.equal(caused, "Cannot list: pst_...\\u000awas used");
});

test("a token is listed with its last use, and 10,000 names of 64 characters are remembered at most", async (t) => {
  const now = t.mock.method(Date, "now", () => START);
  const admin = await startAdmin(t);
  const name = "x".repeat(64);
  const longName = "x".repeat(65);
  admin.status.listed = [
    { name, scopes: [], expiresAt: undefined },
    { name: longName, scopes: [], expiresAt: undefined },
  ];
  const use = (token: string) => requests.publish({ status: 200, token, bodyBytes: 0 });
  const uses = async () => {
    admin.wait();
    const { tokens, usesSince } = JSON.parse((await admin.get("/status.json")).text);
    return [...tokens.map((token: { lastUsedAt?: number }) => token.lastUsedAt), usesSince];
  };
  use(name);
  use(longName);
  now.mock.mockImplementation(() => START + 1000);
  use(name);
  for (let n = 1; n < 10_000; n++) use(`${n}`);
  use("1");
  assert.deepEqual(await uses(), [START + 1000, undefined, START]);
  now.mock.mockImplementation(() => START + 2000);
  use("one too many");
  assert.deepEqual(await uses(), [undefined, undefined, START + 2000]);
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
  requests.publish({ ...request, durationMs: 40 });
  requests.publish({ ...request, operation: "createPlant", durationMs: 40 });
  requests.publish({ ...request, operation: "listPlants", durationMs: 60_000 });
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

const DISKS: readonly [freeBytes: number, totalBytes: number, isShort: boolean][] = [
  [5e9, 100e9, false],
  [5e9 - 1, 100e9, true],
  [2 * 2 ** 20, 2 * 2 ** 20, false],
  [2 * 2 ** 20 - 1, 2 * 2 ** 20, true], // less than the longest batch
];

for (const [freeBytes, totalBytes, isShort] of DISKS) {
  test(`a disk with ${freeBytes} of ${totalBytes} bytes free is ${isShort ? "" : "not "}shown as short`, async (t) => {
    const admin = await startAdmin(t);
    admin.status.free = async () => freeBytes;
    admin.status.totalBytes = totalBytes;
    const document = JSON.parse((await admin.get("/status.json")).text);
    const { freeBytes: free, totalBytes: total, isDiskShort } = document;
    assert.deepEqual([free, total, isDiskShort], [freeBytes, totalBytes, isShort]);
  });
}
