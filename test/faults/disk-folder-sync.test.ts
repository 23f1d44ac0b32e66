/**
 * The folder is synced after every file that is made or renamed in it, before anything depends on it.
 * The test reads a trace, because otherwise only a power cut could show it, on few file systems.
 */
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { createToken } from "../../src/index.ts";
import { makeFolder } from "../support/folders.ts";
import { logPath, writeLog } from "../support/stores.ts";
import { TIMEOUT } from "../support/watch.ts";
import { canTrace, traced } from "./machine.ts";
import { type Call, readCalls } from "./trace.ts";
import { assertGoesOn, plant, startRefused, Trial } from "./trial.ts";

const AT_ONCE = { concurrency: 3, ...TIMEOUT };

/** With `-y` every descriptor is shown with its path. */
const CALLS = [
  "-y",
  "-e",
  "trace=openat,mkdir,rename,pwrite64,ftruncate,fsync,fdatasync,write,sendto,writev",
];

class Trace {
  readonly #calls: readonly Call[];

  constructor(text: string) {
    this.#calls = readCalls(text);
  }

  /** The first successful call of this name whose arguments contain all of these. */
  first(name: string, ...parts: readonly string[]): Call {
    const [found] = this.#all(name, parts);
    assert.ok(found !== undefined, `${name} ${parts.join(" ")}: no call`);
    return found;
  }

  #all(name: string, parts: readonly string[]): readonly Call[] {
    return this.#calls.filter((call) => {
      const isMeant = call.name === name && parts.every((part) => call.args.includes(part));
      return isMeant && !call.result.startsWith("-1 ");
    });
  }

  /** The only such call. */
  one(name: string, ...parts: readonly string[]): Call {
    const found = this.#all(name, parts);
    assert.equal(found.length, 1, `${name} ${parts.join(" ")}: ${found.length} calls`);
    return found[0] as Call;
  }

  /** The first message with this text: an answer, or a line on standard output. */
  message(text: string): Call {
    const found = this.#calls.find(({ name, args }) => {
      return /^(write|writev|sendto)$/.test(name) && args.includes(text);
    });
    assert.ok(found !== undefined, `no warning says ${text}`);
    return found;
  }

  assertSynced(path: string, after: Call, before: Call): void {
    const isSynced = this.#calls.some(({ name, args, result, begin, end }) => {
      const isSync = name === "fsync" && args.endsWith(`<${path}>`) && result === "0";
      return isSync && begin > after.end && end < before.begin;
    });
    assert.ok(isSynced, `no sync of ${path} between ${after.name} and ${before.name}`);
  }
}

