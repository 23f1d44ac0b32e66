/** The walk in the README's section on operating, typed into a shell as it stands there. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import type { Writable } from "node:stream";
import { type TestContext, test } from "node:test";
import { canRun } from "../faults/machine.ts";
import { makeFolder } from "../support/folders.ts";
import { PROGRAM } from "../support/program.ts";
import { codeBlocks } from "../support/readme.ts";
import { freePort } from "../support/serve.ts";
import { TIMEOUT, until } from "../support/watch.ts";

interface Step {
  readonly command: string;
  readonly output: string;
}

test("the README's walk is answered as it says there", TIMEOUT, async (t) => {
  for (const tool of ["bash", "curl", "jq"]) if (!canRun(t, tool, "--version")) return;
  const port = String(await freePort());
  const shell = startShell(t, prepare(t));
  let expected = "";
  for (const { command, output } of readWalk().map((step) => withPort(step, port))) {
    shell.type(command);
    // An answer ends without a line feed, which nobody could read there.
    expected += output.replaceAll("\n", "");
    // What goes on in the background may have come besides.
    const isThere = () => shell.output().replaceAll("\n", "").startsWith(expected);
    await until(`after "${command}" there is ${expected}`, isThere);
  }
  assert.equal(shell.output().replaceAll("\n", ""), expected);
});

/** What is typed, with the lines that it goes on in, and what comes. */
function readWalk(): Step[] {
  const [walk = ""] = codeBlocks("Operating", "console");
  const steps = walk.split(/^\$ /m).slice(1);
  assert.ok(steps.length > 5, "it is there");
  return steps.map((step) => {
    const [command = ""] = /^(?:.*\\\n)*.*\n/.exec(step) ?? [];
    return { command, output: step.slice(command.length) };
  });
}

function withPort({ command, output }: Step, port: string): Step {
  return { command: command.replaceAll("18088", port), output: output.replaceAll("18088", port) };
}

/** A folder to work in, with the program under its name. */
function prepare(t: TestContext): string {
  const folder = makeFolder(t);
  const program = path.join(folder, "bin", "plant-store");
  mkdirSync(path.dirname(program));
  const words = [process.execPath, PROGRAM].map((word) => `'${word}'`);
  writeFileSync(program, `#!/bin/sh\nexec ${words.join(" ")} "$@"\n`);
  chmodSync(program, 0o755);
  return folder;
}

/** Carries out what comes on descriptor 3, so that no program finds that on its standard input. */
const SHELL = `set -m
trap 'kill -9 $(jobs -p)' EXIT
trap exit TERM
while IFS= read -r -d "" step <&3; do eval "$step"; done`;

/** A shell that has jobs; the end of the test ends it and them. */
function startShell(t: TestContext, folder: string) {
  const env = { ...process.env, PATH: `${path.join(folder, "bin")}:${process.env.PATH}` };
  const stdio = ["ignore", "pipe", "ignore", "pipe"] as const;
  const child = spawn("bash", ["--norc", "-c", SHELL], { cwd: folder, env, stdio: [...stdio] });
  const ended = once(child, "exit");
  t.after(async () => {
    child.kill();
    await ended;
  });
  let output = "";
  child.stdout?.setEncoding("utf8").on("data", (text: string) => {
    output += text;
  });
  const steps = child.stdio[3] as Writable;
  return { type: (command: string) => steps.write(`${command}\0`), output: () => output };
}
