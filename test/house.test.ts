/**
 * The architecture: which room imports which, no circles, and where time, chance and files come from.
 * Each rule is a function over source files, so a test can show that it finds a violation.
 */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { ROOT } from "./support/package.ts";

/** The content of each file, by its path below `src`. */
type Sources = ReadonlyMap<string, string>;

/** A room is a folder of `src`, or a file in `src` itself. It may import itself and these rooms or files. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  core: [],
  memory: [],
  log: ["core", "memory", "clock"],
  store: ["core", "log", "clock", "memory"],
  clock: ["core/services.ts"],
  auth: ["core", "log", "clock"],
  postgres: ["core", "clock", "memory"],
  http: ["core", "memory"],
  admin: ["core", "http", "clock"],
  testing: ["core"],
  client: ["core/errors.ts", "core/json.ts", "core/plant.ts", "core/text.ts"],
  index: ["core", "store", "auth", "http"],
  cli: ["index", "core", "log", "store", "auth", "http", "admin", "postgres"],
};

/** What core may take from Node: none does I/O, reads a clock or is random. */
const CORE_MAY_USE = ["node:diagnostics_channel"];
/** And only this from `node:crypto`, because a hash depends on its input only. */
const HASH_IMPORT = 'import { hash } from "node:crypto";\n';

function readSources(): Sources {
  const root = path.join(ROOT, "src");
  const files = readdirSync(root, { recursive: true, encoding: "utf8" }).sort();
  const sources = files.filter((file) => file.endsWith(".ts"));
  return new Map(sources.map((file) => [file, readFileSync(path.join(root, file), "utf8")]));
}

function roomOf(file: string): string {
  return file.split("/")[0]?.replace(/\.ts$/, "") ?? "";
}

/** What a file imports or re-exports: files by their path below `src`, and names of modules. */
function importsOf(file: string, text: string): string[] {
  const statement =
    /^(?:import|export)\b[^;"=()]*?\bfrom "([^"]+)"|^import "([^"]+)"|\bimport\("([^"]+)"\)/gm;
  return Array.from(text.matchAll(statement), ([, from, bare, dynamic]) => {
    const name = from ?? bare ?? dynamic ?? "";
    return name.startsWith(".") ? path.posix.join(path.posix.dirname(file), name) : name;
  });
}

function isAllowed(room: string, imported: string): boolean {
  if (imported.endsWith(".ts")) {
    const rooms = [room, ...(MAY_IMPORT[room] ?? [])];
    return rooms.includes(roomOf(imported)) || rooms.includes(imported);
  }
  if (room === "client") return false;
  if (room === "cli" && imported === "pg") return true;
  return imported.startsWith("node:") && (room !== "core" || CORE_MAY_USE.includes(imported));
}

function findForbiddenImports(sources: Sources): string[] {
  return [...sources].flatMap(([file, text]) => {
    const room = roomOf(file);
    const imports = importsOf(file, room === "core" ? text.replace(HASH_IMPORT, "") : text);
    return imports
      .filter((imported) => !isAllowed(room, imported))
      .map((imported) => `${file} imports ${imported}`);
  });
}

/** Files that import themselves through others, types included. */
function findCircles(sources: Sources): string[] {
  const circles: string[] = [];
  const done = new Set<string>();
  const visit = (file: string, trail: readonly string[]) => {
    if (trail.includes(file)) {
      circles.push([...trail.slice(trail.indexOf(file)), file].join(" -> "));
      return;
    }
    if (done.has(file)) return;
    for (const next of importsOf(file, sources.get(file) ?? "")) {
      if (next.endsWith(".ts")) visit(next, [...trail, file]);
    }
    done.add(file);
  };
  for (const file of sources.keys()) visit(file, []);
  return circles;
}

/** Timers, clocks and random values, except as members of `clock`. */
const OTHER_TIME =
  /(?<!\bclock\.)\b(?:(?:set|clear)(?:Timeout|Interval|Immediate)|random(?:Bytes|Int|UUID|Fill(?:Sync)?))\b|\bperformance\.|\bDate\.now\b|(?<!new )\bDate\(|\bnew Date\(\)|\bhrtime\b|\bMath\.random\b|\bgetRandomValues\b|\bAbortSignal\.timeout\b|"node:(?:timers|perf_hooks)/;

/** What the simulation could not replace: time and chance beside `clock`, files beside the port. */
function findDirectAccess(sources: Sources): string[] {
  return [...sources].flatMap(([file, text]) => {
    const room = roomOf(file);
    const isSimulated = ["log", "store", "auth", "postgres"].includes(room);
    const isPort = file === "log/disk.ts" || file === "log/lock.ts";
    const hasTime = isSimulated && OTHER_TIME.test(text);
    const hasFiles =
      isSimulated && room !== "postgres" && !isPort && /"(?:node:)?fs(?:\/promises)?"/.test(text);
    return hasTime || hasFiles ? [file] : [];
  });
}

/** A rule, how its violations are found, and small source trees, each of which breaks it once. */
type Rule = readonly [
  says: string,
  find: (sources: Sources) => string[],
  ...broken: Record<string, string>[],
];

const RULES: readonly Rule[] = [
  [
    "every file imports only what its room may",
    findForbiddenImports,
    { "http/listener.ts": 'import {\n  a,\n  b,\n} from "../log/file.ts";' },
    { "admin/x.ts": 'const x = await import("../store/x.ts");' },
    { "core/token.ts": 'import { hash, randomBytes } from "node:crypto";' },
    { "http/x.ts": 'import express from "express";' },
  ],
  [
    "no file imports itself through others",
    findCircles,
    { "core/a.ts": 'import "./b.ts";', "core/b.ts": 'import type { A } from "./a.ts";' },
  ],
  [
    "time, chance and files come through the ports that the simulation replaces",
    findDirectAccess,
    { "log/a.ts": "const timer = setTimeout(work, 10);" },
    { "store/a.ts": "const now = Date.now();" },
    { "auth/a.ts": 'import fs from "node:fs";' },
  ],
];

const SOURCES = readSources();

for (const [says, find, ...broken] of RULES) {
  test(`in src, ${says}`, () => {
    assert.ok(SOURCES.size > 40 && SOURCES.has("cli/serve.ts"), "the files are found");
    assert.deepEqual(find(SOURCES), []);
    for (const files of broken) {
      assert.equal(find(new Map(Object.entries(files))).length, 1, JSON.stringify(files));
    }
  });
}

test("the package has no runtime dependencies, and exact versions of the others", () => {
  const text = readFileSync(path.join(ROOT, "package.json"), "utf8");
  const { dependencies = {}, devDependencies } = JSON.parse(text);
  assert.deepEqual(Object.keys(dependencies), []);
  for (const version of Object.values<string>(devDependencies))
    assert.match(version, /^\d+(\.\d+){2}$/);
});
