import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { ROOT } from "../simulation/runner.ts";
import { breakSource, MUTANTS } from "./mutants.ts";

test("each mutant has a name of its own, and changes one place of the source", () => {
  assert.equal(new Set(MUTANTS.map(({ name }) => name)).size, MUTANTS.length);
  for (const mutant of MUTANTS) {
    assert.notEqual(mutant.old, mutant.new, mutant.name);
    breakSource(mutant);
  }
});

test("each mutant names test files that exist", () => {
  for (const { name, by } of MUTANTS.filter(({ way }) => way === "tests")) {
    for (const file of by) assert.ok(existsSync(join(ROOT, "test", `${file}.test.ts`)), name);
  }
});
