/** Which runtimes the program accepts. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import vm from "node:vm";
import { transformSync } from "esbuild";

function readText(file: string): string {
  return readFileSync(new URL(`../../${file}`, import.meta.url), "utf8");
}

/** The first file, which imports the program only if the runtime is good. */
const FIRST = readText("src/cli/main.ts").replace("import(", "load(");

interface Outcome {
  readonly isLoaded: boolean;
  readonly status: number | undefined;
  readonly stderr: string;
}

/** Runs the first file with these members of `process`. */
function start(node: string): Outcome {
  const { code } = transformSync(FIRST, { loader: "ts" });
  const outcome = { isLoaded: false, status: undefined as number | undefined, stderr: "" };
  const process = {
    versions: { node },
    on: () => {},
    stderr: {
      write: (text: string) => {
        outcome.stderr += text;
      },
    },
    exit: (status: number) => {
      outcome.status = status;
    },
  };
  const load = async () => {
    outcome.isLoaded = true;
  };
  vm.runInNewContext(code, { process, load });
  return outcome;
}

/** Whether a range of package.json, such as `^20.19 || >=22.12`, has this version. */
function isInRange(range: string, version: string): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return range.split(" || ").some((part) => {
    const [, kind, ...numbers] = /^(\^|>=)(\d+)\.(\d+)$/.exec(part) ?? assert.fail(part);
    const [majorMin = 0, minorMin = 0] = numbers.map(Number);
    if (major === majorMin) return minor >= minorMin;
    return kind === ">=" && major > majorMin;
  });
}

const { engines } = JSON.parse(readText("package.json"));

const VERSIONS: readonly [version: string, isGood: boolean][] = [
  ["18.20.8", false],
  ["19.9.0", false],
  ["20.18.3", false],
  ["20.19.0", true],
  ["21.19.0", false],
  ["22.11.0", false],
  ["22.12.0", true],
  ["23.0.0", true],
  ["24.0.0-nightly2025010112345678", true],
  ["26.12.1", true],
];

for (const [version, isGood] of VERSIONS) {
  test(`Node.js ${version} ${isGood ? "runs the program" : "is refused in one line, with status 2"}`, () => {
    assert.equal(isInRange(engines.node, version), isGood, "package.json disagrees");
    const { isLoaded, status, stderr } = start(version);
    assert.deepEqual([isLoaded, status], [isGood, isGood ? undefined : 2]);
    assert.match(stderr, isGood ? /^$/ : /^plant-store: [^\n]+\n$/);
    if (isGood) return;
    for (const [oldest] of engines.node.matchAll(/\d+\.\d+/g)) {
      assert.ok(stderr.includes(oldest), `it does not name ${oldest}`);
    }
    assert.ok(stderr.includes(version), stderr);
  });
}

test("the first file imports nothing before it has checked the version, and is written in the syntax of Node 14", () => {
  const print = (target: string) => transformSync(FIRST, { loader: "ts", target }).code;
  assert.equal(print("node14"), print("esnext"), "the compiler had to replace newer syntax");
  assert.doesNotMatch(FIRST, /^(import|export)\b/m);
});

test("the lock file and package.json name the same versions of Node.js", () => {
  assert.deepEqual(JSON.parse(readText("package-lock.json")).packages[""].engines, engines);
});
