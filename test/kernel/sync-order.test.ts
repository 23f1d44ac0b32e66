/** The order of syncs, as strace shows it: nothing is reported before it is on disk. The simulation shows it of commands. */
import assert from "node:assert/strict";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { makeFolder } from "../support/folders.ts";
import { logPath, readLog, writeLog } from "../support/stores.ts";
import { TIMEOUT } from "../support/watch.ts";
import { canTrace, readCalls, traced } from "./machine.ts";
import { plant, Trial } from "./trial.ts";

const OPTIONS = ["-y", "-e", "trace=/^(mkdir|openat$|p?write|fsync|rename)"];

test("a start and a create report nothing that is only in memory", TIMEOUT, async (t) => {
  if (!canTrace(t)) return;
  const trial = new Trial(t, join(makeFolder(t), "data"));
  await trial.createToken();
  writeLog(trial.folder, `${plant(1)}\n`); // as `cp` leaves it
  const under = traced(t, OPTIONS);
  trial.under = under;
  await trial.start();
  assert.equal(await trial.create(plant(2)), 200);
  assert.equal(await trial.end("SIGTERM"), 0);
  assert.equal(readLog(trial.folder), `${plant(1)}\n${plant(2)}\n`);

  const calls = readCalls(under.read());
  const indexOf = (name: string, text: string, from = 0) => {
    const at = calls.findIndex(
      (call, at) => at >= from && call.name.startsWith(name) && call.args.includes(text),
    );
    assert.ok(at >= 0, `${name} ${text}`);
    return at;
  };
  const ready = indexOf("write", "listening on");
  for (const path of [logPath(trial.folder), trial.folder, dirname(trial.folder)]) {
    assert.ok(indexOf("fsync", `<${path}>`) < ready, `${path} is synced first`);
  }
  const opened = calls[indexOf("openat", "O_APPEND")];
  assert.match(opened?.args ?? "", /plants\.jsonl".*O_DSYNC/);
  const record = JSON.stringify(`${plant(2)}\n`);
  const write = indexOf("write", record);
  assert.equal(calls[write]?.args.split("<")[0], opened?.result.split("<")[0]);
  assert.ok(write < indexOf("write", "HTTP/1.1 200 OK", ready), "and before the response");
  assert.equal(calls.filter(({ args }) => args.includes(record)).length, 1, "once");
});
