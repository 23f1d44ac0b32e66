/** A holder of the data directory that was killed, or that is stopped and does not answer. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { makeFolder } from "../support/folders.ts";
import { TIMEOUT } from "../support/watch.ts";
import { assertLog, plant, runOn, Trial } from "./trial.ts";

const KILLS = 2;

test("a holder that was killed does not block a start right after it", TIMEOUT, async (t) => {
  const folder = makeFolder(t);
  const acknowledged: string[] = [];
  for (let id = 1; id <= KILLS; id++) {
    const trial = await Trial.start(t, { folder });
    for (const line of acknowledged) {
      assert.equal(await trial.create(JSON.parse(line).id), 200);
    }
    assert.equal(await trial.create(id), 200);
    acknowledged.push(plant(id));
    const killed = await trial.stop("SIGKILL");
    assert.deepEqual([killed.signal, killed.messages], ["SIGKILL", []]);
  }
  // Readers do not need the holder either.
  assert.equal(
    (await runOn(folder, "list")).stdout,
    acknowledged.map((line) => `${line}\n`).join(""),
  );
  assertLog(folder, acknowledged);
});
