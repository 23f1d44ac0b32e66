/**
 * Makes the tables of options, errors and metrics from the program, and the comments in it.
 *
 *   npm run docs    writes them into their pages; a test compares both
 */
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { encodeMetrics } from "../../src/admin/metrics.ts";
import { Recorder } from "../../src/admin/recorder.ts";
import { statusOf } from "../../src/core/errors.ts";
import { TestStatus } from "../support/admin.ts";
import { runCli } from "../support/cli.ts";
import { ROOT } from "../support/package.ts";

interface Table {
  readonly page: string;
  readonly columns: readonly string[];
  readonly make: () => Promise<string[][]>;
}

export const TABLES: readonly Table[] = [
  {
    page: "docs/command-line.md",
    columns: ["option", "commands", "default", "what it does"],
    make: makeOptions,
  },
  { page: "docs/api.md", columns: ["error", "status", "code", "what happened"], make: makeErrors },
  { page: "docs/operating.md", columns: ["metric", "type", "meaning"], make: makeMetrics },
];

/** The page, with the rows of the table as the program has them. */
export async function renew({ page, columns, make }: Table): Promise<string> {
  const text = readFileSync(path.join(ROOT, page), "utf8");
  const head = `| ${columns.join(" | ")} |\n|${"---|".repeat(columns.length)}\n`;
  const rows = (await make()).map((cells) => {
    return `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |\n`;
  });
  const [before = "", rest] = text.split(head);
  if (rest === undefined) throw new Error(`${page}: expected a table with the head ${head}`);
  return before + head + rows.join("") + rest.replace(/^(\|.*\n)*/, "");
}

/** The comment of a code says what happened. */
async function makeErrors(): Promise<string[][]> {
  const source = readFileSync(path.join(ROOT, "src/core/errors.ts"), "utf8");
  const codes = source.matchAll(/^ {2}(\w+): (\d{5}), \/\/ (.*)$/gm);
  return Array.from(codes, ([, code = "", error = "", comment = ""]) => {
    return [error, `${statusOf(Number(error))}`, `\`${code}\``, comment];
  });
}

/** The help of a metric says what it means. */
async function makeMetrics(): Promise<string[][]> {
  const status = new TestStatus();
  status.now.database = { host: "db:5432", isSynchronous: true, leaseAgeMs: 250 };
  status.now.tokens = [{ name: "soon", scopes: [], expiresAt: 2e12 }];
  const recorder = new Recorder();
  const text = encodeMetrics(status, recorder);
  recorder.close();
  const metrics = text.matchAll(/^# HELP (\S+) (.*)\.\n# TYPE \S+ (\S+)\n[^{ ]+(?:\{(.*)\})? /gm);
  return Array.from(metrics, ([, name = "", help = "", type = "", labels = ""]) => {
    const names = Array.from(labels.matchAll(/([a-z]+)="/g), ([, label = ""]) => label);
    const shown = names.filter((label) => label !== "le").join();
    return [`\`${name}${shown && `{${shown}}`}\``, type, help];
  });
}

interface Row {
  readonly commands: string[];
  /** A default, and the commands that have it. */
  readonly defaults: Map<string, string[]>;
  readonly help: string;
}

/** The words of every command, such as `token create`. */
async function readCommands(): Promise<string[]> {
  const { stdout } = await runCli(["--help"]);
  const usages = stdout.matchAll(/^ {2}(?!plant-store)(\S.*?) {2,}/gm);
  return Array.from(usages, ([, usage = ""]) => usage.replace(/ [[A-Z].*/, ""));
}

async function makeOptions(): Promise<string[][]> {
  const names = await readCommands();
  const rows = new Map<string, Row>();
  for (const name of names) {
    const { stdout } = await runCli([...name.split(" "), "--help"]);
    for (const [, option = "", text = ""] of stdout.matchAll(/^ {2}(--.*)\n {6}(.*)$/gm)) {
      const [, help = "", byDefault] = /^(.*?)(?:; default (.*?))?(?: \[.*\])?$/.exec(text) ?? [];
      const row: Row = rows.get(option) ?? { commands: [], defaults: new Map(), help };
      row.commands.push(name);
      if (byDefault) row.defaults.set(byDefault, [...(row.defaults.get(byDefault) ?? []), name]);
      rows.set(option, row);
    }
  }
  return Array.from(rows, ([option, { commands, defaults, help }]) => {
    const values = Array.from(defaults, ([value, having]) => {
      const owners = having.length === commands.length ? "" : ` (${shorten(having, names)})`;
      return `\`${value}\`${owners}`;
    });
    return [`\`${option}\``, shorten(commands, names), values.join(", "), help];
  });
}

/** One word for all commands of a group, such as `token`. */
function shorten(commands: readonly string[], all: readonly string[]): string {
  const shown = commands.map((name) => {
    const [group = ""] = name.split(" ");
    const isWhole = all
      .filter((each) => each.startsWith(`${group} `))
      .every((each) => commands.includes(each));
    return `\`${isWhole ? group : name}\``;
  });
  return [...new Set(shown)].join(", ");
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const table of TABLES) writeFileSync(path.join(ROOT, table.page), await renew(table));
}
