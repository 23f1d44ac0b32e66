/** What tools that know every consumer say about the package, and whether its types can be named. */
import assert from "node:assert/strict";
import path from "node:path";
import { describe, test } from "node:test";
import { installLibrary, packLibrary, ROOT, whyNotInstalled } from "../support/package.ts";
import { runToEnd } from "../support/run.ts";

const HERE = path.join(ROOT, "test/package");
const tool = (name: string) => path.join(HERE, "node_modules/.bin", name);

describe("the package, judged", { skip: whyNotInstalled("test/package") }, () => {
  test("publint accepts the package", async () => {
    const words = [tool("publint"), await packLibrary(), "--strict", "--level", "suggestion"];
    const { status, stdout, stderr } = await runToEnd(words, { cwd: HERE });
    assert.equal(status, 0, stdout + stderr);
    assert.match(stdout, /All good!/);
  });

  test("are-the-types-wrong accepts the package, except that require() gets an ES module", async () => {
    // Accepted on purpose: every Node that `engines` asks for can require() a module, as the
    // package's test shows. A second build for CommonJS would put two PlantStoreErrors into one
    // process, and what one throws would be no instance of the other.
    const rules = ["--ignore-rules", "cjs-resolves-to-esm"];
    const words = [tool("attw"), await packLibrary(), ...rules, "--format", "json"];
    const { status, stdout, stderr } = await runToEnd(words, { cwd: HERE });
    assert.equal(status, 0, stdout + stderr);
    const { problems = {} } = JSON.parse(stdout);
    const others = Object.keys(problems).filter((kind) => kind !== "CJSResolvesToESM");
    assert.deepEqual(others, []);
  });

  test("the package has exactly the types that a user can name", async (t) => {
    const dist = path.join(await installLibrary(t), "node_modules/plant-store/dist");
    for (const [files, least] of [
      [["index.d.ts", "tools.d.ts", "client.d.ts", "testing.d.ts"], 60],
      [["postgres/index.d.ts"], 10],
    ] as const) {
      const paths = files.map((file) => path.join(dist, file));
      const words = [process.execPath, path.join(HERE, "public-types.mjs"), ...paths];
      const { status, stdout, stderr } = await runToEnd(words, { cwd: HERE });
      assert.equal(status, 0, stderr);
      const { exported, forgotten, unreachable } = JSON.parse(stdout);
      assert.ok(exported > least, `${exported} names were seen`);
      assert.deepEqual(forgotten, []);
      assert.deepEqual(unreachable, []); // what is for other files alone is marked @internal
    }
  });
});
