import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { count, describeProgress } from "../../src/cli/output.ts";
import { makeFolder } from "../support/folders.ts";
import { writeLog } from "../support/stores.ts";
import { NEEDS_TERMINAL, terminalArgs } from "../support/terminal.ts";

for (const [number, says] of [
  [0, "0 plants"],
  [1, "1 plant"],
  [2, "2 plants"],
] as const) {
  test(`count() says "${says}"`, () => {
    assert.equal(count(number, "plant"), says);
  });
}

const MB = 1_000_000;

const LINES: readonly [bytes: number, total: number | undefined, seconds: number, line: string][] =
  [
    [0, 10 * MB, 1, "0 % of 10.0 MB, 0.0 MB/s, 10000000 s left"],
    [5 * MB, 10 * MB, 2, "50 % of 10.0 MB, 2.5 MB/s, 2 s left"],
    [42 * MB, 120 * MB, 1, "35 % of 120.0 MB, 42.0 MB/s, 2 s left"],
    [10 * MB - 1, 10 * MB, 2, "99 % of 10.0 MB, 5.0 MB/s, 1 s left"],
    [10 * MB, 10 * MB, 2, "100 % of 10.0 MB, 5.0 MB/s, 0 s left"],
    [0, 0, 0, "100 % of 0.0 MB, 0.0 MB/s, 0 s left"],
    [MB, 2 * MB, 0, "50 % of 2.0 MB, 1000.0 MB/s, 1 s left"],
    [5 * MB, undefined, 2, "5.0 MB, 2.5 MB/s"],
    [0, undefined, 0, "0.0 MB, 0.0 MB/s"],
  ];

for (const [bytes, total, seconds, line] of LINES) {
  test(`${bytes} of ${total ?? "unknown many"} bytes after ${seconds} s are shown as "${line}"`, () => {
    assert.equal(describeProgress("importing", bytes, total, seconds), `importing: ${line}`);
  });
}

test("more bytes than were expected, of a file that grows, are never more than all", () => {
  for (const bytes of [11, 12, 100]) {
    const line = describeProgress("importing", bytes, 10, 1);
    assert.match(line, /: 100 % /);
    assert.match(line, / 0 s left$/);
  }
});

test("at a terminal a line of the log replaces the progress", NEEDS_TERMINAL, (t) => {
  const data = makeFolder(t);
  const lines = Array.from({ length: 50_000 }, (_, id) => `{"id":${id},"name":"Plant ${id}"}\n`);
  writeLog(data, `${lines.join("")}{"id":`); // longer than what is read at once, and torn
  // It reads the log and ends by itself: nothing can listen on a folder.
  const args = terminalArgs(["serve", "--port=0", "--data", data, "--admin", data]);
  const env = { ...process.env, TERM: "xterm", NO_COLOR: "1", FORCE_COLOR: "" };
  const { status, stdout } = spawnSync("script", args, {
    env,
    encoding: "utf8",
  });
  assert.equal(status, 1, stdout);
  const rows = stdout.replaceAll("\u001b[K", "").split(/\r\n?/);
  const progress = rows.findIndex((row) => row.startsWith("reading the log: "));
  const warning = rows.findIndex((row) => row.includes("quarantine"));
  assert.ok(0 <= progress && progress < warning, stdout);
  assert.match(rows[warning] ?? "", /^[0-9:]{8} /);
});
