/** The package, packed and installed: what is in it, and how it is loaded. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { VERSION } from "../../src/cli/command.ts";
import { TestStatus } from "../support/admin.ts";
import { missingBrowser, startBrowser } from "../support/browser.ts";
import { BESIDE, SHIPPED } from "../support/docs.ts";
import { makeFolder } from "../support/folders.ts";
import { installLibrary, makeRepository, ROOT } from "../support/package.ts";
import { postPlant } from "../support/post.ts";
import { runToEnd } from "../support/run.ts";

/** Uses npm's cache if possible, which `npm ci` has filled. */
const QUIET = ["--prefer-offline", "--no-audit", "--no-fund"];

/** Of the program and its types, and of the documentation. */
const PROGRAM_BYTES_MAX = 310_000;
const PAGES_BYTES_MAX = 260_000;

/** Scripts that npm runs when it installs a package from a registry. */
const INSTALL_SCRIPTS = ["preinstall", "install", "postinstall", "dependencies"];

test("the package is small, has what a user needs, and runs nothing when it is installed", async (t) => {
  const folder = await installLibrary(t);
  const root = path.join(folder, "node_modules/plant-store");
  const files = readdirSync(root, { recursive: true, encoding: "utf8" }).filter((file) =>
    statSync(path.join(root, file)).isFile(),
  );
  const others = files.filter((file) => !/^dist\/.*\.(js|d\.ts)$/.test(file));
  const expected = ["LICENSE", "package.json", ...BESIDE, ...SHIPPED];
  assert.deepEqual(others.sort(), expected.sort());

  const sizeOf = (list: readonly string[]) => {
    return list.reduce((sum, file) => sum + statSync(path.join(root, file)).size, 0);
  };
  const pages = sizeOf(others);
  const program = sizeOf(files) - pages;
  assert.ok(program < PROGRAM_BYTES_MAX, `${program} bytes`);
  assert.ok(pages < PAGES_BYTES_MAX, `${pages} bytes`);

  const { scripts, dependencies } = JSON.parse(
    readFileSync(path.join(root, "package.json"), "utf8"),
  );
  assert.equal(dependencies, undefined);
  assert.deepEqual(
    INSTALL_SCRIPTS.filter((name) => name in scripts),
    [],
  );

  for (const file of files.filter((file) => file.endsWith(".js"))) {
    const text = readFileSync(path.join(root, file), "utf8");
    assert.ok(
      !text.includes("sourceMappingURL"),
      `${file} names a source map that the package does not have`,
    );
    assert.ok(!text.includes(ROOT), `${file} names the machine that built it`);
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

test("npm ls --all shows one package", async (t) => {
  const folder = await installLibrary(t);
  const { status, stdout } = await runToEnd(["npm", "ls", "--all", "--parseable"], { cwd: folder });
  assert.equal(status, 0);
  assert.deepEqual(stdout.trim().split("\n").slice(1), [
    path.join(folder, "node_modules/plant-store"),
  ]);
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

const noBrowser = missingBrowser();

test("the minified status page of the package shows the store", {
  skip: noBrowser ?? false,
  timeout: 60_000,
}, async (t) => {
  const root = path.join(await installLibrary(t), "node_modules/plant-store");
  const library: typeof import("../../src/index.ts") = await import(
    path.join(root, "dist/index.js")
  );
  const address = library.parseAdminAddress("127.0.0.1:0");
  const server = await library.AdminServer.start({
    address,
    status: new TestStatus(),
    version: "1.2.3",
  });
  t.after(() => server.close());
  const page = await (await startBrowser(t)).newPage();
  const complaints: string[] = [];
  page.on("console", (message) => complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(error.message));
  await page.goto(server.url);
  await page.waitForFunction('document.getElementById("plants").textContent === "7"');
  const display = 'getComputedStyle(document.querySelector("main")).display';
  assert.equal(await page.evaluate(display), "grid"); // its style is in force
  assert.deepEqual(complaints, []);
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
        if (find(/listening on (\S+)\n/) !== "" && find(/(pst_[\w-]+)/) !== "") resolve();
      });
    }
  });
  const url = find(/listening on (\S+)\n/);
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
