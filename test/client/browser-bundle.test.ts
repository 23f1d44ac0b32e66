/** The client as a bundler and a compiler for browsers see it: nothing of Node.js is in it. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { buildSync } from "esbuild";
import { makeFolder } from "../support/folders.ts";
import { ROOT } from "../support/package.ts";
import { runToEnd } from "../support/run.ts";

const CLIENT = path.join(ROOT, "src/client.ts");

test("the client is bundled for browsers, from seven files and no module of Node.js", () => {
  const { metafile, outputFiles } = buildSync({
    entryPoints: [CLIENT],
    bundle: true,
    format: "esm",
    platform: "browser",
    write: false,
    metafile: true,
    minify: true,
    absWorkingDir: ROOT,
    logLevel: "warning",
  });
  const core = ["errors", "json", "options", "plant-matcher", "plant", "text"].map(
    (name) => `src/core/${name}.ts`,
  );
  assert.deepEqual(Object.keys(metafile.inputs).sort(), ["src/client.ts", ...core]);
  const [{ text = "" } = {}] = outputFiles;
  assert.doesNotMatch(text, /\b(?:Buffer|process|require|setImmediate)\b/);
  assert.ok(text.length < 12_000, `${text.length} bytes`);
});

/** Compiles a program that uses the client, with the types of browsers only. */
async function compile(t: TestContext, statement: string) {
  const folder = makeFolder(t);
  const program = path.join(folder, "program.ts");
  const imports = 'import { PlantClient, PlantStoreError } from "plant-store/client";';
  writeFileSync(program, `${imports}\n${statement}\n`);
  const compilerOptions = {
    lib: ["es2023", "dom"],
    types: [],
    module: "esnext",
    moduleResolution: "bundler",
    paths: { "plant-store/client": [CLIENT] },
    noUnusedLocals: false,
  };
  const config = path.join(folder, "tsconfig.json");
  const text = { extends: path.join(ROOT, "tsconfig.json"), compilerOptions, include: [] };
  writeFileSync(config, JSON.stringify({ ...text, files: [program] }));
  const compiler = path.join(ROOT, "node_modules/typescript/bin/tsc");
  return runToEnd([process.execPath, compiler, "-p", config]);
}

test("the client and a page that uses it compile with the types of browsers alone", async (t) => {
  const { status, stdout } = await compile(
    t,
    `const client = new PlantClient(location.origin, { token: "t", deadlineMs: 5000, fetch });
     const stop: AbortController = new AbortController();
     try {
       const { name, tag } = await client.create({ id: 7n, name: "Fern" }, { signal: stop.signal });
       document.title = name + (tag ?? "") + (await client.get(7n))?.id;
       for await (const { id } of client.list({ after: 7n })) document.title = id.toString();
     } catch (error) {
       if (error instanceof PlantStoreError) document.title = error.code + error.number;
     }
     export {};`,
  );
  assert.equal(status, 0, stdout);
});

test("a page that uses something of Node.js does not compile so", async (t) => {
  const { status, stdout } = await compile(t, "export const bytes = Buffer.from([]);");
  assert.notEqual(status, 0);
  assert.match(stdout, /Buffer/);
});
