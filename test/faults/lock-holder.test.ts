/** A holder of the data directory that was killed, or that is stopped and does not answer. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { makeFolder } from "../support/folders.ts";
import { TIMEOUT, until } from "../support/watch.ts";
import { statusField } from "./machine.ts";
import { assertLog, assertTurnedAway, plant, runOn, Trial } from "./trial.ts";

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

test(
  "while the holder is stopped (SIGSTOP) readers and writers report it and end with status 1; tokens can be created",
  TIMEOUT,
  async (t) => {
    const trial = await Trial.start(t);
    const { folder } = trial;
    assert.equal(await trial.create(1), 200);
    trial.server.process.kill("SIGSTOP");
    await until("it has stopped", () => statusField(trial.pid, "State").startsWith("T"));

    const target = join(makeFolder(t), "copy");
    const COMMANDS: readonly (readonly string[])[] = [
      ["get", "1"],
      ["list"],
      ["export"],
      ["verify"],
      ["backup", target],
      ["serve", "--port", "0"],
    ];
    // It stays stopped: a process that waited for its answer would never end.
    const ends = await Promise.all(COMMANDS.map((words) => runOn(folder, ...words)));
    for (const end of ends) assertTurnedAway(end);
    assert.equal(existsSync(target), false);
    assert.equal((await runOn(folder, "token", "create", "later")).status, 0);

    trial.server.process.kill("SIGCONT");
    assert.equal(await trial.create(2), 200);
    assert.equal((await runOn(folder, "get", "2")).stdout, `${plant(2)}\n`);
    assert.deepEqual(await trial.stop(), { status: 0, signal: null, messages: [] });
    assertLog(folder, [plant(1), plant(2)]);
  },
);
