/** The module of WebAssembly that is kept in the repository, held against its text. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { ROOT, whyNotInstalled } from "../support/package.ts";
import { runToEnd } from "../support/run.ts";

test("the module that recognises encoded plants is made from its text", {
  skip: whyNotInstalled("test/package"),
}, async () => {
  const program = path.join(ROOT, "test/package/wasm.mjs");
  const { status, stdout, stderr } = await runToEnd([process.execPath, program, "--print"]);
  assert.equal(status, 0, stderr);
  const kept = readFileSync(path.join(ROOT, "src/core/encoded-plant-wasm.ts"), "utf8");
  assert.equal(stdout, kept);
});
