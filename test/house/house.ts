/**
 * The rules of the house as functions over source files: which room may import which, no cycles, and
 * the form of a file. Each returns one line per violation, so that a test can also show that it
 * finds violations.
 */
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

/** The content of each file, by its path below `src` with forward slashes. */
export type Sources = ReadonlyMap<string, string>;

/** The whole architecture: a room may import itself and these rooms or files. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  core: [],
  memory: [],
  log: ["core", "memory", "clock"],
  store: ["core", "log", "clock"],
  clock: ["core/services.ts"],
  auth: ["core", "log", "clock"],
  postgres: ["core", "clock", "memory"],
  http: ["core", "memory"],
  admin: ["core", "http"],
  testing: ["core"],
  client: ["core/errors.ts", "core/json.ts", "core/text.ts"],
  index: ["core", "store", "auth", "http"],
  tools: ["core", "log", "store", "auth"],
  cli: ["index", "tools", "core", "auth", "admin", "postgres"],
};

/** What core may take from Node: none does I/O, reads a clock or is random. */
const CORE_MAY_USE = ["node:buffer", "node:diagnostics_channel"];

/** And only this from `node:crypto`, because a hash depends on its input only. */
const HASH_IMPORT = 'import { createHash } from "node:crypto";\n';

export function readSources(): Sources {
  const root = fileURLToPath(new URL("../../src/", import.meta.url));
  const files = readdirSync(root, { recursive: true, encoding: "utf8" });
  return new Map(
    files
      .filter((file) => file.endsWith(".ts"))
      .sort()
      .map((file) => [file.replaceAll("\\", "/"), readFileSync(path.join(root, file), "utf8")]),
  );
}

export function findForbiddenImports(sources: Sources): string[] {
  const breaches: string[] = [];
  for (const [file, text] of sources) {
    const room = roomOf(file);
    for (const specifier of importsOf(room === "core" ? text.replace(HASH_IMPORT, "") : text)) {
      const imported = resolve(file, specifier);
      const allowed = specifier.startsWith(".")
        ? [room, ...(MAY_IMPORT[room] ?? [])].some((name) =>
            [roomOf(imported), imported].includes(name),
          )
        : mayUse(room, specifier);
      if (!allowed) breaches.push(`${file} imports ${specifier}`);
    }
  }
  return breaches;
}

/** Whether a room may import a module of Node; `cli` may also import the driver of databases. */
function mayUse(room: string, name: string): boolean {
  if (room === "client") return false;
  if (room === "cli" && name === "pg") return true;
  return name.startsWith("node:") && (room !== "core" || CORE_MAY_USE.includes(name));
}

/** Files that import themselves through others, types included. */
export function findCircles(sources: Sources): string[] {
  const circles: string[] = [];
  const done = new Set<string>();
  const visit = (file: string, trail: readonly string[]) => {
    if (trail.includes(file)) {
      circles.push([...trail.slice(trail.indexOf(file)), file].join(" -> "));
      return;
    }
    if (done.has(file)) return;
    for (const specifier of importsOf(sources.get(file) ?? "")) {
      if (specifier.startsWith(".")) visit(resolve(file, specifier), [...trail, file]);
    }
    done.add(file);
  };
  for (const file of sources.keys()) visit(file, []);
  return circles;
}

/**
 * A file begins with a comment that says what it is. A blank line is between it and an import of types,
 * with which the compiler would remove it.
 */