describe("the folder is synced", AT_ONCE, () => {
  test("after the log, the token log and the checkpoint are created, and its parent after the folder itself", async (t) => {
    if (!canTrace(t)) return;
    const parent = makeFolder(t);
    const folder = join(parent, "garden", "data");
    const { read, ...under } = traced(t, CALLS);
    // The server creates the first token after it listens and before it prints its ready line.
    const trial = await Trial.start(t, {
      folder,
      reuseToken: "none",
      args: ["--first-token"],
      ...under,
    });
    assert.equal((await trial.stop()).status, 0);

    const trace = new Trace(read());
    const ready = trace.message("plant-store listening on");
    const log = trace.one("openat", `"${logPath(folder)}"`, "O_CREAT");
    const made = trace.one("mkdir", `"${folder}"`);
    trace.assertSynced(parent, trace.one("mkdir", `"${join(parent, "garden")}"`), log);
    trace.assertSynced(join(parent, "garden"), made, log);
    trace.assertSynced(folder, log, ready);
    const tokens = trace.first("openat", `"${join(folder, "tokens.jsonl")}"`, "O_CREAT");
    trace.assertSynced(folder, tokens, trace.message("Bearer pst_"));
  });

  test("after the checkpoint is renamed, whose content is synced before", async (t) => {
    if (!canTrace(t)) return;
    const folder = makeFolder(t);
    const { read, ...under } = traced(t, ["-y", "-e", "trace=openat,rename,fsync,exit_group"]);
    const trial = await Trial.start(t, { folder, ...under });
    assert.equal(await trial.create(1), 200);
    assert.equal((await trial.stop()).status, 0);

    const path = `${logPath(folder)}.checkpoint`;
    const calls = readCalls(read()).filter(({ args }) => args.includes(folder));
    const steps = calls.filter(({ name, args }) => name !== "openat" || args.includes("O_DSYNC"));
    const names = steps.map(({ name, args }) => `${name} ${args.replaceAll(/\d+</g, "<")}`);
    assert.match(names.at(-3) ?? "", new RegExp(`^openat .*"${path}.new", .*O_DSYNC`));
    assert.deepEqual(names.slice(-2), [`rename "${path}.new", "${path}"`, `fsync <${folder}>`]);
  });

  test("after a quarantine file is created and before the log is cut; the cut is synced before serving", async (t) => {
    if (!canTrace(t)) return;
    const folder = makeFolder(t);
    writeLog(folder, `${plant(1)}\n{"id":2,"na`);
    const { read, ...under } = traced(t, CALLS);
    const trial = await Trial.start(t, { folder, ...under });
    assert.equal((await trial.stop()).status, 0);

    const trace = new Trace(read());
    const ready = trace.message("plant-store listening on");
    const made = trace.one("openat", `"${logPath(folder)}.quarantine-1"`, "O_CREAT");
    const appender = trace.one("openat", `"${logPath(folder)}.quarantine-1"`, "O_APPEND");
    assert.match(appender.args, /\bO_DSYNC\b/);
    const kept = trace.one("write", `<${logPath(folder)}.quarantine-1>`);
    const cut = trace.one("ftruncate", `<${logPath(folder)}>`);
    trace.assertSynced(folder, made, cut);
    assert.ok(kept.end < cut.begin, "kept before it was cut");
    trace.assertSynced(logPath(folder), cut, ready);
    const rewritten = trace.one("pwrite64", `<${logPath(folder)}>`);
    assert.ok(cut.end < rewritten.begin && rewritten.end < ready.begin, "and written again");
  });

  test("by the next start, if a start was killed before its sync", async (t) => {
    if (!canTrace(t)) return;
    const folder = makeFolder(t);
    const token = await createToken(folder, { name: "gardener" });
    const killed = traced(t, ["-P", folder, "-e", "trace=fsync", "-e", "inject=fsync:signal=KILL"]);
    const end = await startRefused(t, folder, killed);
    assert.equal(end.signal, "SIGKILL");

    const { read, ...under } = traced(t, CALLS);
    const trial = await Trial.start(t, { folder, reuseToken: token, ...under });
    assert.equal(await trial.create(1), 200);
    assert.equal((await trial.stop()).status, 0);
    const trace = new Trace(read());
    const log = trace.one("openat", `"${logPath(folder)}"`, "O_CREAT");
    trace.assertSynced(folder, log, trace.message("plant-store listening on"));
  });
});

for (const error of ["EIO", "EINVAL"]) {
  test(`a start whose folder cannot be synced (${error}) ends with status 1 and names the cause; the next start continues`, async (t) => {
    if (!canTrace(t)) return;
    const folder = join(makeFolder(t), "data");
    mkdirSync(folder, 0o700);
    const inject = `inject=fsync:error=${error}`;
    const { read, ...under } = traced(t, ["-P", folder, "-e", "trace=fsync", "-e", inject]);
    const end = await startRefused(t, folder, under);
    assert.deepEqual([end.status, end.messages.length], [1, 1], end.messages.join("\n"));
    assert.match(end.messages[0] ?? "", new RegExp(`\\b${error}\\b`));
    assert.match(read(), /INJECTED/);
    await assertGoesOn(t, folder, []);
  });
}
