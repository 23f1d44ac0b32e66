/** `npm start` in a clone, with the real npm. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, statSync } from "node:fs";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { makeFolder } from "../support/folders.ts";
import { fillClone, makeRepository } from "../support/package.ts";
import { runToEnd } from "../support/run.ts";
import { TIMEOUT, until } from "../support/watch.ts";

function makeClone(t: TestContext): string {
  const folder = makeFolder(t);
  fillClone(folder);
  return folder;
}

/** Starts the server by npm, and waits until it is ready. */
async function start(t: TestContext, clone: string) {
  // A group of its own: at the end of the test whatever is left of it is killed.
  const child = spawn("npm", ["start", "--", "--port=0", "--admin=127.0.0.1:0"], {
    cwd: clone,
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  t.after(() => {
    try {
      process.kill(-(child.pid as number), "SIGKILL");
    } catch {} // all have ended
  });
  let log = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    log += text;
  });
  child.stdout.resume();
  const find = () => /"event":"listening".*"pid":(\d+)/.exec(log)?.[1];
  await until("it is ready", () => find() !== undefined || child.exitCode !== null);
  const pid = Number(find());
  assert.ok(pid > 0, log);
  return { npm: child, pid };
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

const STARTS: readonly [data: "missing" | "wide", signal: NodeJS.Signals][] = [
  ["missing", "SIGTERM"],
  ["wide", "SIGINT"],
];

for (const [state, signal] of STARTS) {
  test(
    `npm start with a ${state} data directory makes it private, and ${signal} to npm ends the server, too`,
    TIMEOUT,
    async (t) => {
      const clone = makeClone(t);
      const data = path.join(clone, "data");
      if (state === "wide") mkdirSync(data, { mode: 0o755 });
      const { npm, pid } = await start(t, clone);
      assert.equal(statSync(data).mode & 0o777, 0o700);
      const ended = once(npm, "exit");
      npm.kill(signal);
      await ended;
      await until("the server has ended", () => !isRunning(pid));
    },
  );
}

test(
  "npm start after npm ci without the compilers says in one line what is missing",
  TIMEOUT,
  async (t) => {
    const cwd = await makeRepository(t);
    const options = { cwd, env: { ...process.env, NODE_ENV: "production" } };
    const install = await runToEnd(["npm", "ci"], options);
    assert.equal(install.status, 0, install.stderr);
    const { status, stderr } = await runToEnd(["npm", "start"], options);
    assert.notEqual(status, 0);
    const own = stderr.split("\n").filter((line) => line !== "" && !line.startsWith("npm "));
    assert.equal(own.length, 1, stderr);
    assert.match(stderr, /npm ci --include=dev/);
    assert.equal(existsSync(path.join(cwd, "data")), false);
  },
);