export function findMissingHeaders(sources: Sources): string[] {
  const header = /^(#!.*\n)?\/\*\*((?!\*\/)[\s\S]){20,}\*\/\n(?!import type\b)/;
  return [...sources]
    .filter(([, text]) => !header.test(text))
    .map(([file]) => `${file} has no header`);
}

/** A shorter file belongs into the only file that imports it. */
const SHORT_LINES = 40;

export function findShortParts(sources: Sources): string[] {
  const importers = new Map<string, Set<string>>();
  for (const [file, text] of sources) {
    for (const specifier of importsOf(text)) {
      if (!specifier.startsWith(".")) continue;
      const imported = resolve(file, specifier);
      importers.set(imported, (importers.get(imported) ?? new Set()).add(file));
    }
  }
  return [...sources].flatMap(([file, text]) => {
    const [only, ...others] = importers.get(file) ?? [];
    const isPart = only !== undefined && others.length === 0;
    const isShort = text.split("\n").length - 1 < SHORT_LINES;
    return isPart && isShort ? [`${file} is short, and only ${only} imports it`] : [];
  });
}

const FUNCTION_LINES_MAX = 70;

/** Relies on the formatter: a block ends at the first `}` with the indentation of its first line. */
export function findLongFunctions(sources: Sources): string[] {
  return [...sources].flatMap(([file, text]) => {
    const lines = text.split("\n");
    return lines.flatMap((line, at) => {
      if (!/(=>|\)(: .+)?) \{$/.test(line)) return [];
      const indent = /^ */.exec(line)?.[0] ?? "";
      const closing = new RegExp(`^${indent}[)}\\]]`);
      const opening = new RegExp(`^${indent}[^ )}\\]]`);
      const begin = closing.test(line)
        ? lines.findLastIndex((other, index) => index < at && opening.test(other))
        : at;
      const head = (lines[begin] ?? "").trim();
      if (/^(if|for|while|switch)\b/.test(head)) return [];
      const end = lines.findIndex((other, index) => index > at && other.startsWith(`${indent}}`));
      const isLong = end - at - 1 > FUNCTION_LINES_MAX;
      return isLong ? [`${file} has more than ${FUNCTION_LINES_MAX} lines in "${head}"`] : [];
    });
  });
}

/** Timers, clocks and random values, except as members of `clock`. */
const OTHER_TIME =
  /(?<!\bclock\.)\b(?:(?:set|clear)(?:Timeout|Interval|Immediate)|random(?:Bytes|Int|UUID|Fill(?:Sync)?))\b|\bperformance\.|\bDate\.now\b|(?<!new )\bDate\(|\bnew Date\(\)|\bhrtime\b|\bMath\.random\b|\bgetRandomValues\b|\bAbortSignal\.timeout\b|"node:(?:timers|perf_hooks)/;

const BANNED: readonly { readonly pattern: RegExp; readonly but: RegExp; readonly why: string }[] =
  [
    { pattern: /\b(TO[D]O|FIX[M]E|X[X]X)\b/, but: /^$/, why: "unfinished work" },
    { pattern: /^export default\b/m, but: /^$/, why: "a default export" },
    { pattern: /\bconsole\./, but: /^$/, why: "console" },
    { pattern: /\bNODE_ENV\b/, but: /^$/, why: "a NODE_ENV switch" },
    {
      pattern: /\bprocess\.(exit|on|once|argv|env|stdout|stderr)\b/,
      but: /^cli\//,
      why: "process",
    },
    {
      pattern: OTHER_TIME,
      but: /^(?!(?:log|store|auth|postgres)\/)/,
      why: "time or chance that does not come from clock.ts",
    },
    {
      pattern: /"(?:node:)?fs(?:\/promises)?"/,
      but: /^(?!(?:log|store|auth)\/)|^log\/(?:disk|lock)\.ts$/,
      why: "access to files that does not go through log/disk.ts",
    },
  ];

export function findBannedWords(sources: Sources): string[] {
  return [...sources].flatMap(([file, text]) =>
    BANNED.filter(({ pattern, but }) => !but.test(file) && pattern.test(text)).map(
      ({ why }) => `${file} holds ${why}`,
    ),
  );
}

/** The folder of a file; a file in `src` itself is a room of its own. */
function roomOf(file: string): string {
  return file.split("/")[0]?.replace(/\.ts$/, "") ?? "";
}

function resolve(from: string, specifier: string): string {
  return path.posix.join(path.posix.dirname(from), specifier);
}

function importsOf(text: string): string[] {
  const statement =
    /^(?:import|export)\b[^;"=()]*?\bfrom "([^"]+)"|^import "([^"]+)"|\bimport\("([^"]+)"\)/gm;
  return [...text.matchAll(statement)].map(
    ([, from, bare, dynamic]) => from ?? bare ?? dynamic ?? "",
  );
}
