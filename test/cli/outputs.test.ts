/** Outputs that are closed, full, slow or a terminal. */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { NEEDS_TERMINAL, runCli, startServer, terminalArgs } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { PROGRAM } from "../support/program.ts";
import { type Finished, runToEnd } from "../support/run.ts";
import { writeLog } from "../support/stores.ts";
import { CONTROLS } from "./table.ts";

const LONG = (id: number) => `{"id":${id},"name":"${"Fern ".repeat(100)}"}\n`;
const manyLines = (count: number) => Array.from({ length: count }, (_, id) => LONG(id)).join("");

/** Runs a shell line in which `"$@"` is the program with these words. */
function runInShell(line: string, words: readonly string[]): Promise<Finished> {
  return runToEnd(["sh", "-c", line, "sh", process.execPath, PROGRAM, ...words]);
}

test("export writes a long log whole into a pipe, and ends with 0 if its reader stops early", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, manyLines(5000));
  const words = ["export", "--data", folder];
  assert.ok((await runCli(words)).stdout === manyLines(5000), "without a diff of megabytes");
  const end = await runInShell('{ "$@"; echo "status $?" >&2; } | head -n 1', words);
  assert.deepEqual([end.stdout, end.stderr], [LONG(0), "status 0\n"]);
});

for (const words of ["export", "token create gardener"]) {
  test(`${words} into a full disk ends with status 1 and one line`, async (t) => {
    const folder = makeFolder(t);
    writeLog(folder, LONG(1));
    const end = await runInShell('exec "$@" >/dev/full', [...words.split(" "), "--data", folder]);
    assert.equal(end.status, 1);
    assert.match(end.stderr, /^plant-store: Cannot write to standard output: .*ENOSPC.*\n$/);
  });
}

test("export ends with status 1 if only a part fits into its standard output", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, manyLines(1800)); // one block of the reader, and longer than the limit here
  const limited = `ulimit -f 1024; exec "$@" >"${join(makeFolder(t), "copy.jsonl")}"`;
  assert.equal((await runInShell(limited, ["export", "--data", folder])).status, 1);
});

test("a message that nobody reads changes no exit status", async () => {
  const child = spawn(process.execPath, [PROGRAM, "srve"]);
  child.stderr.destroy();
  assert.deepEqual(await once(child, "exit"), [2, null]);
});

test("a command with an IPC channel to its parent ends", async () => {
  const child = spawn(process.execPath, [PROGRAM, "--version"], {
    stdio: ["pipe", "pipe", "pipe", "ipc"],
  });
  assert.deepEqual(await once(child, "exit"), [0, null]);
});

/** A disk on which every write fails halfway, and no file can be cut. */
const DYING_DISK = `
  import fs, { promises } from "node:fs";
  const handle = Object.getPrototypeOf(await promises.open("/dev/null"));
  const { write } = handle;
  const fail = () => { throw Object.assign(new Error("EIO: i/o error"), { code: "EIO" }); };
  let calls = 0;
  handle.write = function (bytes, start) {
    return calls++ % 2 === 0 ? write.call(this, bytes, start, 5, null) : fail();
  };
  fs.ftruncateSync = fail;`;

