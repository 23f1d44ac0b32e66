/** How durable records are answered; test/log/writer.test.ts has them on their way there. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { PlantStoreError } from "../../src/core/errors.ts";
import { Answers } from "../../src/log/answers.ts";

/** The number of the turn that the event loop is in. */
function countTurns(t: TestContext): () => number {
  let turn = 0;
  let next = setImmediate(function count() {
    turn++;
    next = setImmediate(count);
  });
  t.after(() => clearImmediate(next));
  return () => turn;
}

interface Answered {
  readonly offset: number;
  readonly turn: number;
}

/** Records with so many offsets from `start` on, each noted in `answered` with its turn. */
function records(count: number, start: number, turn: () => number, answered: Answered[]) {
  return Array.from({ length: count }, (_, number) => ({
    offset: start + number,
    resolve: (offset: number) => answered.push({ offset, turn: turn() }),
    reject: assert.fail,
  }));
}

/** How many were answered in each turn. */
function perTurn(answered: readonly Answered[]): number[] {
  const counts = new Map<number, number>();
  for (const { turn } of answered) counts.set(turn, (counts.get(turn) ?? 0) + 1);
  return [...counts.values()];
}

for (const { count, turns } of [
  { count: 0, turns: [] },
  { count: 1, turns: [1] },
  { count: 63, turns: [63] },
  { count: 64, turns: [32, 32] },
  { count: 95, turns: [32, 63] },
  { count: 96, turns: [32, 32, 32] },
  { count: 400, turns: [100, 75, 57, 42, 32, 32, 62] },
]) {
  test(`of ${count} records as many are answered in each turn of the event loop: ${turns.join() || "none"}`, async (t) => {
    const turn = countTurns(t);
    const answered: Answered[] = [];
    const answers = new Answers(() => undefined);
    answers.add(records(count, 0, turn, answered));
    assert.equal(answered.length, turns[0] ?? 0, "the first without waiting");
    await answers.drain();
    assert.deepEqual(perTurn(answered), turns);
  });
}

test("what is added while others wait is answered behind them, and none is forgotten", async (t) => {
  const turn = countTurns(t);
  const answered: Answered[] = [];
  const answers = new Answers(() => undefined);
  for (const [round, count] of [100, 1, 70, 5].entries()) {
    answers.add(records(count, 1000 * round, turn, answered));
  }
  await answers.drain();
  answers.add(records(10, 9000, turn, answered));
  const offsets = answered.map(({ offset }) => offset);
  assert.deepEqual(
    offsets,
    offsets.toSorted((a, b) => a - b),
  );
  assert.equal(offsets.length, 186);
});

test("once there is a failure everybody who waits is answered that", async () => {
  const failure = new PlantStoreError("store_failed", "the disk is gone");
  let found: PlantStoreError | undefined;
  const answers = new Answers(() => found);
  const outcomes: unknown[] = [];
  const record = {
    offset: 7,
    resolve: (offset: number) => outcomes.push(offset),
    reject: (error: unknown) => outcomes.push(error),
  };
  answers.add(new Array(70).fill(record));
  found = failure;
  await answers.drain();
  assert.deepEqual(outcomes, [...new Array(32).fill(7), ...new Array(38).fill(failure)]);
});
