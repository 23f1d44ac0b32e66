/** Programs that use every part of the package, compiled against its declarations as npm packs them. */
import assert from "node:assert/strict";
import { appendFileSync, cpSync, writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { installLibrary, linkPackages, ROOT } from "../support/package.ts";
import { runToEnd } from "../support/run.ts";

const ALL = ["consumer.ts", "client.ts", "testing.ts"];
const ROWS: readonly [as: string, options: object, files: readonly string[]][] = [
  ["nodenext", { module: "nodenext" }, ALL],
  ["bundler", { module: "esnext", moduleResolution: "bundler" }, ALL],
  [
    "a page",
    { module: "esnext", moduleResolution: "bundler", lib: ["es2023", "dom"], types: [] },
    ["client.ts"],
  ],
];

for (const [as, options, files] of ROWS) {
  test(`as ${as} a consumer is compiled, libraries checked, unless it has a mistake`, async (t) => {
    const folder = await installLibrary(t);
    if (files === ALL) linkPackages(folder, ROOT, ["@types/node"]);
    cpSync(path.join(ROOT, "test/package/consumer"), folder, { recursive: true });
    writeFileSync(path.join(folder, "package.json"), '{ "private": true, "type": "module" }\n');
    const compilerOptions = {
      target: "es2022",
      strict: true,
      exactOptionalPropertyTypes: true,
      noUncheckedIndexedAccess: true,
      verbatimModuleSyntax: true,
      skipLibCheck: false,
      noEmit: true,
      ...options,
    };
    writeFileSync(path.join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files }));
    const compiler = path.join(ROOT, "node_modules/typescript/bin/tsc");
    const compile = () => runToEnd([process.execPath, compiler, "-p", "."], { cwd: folder });
    const { status, stdout } = await compile();
    assert.equal(status, 0, stdout);
    appendFileSync(path.join(folder, "client.ts"), "export const wrong: store.Plant = 7;\n");
    assert.match((await compile()).stdout, /TS2322/);
  });
}
