/** Which versions of Node.js the program accepts. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import vm from "node:vm";
import { transformSync } from "esbuild";

const readText = (file: string) => readFileSync(new URL(`../../${file}`, import.meta.url), "utf8");

/** The first file, which imports the program only if the version is good. */
const FIRST = readText("src/cli/main.ts").replace("import(", "load(");
const compile = (target: string) => transformSync(FIRST, { loader: "ts", target }).code;

test("the program runs with Node.js 20.19, 22.12 or later, else one line says so, with status 2", () => {
  for (const [node, isGood] of [
    ["18.20.8", false],
    ["20.18.3", false],
    ["20.19.0", true],
    ["21.19.0", false],
    ["22.11.0", false],
    ["22.12.0", true],
    ["24.0.0-nightly2025010112345678", true],
  ] as const) {
    const seen: { isLoaded?: boolean; status?: number; stderr?: string } = {};
    const process = {
      versions: { node },
      on: () => {},
      stderr: { write: (stderr: string) => Object.assign(seen, { stderr }) },
      exit: (status: number) => Object.assign(seen, { status }),
    };
    const load = () => Object.assign(seen, { isLoaded: true });
    vm.runInNewContext(compile("esnext"), { process, load });
    assert.deepEqual([seen.isLoaded ?? false, seen.status], [isGood, isGood ? undefined : 2]);
    assert.match(
      seen.stderr ?? "",
      isGood ? /^$/ : new RegExp(`22\\.12.*20\\.19.* got ${node};.*\n$`),
    );
  }
});

test("the first file imports nothing statically, has the syntax of Node 14, and agrees with package.json", () => {
  assert.equal(compile("node14"), compile("esnext"), "the compiler had to replace newer syntax");
  assert.doesNotMatch(FIRST, /^(import|export)\b/m);
  assert.equal(JSON.parse(readText("package.json")).engines.node, "^20.19 || >=22.12");
});
