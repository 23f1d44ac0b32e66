/**
 * Makes the tables of options, errors and metrics from the program, and the comments in it.
 *
 *   npm run docs    writes them into their pages; a test compares both
 */
import { writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { encodeMetrics } from "../../src/admin/metrics.ts";
import { Recorder } from "../../src/admin/recorder.ts";
import { ERRORS, statusOf } from "../../src/core/errors.ts";
import { TestStatus } from "../support/admin.ts";
import { runCli } from "../support/cli.ts";
import { readPage } from "../support/docs.ts";
import { ROOT } from "../support/package.ts";

type Table = { page: string; columns: string[]; make: () => Promise<string[][]> };

const page = "docs/command-line.md";

export const TABLES: readonly Table[] = [
  { page, columns: ["command", "what it does"], make: makeCommands },
  { page, columns: ["option of serve", "what it does"], make: () => readOptions("serve") },
  { page: "docs/api.md", columns: ["error", "status", "code", "what happened"], make: makeErrors },
  { page: "docs/operating.md", columns: ["metric", "type", "meaning"], make: makeMetrics },
];

/** The page, with the rows of the table as the program has them. */
export async function renew({ page, columns, make }: Table): Promise<string> {
  const head = `| ${columns.join(" | ")} |\n|${"---|".repeat(columns.length)}\n`;
  const rows = (await make()).map((cells) => {
    return `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |\n`;
  });
  const [before = "", rest] = readPage(page).split(head);
  if (rest === undefined) throw new Error(`${page}: expected a table with the head ${head}`);
  return before + head + rows.join("") + rest.replace(/^(\|.*\n)*/, "");
}

/** The comment of a code says what happened. */
async function makeErrors(): Promise<string[][]> {
  const source = readPage("src/core/errors.ts");
  return Object.entries(ERRORS).map(([code, error]) => {
    const [comment = ""] =
      source.match(new RegExp(`(?<=^ {2}${code}: ${error}, // ).*`, "m")) ?? [];
    return [`${error}`, `${statusOf(error)}`, `\`${code}\``, comment];
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

/** Each command, with the options that only it has, and its summary. */
async function makeCommands(): Promise<string[][]> {
  const { stdout } = await runCli(["--help"]);
  const ofServe = (await readOptions("serve")).map(([option]) => option);
  const rows: string[][] = [];
  for (const [, usage = "", summary = ""] of stdout.matchAll(
    /^ {2}(?!plant-store)(\S.*?) {2,}(.*)$/gm,
  )) {
    const options = await readOptions(usage.replace(/ [[A-Z].*/, ""));
    const own = options.flatMap(([option = ""]) => (ofServe.includes(option) ? [] : ` ${option}`));
    rows.push([`\`${usage}\`${own.join()}`, summary]);
  }
  return rows;
}

/** The options of a command, as its help has them. */
async function readOptions(command: string): Promise<string[][]> {
  const { stdout } = await runCli([...command.split(" "), "--help"]);
  const options = stdout.matchAll(/^ {2}(--.*)\n {6}(.*?)(?: \[[A-Z_]+\])?$/gm);
  return Array.from(options, ([, option = "", text = ""]) => [`\`${option}\``, text]);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const table of TABLES) writeFileSync(path.join(ROOT, table.page), await renew(table));
}
