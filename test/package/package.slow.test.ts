/** The package, packed and installed: what is in it, and how it is loaded; and `npm start` in a clone. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { BESIDE, SHIPPED } from "../support/docs.ts";
import { atEnd, makeFolder } from "../support/folders.ts";
import { fillClone, installLibrary, makeRepository, ROOT } from "../support/package.ts";
import { runToEnd } from "../support/run.ts";
import { TIMEOUT, until } from "../support/watch.ts";

test("the package has the compiled source and what a user reads, and runs nothing when it is installed", async (t) => {
  const root = path.join(await installLibrary(t), "node_modules/plant-store");
  const sources = listFiles(path.join(ROOT, "src")).filter((file) => file.endsWith(".ts"));
  const compiled = sources.flatMap((file) => {
    return [".js", ".d.ts"].map((end) => `dist/${file.replace(/\.ts$/, end)}`);
  });
  const pages = ["LICENSE", "package.json", ...BESIDE, ...SHIPPED];
  assert.deepEqual(listFiles(root).sort(), [...compiled, ...pages].sort());
  const text = readFileSync(path.join(root, "package.json"), "utf8");
  const { scripts, dependencies } = JSON.parse(text);
  assert.equal(dependencies, undefined);
  for (const name of ["preinstall", "install", "postinstall", "dependencies"]) {
    assert.equal(scripts[name], undefined);
  }
});

/** Files below a folder, by their path in it. */
function listFiles(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((file) =>
    statSync(path.join(folder, file)).isFile(),
  );
}

test("npm install from a git URL builds the package, with its program", async (t) => {
  const cwd = makeFolder(t);
  const url = `git+file://${await makeRepository(t)}`;
  writeFileSync(path.join(cwd, "package.json"), '{ "name": "somebody", "private": true }\n');
  // Uses npm's cache if possible, which `npm ci` has filled.
  const quiet = ["--prefer-offline", "--no-audit", "--no-fund"];
  const { status, stderr } = await runToEnd(["npm", "install", ...quiet, url], { cwd });
  assert.equal(status, 0, stderr);
  const words = ["npx", "--no-install", "plant-store", "print", "systemd-unit"];
  assert.match((await runToEnd(words, { cwd })).stdout, /^ExecStart="\/.*" ".*" serve$/m);
});

test("require() loads the library", async (t) => {
  const cwd = await installLibrary(t);
  const program = 'console.log(require("plant-store").PlantStore.name)';
  const { stdout } = await runToEnd([process.execPath, "--eval", program], { cwd });
  assert.equal(stdout, "PlantStore\n");
});

test(
  "npm start keeps the data directory private, and a signal to npm ends the server, too",
  TIMEOUT,
  async (t) => {
    const cwd = makeFolder(t);
    fillClone(cwd);
    const data = path.join(cwd, "data");
    mkdirSync(data, { mode: 0o755 });
    const words = ["start", "--", "--port=0", "--admin=127.0.0.1:0"];
    const npm = spawn("npm", words, { cwd, stdio: ["ignore", "ignore", "pipe"] });
    let log = "";
    npm.stderr.setEncoding("utf8").on("data", (text: string) => {
      log += text;
    });
    const find = () => /"event":"listening".*"pid":(\d+)/.exec(log)?.[1];
    await until("it is ready", () => find() !== undefined || npm.exitCode !== null);
    const pid = Number(find());
    assert.ok(pid > 0, log);
    const isRunning = () => existsSync(`/proc/${pid}`);
    atEnd(t, () => isRunning() && process.kill(pid, "SIGKILL"));
    assert.equal(statSync(data).mode & 0o777, 0o700);
    const ended = once(npm, "exit");
    npm.kill("SIGINT");
    await ended;
    await until("the server has ended", () => !isRunning());
  },
);
