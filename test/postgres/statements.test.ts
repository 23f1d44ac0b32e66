import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

const ROOM = new URL("../../src/postgres/", import.meta.url);

/** What a schema of the search path could change, in SQL whose strings were removed. */
const UNQUALIFIED: Readonly<Record<string, RegExp>> = {
  operator: /(?<!\bSET \w+|\(pg_catalog\.|\bSELECT)\s(?!=>)(?:[-+*/<>=~!@#%^&|]+)\s/,
  "operator of a keyword":
    /\bIN \(|\b(?:BETWEEN|LIKE|ILIKE|SIMILAR|NULLIF)\b|\bDISTINCT FROM\b|\bCASE (?!WHEN\b)/,
  function: /(?<![.\w])(?!(?:coalesce|greatest|least|unnest)\()[a-z]\w*\(/,
  type: /::(?!bigint\b|integer\b|pg_catalog\.)/,
  table: /\b(?:FROM|JOIN|INTO|UPDATE) (?!SET\b|s\b|v\b|ONLY\b)[a-z]\w*(?![.\w(])/,
};

/** Comments, regular expressions, and texts without what is inserted in them. */
const TOKENS =
  /\/\*[\s\S]*?\*\/|\/\/.*|(?<=[(,=:]\s*)\/(?:[^\\/[\n]|\\.|\[(?:[^\\\]]|\\.)*\])+\/[a-z]*|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\$]|\\.|\$(?!\{)|\$\{(?:[^{}`]|`[^`]*`|\{[^{}]*\})*\})*`/g;

/** The SQL of a source file, with `$` in the place of what is inserted. */
function findStatements(name: string): string[] {
  const tokens = readFileSync(new URL(name, ROOM), "utf8").match(TOKENS) ?? [];
  return tokens
    .filter((token) => /^["`]/.test(token))
    .flatMap((token) => [token, ...(token.slice(1, -1).match(/`[^`]*`/g) ?? [])])
    .map((token) => token.replaceAll(/\$\{(?:[^{}`]|`[^`]*`|\{[^{}]*\})*\}/g, "$"))
    .filter((text) => /\b(?:SELECT|INSERT INTO|UPDATE|EXISTS|FROM)\b|pg_catalog/.test(text));
}

/** Which rule SQL breaks. */
function judge(text: string): string[] {
  const sql = text.replaceAll(/'[^']*'|--.*/g, "'…'");
  return Object.keys(UNQUALIFIED).filter((what) => UNQUALIFIED[what]?.test(sql));
}

test("every statement of the room names the schemas of its functions, operators, types and tables", () => {
  // A script begins with a comment, and sets its search path.
  const statements = readdirSync(ROOM)
    .flatMap(findStatements)
    .filter((text) => !text.startsWith("`-- "));
  assert.ok(statements.length > 20);
  const broken = statements
    .map((text) => [judge(text), text] as const)
    .filter(([rules]) => rules.length > 0);
  assert.deepEqual(broken, []);
});

test("a statement that depends on the search path is found", () => {
  for (const [text, what] of [
    ["SELECT id FROM plant_store.plants WHERE id = $1", "operator"],
    ["SELECT id FROM plant_store.plants WHERE id IN ($1)", "operator of a keyword"],
    ["SELECT a.state IS DISTINCT FROM 'active'", "operator of a keyword"],
    ["SELECT CASE a WHEN 1 THEN 2 END", "operator of a keyword"],
    ["SELECT now()", "function"],
    ["SELECT 'plants'::regclass", "type"],
    ["SELECT id FROM plants", "table"],
  ] as const) {
    assert.deepEqual(judge(text), [what], text);
  }
});
