import assert from "node:assert/strict";
import { test } from "node:test";
import { suggest } from "../../src/cli/suggest.ts";

const NAMES = ["serve", "token create", "token list", "token revoke", "get", "list"];

/** A third of a name's letters may differ: 1 of "get", 2 of "list" and "serve", 4 of "token create". */
const TYPED: readonly [typed: string, nearest: string | undefined][] = [
  ["serve", "serve"],
  ["serv", "serve"],
  ["sserve", "serve"],
  ["sevre", "serve"],
  ["SErve", "serve"],
  ["SERve", undefined],
  ["get", "get"],
  ["gt", "get"],
  ["gets", "get"],
  ["gte", undefined],
  ["lsit", "list"],
  ["lst", "list"],
  ["liiist", "list"],
  ["liiiist", undefined],
  ["tokn create", "token create"],
  ["tokencreate", "token create"],
  ["token crXXXX", "token create"],
  ["token cXXXXX", undefined],
  ["token lost", "token list"],
  ["token remove", "token revoke"],
  ["", undefined],
  ["help me", undefined],
];

for (const [typed, nearest] of TYPED) {
  test(`suggest() answers "${typed}" with ${nearest ?? "nothing"}`, () => {
    assert.equal(suggest(typed, NAMES), nearest);
  });
}

test("suggest() takes the nearest name, wherever it stands, and the first of equals", () => {
  assert.equal(suggest("--json", ["--data", "--jsol", "--json"]), "--json");
  assert.equal(suggest("bat", ["cat", "rat"]), "cat");
});

test("suggest() has nothing to say without names", () => {
  assert.equal(suggest("serve", []), undefined);
});

test("suggest() knows no name of more than 64 letters", () => {
  const name = "n".repeat(64);
  assert.equal(suggest(`${name.slice(1)}x`, [name]), name);
  assert.equal(suggest(`${name}x`, [name]), undefined);
});
