/** Which runtimes the program accepts. `test/package` runs the package on old versions of Node. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import vm from "node:vm";
import { buildSync, transformSync } from "esbuild";
import { makeFolder } from "../support/folders.ts";
import { bundleOptions } from "../support/program.ts";
import { runToEnd } from "../support/run.ts";

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
function start(versions: Readonly<Record<string, string>>, permission?: object): Outcome {
  const { code } = transformSync(FIRST, { loader: "ts" });
  const outcome = { isLoaded: false, status: undefined as number | undefined, stderr: "" };
  const process = {
    versions,
    permission,
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
  ["0.10.48", false],
  ["10.24.1", false],
  ["18.20.8", false],
  ["19.9.0", false],
  ["20.9.0", false],
  ["20.18.3", false],
  ["20.19.0", true],
  ["20.20.2", true],
  ["21.0.0", false],
  ["21.7.3", false],
  ["21.19.0", false],
  ["22.0.0", false],
  ["22.11.0", false],
  ["22.12.0", true],
  ["22.23.3", true],
  ["23.0.0", true],
  ["24.0.0-nightly2025010112345678", true],
  ["26.12.1", true],
  ["100.0.0", true],
];

for (const [version, isGood] of VERSIONS) {
  test(`Node.js ${version} ${isGood ? "runs the program" : "is refused in one line, with status 2"}`, () => {
    assert.equal(isInRange(engines.node, version), isGood, "package.json disagrees");
    const { isLoaded, status, stderr } = start({ node: version });
    assert.deepEqual([isLoaded, status], [isGood, isGood ? undefined : 2]);
    assert.match(stderr, isGood ? /^$/ : /^plant-store: [^\n]+\n$/);
    if (isGood) return;
    for (const [oldest] of engines.node.matchAll(/\d+\.\d+/g)) {
      assert.ok(stderr.includes(oldest), `it does not name ${oldest}`);
    }
    assert.ok(stderr.includes(version), stderr);
  });
}

test("another runtime, and a Node.js that refuses fsync, is refused whatever version it claims", () => {
  for (const [says, versions, permission] of [
    ["Bun", { node: "24.3.0", bun: "1.3.0" }],
    ["Deno", { node: "18.20.8", deno: "2.4.0" }],
    ["--permission", { node: "24.3.0" }, { has: () => false }],
  ] as const) {
    const { isLoaded, status, stderr } = start(versions, permission);
    assert.deepEqual([isLoaded, status], [false, 2]);
    assert.match(stderr, /^plant-store: [^\n]+\n$/);
    assert.ok(stderr.includes(says), stderr);
  }
});

for (const [says, program] of [
  ["lacks its second file", undefined],
  ["lacks a later file", 'import "./lost.mjs";'],
  ["lacks a file whose name controls a terminal", 'import "./\\u009b31m\\u007f.mjs";'],
  ["was copied in part", "function half() {"],
] as const) {
  test(`a program that ${says} ends in one line, with status 2`, async (t) => {
    const folder = makeFolder(t);
    const first = readText("src/cli/main.ts").replace("program.ts", "program.mjs");
    writeFileSync(join(folder, "main.mjs"), transformSync(first, { loader: "ts" }).code);
    if (program !== undefined) writeFileSync(join(folder, "program.mjs"), program);
    const end = await runToEnd([process.execPath, join(folder, "main.mjs")]);
    assert.deepEqual([end.status, end.stdout], [2, ""]);
    assert.match(end.stderr, /^plant-store: \P{C}+\n$/u);
  });
}

test("a program that lacks the file of a command ends in one line, with status 2, and runs others", async (t) => {
  const { outfile: _, ...options } = bundleOptions();
  const folder = makeFolder(t);
  buildSync({ ...options, outdir: folder, splitting: true, outExtension: { ".js": ".mjs" } });
  const lost = readdirSync(folder).filter((name) => /^serve-\w+\.mjs$/.test(name));
  assert.equal(lost.length, 1);
  rmSync(join(folder, `${lost}`));
  const main = join(folder, "main.mjs");
  const end = await runToEnd([process.execPath, main, "serve"]);
  assert.deepEqual([end.status, end.stdout], [2, ""]);
  assert.match(end.stderr, /^plant-store: \P{C}*\bserve-\P{C}+\n$/u);
  assert.equal((await runToEnd([process.execPath, main, "token", "--help"])).status, 0);
});

test("the first file imports nothing before it has judged, and is written in the syntax of Node 14", () => {
  const print = (target: string) => transformSync(FIRST, { loader: "ts", target }).code;
  assert.equal(print("node14"), print("esnext"), "the compiler had to replace newer syntax");
  assert.doesNotMatch(FIRST, /^(import|export)\b/m);
});

test("the lock file and package.json name the same versions of Node.js", () => {
  assert.deepEqual(JSON.parse(readText("package-lock.json")).packages[""].engines, engines);
});
