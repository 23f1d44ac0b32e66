/** The documentation as its readers get it: pages, headings, code blocks and tables, for tests that check them. */
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { ROOT } from "./package.ts";

/** What the package ships, by path from the root. */
export const SHIPPED: readonly string[] = [
  "README.md",
  "CHANGELOG.md",
  "SECURITY.md",
  ...inDocs((name) => name.endsWith(".md")),
];

/** A picture that only the repository has: it is a quarter of what the package has of pages. */
export const UNSHIPPED = "docs/status-page.png";

/** The other files of the documentation: a picture, and files for an operator's tools. */
export const BESIDE: readonly string[] = inDocs((name) => !/\.(md|png)$/.test(name));

function inDocs(isWanted: (name: string) => boolean): string[] {
  const names = readdirSync(path.join(ROOT, "docs"), { recursive: true, encoding: "utf8" });
  const files = names.filter(
    (name) => /\.\w+$|file$/.test(name) && !/node_modules|-lock|npmrc/.test(name),
  );
  return files.filter(isWanted).map((name) => `docs/${name}`);
}

/** Every page of the repository. */
export const PAGES: readonly string[] = [...SHIPPED, "CONTRIBUTING.md"];

export function readPage(page: string): string {
  return readFileSync(path.join(ROOT, page), "utf8");
}

interface Block {
  /** `docs/api.md:19`, where the block begins. */
  readonly place: string;
  readonly language: string;
  readonly code: string;
  /** The heading above it. */
  readonly section: string;
}

/** The fenced code blocks of a page, in order. */
export function blocksOf(page: string): Block[] {
  const blocks: Block[] = [];
  let section = "";
  let open: { place: string; language: string; lines: string[] } | undefined;
  for (const [at, line] of readPage(page).split("\n").entries()) {
    const [, language] = /^```(\w*)$/.exec(line) ?? [];
    if (open === undefined && language !== undefined) {
      open = { place: `${page}:${at + 1}`, language, lines: [] };
    } else if (open !== undefined && language === "") {
      const { place, lines } = open;
      blocks.push({
        place,
        language: open.language,
        section,
        code: lines.map((each) => `${each}\n`).join(""),
      });
      open = undefined;
    } else if (open !== undefined) open.lines.push(line);
    else section = /^#+ (.*)$/.exec(line)?.[1] ?? section;
  }
  if (open !== undefined) throw new Error(`${open.place}: the block has no end`);
  return blocks;
}

/** The code of the blocks in a section that have this language. */
export function codeBlocks(page: string, section: string, language: string): string[] {
  const blocks = blocksOf(page).filter((block) => block.section === section);
  return blocks.filter((block) => block.language === language).map(({ code }) => code);
}

/** The text of a page without its code blocks. */
export function proseOf(page: string): string {
  return readPage(page).replace(/^```\w*\n[\s\S]*?^```$/gm, "");
}

interface Heading {
  readonly level: number;
  readonly anchor: string;
}

/** The headings of a page, with the anchors that a code host gives them. */
export function headingsOf(page: string): Heading[] {
  const seen = new Map<string, number>();
  return Array.from(proseOf(page).matchAll(/^(#+) (.*)$/gm), ([, marks = "", text = ""]) => {
    const plain = text.toLowerCase().replace(/[^\p{L}\p{N}\p{Pc} -]/gu, "");
    const anchor = plain.replaceAll(" ", "-");
    const count = seen.get(anchor) ?? 0;
    seen.set(anchor, count + 1);
    return { level: marks.length, anchor: count === 0 ? anchor : `${anchor}-${count}` };
  });
}

/** A row of a table: the text of a cell by the name of its column. */
type Row = Readonly<Record<string, string>>;

/** All tables of a page whose first column has this name, their rows together. */
export function rowsOf(page: string, firstColumn: string): Row[] {
  return tablesOf(page).flatMap(({ columns, rows }) => {
    if (columns[0] !== firstColumn) return [];
    return rows.map((cells) =>
      Object.fromEntries(columns.map((name, at) => [name, cells[at] ?? ""])),
    );
  });
}

/** All tables of a page, with the text of each cell. */
function tablesOf(page: string) {
  return Array.from(proseOf(page).matchAll(/^\|.*\|\n\|[-:| ]+\|\n((?:\|.*\|\n?)*)/gm), (table) => {
    const [head = "", , ...lines] = table[0].trimEnd().split("\n");
    const columns = cellsOf(head).map((cell) => cell.replaceAll("`", ""));
    return { columns, rows: lines.map(cellsOf) };
  });
}

/** The cells of a line; `\|` is part of a cell. */
function cellsOf(line: string): string[] {
  const cells = line.slice(1, -1).split(/(?<!\\)\|/);
  return cells.map((cell) => cell.trim().replaceAll("\\|", "|"));
}

/** The words in backticks in a cell: `` `serve`, `health` `` has two of them. */
export function wordsIn(cell = ""): string[] {
  return Array.from(cell.matchAll(/`([^`]+)`/g), ([, word = ""]) => word);
}
