import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { HISTORY_SECONDS, quantileOf, Recorder } from "../../src/admin/recorder.ts";
import { batches, publishWarning, requests } from "../../src/core/channels.ts";
import { freezeTime } from "../support/admin.ts";

function record(t: TestContext) {
  const pass = freezeTime(t);
  const recorder = new Recorder();
  t.after(() => recorder.close());
  const create = (records: number, syncMs = 1) => batches.publish({ records, syncMs });
  const creates = () => recorder.history().map((slot) => slot.creates);
  return { pass, recorder, create, creates };
}

const REQUEST = { status: 200, operation: "getPlant", durationMs: 2, cut: false };

test("the history keeps each second for five minutes once it is over, whatever the wall clock says", (t) => {
  const { pass, recorder, create, creates } = record(t);
  create(3, 4.5);
  create(4, 2);
  requests.publish({ ...REQUEST, token: "gardener" });
  assert.deepEqual(creates(), []);
  pass(1999);
  create(9);
  assert.deepEqual(creates(), [7]);
  t.mock.method(Date, "now", () => 0);
  pass(1001);
  assert.deepEqual(creates(), [7, 9, 0]);
  assert.equal(recorder.history()[0]?.syncMsMax, 4.5);
  assert.equal(recorder.lastUses.get("gardener"), 5_000_000);
  pass((HISTORY_SECONDS - 2) * 1000);
  assert.deepEqual([creates().length, ...creates().slice(0, 2)], [HISTORY_SECONDS, 9, 0]);
  pass(1000);
  assert.deepEqual(creates(), new Array(HISTORY_SECONDS).fill(0));
  create(6); // in the place of a second that is over
  pass(1000);
  assert.equal(creates().at(-1), 6);
});

test("reads, failures and latency are counted by second: a missing plant is a read, an abort nothing", (t) => {
  const { pass, recorder } = record(t);
  for (const change of [
    {},
    { status: 404, error: 40402 },
    { operation: "listPlants", durationMs: 60_000 },
    { status: 503, error: 50301, durationMs: undefined },
    { operation: "createPlant", status: 503, error: 50302 },
    { cut: true },
    { status: 0, cut: true },
    { status: 401, error: 40101, operation: undefined, durationMs: undefined },
  ]) {
    requests.publish({ ...REQUEST, ...change });
  }
  pass(1000);
  const [slot] = recorder.history();
  assert.deepEqual([slot?.reads, slot?.failures, slot?.requestSeconds.count], [3, 2, 3]);
});

test("the last 20 warnings are kept, the newest first, as one line without a token; repeats count up", (t) => {
  const { pass, recorder } = record(t);
  for (let n = 0; n < 20; n++) publishWarning(`warning ${n}`);
  publishWarning("x".repeat(1000), new Error("truncated"));
  publishWarning("Cannot list", new Error(`pst_${"x".repeat(43)}\nwas used`));
  pass(1000);
  publishWarning("Cannot list", new Error("pst_y\nwas used"));
  assert.deepEqual([recorder.warnings.length, recorder.warningCount], [20, 23]);
  const [newest, long] = recorder.warnings;
  const message = "Cannot list: pst_...\\u000awas used";
  assert.deepEqual(newest, { message, count: 2, lastAt: 5_001_000 });
  assert.equal(long?.message, `${"x".repeat(300)}…`);
  assert.equal(recorder.warnings.at(-1)?.message, "warning 2");
});

test("a quantile lies within its bucket, over all seconds; beyond the last bound it is that bound", (t) => {
  const { pass, recorder } = record(t);
  const observe = (...durations: number[]) => {
    for (const durationMs of durations) requests.publish({ ...REQUEST, durationMs });
    pass(1000);
  };
  const quantiles = () =>
    [0.25, 0.5, 0.75, 1].map((share) => Math.round(1000 * quantileOf(recorder.history(), share)));
  assert.deepEqual(quantiles(), [0, 0, 0, 0]);
  observe(40, 75);
  observe(75, 200);
  assert.deepEqual(quantiles(), [50, 75, 100, 250]);
  observe(100_000);
  assert.equal(quantiles().at(-1), 30_000);
});
