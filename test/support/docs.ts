/** The documentation as its readers get it: pages, headings, code blocks and tables, for tests that check them. */
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { ROOT } from "./package.ts";

/** A picture that only the repository has: it is a quarter of what the package has of pages. */
export const UNSHIPPED = "docs/status-page.png";

const FILES = readdirSync(path.join(ROOT, "docs"), { recursive: true, encoding: "utf8" })
  .filter((name) => /\.\w+$|file$/.test(name) && !/node_modules|-lock|npmrc|\.png$/.test(name))
  .map((name) => `docs/${name}`);
const isPage = (file: string) => file.endsWith(".md");

/** The pages that the package ships, by path from the root. */
export const SHIPPED = ["README.md", "CHANGELOG.md", "SECURITY.md", ...FILES.filter(isPage)];
/** The other files of the documentation, for an operator's tools. */
export const BESIDE = FILES.filter((file) => !isPage(file));
/** Every page of the repository. */
export const PAGES = [...SHIPPED, "CONTRIBUTING.md"];

export function readPage(page: string): string {
  return readFileSync(path.join(ROOT, page), "utf8");
}

const BLOCK = /^```(\w*)\n([\s\S]*?)^```$/gm;

/** The examples in TypeScript, by the names of their files; one without imports continues the one before it. */
export const EXAMPLES: [file: string, code: string][] = PAGES.flatMap((page) => {
  let before = "";
  const blocks = [...readPage(page).matchAll(BLOCK)].filter((block) => block[1] === "ts");
  return blocks.map(({ index, 2: code = "" }) => {
    before = /^import /m.test(code) ? code : before + code;
    return [`${page.replace(/\W/g, "-")}-${index}.ts`, before];
  });
});

/** The text of a page without its code blocks. */
export function proseOf(page: string): string {
  return readPage(page).replace(BLOCK, "");
}

/** The anchors that a code host gives to the headings of a page. */
export function anchorsOf(page: string): string[] {
  return Array.from(proseOf(page).matchAll(/^#+ (.*)$/gm), ([, text = ""]) => {
    const plain = text.toLowerCase().replace(/[^\p{L}\p{N}\p{Pc} -]/gu, "");
    return plain.replaceAll(" ", "-");
  });
}

/**
 * The texts of these cells, joined, in each row of the tables whose first column has the first name: without
 * backticks and arguments. A comma separates two texts.
 */
export function namesIn(page: string, ...columns: readonly [string, ...string[]]): string[] {
  const tables = proseOf(page).match(/^\|.*\|\n\|[-:| ]+\|\n(?:\|.*\|\n?)*/gm) ?? [];
  const rows = tables.flatMap((table) => {
    const [head = [], , ...lines] = table.trimEnd().split("\n").map(cellsOf);
    if (head[0] !== columns[0]) return [];
    return lines.map((line) => columns.map((name) => line[head.indexOf(name)]));
  });
  return rows.flatMap((cells) => cells.join(" ").split(", "));
}

/** The cells of a line; `\|` is part of a cell. */
function cellsOf(line: string): string[] {
  const cells = line.slice(1, -1).split(/(?<!\\)\|/);
  return cells.map((cell) => cell.replace(/`|\(.*?\)|\{.*?\}/g, "").trim());
}
