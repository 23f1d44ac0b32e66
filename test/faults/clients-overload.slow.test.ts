/** Creates beyond what a server takes at once. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { makeFolder } from "../support/folders.ts";
import { TIMEOUT } from "../support/watch.ts";
import { canTrace, faulty } from "./machine.ts";
import { assertLog, plant, Trial } from "./trial.ts";

const CREATES = 60;
const NAME = "n".repeat(900);
/** A limit for about ten creates at a time. */
const BOUND = 10_000;

test(
  "creates beyond the limit are answered 503 at once and not stored; sent again, all are stored",
  TIMEOUT,
  async (t) => {
    if (!canTrace(t)) return;
    const folder = makeFolder(t);
    const { read, ...under } = faulty(t, folder, "write:delay_enter=1000000:when=1..2");
    const trial = await Trial.start(t, {
      folder,
      ...under,
      args: [`--pending-bytes-max=${BOUND}`, `--body-bytes-max=${BOUND}`],
    });
    const ids = Array.from({ length: CREATES }, (_, at) => at + 1);
    const outcomes = await trial.createAll(ids, NAME);
    const refused = ids.filter((_, at) => outcomes[at] === 50301);
    assert.equal(refused.length + trial.acknowledged.length, CREATES, outcomes.join(" "));
    assert.ok(trial.acknowledged.length > 0, "some were stored");
    assert.ok(refused.length > CREATES / 2, `${refused.length} were refused`);
    assert.match(read(), /DELAYED/);

    assertLog(folder, trial.acknowledged);
    // As a client that obeys Retry-After: again and again, here one at a time.
    for (const id of refused) assert.equal(await trial.create(id, NAME), 200);
    assert.deepEqual(await trial.stop(), { status: 0, signal: null, messages: [] });
    assert.equal(trial.acknowledged.length, CREATES);
    assertLog(folder, trial.acknowledged);
    assert.ok(trial.acknowledged.includes(plant(CREATES, NAME)), "the last of them, too");
  },
);
