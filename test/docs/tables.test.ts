/** Compares the documentation with the code: each table has everything once, and each name is that of something. */
import assert from "node:assert/strict";
import { existsSync, readdirSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { STATES } from "../../src/admin/status.ts";
import { ERRORS } from "../../src/core/errors.ts";
import { namesIn, PAGES, readPage } from "../support/docs.ts";
import { ROOT } from "../support/package.ts";
import { renew, TABLES } from "./generate.ts";

const CLIENT = "docs/client.md";
const EMBEDDING = "docs/embedding.md";
const OPERATING = "docs/operating.md";
const DASHBOARD = "docs/deploy/grafana-dashboard.json";
const RULES = "docs/deploy/prometheus-rules.yml";

function filesIn(folder: string): string[] {
  return readdirSync(path.join(ROOT, folder), { recursive: true, encoding: "utf8" });
}

/** What the groups of a pattern match in a file, or in each of a folder. */
function find(where: string, pattern: RegExp): string[] {
  const files = where.includes(".") ? [where] : filesIn(where).map((file) => `${where}/${file}`);
  const matches = files.flatMap((file) => [...readPage(file).matchAll(pattern)]);
  return [...new Set(matches.map(([, ...groups]) => groups.join(" ")))];
}

/** The members of a union of texts in `core/errors`. */
function unionOf(type: string): string[] {
  return find("src/core/errors.ts", new RegExp(`(?<=export type ${type} =[^;]*\\| ")(\\w+)`, "g"));
}

/** The names that an entry point of the package exports. */
function exportsOf(file: string): string[] {
  const lists = find(file, /^export (?:type )?\{([^}]*)\}/gm).flatMap((list) => list.split(","));
  const listed = lists.flatMap((name) => name.replace(/^\s*type /, "").trim() || []);
  return [...listed, ...find(file, /^export (?:class|interface|(?:async )?function) (\w+)/gm)];
}

/** The folders of a folder that have source files. */
function foldersOf(folder: string): string[] {
  const names = filesIn(folder).map((file) => /^(\w+)\/[\w.-]+\.ts$/.exec(file)?.[1] ?? []);
  return [...new Set(names.flat())];
}

const rooms = foldersOf("src");
const folders = foldersOf("test").filter((name) => ![...rooms, "client"].includes(name));
const named = find("docs/architecture.md", new RegExp(`\`((?:${rooms.join("|")})/[a-z-]+)\``, "g"));
const existing = named.filter((file) => existsSync(path.join(ROOT, `src/${file}.ts`)));
const reports = find("src/cli", /(?:level: |report\()"(\w+)",\s*(?:event: )?"([a-z-]+)"/g);
// The lines of requests have a code path of their own.
const events = ["info request", ...reports].map((pair) => pair.split(" ").reverse().join(" "));
const statuses = find("src/cli/command.ts", /(?<=^Exit status: .*)(\d)/gm);
const paths = find("src/admin/server.ts", /^ +case "(.*)":$/gm);
const channels = find("src/core/channels.ts", /^ {2}"(plant-store:\w+)": (\w+);$/gm);
const database = exportsOf("src/postgres/index.ts");
const numbers = Object.values(ERRORS).filter((error) => error % 100 !== 0); // 00: of proxies

const metrics = namesIn(OPERATING, "metric");
const asked = [DASHBOARD, RULES].flatMap((file) => find(file, /\b((?:plant_store|process)_\w+)/g));
const series = asked.map((name) => name.replace(/_(bucket|sum|count)$/, ""));
const flags = find("docs/command-line.md", /^\| `--([a-z-]+)/gm);
const variables = flags.map((flag) => `PLANT_STORE_${flag.replaceAll("-", "_").toUpperCase()}`);
const set = ["docs/deploy", "docs/deploy.md"].flatMap((where) =>
  find(where, /^[^#\n]*?(PLANT_STORE_\w+)/gm),
);
const { scripts } = JSON.parse(readPage("package.json"));
const run = PAGES.flatMap((page) => find(page, /npm run ([\w:-]+)/g));

const LISTS: readonly [what: string, documented: string[], known: readonly string[]][] = [
  ["code of data", namesIn(EMBEDDING, "code"), unionOf("DataErrorCode")],
  ["code of the client", namesIn(CLIENT, "client code"), unionOf("ErrorCode")],
  ["event with its level", namesIn(OPERATING, "event", "level"), events],
  ["exit status", namesIn(OPERATING, "status"), statuses],
  ["state", namesIn(OPERATING, "state"), STATES],
  ["path of the admin listener", namesIn(OPERATING, "path"), paths],
  ["channel and type of message", namesIn(EMBEDDING, "channel", "message"), channels],
  ["export of the client", namesIn(CLIENT, "client export"), exportsOf("src/client.ts")],
  ["export of the database", namesIn("docs/database.md", "database export"), database],
  ["folder of tests besides those of src", namesIn("CONTRIBUTING.md", "folder"), folders],
  ["source file that the architecture names", named, existing],
  ["error number", namesIn("docs/api.md", "error"), numbers.map(String)],
  ["alert", namesIn(OPERATING, "alert"), find(RULES, /- alert: (\w+)/g)],
  ["metric of alerts and the dashboard", series, series.filter((name) => metrics.includes(name))],
  ["variable of a deployment", set, set.filter((name) => variables.includes(name))],
  ["npm script that a page names", run, run.filter((name) => name in scripts)],
];

for (const [what, documented, known] of LISTS) {
  test(`the docs have every ${what}, and no other`, () => {
    assert.ok(documented.length > 0, "they are found");
    assert.deepEqual(documented.toSorted(), known.toSorted());
  });
}

for (const table of TABLES) {
  test(`npm run docs changes nothing in ${table.page}, ${table.columns[0]}`, async () => {
    assert.equal(readPage(table.page), await renew(table));
  });
}
