/** A clone of the repository, as its users install it without the tools of its developers. */
import assert from "node:assert/strict";
import { copyFileSync, existsSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { makeFolder } from "../support/folders.ts";
import { makeRepository, ROOT } from "../support/package.ts";
import { runToEnd } from "../support/run.ts";

/** Uses npm's cache if possible, which `npm ci` has filled. */
const QUIET = ["--prefer-offline", "--no-audit", "--no-fund"];

test("npm ci --omit=dev in a clone succeeds without a build", async (t) => {
  const clone = await makeRepository(t);
  const { status, stderr } = await runToEnd(["npm", "ci", "--omit=dev", ...QUIET], { cwd: clone });
  assert.equal(status, 0, stderr);
  assert.equal(existsSync(path.join(clone, "dist")), false);
});

test("npm ci --omit=dev works with the manifests alone, as in the first layer of a Dockerfile", async (t) => {
  const folder = makeFolder(t);
  for (const name of ["package.json", "package-lock.json", ".npmrc"]) {
    copyFileSync(path.join(ROOT, name), path.join(folder, name));
  }
  const { status, stderr } = await runToEnd(["npm", "ci", "--omit=dev"], { cwd: folder });
  assert.equal(status, 0, stderr);
});
