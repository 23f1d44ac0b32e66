import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { count, describeProgress, formatTable } from "../../src/cli/output.ts";
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

test("a table of many rows has columns as wide as their widest cell", () => {
  const lines = formatTable([["NAME", "STATE"], ...Array(300_000).fill(["gardener", "live"])]);
  assert.deepEqual([lines[0], lines.at(-1)], ["NAME      STATE", "gardener  live"]);
});

const MB = 1_000_000;

const SHOWN: readonly [bytes: number, total: number | undefined, text: string][] = [
  [0, 10 * MB, "0 % of 10.0 MB"],
  [42 * MB, 120 * MB, "35 % of 120.0 MB"],
  [10 * MB - 1, 10 * MB, "99 % of 10.0 MB"],
  [10 * MB, 10 * MB, "100 % of 10.0 MB"],
  [11 * MB, 10 * MB, "100 % of 10.0 MB"],
  [0, 0, "100 % of 0.0 MB"],
  [5 * MB, undefined, "5.0 MB"],
];

for (const [bytes, total, text] of SHOWN) {
  test(`${bytes} of ${total ?? "unknown many"} bytes are shown as "${text}"`, () => {
    assert.equal(describeProgress(bytes, total), text);
  });
}

test("at a terminal a line of the log replaces the progress", NEEDS_TERMINAL, (t) => {
  const data = makeFolder(t);
  const lines = Array.from({ length: 50_000 }, (_, id) => `{"id":${id},"name":"Plant ${id}"}\n`);
  writeLog(data, `${lines.join("")}{"id":`); // longer than one read, and torn
  // It reads the log, then ends by itself, because this machine has no such address.
  const args = terminalArgs(["serve", "--port=0", "--data", data, "--admin", "192.0.2.1:9180"]);
  const { FORCE_COLOR: _, ...others } = process.env;
  const env = { ...others, TERM: "xterm", NO_COLOR: "1" };
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
