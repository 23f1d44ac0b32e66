/** The package on versions of Node.js that it does not support, and on the oldest that it does. */
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { VERSION } from "../../src/cli/command.ts";
import { makeFolder } from "../support/folders.ts";
import { installNode } from "../support/nodes.ts";
import { installLibrary } from "../support/package.ts";
import { type Finished, runToEnd } from "../support/run.ts";

/** Debian 12 has the first; 20.9 and 21.7 have no `zlib.crc32`, and 22.11 cannot `require()` a module. */
const REFUSED = ["18.20.8", "20.9.0", "21.7.3", "22.11.0"];
const OLDEST = ["20.19.0", "22.12.0"];

/** The installed package, once for all tests of this file. */
let library = "";

/** Runs the program in a folder of its own. */
function run(node: string, words: readonly string[], cwd: string): Promise<Finished> {
  return runToEnd([node, path.join(library, "node_modules/.bin/plant-store"), ...words], { cwd });
}

/** Installs this Node; skips the test if npm cannot. */
function findNode(t: TestContext, version: string): string | undefined {
  try {
    return installNode(version);
  } catch {
    t.skip(`needs Node.js ${version}, which npm could not install`);
    return undefined;
  }
}

test("the package on old versions of Node.js", async (t) => {
  library = await installLibrary(t);
  for (const version of REFUSED) {
    await t.test(`${version}: every command is refused in one line, with status 2`, async (t) => {
      const node = findNode(t, version);
      if (node === undefined) return;
      const cwd = makeFolder(t);
      for (const words of [["serve", "--port=0"], ["token", "create", "x"], ["--version"], []]) {
        const { status, stdout, stderr } = await run(node, words, cwd);
        assert.deepEqual([status, stdout], [2, ""], stderr);
        assert.match(stderr, /^plant-store: [^\n]+\n$/);
        assert.ok(stderr.includes(version), stderr);
      }
      assert.deepEqual(readdirSync(cwd), []);
    });
  }

  for (const version of OLDEST) {
    await t.test(`${version}: the program runs, and require() loads the library`, async (t) => {
      const node = findNode(t, version);
      if (node === undefined) return;
      const cwd = makeFolder(t);
      assert.equal((await run(node, ["token", "create", "x"], cwd)).status, 0);
      assert.equal((await run(node, ["--version"], cwd)).stdout, `${VERSION}\n`);
      const script = 'process.stdout.write(typeof require("plant-store").PlantStore)';
      const loaded = await runToEnd([node, "-e", script], { cwd: library });
      assert.equal(loaded.stdout, "function", loaded.stderr);
    });
  }
});
