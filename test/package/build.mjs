/**
 * `npm run build`: makes `dist/`, what the package ships.
 *
 * The library, the program and the database store are bundled into three entries that share chunks, so a
 * start opens a few files instead of seventy. Declarations are kept if those of the library or of the
 * database store need them, and without anything that the source marks `@internal`.
 */
import { execFileSync, spawnSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));

requireCompilers();
const { build, transformSync } = await import("esbuild");

const SOURCE = path.join(ROOT, "src");
const DIST = path.join(ROOT, "dist");
/** A relative import, in both forms that declarations have. */
const IMPORT = /(?<=\bfrom "|\bimport\(")(\.[^"]+)\.ts(?=")/g;

/** The declarations that users import, with their headers. */
const ENTRIES = ["index.d.ts", "postgres/index.d.ts"];

/** The status page is text to the bundler, so it is minified separately. */
const STATUS_PAGE = {
  name: "status-page",
  setup({ onLoad }) {
    onLoad({ filter: /\/status-page\.ts$/ }, ({ path: file }) => {
      const text = /(?<=\nconst (STYLE|SCRIPT) = )(?:String\.raw)?`([^`]*)`/g;
      const contents = readFileSync(file, "utf8").replace(text, (_, name, text) => {
        const options = name === "SCRIPT" ? { loader: "js", format: "iife" } : { loader: "css" };
        return JSON.stringify(
          transformSync(text, { ...options, minify: true, charset: "utf8" }).code,
        );
      });
      return { contents, loader: "ts" };
    });
  },
};

rmSync(DIST, { recursive: true, force: true });
await buildPrograms();
requireRuntime();
buildDeclarations();

/** Exits if a compiler is missing; with 0 in `prepare`, which npm also runs after `npm ci --omit=dev`. */
function requireCompilers() {
  const missing = ["esbuild", "typescript"].filter((name) => {
    return !existsSync(path.join(ROOT, "node_modules", name, "package.json"));
  });
  if (missing.length === 0) return;
  process.stderr.write(
    `dist/ was not built: ${missing.join(" and ")} not installed; npm ci --include=dev installs them\n`,
  );
  process.exit(process.env.npm_lifecycle_event === "prepare" ? 0 : 1);
}

/** Exits as the program does if it cannot run on this Node. The compiler of the types would throw there. */
function requireRuntime() {
  const words = [path.join(DIST, "cli/main.js"), "--version"];
  const { status } = spawnSync(process.execPath, words, { stdio: ["ignore", "ignore", "inherit"] });
  if (status !== 0) process.exit(status ?? 1);
}

async function buildPrograms() {
  await build({
    absWorkingDir: ROOT,
    entryPoints: ["src/index.ts", "src/postgres/index.ts", "src/cli/main.ts"],
    outdir: "dist",
    bundle: true,
    splitting: true,
    chunkNames: "shared-[hash]",
    external: ["pg"], // the optional peer
    format: "esm",
    platform: "node",
    target: "node20.19",
    // No source maps: they were three quarters of the package. Stack traces have line numbers, and a
    // build of the same commit with `sourcemap: true` maps those to the source.
    minify: true,
    charset: "utf8",
    lineLimit: 2000,
    logLevel: "warning",
    plugins: [STATUS_PAGE],
  });
  chmodSync(path.join(DIST, "cli/main.js"), 0o755);
}

function buildDeclarations() {
  const all = mkdtempSync(path.join(os.tmpdir(), "plant-store-types-"));
  try {
    const compiler = path.join(ROOT, "node_modules/typescript/bin/tsc");
    execFileSync(process.execPath, [compiler, "-p", SOURCE, "--outDir", all], { stdio: "inherit" });
    const kept = new Set();
    for (const entry of ENTRIES) keepReached(all, entry, kept);
  } finally {
    rmSync(all, { recursive: true, force: true });
  }
}

/** Copies a declaration file, and those it imports, under names that old compilers find, too. */
function keepReached(all, file, kept) {
  if (kept.has(file)) return;
  kept.add(file);
  const text = readFileSync(path.join(all, file), "utf8");
  const target = path.join(DIST, file);
  mkdirSync(path.dirname(target), { recursive: true });
  // Headers of files are for readers of the source; only those of the entries are for users.
  const own = ENTRIES.includes(file) ? "" : headerOf(file);
  const shown = text.startsWith(own) ? text.slice(own.length).trimStart() : text;
  // Indented with tabs, and each paragraph of a comment on one line, without blank lines.
  const indented = shown.replace(/^( {4})+/gm, (spaces) => "\t".repeat(spaces.length / 4));
  const joined = indented.replace(/(?<!\/\*\*|\*)\n\s+\* (?![@-])/g, " ");
  const short = joined
    .replace(/\n\s+\*(?=\n)/g, "")
    .replace(/\/\*\*\n\s+\* (.*)\n\s+\*\//g, "/** $1 */");
  writeFileSync(target, short.replace(IMPORT, "$1.js"));
  for (const [, imported] of text.matchAll(IMPORT)) {
    keepReached(all, `${path.join(path.dirname(file), imported)}.d.ts`, kept);
  }
}

/** The comment at the beginning of a source file. */
function headerOf(file) {
  const source = readFileSync(path.join(SOURCE, file.replace(/\.d\.ts$/, ".ts")), "utf8");
  return source.slice(0, source.indexOf("*/") + 2);
}
