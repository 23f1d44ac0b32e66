import assert from "node:assert/strict";
import { test } from "node:test";
import { HISTORY_SECONDS, Histogram, History } from "../../src/admin/recorder.ts";

const NOW = 1_800_000_000_500;
const LONG_AGO = NOW - 1_000_000;

test("the history shows a second once it is over", () => {
  const history = new History(LONG_AGO);
  history.secondOf(NOW - 1000).creates += 3;
  history.secondOf(NOW - 3000).creates += 1;
  history.secondOf(NOW - 1000).creates += 4;
  history.secondOf(NOW - 1000).syncMsMax = 4.126;
  history.secondOf(NOW).creates += 9; // this second is not over
  const { creates, syncMsMax } = history.read(NOW);
  assert.equal(creates.length, HISTORY_SECONDS);
  assert.deepEqual(creates.slice(-3), [1, 0, 7]);
  assert.deepEqual(syncMsMax.slice(-3), [0, 0, 4.13]);
});

test("the history keeps a second for five minutes", () => {
  const history = new History(LONG_AGO);
  history.secondOf(NOW).creates += 5;
  assert.equal(history.read(NOW + HISTORY_SECONDS * 1000).creates[0], 5);
  const sum = (values: readonly number[]) => values.reduce((a, b) => a + b);
  assert.equal(sum(history.read(NOW + (HISTORY_SECONDS + 1) * 1000).creates), 0);
  history.secondOf(NOW + (HISTORY_SECONDS + 1) * 1000).creates += 2;
  assert.equal(sum(history.read(NOW + (HISTORY_SECONDS + 2) * 1000).creates), 2);
});

test("the history has no seconds from before the start, not even as zeros", () => {
  const history = new History(NOW);
  assert.deepEqual(history.read(NOW).creates, []);
  history.secondOf(NOW + 1000).creates += 2;
  assert.deepEqual(history.read(NOW + 3000).creates, [0, 2, 0]);
  assert.deepEqual(history.read(NOW - 3000).creates, []); // the clock was set back
});

test("the rates of now are those of the seconds since the start, if it is less than ten seconds ago", () => {
  const history = new History(NOW);
  assert.deepEqual(
    { ...history.read(NOW).recent },
    {
      creates: 0,
      reads: 0,
      requestMsP50: undefined,
      requestMsP99: undefined,
    },
  );
  history.secondOf(NOW).creates += 8;
  assert.equal(history.read(NOW + 4000).recent.creates, 2);
  assert.equal(history.read(NOW + 11_000).recent.creates, 0);
});

test("a quantile lies within its bucket, and a value beyond the last bound counts as that bound", () => {
  const histogram = new Histogram([1, 2, 4]);
  assert.equal(histogram.quantile(0.5), 0);
  for (const value of [0.5, 1.5, 1.5, 3]) histogram.observe(value);
  assert.deepEqual(
    [0.25, 0.5, 0.75, 1].map((share) => histogram.quantile(share)),
    [1, 1.5, 2, 4],
  );
  histogram.observe(100);
  assert.equal(histogram.quantile(1), 4);
});
