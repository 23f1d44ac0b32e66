/** TypeScript programs that use the library, compiled with settings that their authors may have. */
import assert from "node:assert/strict";
import { cpSync, existsSync, writeFileSync } from "node:fs";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { installLibrary, linkPackages, ROOT } from "../support/package.ts";
import { runToEnd } from "../support/run.ts";

const CONSUMER = path.join(ROOT, "test/embedding/consumer");

const SETTINGS: readonly [says: string, settings: object, files: string[]][] = [
  ["nodenext", { module: "nodenext" }, ["consumer.ts", "consumer.cts"]],
  ["node16", { module: "node16" }, ["consumer.ts", "dynamic.cts"]],
  ["node20", { module: "node20" }, ["consumer.ts", "consumer.cts", "dynamic.cts"]],
  ["bundler", { module: "esnext", moduleResolution: "bundler" }, ["consumer.ts"]],
  ["preserve", { module: "preserve" }, ["consumer.ts"]],
  [
    "an old library, es2020",
    { module: "nodenext", target: "es2020", lib: ["es2020"] },
    ["consumer.ts", "testing.ts"],
  ],
  [
    "a library that knows disposal",
    { module: "nodenext", lib: ["es2023", "esnext.disposable"] },
    ["consumer.ts", "dispose.ts"],
  ],
  [
    "a browser",
    { module: "esnext", moduleResolution: "bundler", lib: ["es2023", "dom"], types: [] },
    ["client.ts"],
  ],
  [
    "every check there is",
    {
      module: "nodenext",
      exactOptionalPropertyTypes: true,
      noUncheckedIndexedAccess: true,
      noPropertyAccessFromIndexSignature: true,
      isolatedModules: true,
      verbatimModuleSyntax: true,
    },
    ["consumer.ts", "client.ts", "testing.ts"],
  ],
];

/** A compiler that is installed in `home`. */
interface Compiler {
  readonly name: string;
  readonly home: string;
  /** Where types of Node are installed that it reads, if not in the root. */
  readonly typesHome?: string;
  /** The settings that it knows, if not all. */
  readonly knows?: readonly string[];
}

export function testCompiler(compiler: Compiler, skip: string | false = false): void {
  const { name, home, typesHome, knows } = compiler;
  for (const [says, settings, files] of SETTINGS) {
    if (knows?.includes(says) === false) continue;
    test(`${name} compiles a consumer with ${says}, libraries checked`, { skip }, async (t) => {
      const folder = await settle(t, settings, files, typesHome);
      const { status, stdout, stderr } = await compile(folder, home);
      assert.equal(status, 0, stdout + stderr);
      assert.ok(existsSync(path.join(folder, "out")), "nothing was written");
    });
  }
}

/** A program of these files, beside the installed library. */
export async function settle(
  t: TestContext,
  settings: object,
  files: readonly string[],
  typesHome = ROOT,
): Promise<string> {
  const folder = await installLibrary(t);
  linkPackages(folder, typesHome, ["@types/node"]);
  for (const file of files) cpSync(path.join(CONSUMER, file), path.join(folder, file));
  writeFileSync(path.join(folder, "package.json"), '{ "private": true, "type": "module" }\n');
  const compilerOptions = {
    target: "es2022",
    strict: true,
    skipLibCheck: false,
    outDir: "out",
    rootDir: ".",
    ...settings,
  };
  writeFileSync(path.join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files }));
  return folder;
}

export function compile(folder: string, home: string) {
  const compiler = path.join(home, "node_modules/typescript/bin/tsc");
  return runToEnd([process.execPath, compiler, "-p", "."], { cwd: folder });
}
