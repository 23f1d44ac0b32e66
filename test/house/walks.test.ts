import assert from "node:assert/strict";
import { test } from "node:test";
import { countWalks, filesOf, type Walk } from "./walks.ts";

/**
 * The most functions and files on each walk: what they are today, so that none grows unseen. Later versions
 * of Node call one more function than Node 20.
 */
const MOST: Readonly<Record<Walk, { readonly functions: number; readonly files: number }>> = {
  create: { functions: 104, files: 22 },
  read: { functions: 73, files: 19 },
  revocation: { functions: 72, files: 16 },
};

test("a request walks through no more functions and files than before", async (t) => {
  const [walks, again] = await countWalks(2);
  assert.ok(walks !== undefined);
  assert.deepEqual(walks, again, "the count is the same each time");
  for (const walk of ["create", "read", "revocation"] as const) {
    const functions = walks[walk].length;
    const files = filesOf(walks[walk]).length;
    t.diagnostic(`${walk}: ${functions} functions in ${files} files`);
    assert.ok(functions <= MOST[walk].functions, `${walk}: ${functions} functions`);
    assert.ok(files <= MOST[walk].files, `${walk}: ${files} files`);
  }
});
