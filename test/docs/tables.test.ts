/** Compares the tables of the documentation with the code: each has everything once, and nothing else. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { STATES } from "../../src/admin/status.ts";
import { FAILURES } from "../../src/http/answer.ts";
import {
  LOCK_NAME,
  LOG_NAME,
  RESTORE_NAME,
  TOKEN_LOCK_NAME,
  TOKEN_LOG_NAME,
} from "../../src/log/folder.ts";
import { startAdmin } from "../support/admin.ts";
import { runCli } from "../support/cli.ts";
import { PAGES, type Row, readPage, rowsOf, tablesOf, wordsIn } from "../support/docs.ts";
import { ROOT } from "../support/package.ts";

const API = "docs/api.md";
const FILES = "docs/data-directory.md";
const COMMAND_LINE = "docs/command-line.md";
const OPERATING = "docs/operating.md";
const EMBEDDING = "docs/embedding.md";
const CLIENT = "docs/client.md";
const DATABASE = "docs/database.md";
const ARCHITECTURE = "docs/architecture.md";

function readSource(file: string): string {
  return readFileSync(path.join(ROOT, "src", file), "utf8");
}

/** The words in the cells of a column, sorted. */
function wordsOf(rows: readonly Row[], column: string): string[] {
  return rows.flatMap((row) => wordsIn(row[column])).sort();
}

test("the table of errors has every number, with its status and code", () => {
  const documented = rowsOf(API, "error").map(({ error, status, code = "" }) => {
    return [Number(error), Number(status), wordsIn(code)[0]];
  });
  const known = Object.entries(FAILURES).map(([code, { status, error }]) => [error, status, code]);
  const inOrder = known.sort(([a], [b]) => Number(a) - Number(b));
  assert.deepEqual(documented, inOrder);
});

test("no error number ends in 00, because proxies use those", () => {
  for (const { error } of Object.values(FAILURES)) assert.notEqual(error % 100, 0);
});

test("the table of codes that never reach a client has each of them", () => {
  const [, union = ""] =
    /export type DataErrorCode =([\s\S]*?);/.exec(readSource("core/errors.ts")) ?? [];
  const codes = Array.from(union.matchAll(/\| "(\w+)"/g), ([, code]) => code);
  assert.deepEqual(wordsOf(rowsOf(EMBEDDING, "code"), "code"), codes.sort());
});

interface Help {
  readonly name: string;
  readonly usage: string;
  /** The text below each flag. */
  readonly options: ReadonlyMap<string, string>;
}

/** Every command, as the program describes it. */
async function readHelp(): Promise<Help[]> {
  const { stdout } = await runCli(["--help"]);
  const usages = Array.from(
    stdout.matchAll(/^ {2}(?!plant-store)(\S.*?) {2,}/gm),
    ([, usage = ""]) => usage,
  );
  const commands: Help[] = [];
  for (const usage of usages) {
    const name = usage
      .split(" ")
      .filter((word) => /^[a-z-]+$/.test(word))
      .join(" ");
    const { status, stdout: help } = await runCli([...name.split(" "), "--help"]);
    assert.equal(status, 0, name);
    const options = new Map(
      Array.from(help.matchAll(/^ {2}(--\S+.*)\n {6}(.*)$/gm), ([, flag = "", text = ""]) => [
        flag,
        text,
      ]),
    );
    commands.push({ name, usage, options });
  }
  return commands;
}

const COMMANDS = await readHelp();

test("the table of commands has every command with its arguments", () => {
  const usages = COMMANDS.map(({ usage }) => usage);
  assert.deepEqual(wordsOf(rowsOf(COMMAND_LINE, "command"), "command"), usages.sort());
});

/** Options that are limits are in a table of their own, with what happens beyond them. */
const LIMITS = wordsOf(rowsOf(COMMAND_LINE, "limit"), "default").filter((word) => /^--/.test(word));
const OPTIONS = rowsOf(COMMAND_LINE, "option");

test("every option of every command is in one table, once", () => {
  const flags = COMMANDS.flatMap(({ options }) =>
    [...options.keys()].map((flag) => flag.split(" ")[0]),
  );
  const documented = [...LIMITS, ...OPTIONS.map(({ option = "" }) => flagOf(option))];
  assert.deepEqual(documented.sort(), [...new Set(flags)].sort());
});

function flagOf(cell: string): string {
  return wordsIn(cell)[0]?.split(" ")[0] ?? "";
}

test("every limit with an option is one of serve", () => {
  const serve = COMMANDS.find(({ name }) => name === "serve");
  const flags = [...(serve?.options.keys() ?? [])].map((flag) => flag.split(" ")[0]);
  assert.deepEqual(
    LIMITS.filter((flag) => !flags.includes(flag)),
    [],
  );
});

