/** The order of syncs, as strace shows it: nothing is reported, and nothing gets its name, before it is on disk. */
import assert from "node:assert/strict";
import { dirname, join } from "node:path";
import { type TestContext, test } from "node:test";
import { makeFolder } from "../support/folders.ts";
import { logPath, readLog, writeLog } from "../support/stores.ts";
import { TIMEOUT } from "../support/watch.ts";
import { type Call, canTrace, readCalls, traced } from "./machine.ts";
import { plant, Trial } from "./trial.ts";

const OPTIONS = ["-y", "-e", "trace=/^(mkdir|openat$|p?write|fsync|rename)"];

/** What a program has in memory only when it renames it, prints or ends. */
function findFaults(calls: readonly Call[]): string[] {
  const faults: string[] = [];
  const dirty = new Set<string>();
  /** Descriptors whose writes are synced. */
  const synced = new Set<string>();
  for (const { name, args, result } of calls) {
    if (result.startsWith("-1")) continue;
    const [, fd = "", path = ""] = /^(\d+)<([^>]*)>/.exec(args) ?? [];
    const [first = "", second = ""] = [...args.matchAll(/"([^"]*)"/g)].map(([, text]) => text);
    if (name === "openat") {
      const opened = /^\d+/.exec(result)?.[0] ?? "";
      if (args.includes("O_CREAT")) dirty.add(dirname(first));
      if (args.includes("O_DSYNC")) synced.add(opened);
      else synced.delete(opened);
    } else if (name.startsWith("mkdir")) dirty.add(dirname(first));
    else if (name.startsWith("rename")) {
      if (dirty.has(first)) faults.push(`${first} is renamed before its sync`);
      dirty.add(dirname(second));
    } else if (name === "fsync") dirty.delete(path);
    else if (fd === "1")
      faults.push(...[...dirty].map((file) => `it prints before ${file} is synced`));
    else if (/^\/(?!proc)/.test(path) && !synced.has(fd)) dirty.add(path);
  }
  return [...faults, ...[...dirty].map((file) => `${file} is never synced`)];
}

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
  assert.ok(write < indexOf("write", "HTTP/1.1 200 OK", ready), "and before it is answered");
  assert.equal(calls.filter(({ args }) => args.includes(record)).length, 1, "once");
});

const COMMANDS: Record<string, (t: TestContext) => readonly string[]> = {
  "token create": () => ["token", "create", "later"],
  "token revoke": () => ["token", "revoke", "trial"],
  backup: (t) => ["backup", join(makeFolder(t), "copy")],
  repair: () => ["repair", "--yes"],
  import: () => ["import", "/dev/stdin"],
};

for (const [name, words] of Object.entries(COMMANDS)) {
  test(`${name} syncs before it renames, prints and ends`, TIMEOUT, async (t) => {
    if (!canTrace(t)) return;
    const trial = new Trial(t);
    await trial.createToken();
    writeLog(trial.folder, `${plant(1)}\n${name === "repair" ? '{ "id": 2, "name": "x" }\n' : ""}`);
    const under = traced(t, OPTIONS);
    assert.equal(await trial.run(words(t), under), 0, trial.messages.join("\n"));
    const calls = readCalls(under.read());
    assert.deepEqual(findFaults(calls), []);
    // Controls.
    assert.notDeepEqual(findFaults(calls.filter((call) => call.name !== "fsync")), []);
    const plain = calls.map((call) => ({ ...call, args: call.args.replace("|O_DSYNC", "") }));
    assert.notDeepEqual(findFaults(plain), []);
  });
}
