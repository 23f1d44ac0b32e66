/** The TypeScript examples of the documentation, compiled as strictly as the library itself. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { blocksOf, PAGES } from "../support/docs.ts";
import { makeFolder } from "../support/folders.ts";
import { ROOT } from "../support/package.ts";
import { runToEnd } from "../support/run.ts";

/** An example without imports continues the one before it. */
function programsOf(page: string): [place: string, code: string][] {
  const programs: [place: string, code: string][] = [];
  for (const { place, language, code } of blocksOf(page)) {
    if (language !== "ts") continue;
    const before = /^import /m.test(code) ? "" : (programs.at(-1)?.[1] ?? "");
    programs.push([place, before + code]);
  }
  return programs;
}

const PROGRAMS = PAGES.flatMap(programsOf);

/** Compiles the programs, each as a module of its own, against the sources. */
async function compile(folder: string, programs: typeof PROGRAMS) {
  const files = programs.map(([, code], at) => {
    const file = path.join(folder, `example-${at}.ts`);
    writeFileSync(file, code);
    return file;
  });
  const shim = path.join(folder, "untyped.d.ts"); // a package without types of its own
  writeFileSync(shim, 'declare module "pg" { const value: any; export default value; }\n');
  const config = path.join(folder, "tsconfig.json");
  const compilerOptions = {
    paths: {
      "plant-store": [path.join(ROOT, "src/index.ts")],
      "plant-store/client": [path.join(ROOT, "src/client.ts")],
      "plant-store/testing": [path.join(ROOT, "src/testing.ts")],
      "plant-store/postgres": [path.join(ROOT, "src/postgres/index.ts")],
    },
    typeRoots: [path.join(ROOT, "node_modules/@types")],
    skipLibCheck: true,
  };
  const text = { extends: path.join(ROOT, "tsconfig.json"), compilerOptions, include: [] };
  writeFileSync(config, JSON.stringify({ ...text, files: [...files, shim] }));
  const compiler = path.join(ROOT, "node_modules/typescript/bin/tsc");
  writeFileSync(path.join(folder, "package.json"), '{ "type": "module" }\n');
  return runToEnd([process.execPath, compiler, "-p", config]);
}

test("every example in TypeScript compiles", async (t) => {
  const { status, stdout } = await compile(makeFolder(t), PROGRAMS);
  assert.equal(status, 0, `${stdout}\n${PROGRAMS.map(([place]) => place).join("\n")}`);
  assert.ok(PROGRAMS.length > 5, "they are found");
});

test("an example with a mistake does not compile", async (t) => {
  const code = 'import { PlantStore } from "plant-store";\nawait PlantStore.open(7);\n';
  const { status, stdout } = await compile(makeFolder(t), [["here", code]]);
  assert.notEqual(status, 0);
  assert.match(stdout, /TS2345/);
});
