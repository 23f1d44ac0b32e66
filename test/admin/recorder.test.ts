import assert from "node:assert/strict";
import { test } from "node:test";
import { HISTORY_SECONDS, History } from "../../src/admin/recorder.ts";

const NOW = 1_800_000_000_500;

test("the history shows a second once it is over", () => {
  const history = new History();
  history.note(NOW - 1000, 3, 2);
  history.note(NOW - 1000, 4, 4.126);
  history.note(NOW - 3000, 1, 1);
  history.note(NOW, 9, 9); // this second is not over
  const { creates, syncMsMax } = history.read(NOW);
  assert.equal(creates.length, HISTORY_SECONDS);
  assert.deepEqual(creates.slice(-3), [1, 0, 7]);
  assert.deepEqual(syncMsMax.slice(-3), [1, 0, 4.13]);
});

test("the history keeps a second for five minutes", () => {
  const history = new History();
  history.note(NOW, 5, 1);
  assert.equal(history.read(NOW + HISTORY_SECONDS * 1000).creates[0], 5);
  const sum = (values: readonly number[]) => values.reduce((a, b) => a + b);
  assert.equal(sum(history.read(NOW + (HISTORY_SECONDS + 1) * 1000).creates), 0);
  history.note(NOW + (HISTORY_SECONDS + 1) * 1000, 2, 1);
  assert.equal(sum(history.read(NOW + (HISTORY_SECONDS + 2) * 1000).creates), 2);
});
