/** The TypeScript examples of the documentation, compiled as strictly as the library itself. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { EXAMPLES } from "../support/docs.ts";
import { makeFolder } from "../support/folders.ts";
import { ROOT } from "../support/package.ts";
import { runToEnd } from "../support/run.ts";

test("every example in TypeScript compiles, and one with a mistake does not", async (t) => {
  const folder = makeFolder(t);
  assert.ok(EXAMPLES.length > 5, "they are found");
  const sources = { "plant-store": "index", "plant-store/postgres": "postgres/index" };
  const paths = Object.entries({ ...sources, "plant-store/*": "*" }).map(([name, file]) => {
    return [name, [path.join(ROOT, `src/${file}.ts`)]];
  });
  const typeRoots = [path.join(ROOT, "node_modules/@types")];
  const compilerOptions = { paths: Object.fromEntries(paths), typeRoots, skipLibCheck: true };
  const base = { extends: path.join(ROOT, "tsconfig.json"), include: ["*.ts"] };
  const files: [file: string, text: string][] = [
    ...EXAMPLES,
    ["mistake.ts", 'import { PlantStore } from "plant-store";\nawait PlantStore.open(7);\n'],
    ["pg.d.ts", 'declare module "pg" { const value: any; export default value; }\n'], // it has no types
    ["package.json", '{ "type": "module" }\n'],
    ["tsconfig.json", JSON.stringify({ ...base, compilerOptions })],
  ];
  for (const [file, text] of files) writeFileSync(path.join(folder, file), text);
  const compiler = path.join(ROOT, "node_modules/typescript/bin/tsc");
  const { stdout } = await runToEnd([process.execPath, compiler], { cwd: folder });
  assert.deepEqual(stdout.match(/^\S.* TS\d+/gm), ["mistake.ts(2,23): error TS2345"], stdout);
});
