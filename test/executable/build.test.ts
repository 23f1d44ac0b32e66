import assert from "node:assert/strict";
import { test } from "node:test";
import { packagesOf } from "./build.ts";

test("the package of each file is found, also in another package and above the working directory", () => {
  const packages = packagesOf([
    "src/cli/main.ts",
    "node_modules/pg/lib/index.js",
    "node_modules/pg/lib/client.js",
    "node_modules/pg/node_modules/split2/index.js",
    "node_modules/@scope/name/node_modules/@other/name/a/b.js",
    "../node_modules/xtend/mutable.js",
    "src/no_node_modules/a.js",
  ]);
  assert.deepEqual(packages, [
    "../node_modules/xtend",
    "node_modules/@scope/name/node_modules/@other/name",
    "node_modules/pg",
    "node_modules/pg/node_modules/split2",
  ]);
});
