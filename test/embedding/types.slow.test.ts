/** Programs that use every export of the package, compiled against its declarations as npm packs them. */
import assert from "node:assert/strict";
import { appendFileSync, cpSync, readdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { installLibrary, linkPackages, ROOT } from "../support/package.ts";
import { runToEnd } from "../support/run.ts";

const CONSUMER = path.join(ROOT, "test/embedding/consumer");

for (const moduleResolution of ["nodenext", "bundler"]) {
  test(`with ${moduleResolution} a consumer is compiled, libraries checked, unless it has a mistake`, async (t) => {
    const folder = await installLibrary(t);
    linkPackages(folder, ROOT, ["@types/node"]);
    cpSync(CONSUMER, folder, { recursive: true });
    writeFileSync(path.join(folder, "package.json"), '{ "private": true, "type": "module" }\n');
    const compilerOptions = {
      module: moduleResolution === "bundler" ? "esnext" : moduleResolution,
      moduleResolution,
      target: "es2022",
      strict: true,
      exactOptionalPropertyTypes: true,
      noUncheckedIndexedAccess: true,
      verbatimModuleSyntax: true,
      skipLibCheck: false,
      noEmit: true,
    };
    const files = readdirSync(CONSUMER);
    writeFileSync(path.join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files }));
    const compiler = path.join(ROOT, "node_modules/typescript/bin/tsc");
    const compile = () => runToEnd([process.execPath, compiler, "-p", "."], { cwd: folder });
    const { status, stdout } = await compile();
    assert.equal(status, 0, stdout);
    appendFileSync(path.join(folder, "testing.ts"), "export const wrong: TestToken = 7;\n");
    assert.match((await compile()).stdout, /TS2322/);
  });
}
