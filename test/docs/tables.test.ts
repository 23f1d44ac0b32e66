/** Compares the tables of the documentation with the code: each has everything once, and nothing else. */
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { STATES } from "../../src/admin/status.ts";
import { runCli } from "../support/cli.ts";
import { readPage, rowsOf, wordsIn } from "../support/docs.ts";
import { ROOT } from "../support/package.ts";
import { renew, TABLES } from "./generate.ts";

const OPERATING = "docs/operating.md";
const EMBEDDING = "docs/embedding.md";
const CLIENT = "docs/client.md";

function readSource(file: string): string {
  return readFileSync(path.join(ROOT, "src", file), "utf8");
}

/** The words in a column of a table, sorted. The table is that whose first column has this name. */
function wordsOf(page: string, table: string, column = table): string[] {
  return rowsOf(page, table)
    .flatMap((row) => wordsIn(row[column]))
    .sort();
}

for (const table of TABLES) {
  test(`npm run docs changes nothing in ${table.page}, ${table.columns[0]}`, async () => {
    assert.equal(readPage(table.page), await renew(table));
  });
}

/** The members of a union of texts in `core/errors`. */
function unionOf(type: string): string[] {
  const pattern = new RegExp(`export type ${type} =([\\s\\S]*?);`);
  const [, union = ""] = pattern.exec(readSource("core/errors.ts")) ?? [];
  return Array.from(union.matchAll(/\| "(\w+)"/g), ([, code = ""]) => code).sort();
}

test("the tables of codes that never reach a client have each of them", () => {
  assert.deepEqual(wordsOf(EMBEDDING, "code"), unionOf("DataErrorCode"));
  assert.deepEqual(wordsOf(CLIENT, "client code"), unionOf("ErrorCode"));
});

test("the table of log events has every event with its level, and no other", () => {
  const text = readdirSync(path.join(ROOT, "src/cli"))
    .map((file) => readSource(`cli/${file}`))
    .join("\n");
  const notices = text.matchAll(/(?:level: |report\()"(\w+)",\s*(?:event: )?"([a-z-]+)"/g);
  const events = new Map(Array.from(notices, ([, level = "", event = ""]) => [event, level]));
  events.set("request", "info"); // its lines have a code path of their own
  const documented = rowsOf(OPERATING, "event").map(({ event = "", level }) => [
    wordsIn(event)[0],
    level,
  ]);
  assert.deepEqual(documented.sort(), [...events].sort());
});

test("the tables of operation have every exit status, state and path of the admin listener", async () => {
  const { stdout } = await runCli(["--help"]);
  const [, meant = ""] = /^Exit status: (.*)$/m.exec(stdout) ?? [];
  const statuses = rowsOf(OPERATING, "status").map(({ status }) => Number(status));
  assert.deepEqual(statuses, Array.from(meant.matchAll(/\d/g), Number));
  assert.deepEqual(wordsOf(OPERATING, "state"), [...STATES].sort());
  const paths = readSource("admin/server.ts").matchAll(/^ +case "(.*)":$/gm);
  assert.deepEqual(wordsOf(OPERATING, "path"), Array.from(paths, ([, path]) => path).sort());
});

/** The names that an entry point of the package exports. */
function exportedNames(file: string): string[] {
  const text = readSource(file);
  const lists = text.matchAll(/^export (?:type )?\{([^}]*)\}/gm);
  const declared = text.matchAll(/^export (?:class|interface|(?:async )?function) (\w+)/gm);
  const names = [...lists, ...declared].flatMap(([, list = ""]) => list.split(","));
  return names.flatMap((name) => name.replace(/^\s*type /, "").trim() || []).sort();
}

for (const [file, page, table] of [
  ["client.ts", CLIENT, "client export"],
  ["postgres/index.ts", "docs/database.md", "database export"],
] as const) {
  test(`${page} has every export of ${file}, once`, () => {
    const words = wordsOf(page, table);
    assert.deepEqual(words.map((word) => word.split("(")[0]).sort(), exportedNames(file));
  });
}

test("the table of channels has every channel with the type of its message", () => {
  const text = readSource("core/channels.ts");
  const channels = Array.from(text.matchAll(/channel\("(plant-store:\w+)"\)/g), ([, name]) => name);
  const rows = rowsOf(EMBEDDING, "channel");
  assert.deepEqual(wordsOf(EMBEDDING, "channel"), channels.sort());
  for (const { channel = "", message = "" } of rows) {
    const [name = ""] = wordsIn(channel);
    assert.match(text, new RegExp(`On \`${name}\`[\\s\\S]*?interface ${wordsIn(message)[0]}\\b`));
  }
});

test("every source file that the architecture names exists", () => {
  const rooms = readdirSync(path.join(ROOT, "src")).filter((name) => !name.endsWith(".ts"));
  const pattern = new RegExp(`\`((?:${rooms.join("|")})/[a-z-]+)\``, "g");
  const text = readPage("docs/architecture.md");
  const named = Array.from(text.matchAll(pattern), ([, file]) => `src/${file}.ts`);
  assert.ok(named.length > 10, "they are found");
  assert.deepEqual(
    named.filter((file) => !existsSync(path.join(ROOT, file))),
    [],
  );
});

test("CONTRIBUTING says what each folder of tests shows that mirrors none of src", () => {
  const folders = (of: string) => {
    const files = readdirSync(path.join(ROOT, of), { recursive: true, encoding: "utf8" });
    const names = files.map((file) => /^(\w+)\/[\w.-]+\.ts$/.exec(file)?.[1] ?? []);
    return [...new Set(names.flat())];
  };
  const rooms = [...folders("src"), "client"]; // the client is a file
  const others = folders("test").filter((name) => !rooms.includes(name));
  assert.deepEqual(wordsOf("CONTRIBUTING.md", "folder"), others.sort());
});
