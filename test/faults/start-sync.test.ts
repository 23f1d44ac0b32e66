/** A start makes durable what others have written; here its syncs fail, or it is killed amid them. */
import assert from "node:assert/strict";
import { existsSync, readFileSync, renameSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { createToken, listTokens } from "../../src/index.ts";
import { checkpointPath, unsyncedPath } from "../../src/log/checkpoint.ts";
import { newLogPath } from "../../src/log/resync.ts";
import { runCli } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { PROGRAM } from "../support/program.ts";
import { type Finished, runToEnd } from "../support/run.ts";
import { logPath, readLog, writeCheckpointOf, writeLog } from "../support/stores.ts";
import { TIMEOUT } from "../support/watch.ts";
import { canTrace, killedAt, type Traced, traced } from "./machine.ts";
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
    const under = traced(t, ["-y", "-e", "trace=fsync,write,writev"]);
    const trial = await Trial.start(t, { folder, ...under });
    assert.equal((await trial.stop()).status, 0);
    const calls = readCalls(under.read());
    const ready = calls.find(({ args }) => args.includes("plant-store listening on")) as Call;
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

  test("that is killed while it copies the log is followed by one that does", async (t) => {
    if (!canTrace(t)) return;
    const folder = copied(t);
    const checkpoint = checkpointPath(logPath(folder));
    renameSync(checkpoint, unsyncedPath(logPath(folder))); // its sync has failed
    const end = await startRefused(t, folder, killedAt(t, "write", newLogPath(logPath(folder))));
    assert.equal(end.signal, "SIGKILL");
    assert.equal(isMarked(folder), true);
    const under = failing(t, folder);
    const trial = await Trial.start(t, { folder, ...under });
    assert.equal(rewritten(folder, under), LOG);
    assert.equal((await trial.stop()).status, 0);
  });

  test("that cannot remember a failed sync ends with status 3, and changes nothing", async (t) => {
    if (!canTrace(t)) return;
    const folder = copied(t);
    const under = failing(t, folder, "fsync:error=EIO:when=1", "rename:error=EROFS");
    const end = await startRefused(t, folder, under);
    assert.equal(end.status, 3);
    assert.equal(rewritten(folder, under), "");
  });

  test("shows that it is syncing until the disk has the log", async (t) => {
    if (!canTrace(t)) return;
    const folder = copied(t);
    const admin = `${makeFolder(t)}/admin.sock`;
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

/** Runs a command under a trace to its end. */
function runTraced({ wrapper, env }: Traced, ...words: readonly string[]): Promise<Finished> {
  const command = [...wrapper, process.execPath, PROGRAM, ...words];
  return runToEnd(command, { env: { ...process.env, ...env } });
}

test("a repair that accepts an edit writes its last batch again", async (t) => {
  if (!canTrace(t)) return;
  const folder = copied(t);
  const edited = LOG.replace("Plant 1", "Plant A");
  writeLog(folder, edited);
  const under = failing(t, folder);
  const { status, stderr } = await runTraced(under, "repair", "--yes", "--data", folder);
  assert.equal(status, 0, stderr);
  assert.equal(rewritten(folder, under), edited);
});

test("a list of tokens is printed after the token log and its folder were synced", async (t) => {
  if (!canTrace(t)) return;
  const folder = makeFolder(t);
  await createToken(folder, { name: "gardener" });
  const under = traced(t, ["-y", "-e", "trace=fsync,write,writev"]);
  const { status, stderr } = await runTraced(under, "token", "list", "--data", folder);
  assert.equal(status, 0, stderr);
  const calls = readCalls(under.read());
  const printed = calls.find(({ args }) => args.includes("gardener")) as Call;
  for (const path of [join(folder, "tokens.jsonl"), folder]) {
    const synced = calls.find(({ name, args }) => name === "fsync" && args.endsWith(`<${path}>`));
    assert.ok(synced !== undefined && synced.end < printed.begin, path);
  }
});

test("a token log whose sync has failed is listed only once a change of a token has replaced it", async (t) => {
  if (!canTrace(t)) return;
  const folder = makeFolder(t);
  await createToken(folder, { name: "gardener" });
  const path = join(folder, "tokens.jsonl");
  const before = readFileSync(path, "utf8");
  const { ino } = statSync(path);
  const under = traced(t, ["-P", path, "-e", "trace=fsync", "-e", "inject=fsync:error=EIO:when=1"]);
  const { status, stdout } = await runTraced(under, "token", "list", "--data", folder);
  assert.match(under.read(), /INJECTED/);
  assert.deepEqual([status, stdout], [3, ""]);
  // The kernel has reported the failure already.
  await assert.rejects(listTokens(folder), { code: "unsynced" });

  await createToken(folder, { name: "visitor" });
  assert.notEqual(statSync(path).ino, ino);
  assert.ok(readFileSync(path, "utf8").startsWith(before));
  assert.deepEqual(
    (await listTokens(folder)).map(({ name }) => name),
    ["gardener", "visitor"],
  );
});

test("a repair that is killed before its new log has its name leaves the log unsynced", async (t) => {
  if (!canTrace(t)) return;
  const folder = copied(t);
  writeLog(folder, `${LOG}damage\n`);
  const log = logPath(folder);
  renameSync(checkpointPath(log), unsyncedPath(log)); // its sync has failed
  const under = killedAt(t, "rename", newLogPath(log));
  const { signal } = await runTraced(under, "repair", "--yes", "--data", folder);
  assert.equal(signal, "SIGKILL");
  assert.equal(isMarked(folder), true);
});
