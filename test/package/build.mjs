/**
 * `npm run build`: makes `dist/`, what the package ships.
 *
 * The library and the program are bundled into two entries that share one
 * chunk: a start opens three files instead of seventy. Of the declarations only those
 * that the library's own reach are kept, and of them what the source does not
 * mark `@internal`: what no user can name is nobody's.
 */
import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { build, transformSync } from "esbuild";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const SOURCE = path.join(ROOT, "src");
const DIST = path.join(ROOT, "dist");
/** A relative import, in either of the forms that declarations have. */
const IMPORT = /(?<=\bfrom "|\bimport\(")(\.[^"]+)\.ts(?=")/g;

/** What the status page holds is text to the bundler, so it is made small by itself. */
const STATUS_PAGE = {
  name: "status-page",
  setup({ onLoad }) {
    onLoad({ filter: /\/status-page\.ts$/ }, ({ path: file }) => {
      const text = /(?<=\nconst (STYLE|SCRIPT) = )`([^`]*)`/g;
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
buildDeclarations();

async function buildPrograms() {
  await build({
    absWorkingDir: ROOT,
    entryPoints: ["src/index.ts", "src/cli/main.ts"],
    outdir: "dist",
    bundle: true,
    splitting: true,
    chunkNames: "shared-[hash]",
    format: "esm",
    platform: "node",
    target: "node20.19",
    // The package has a bound, and no source maps: they were three quarters of it. Traces have lines,
    // and a build of the same commit with `sourcemap: true` gives them back their names.
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
    keepReached(all, "index.d.ts");
  } finally {
    rmSync(all, { recursive: true, force: true });
  }
}

/** Copies a declaration file, and those it imports, under the names that compilers of any age find. */
function keepReached(all, file, kept = new Set()) {
  if (kept.has(file)) return;
  kept.add(file);
  const text = readFileSync(path.join(all, file), "utf8");
  const target = path.join(DIST, file);
  mkdirSync(path.dirname(target), { recursive: true });
  // What a file is tells the source; the library's own header is for its users.
  const own = file === "index.d.ts" ? "" : headerOf(file);
  const shown = text.startsWith(own) ? text.slice(own.length).trimStart() : text;
  // By tabs, a quarter of what the compiler takes; a paragraph of a comment is one line, and
  // has no line between it and the next.
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

/** The comment that a source file opens with. */
function headerOf(file) {
  const source = readFileSync(path.join(SOURCE, file.replace(/\.d\.ts$/, ".ts")), "utf8");
  return source.slice(0, source.indexOf("*/") + 2);
}