for (const { option = "", commands = "", default: byDefault = "" } of OPTIONS) {
  test(`the row of ${flagOf(option)} names its value, its commands and its default`, () => {
    const [written = ""] = wordsIn(option);
    const having = COMMANDS.filter(({ options }) => options.has(written));
    const named = wordsIn(commands);
    const isNamed = (name: string) =>
      named.some((word) => name === word || name.startsWith(`${word} `));
    const expected = commands.startsWith("all but")
      ? COMMANDS.filter(({ name }) => !isNamed(name))
      : COMMANDS.filter(({ name }) => isNamed(name));
    const namesOf = (list: readonly Help[]) => list.map(({ name }) => name).sort();
    assert.deepEqual(namesOf(having), namesOf(expected));
    const help = having[0]?.options.get(written) ?? "";
    const value = /; default (?:\S+ or )?(\S+) \[/.exec(help)?.[1];
    if (value !== undefined)
      assert.ok(byDefault.includes(`\`${value}\``), `${value}: ${byDefault}`);
  });
}

test("the table of log events has every event with its level, and no other", () => {
  const sources = readdirSync(path.join(ROOT, "src/cli"), { recursive: true, encoding: "utf8" });
  const text = sources
    .filter((file) => file.endsWith(".ts"))
    .map((file) => readSource(`cli/${file}`));
  const notices = text.join("\n").matchAll(/level: "(\w+)",\s*event: "([a-z-]+)"/g);
  const events = new Map(Array.from(notices, ([, level = "", event = ""]) => [event, level]));
  events.set("request", "info"); // its lines have a code path of their own
  const documented = rowsOf(OPERATING, "event").map(({ event = "", level }) => [
    wordsIn(event)[0],
    level,
  ]);
  assert.deepEqual(documented.sort(), [...events].sort());
});

test("the table of exit statuses has every status of the help", async () => {
  const statuses = rowsOf(OPERATING, "status").map(({ status }) => Number(status));
  const { stdout } = await runCli(["--help"]);
  const [, meant = ""] = /^Exit status: (.*)$/m.exec(stdout) ?? [];
  assert.deepEqual(statuses, Array.from(meant.matchAll(/\d/g), Number));
});

test("the table of states has every state of the server", () => {
  assert.deepEqual(wordsOf(rowsOf(OPERATING, "state"), "state"), [...STATES].sort());
});

test("the table of paths has every path of the admin listener, and no other", async (t) => {
  const documented = wordsOf(rowsOf(OPERATING, "path"), "path");
  const paths = readSource("admin/server.ts").matchAll(/^ +"(\/[a-z.]*)": /gm);
  assert.deepEqual(documented, Array.from(paths, ([, path]) => path).sort());
  const admin = await startAdmin(t);
  for (const path of documented) assert.notEqual((await admin.get(path)).status, 404, path);
});

test("the table of files has every name that the code makes, and no other", () => {
  const suffixes = ["log", "store"].flatMap((room) => {
    const text = readdirSync(path.join(ROOT, "src", room))
      .map((name) => readSource(`${room}/${name}`))
      .join("\n");
    return Array.from(
      text.matchAll(/\$\{[\w.]*[Pp]ath(?:\(\w+\))?\}(\.[a-z-]+)/g),
      ([, suffix = ""]) => suffix,
    );
  });
  const names = [
    LOG_NAME,
    LOCK_NAME,
    TOKEN_LOG_NAME,
    TOKEN_LOCK_NAME,
    RESTORE_NAME,
    ...new Set(suffixes),
  ];
  const documented = wordsOf(rowsOf(FILES, "file"), "file").map((word) => {
    return word.replace(/[.-]N$/, "").replace(/^(?:plants\.jsonl(?:\.checkpoint)?(?=\.)|…)/, "");
  });
  assert.deepEqual(documented.sort(), names.map((name) => name.replace(/-$/, "")).sort());
});

/** The names that an entry point of the package exports. */
function exportedNames(file: string): string[] {
  const text = readSource(file);
  const lists = text.matchAll(/^export (?:type )?\{([^}]*)\}/gm);
  const declared = text.matchAll(/^export (?:class|interface|function) (\w+)/gm);
  const names = [...lists, ...declared].map(([, list = ""]) => list.split(","));
  return names.flat().flatMap((name) => name.replace(/^\s*type /, "").trim() || []);
}

/** The names in the first column of the tables of exports. */
function documentedExports(page: string, column: string): string[] {
  return wordsOf(rowsOf(page, column), column).map((word) => word.split("(")[0] ?? "");
}

test("the tables of exports have every export of the library, once", () => {
  const documented = documentedExports(EMBEDDING, "export");
  assert.deepEqual(documented.sort(), exportedNames("index.ts").sort());
});

test("the tables of tools have every export of plant-store/tools, once", () => {
  const documented = ["tool", "type of a tool"].flatMap((column) => {
    return documentedExports(EMBEDDING, column);
  });
  assert.deepEqual(documented.sort(), exportedNames("tools.ts").sort());
});