test("an import whose write fails and cannot be undone ends with 3, and says to restart the machine", async (t) => {
  const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(DYING_DISK)}` };
  const words = ["import", "-", "--data", join(makeFolder(t), "data")];
  const end = await runCli(words, { env, stdin: '{"id":1,"name":"a"}\n' });
  assert.deepEqual([end.status, end.stdout], [3, ""], end.stderr);
  assert.match(end.stderr, /restart the machine before you start again\n$/);
});

describe("no stored or typed text controls the terminal", { concurrency: 3 }, () => {
  /** Control characters and marks of direction that JSON text may contain unescaped. */
  const RAW = "\u007f\u009b31m\u2028\u202e\u2066\ufeff";
  /** Short, because the path of a lock has at most 107 bytes. */
  const HOSTILE = `\u0001\t\n\r\u001b[31m${RAW}`;
  const LOG = `${JSON.stringify({ id: 1, name: HOSTILE, tag: HOSTILE })}\n`;
  assert.ok(LOG.includes(RAW), "JSON.stringify leaves it unescaped");

  /** `lines` are those on standard output and on standard error. */
  const RUNS: readonly [words: string[], status: number, lines: [number, number]][] = [
    [["get", HOSTILE], 2, [0, 1]],
    [["repair"], 3, [0, 2]],
    [["import", "-"], 3, [0, 1]],
    [["health", "--admin", HOSTILE], 2, [0, 1]],
    [["print", "openapi", HOSTILE], 2, [0, 1]],
    [["serve", "--tls-cert", HOSTILE, "--tls-key", HOSTILE], 1, [0, 1]],
    [[HOSTILE], 2, [0, 1]],
  ];
  for (const [words, status, lines] of RUNS) {
    // The name of a test is shown in a terminal, too.
    test(`${words.join(" ").replaceAll(HOSTILE, "(controls)")} ends with ${status}`, async (t) => {
      // The path contains the characters, too, because messages name it.
      const data = join(makeFolder(t), HOSTILE);
      mkdirSync(data, { mode: 0o700, recursive: true });
      writeLog(data, `${LOG}${HOSTILE}\n`);
      const end = await runCli(words, { env: { PLANT_STORE_DATA: data }, stdin: HOSTILE });
      assert.equal(end.status, status, end.stderr);
      assert.doesNotMatch(end.stdout + end.stderr, CONTROLS);
      const printed = [end.stdout, end.stderr].map((text) => text.split("\n").length - 1);
      assert.deepEqual(printed, lines);
    });
  }

  for (const words of [["get", "1"], ["export"]]) {
    test(`${words.join(" ")} at a terminal`, NEEDS_TERMINAL, async (t) => {
      const data = join(makeFolder(t), HOSTILE);
      mkdirSync(data, { mode: 0o700 });
      writeLog(data, LOG);
      const end = await runToEnd(["script", ...terminalArgs([...words, "--data", data])]);
      assert.equal(end.status, 0, end.stdout);
      const shown = end.stdout.replaceAll("\r\u001b[K", "").replaceAll("\r\n", "\n");
      assert.doesNotMatch(shown, CONTROLS);
    });
  }

  test("serve", async (t) => {
    const server = await startServer(t, ["--data", `./${HOSTILE}`], { cwd: makeFolder(t) });
    const { stdout, stderr } = await server.stop();
    assert.doesNotMatch(stdout + stderr, CONTROLS);
  });
});

test(
  "at a terminal the log is coloured, and a line of it replaces the progress",
  NEEDS_TERMINAL,
  (t) => {
    const data = makeFolder(t);
    const lines = Array.from({ length: 50_000 }, (_, id) => `{"id":${id},"name":"Plant ${id}"}\n`);
    writeLog(data, `${lines.join("")}{"id":`); // longer than one read, and torn
    // It reads the log, then ends by itself, because this machine has no such address.
    const args = terminalArgs(["serve", "--port=0", "--data", data, "--admin", "192.0.2.1:9180"]);
    const env = { ...process.env, TERM: "xterm", NO_COLOR: "", FORCE_COLOR: "" };
    const { status, stdout } = spawnSync("script", args, { env, encoding: "utf8" });
    assert.equal(status, 1, stdout);
    const rows = stdout.replaceAll("\u001b[K", "").split(/\r\n?/);
    const progress = rows.findIndex((row) =>
      /^reading the log: [0-9.]+ MB of [0-9.]+ MB$/.test(row),
    );
    const warning = rows.findIndex((row) => row.includes("\u001b[33mwarning: \u001b[39m"));
    assert.ok(0 <= progress && progress < warning, stdout);
  },
);
