/** Several processes that want one data directory. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { makeFolder } from "../support/folders.ts";
import { postPlant } from "../support/post.ts";
import { PROGRAM } from "../support/program.ts";
import { readLog } from "../support/stores.ts";
import { TIMEOUT, until } from "../support/watch.ts";
import { assertLog, assertTurnedAway, plant, runOn, Trial } from "./trial.ts";

test(
  "while a server runs, every command that writes plants refuses and names it; tokens can be created",
  TIMEOUT,
  async (t) => {
    const trial = await Trial.start(t);
    const { folder } = trial;
    assert.equal(await trial.create(1), 200);
    const file = join(makeFolder(t), "more.jsonl");
    writeFileSync(file, `${plant(8)}\n`);

    const names = ["a", "b", "c"];
    const [created, turnedAway] = await Promise.all([
      Promise.all(names.map((name) => runOn(folder, "token", "create", name))),
      Promise.all([
        runOn(folder, "serve", "--port", "0"),
        runOn(folder, "import", file),
        runOn(folder, "repair", "--yes"),
      ]),
    ]);
    for (const end of turnedAway) {
      assertTurnedAway(end);
      assert.match(end.stderr, new RegExp(`\\bserve\\b.*\\b${trial.pid}\\b`));
    }
    for (const [at, { status, stdout, stderr }] of created.entries()) {
      assert.deepEqual([status, stderr], [0, ""]);
      const line = plant(10 + at);
      await until("the token is accepted", async () => {
        return (await postPlant(trial.server.url, stdout.trim(), line)).status === 200;
      });
      trial.acknowledged.push(line);
    }
    const events = readFileSync(join(folder, "tokens.jsonl"), "utf8").trimEnd().split("\n");
    const inLog = events.map((event) => JSON.parse(event).name);
    assert.deepEqual(inLog.slice(1).sort(), names);
    assert.deepEqual(await trial.stop(), { status: 0, signal: null, messages: [] });
    assertLog(folder, trial.acknowledged);
  },
);

test("while an import runs, a server refuses to start and names it", TIMEOUT, async (t) => {
  const folder = makeFolder(t);
  const importing = spawn(process.execPath, [PROGRAM, "import", "-", "--data", folder]);
  t.after(() => importing.kill("SIGKILL"));
  const ended = once(importing, "close");
  importing.stdin.write(`${plant(1)}\n`);
  await until("it has begun", () => {
    try {
      return readLog(folder) !== "";
    } catch {
      return false; // there is no log yet
    }
  });
  const end = await runOn(folder, "serve", "--port", "0");
  assertTurnedAway(end);
  assert.match(end.stderr, new RegExp(`\\bimport\\b.*\\b${importing.pid}\\b`));
  importing.stdin.end(`${plant(2)}\n`);
  assert.deepEqual(await ended, [0, null]);
  assertLog(folder, [plant(1), plant(2)]);
});