test("the table of client exports has every export of plant-store/client, once", () => {
  const documented = documentedExports(CLIENT, "client export");
  assert.deepEqual(documented.sort(), exportedNames("client.ts").sort());
});

test("the table of test exports has every export of plant-store/testing, once", () => {
  const documented = documentedExports(EMBEDDING, "test export");
  assert.deepEqual(documented.sort(), exportedNames("testing.ts").sort());
});

test("the table of codes that only the client has is complete", () => {
  const all = /export type ErrorCode =([\s\S]*?);/.exec(readSource("core/errors.ts"))?.[1] ?? "";
  const codes = Array.from(all.matchAll(/\| "(\w+)"/g), ([, code]) => code);
  assert.deepEqual(wordsOf(rowsOf(CLIENT, "client code"), "client code"), codes.sort());
});

test("the table of database exports has every export of plant-store/postgres, once", () => {
  const documented = documentedExports(DATABASE, "database export");
  assert.deepEqual(documented.sort(), exportedNames("postgres/index.ts").sort());
});

test("the table of channels has every channel with the type of its message", () => {
  const text = readSource("core/channels.ts");
  const channels = Array.from(text.matchAll(/channel\("(plant-store:\w+)"\)/g), ([, name]) => name);
  const rows = rowsOf(EMBEDDING, "channel");
  assert.deepEqual(wordsOf(rows, "channel"), channels.sort());
  for (const { channel = "", message = "" } of rows) {
    const [name = ""] = wordsIn(channel);
    assert.match(text, new RegExp(`On \`${name}\`[\\s\\S]*?interface ${wordsIn(message)[0]}\\b`));
  }
});

const ROOMS = ["core", "log", "store", "auth", "postgres", "http", "admin", "cli"];

for (const room of ROOMS) {
  test(`the architecture has a line for every file of src/${room}, and no other`, () => {
    const files = readdirSync(path.join(ROOT, "src", room)).map((name) =>
      name.replace(/\.ts$/, ""),
    );
    const named = wordsOf(rowsOf(ARCHITECTURE, room), room);
    const toAdd = files.filter((file) => !named.includes(file));
    const toRemove = named.filter((file, at) => !files.includes(file) || named.indexOf(file) < at);
    const advice = [
      ...toAdd.map((file) => `add the line | \`${file}\` | … |`),
      ...toRemove.map((file) => `remove the line of \`${file}\``),
    ];
    assert.deepEqual(advice, [], `the table \`${room}\` of ${ARCHITECTURE}`);
  });
}

test("every file that the architecture names in its text exists", () => {
  const pattern = new RegExp(`\`((?:${ROOMS.join("|")})/[a-z-]+)\``, "g");
  const named = Array.from(readPage(ARCHITECTURE).matchAll(pattern), ([, file = ""]) => file);
  const missing = named.filter((file) => {
    const [room = "", name = ""] = file.split("/");
    return !readdirSync(path.join(ROOT, "src", room)).includes(`${name}.ts`);
  });
  assert.deepEqual(missing, []);
  assert.ok(named.length > 10, "they are found");
});

/** The page of each table, by the name of its first column. */
const TABLES: Readonly<Record<string, string>> = {
  error: API,
  ...{ command: COMMAND_LINE, option: COMMAND_LINE, limit: COMMAND_LINE },
  ...{ event: OPERATING, state: OPERATING, metric: OPERATING, "process metric": OPERATING },
  ...{ path: OPERATING, status: OPERATING, alert: OPERATING, file: FILES },
  "database export": DATABASE,
  ...{ "client export": CLIENT, "client code": CLIENT },
  ...{ code: EMBEDDING, export: EMBEDDING, channel: EMBEDDING, "test export": EMBEDDING },
  ...{ tool: EMBEDDING, "type of a tool": EMBEDDING },
  ...Object.fromEntries(ROOMS.map((room) => [room, ARCHITECTURE])),
};

for (const [column, page] of Object.entries(TABLES)) {
  test(`the table whose first column is "${column}" is on one page`, () => {
    const pages = PAGES.filter((each) => rowsOf(each, column).length > 0);
    assert.deepEqual(pages, [page]);
  });
}

test("no other table has a row for an error number, an option, a metric, a channel or an export", () => {
  const exported = ["index.ts", "tools.ts", "postgres/index.ts"].flatMap(exportedNames);
  const others = PAGES.flatMap((page) =>
    tablesOf(page).flatMap(({ columns: [column = ""], rows }) => {
      return column in TABLES ? [] : rows.map(([cell = ""]) => `${page}: ${cell}`);
    }),
  );
  const twice = others.filter((row) => {
    const names = wordsIn(row);
    const isNamed = /^(?:--[a-z-]+|plant_store_\w+|plant-store:\w+)$/;
    return (
      /: `?\d{5}\b/.test(row) || names.some((name) => isNamed.test(name) || exported.includes(name))
    );
  });
  assert.deepEqual(twice, []);
});
