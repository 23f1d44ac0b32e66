/** The TypeScript examples of the documentation, compiled against the declarations of the package as npm packs them. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { EXAMPLES } from "../support/docs.ts";
import { installLibrary, linkPackages, ROOT } from "../support/package.ts";
import { runToEnd } from "../support/run.ts";

const PAGE = `import { encodeNewPlant, PlantClient } from "plant-store/client";
const client = new PlantClient("/", { token: "t", fetch, deadlineMs: 5000 });
const name: string = (await client.create({ id: 7n, name: "Fern" })).name;
for await (const plant of client.list({ after: 7n })) console.log(name, encodeNewPlant(plant));
`;
const MISTAKE = `import type { Plant } from "plant-store/client";
export const wrong: Plant = 7;
`;
const BUNDLER = { module: "esnext", moduleResolution: "bundler" };
const NODE = { module: "nodenext", types: ["node"] };

const ROWS: readonly [as: string, options: object, programs: typeof EXAMPLES][] = [
  ["nodenext", NODE, EXAMPLES],
  ["bundler", { ...NODE, ...BUNDLER }, EXAMPLES],
  ["a page", { ...BUNDLER, lib: ["es2023", "dom"], types: [] }, [["page.ts", PAGE]]],
];

for (const [as, options, programs] of ROWS) {
  test(`as ${as} the examples are compiled, libraries checked, and a mistake is not`, async (t) => {
    const folder = await installLibrary(t);
    if (as !== "a page") linkPackages(folder, ROOT, ["@types/node"]);
    const strict = { strict: true, exactOptionalPropertyTypes: true, skipLibCheck: false };
    const compilerOptions = {
      target: "es2023",
      lib: ["es2023", "esnext.disposable"],
      noEmit: true,
    };
    const files: [file: string, text: string][] = [
      ...programs,
      ["mistake.ts", MISTAKE],
      ["pg.d.ts", 'declare module "pg" { const value: any; export default value; }\n'],
      ["package.json", '{ "private": true, "type": "module" }\n'],
      [
        "tsconfig.json",
        JSON.stringify({ compilerOptions: { ...compilerOptions, ...strict, ...options } }),
      ],
    ];
    for (const [file, text] of files) writeFileSync(path.join(folder, file), text);
    const compiler = path.join(ROOT, "node_modules/typescript/bin/tsc");
    const { stdout } = await runToEnd([process.execPath, compiler, "-p", "."], { cwd: folder });
    assert.deepEqual(stdout.match(/^\S.* TS\d+/gm), ["mistake.ts(2,14): error TS2322"], stdout);
  });
}
