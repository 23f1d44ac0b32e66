/** The command on other runtimes: it refuses in one line, before it touches anything. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import { before, test } from "node:test";
import { makeFolder } from "../support/folders.ts";
import { ROOT } from "../support/package.ts";
import { runToEnd } from "../support/run.ts";

const BIN = path.join(ROOT, "test/field/node_modules/.bin");
const MAIN = path.join(ROOT, "dist/cli/main.js");

const RUNTIMES: readonly [name: string, words: string[]][] = [
  ["Bun", ["bun"]],
  ["Deno", ["deno", "run", "--allow-all"]],
  ["Deno without any permission", ["deno", "run", "--no-prompt"]],
];

before(() => {
  assert.equal(spawnSync("npm", ["run", "-s", "build"], { cwd: ROOT, stdio: "inherit" }).status, 0);
});

for (const [name, [program = "", ...words]] of RUNTIMES) {
  for (const command of [["serve", "--port", "0"], ["token", "create", "x"], ["export"]]) {
    test(`${name}: ${command.join(" ")} is refused with status 2 and one line`, async (t) => {
      const data = path.join(makeFolder(t), "data");
      const args = [path.join(BIN, program), ...words, MAIN, ...command, "--data", data];
      const { status, stdout, stderr } = await runToEnd(args);
      assert.deepEqual([status, stdout], [2, ""], stderr);
      assert.match(stderr, /^plant-store: [^\n]+\n$/);
      assert.ok(stderr.includes(name.split(" ")[0] ?? name), stderr);
      assert.equal(existsSync(data), false);
    });
  }
}
