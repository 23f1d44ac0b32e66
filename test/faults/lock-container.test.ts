/** Processes in process namespaces of their own, as in containers: each of them has the id 1. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { makeFolder } from "../support/folders.ts";
import { PROGRAM } from "../support/program.ts";
import { TIMEOUT } from "../support/watch.ts";
import { CONTAINER, canRun } from "./machine.ts";
import { assertLog, assertTurnedAway, plant, runOn, startRefused, Trial } from "./trial.ts";

test(
  "a server in a container holds the directory against other containers and the host, until it is killed",
  TIMEOUT,
  async (t) => {
    const [program = "", ...flags] = CONTAINER;
    if (!canRun(t, program, ...flags, "true")) return;
    const folder = makeFolder(t);
    const first = await Trial.start(t, { folder, wrapper: CONTAINER });
    assert.equal(await first.create(1), 200);

    // A second process with the id 1, and one outside.
    const inside = await startRefused(t, folder, { wrapper: CONTAINER });
    assert.deepEqual([inside.status, inside.messages.length], [1, 1], inside.messages.join("\n"));
    assertTurnedAway(await runOn(folder, "serve", "--port", "0"));
    assert.equal((await runOn(folder, "export")).stdout, `${plant(1)}\n`);

    await first.stop("SIGKILL");
    const second = await Trial.start(t, { folder, wrapper: CONTAINER });
    assert.equal(await second.create(1), 200, "the same id, but another process");
    assert.equal(await second.create(2), 200);
    await second.stop("SIGKILL");
    assertLog(folder, [plant(1), plant(2)]);
  },
);

test("a server on the host holds the directory against a container", TIMEOUT, async (t) => {
  const [program = "", ...flags] = CONTAINER;
  if (!canRun(t, program, ...flags, "true")) return;
  const trial = await Trial.start(t);
  const end = await startRefused(t, trial.folder, { wrapper: CONTAINER });
  assert.deepEqual([end.status, end.messages.length], [1, 1], end.messages.join("\n"));
  assert.ok(end.messages[0]?.includes(String(trial.pid)), end.messages[0]);

  // A reader in a container sees durable plants, too.
  assert.equal(await trial.create(1), 200);
  const reader = spawn(program, [
    ...flags,
    process.execPath,
    PROGRAM,
    "export",
    "--data",
    trial.folder,
  ]);
  let printed = "";
  reader.stdout.setEncoding("utf8").on("data", (text: string) => {
    printed += text;
  });
  assert.deepEqual(await once(reader, "close"), [0, null]);
  assert.equal(printed, `${plant(1)}\n`);
  assert.equal((await trial.stop()).status, 0);
});
