/**
 * Makes the table of options in docs/command-line.md from the help of the program.
 *
 *   npm run docs    writes it into the page; a test compares both
 */
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { runCli } from "../support/cli.ts";
import { ROOT } from "../support/package.ts";

const PAGE = path.join(ROOT, "docs/command-line.md");
const HEAD = "| option | commands | default | what it does |\n|---|---|---|---|\n";
const TABLE = new RegExp(`${HEAD.replaceAll("|", "\\|")}(\\|.*\\n)*`);

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

export async function makeOptionsTable(): Promise<string> {
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
  const lines = Array.from(rows, ([option, { commands, defaults, help }]) => {
    const values = Array.from(defaults, ([value, having]) => {
      const owners = having.length === commands.length ? "" : ` (${shorten(having, names)})`;
      return `\`${value}\`${owners}`;
    });
    const cells = [`\`${option}\``, shorten(commands, names), values.join(", "), help];
    return `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |\n`;
  });
  return HEAD + lines.join("");
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

export function readOptionsTable(): string {
  return TABLE.exec(readFileSync(PAGE, "utf8"))?.[0] ?? "";
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const table = await makeOptionsTable();
  writeFileSync(
    PAGE,
    readFileSync(PAGE, "utf8").replace(TABLE, () => table),
  );
}
