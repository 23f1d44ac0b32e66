/** A start makes durable what others have written; here its syncs fail, or it is killed amid them. */
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { checkpointPath, unsyncedPath } from "../../src/log/checkpoint.ts";
import { newLogPath } from "../../src/log/resync.ts";
import { runCli } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { freePort } from "../support/serve.ts";
import { logPath, readLog, writeCheckpointOf, writeLog } from "../support/stores.ts";
import { TIMEOUT } from "../support/watch.ts";
import { canTrace, type Traced, traced } from "./machine.ts";
import { type Call, readCalls } from "./trace.ts";
import { assertGoesOn, plant, startRefused, Trial } from "./trial.ts";

const AT_ONCE = { concurrency: 3, ...TIMEOUT };
const PLANTS = [1, 2, 3].map((id) => plant(id));
const LOG = PLANTS.map((line) => `${line}\n`).join("");

/** A data directory as `cp -a` makes it: the checkpoint says that all of the log is on disk. */
function copied(t: TestContext): string {
  const folder = makeFolder(t);
  writeLog(folder, LOG);
  writeCheckpointOf(folder, LOG);
  return folder;
}

/** Injects faults into the calls on the log and its checkpoint. */
function failing(t: TestContext, folder: string, ...injections: readonly string[]): Traced {
  const log = logPath(folder);
  const paths = [log, newLogPath(log), checkpointPath(log)].flatMap((path) => ["-P", path]);
  const injects = injections.flatMap((injection) => ["-e", `inject=${injection}`]);
  return traced(t, ["-y", ...paths, "-e", "trace=fsync,write,pwrite64,rename,openat", ...injects]);
}

/** What was written to the copy of the log, or over the log: its bytes, in the order of the calls. */
function rewritten(folder: string, { read }: Traced): string {
  const calls = readCalls(read()).filter(({ name, args, result }) => {
    const isLog = [logPath(folder), newLogPath(logPath(folder))].some((path) =>
      args.includes(`<${path}>`),
    );
    return isLog && /^p?write/.test(name) && !result.startsWith("-1");
  });
  return calls.map(({ args }) => JSON.parse(`"${/"(.*)"/.exec(args)?.[1]}"`)).join("");
}

function isMarked(folder: string): boolean {
  return existsSync(unsyncedPath(logPath(folder)));
}

describe("a start", AT_ONCE, () => {
  test("syncs the log, its folder and the folder above before it serves", async (t) => {
    if (!canTrace(t)) return;
    const folder = copied(t);
    const under = traced(t, ["-y", "-s", "99", "-e", "trace=fsync,write,writev"]);
    const trial = await Trial.start(t, { folder, ...under });
    assert.equal((await trial.stop()).status, 0);
    const calls = readCalls(under.read());
    const ready = calls.find(({ args }) => args.includes("listening")) as Call;
    for (const path of [
      logPath(folder),
      checkpointPath(logPath(folder)),
      folder,
      dirname(folder),
    ]) {
      const isSynced = calls.some(({ name, args, result, end }) => {
        return (
          name === "fsync" && args.endsWith(`<${path}>`) && result === "0" && end < ready.begin
        );
      });
      assert.ok(isSynced, path);
    }
  });

  test("whose sync fails replaces the log by a copy, and serves", async (t) => {
    if (!canTrace(t)) return;
    const folder = copied(t);
    const checkpoint = readFileSync(checkpointPath(logPath(folder)));
    const under = failing(t, folder, "fsync:error=EIO:when=1");
    const trial = await Trial.start(t, { folder, ...under });
    assert.match(under.read(), /INJECTED/);
    assert.equal(rewritten(folder, under), LOG);
    assert.equal(isMarked(folder), false);
    assert.deepEqual(readFileSync(checkpointPath(logPath(folder))), checkpoint);
    for (const id of [1, 2, 3, 4]) assert.equal(await trial.create(id), 200);
    assert.equal((await trial.stop()).status, 0);
  });

  test("whose disk takes the bytes in no way ends with status 3, and the next start writes them again", async (t) => {
    if (!canTrace(t)) return;
    const folder = copied(t);
    const faults = ["fsync:error=EIO:when=1", "write:error=EIO"];
    const end = await startRefused(t, folder, failing(t, folder, ...faults));
    assert.deepEqual([end.status, end.messages.length], [3, 2], end.messages.join("\n"));
    assert.equal(isMarked(folder), true);
    assert.equal(readLog(folder), LOG);

    // As after a restart by Docker: the kernel has reported the failure already.
    const again = await startRefused(t, folder, failing(t, folder, "write:error=EIO"));
    assert.equal(again.status, 3);

    const under = failing(t, folder);
    const trial = await Trial.start(t, { folder, ...under });
    assert.equal(rewritten(folder, under), LOG);
    assert.equal(isMarked(folder), false);
    assert.equal((await trial.stop()).status, 0);
    await assertGoesOn(t, folder, PLANTS);
  });

  test("shows that it is syncing until the disk has the log", async (t) => {
    if (!canTrace(t)) return;
    const folder = copied(t);
    const admin = `127.0.0.1:${await freePort()}`;
    const { wrapper } = failing(t, folder, "fsync:delay_enter=1s");
    const starting = Trial.start(t, { folder, args: ["--admin", admin], wrapper });
    const states: string[] = [];
    while (!states.some((state) => state.includes("is ready"))) {
      const { stdout, stderr } = await runCli(["health", "--admin", admin]);
      states.push(stdout + stderr);
    }
    assert.ok(
      states.some((state) => state.includes("it is syncing")),
      states.join(""),
    );
    assert.equal((await (await starting).stop()).status, 0);
  });
});
