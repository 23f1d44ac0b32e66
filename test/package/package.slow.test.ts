/** The package, packed and installed: what is in it, and how it is loaded. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { VERSION } from "../../src/cli/command.ts";
import { BESIDE, SHIPPED } from "../support/docs.ts";
import { makeFolder } from "../support/folders.ts";
import { installLibrary, makeRepository, ROOT } from "../support/package.ts";
import { postPlant } from "../support/post.ts";
import { runToEnd } from "../support/run.ts";

/** Uses npm's cache if possible, which `npm ci` has filled. */
const QUIET = ["--prefer-offline", "--no-audit", "--no-fund"];

/** Scripts that npm runs when it installs a package from a registry. */
const INSTALL_SCRIPTS = ["preinstall", "install", "postinstall", "dependencies"];

test("the package has the compiled source and what a user reads, and runs nothing when it is installed", async (t) => {
  const folder = await installLibrary(t);
  const root = path.join(folder, "node_modules/plant-store");
  const files = listFiles(root);
  const compiled = listFiles(path.join(ROOT, "src"))
    .filter((file) => file.endsWith(".ts"))
    .flatMap((file) => [".js", ".d.ts"].map((end) => `dist/${file.replace(/\.ts$/, end)}`));
  const pages = ["LICENSE", "package.json", ...BESIDE, ...SHIPPED];
  assert.deepEqual(files.sort(), [...compiled, ...pages].sort());

  const { scripts, dependencies } = JSON.parse(
    readFileSync(path.join(root, "package.json"), "utf8"),
  );
  assert.equal(dependencies, undefined);
  assert.deepEqual(
    INSTALL_SCRIPTS.filter((name) => name in scripts),
    [],
  );
});

/** Files below a folder, by their path in it. */
function listFiles(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((file) =>
    statSync(path.join(folder, file)).isFile(),
  );
}

test("every program file of the package begins with the comment of its source", async (t) => {
  const dist = path.join(await installLibrary(t), "node_modules/plant-store/dist");
  for (const file of listFiles(dist).filter((name) => name.endsWith(".js"))) {
    const source = readFileSync(path.join(ROOT, "src", file.replace(/js$/, "ts")), "utf8");
    const header = source.slice(0, source.indexOf("*/"));
    assert.ok(readFileSync(path.join(dist, file), "utf8").startsWith(header), file);
  }
});

test("npm install from a git URL builds the package", async (t) => {
  const folder = makeFolder(t);
  const url = `git+file://${await makeRepository(t)}`;
  writeFileSync(path.join(folder, "package.json"), '{ "name": "somebody", "private": true }\n');
  const install = await runToEnd(["npm", "install", ...QUIET, url], { cwd: folder });
  assert.equal(install.status, 0, install.stderr);
  assert.deepEqual(
    readdirSync(path.join(folder, "node_modules")).filter((name) => !name.startsWith(".")),
    ["plant-store"],
  );
  const shown = await runToEnd(["npx", "--no-install", "plant-store", "--version"], {
    cwd: folder,
  });
  assert.deepEqual([shown.status, shown.stdout], [0, `${VERSION}\n`]);
  const program = 'import("plant-store").then(({ PlantStore }) => console.log(typeof PlantStore))';
  const loaded = await runToEnd([process.execPath, "-e", program], { cwd: folder });
  assert.equal(loaded.stdout, "function\n");
});

const LOADERS: readonly [says: string, file: string, load: string][] = [
  ["import", "load.mjs", 'await import("plant-store")'],
  ["require()", "load.cjs", 'require("plant-store")'],
];

for (const [says, file, load] of LOADERS) {
  test(`${says} loads the library, and leaves nothing open, printed or changed`, async (t) => {
    const folder = await installLibrary(t);
    const look = `JSON.stringify([
      Object.getOwnPropertyNames(globalThis),
      process.eventNames().map((name) => [String(name), process.listenerCount(name)]),
      process.getActiveResourcesInfo().filter((kind) => !/^(Pipe|FSReq|CloseReq)/.test(kind)),
      process.exitCode,
    ])`;
    const program = `
      const before = ${look};
      const library = ${load};
      const after = ${look};
      process.on("exit", () => process.stdout.write(JSON.stringify({
        isSame: before === after, before, after,
        store: typeof library.PlantStore.open,
        hasDefault: "default" in library,
      })));`;
    writeFileSync(path.join(folder, file), program);
    const { status, stdout, stderr } = await runToEnd([process.execPath, file], { cwd: folder });
    assert.equal(stderr, "");
    assert.equal(status, 0);
    const { isSame, before, after, store, hasDefault } = JSON.parse(stdout);
    assert.ok(isSame, `${before} became ${after}`);
    assert.deepEqual([store, hasDefault], ["function", false]);
  });
}

test("a file that is not exported cannot be imported, except package.json", async (t) => {
  const folder = await installLibrary(t);
  writeFileSync(
    path.join(folder, "reach.cjs"),
    `const { version } = require("plant-store/package.json");
     try { require("plant-store/dist/cli/main.js"); } catch ({ code }) {
       process.stdout.write(version + " " + code);
     }`,
  );
  const { stdout } = await runToEnd([process.execPath, "reach.cjs"], { cwd: folder });
  const { version } = JSON.parse(readFileSync(path.join(ROOT, "package.json"), "utf8"));
  assert.equal(stdout, `${version} ERR_PACKAGE_PATH_NOT_EXPORTED`);
});

test("npx plant-store serve works", async (t) => {
  const folder = await installLibrary(t);
  const args = ["--no-install", "plant-store", "serve", "--port", "0", "--first-token"];
  // A group of its own: npx, a shell and the server are stopped together.
  const child = spawn("npx", args, {
    cwd: folder,
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  const stop = (signal: NodeJS.Signals) => {
    const hasEnded = child.exitCode !== null || child.signalCode !== null;
    if (!hasEnded && child.pid !== undefined) process.kill(-child.pid, signal);
  };
  t.after(() => stop("SIGKILL"));
  let text = "";
  const find = (pattern: RegExp) => pattern.exec(text)?.[1] ?? "";
  await new Promise<void>((resolve) => {
    child.once("close", resolve);
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (chunk: string) => {
        text += chunk;
        if (find(/listening on (\S+),/) !== "" && find(/(pst_[\w-]+)/) !== "") resolve();
      });
    }
  });
  const url = find(/listening on (\S+),/);
  const token = find(/(pst_[\w-]+)/);
  assert.ok(url !== "" && token !== "", text);
  assert.equal((await postPlant(url, token, '{"id":1,"name":"a"}')).status, 200);
  stop("SIGTERM");
  await once(child, "close");
  assert.equal(
    readFileSync(path.join(folder, "data/plants.jsonl"), "utf8"),
    '{"id":1,"name":"a"}\n',
  );
});
