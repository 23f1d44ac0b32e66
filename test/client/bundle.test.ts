/** The client as a bundler for browsers sees it: nothing of Node.js is in it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { buildSync } from "esbuild";
import { ROOT } from "../support/package.ts";

test("the client is bundled for browsers, without a module of Node.js", () => {
  const { metafile, outputFiles } = buildSync({
    entryPoints: ["src/client.ts"],
    bundle: true,
    format: "esm",
    platform: "browser",
    write: false,
    metafile: true,
    minify: true,
    absWorkingDir: ROOT,
    logLevel: "warning",
  });
  const files = Object.keys(metafile.inputs);
  assert.ok(
    files.every((file) => /^src\/(client|core\/[\w-]+)\.ts$/.test(file)),
    files.join(),
  );
  const [{ text = "" } = {}] = outputFiles;
  assert.doesNotMatch(text, /\b(?:Buffer|process|require|setImmediate)\b/);
  assert.ok(text.length < 12_000, `${text.length} bytes`);
});
