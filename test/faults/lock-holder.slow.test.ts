/** A holder of the data directory that is stopped and does not answer. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { makeFolder } from "../support/folders.ts";
import { TIMEOUT, until } from "../support/watch.ts";
import { statusField } from "./machine.ts";
import { assertLog, assertTurnedAway, plant, runOn, Trial } from "./trial.ts";

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
