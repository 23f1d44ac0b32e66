/**
 * `npm test` and its parts: runs test files, a few at a time, and ends with one
 * line that says what was skipped and how to run it.
 *
 *   npm test                                everything that needs no install
 *   npm run test:quick                      the rooms in memory and temporary folders
 *   npm run test:package                    what needs npm packages: `*.installed.test.ts`
 *   node --import tsx test/run.ts FILE ...  these files
 *
 * The name of a file says when it runs. `*.slow.test.ts` is not part of the quick run.
 * `*.installed.test.ts` needs `npm run install:checks`, so it is not part of `npm test`.
 */
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { run } from "node:test";
import { spec } from "node:test/reporters";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

const TEST = fileURLToPath(new URL("./", import.meta.url));
/** Folders whose quick files share processes, because the loader and the sources take half a second in each. */
const QUICK_ROOMS = ["core", "log", "store", "auth", "http"];
/** Tests wait for timers and the disk, so more of them run at once than there are processors. */
const PROCESSES = availableParallelism() + 1;
/** A few groups for each, so that all are busy until the end. */
const QUICK_PROCESSES = 2 * PROCESSES;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { quick: { type: "boolean" }, installed: { type: "boolean" } },
});

function findTests(): string[] {
  return readdirSync(TEST, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".test.ts") && !file.includes("node_modules"))
    .sort();
}

const isQuick = (file: string) =>
  QUICK_ROOMS.some((room) => file.startsWith(`${room}/`)) && !file.endsWith(".slow.test.ts");
const isInstalled = (file: string) => file.endsWith(".installed.test.ts");

/** The files to run; some of them are made here, and import a few test files. */
function chooseFiles(folder: string): string[] {
  if (positionals.length > 0) return positionals.map((file) => resolve(file));
  const all = findTests();
  if (values.installed === true) return inTest(all.filter(isInstalled));
  const quick = bundle(all.filter(isQuick), folder);
  if (values.quick === true) return quick;
  return [...inTest(all.filter((file) => !isQuick(file) && !isInstalled(file))), ...quick];
}

function inTest(files: readonly string[]): string[] {
  return files.map((file) => join(TEST, file));
}

function bundle(files: readonly string[], folder: string): string[] {
  const bundles = Array.from({ length: QUICK_PROCESSES }, (_, at) =>
    files.filter((_file, index) => index % QUICK_PROCESSES === at),
  );
  return bundles.map((some, at) => {
    const imports = inTest(some).map((file) => `import ${JSON.stringify(pathToFileURL(file))};\n`);
    const path = join(folder, `quick-${at + 1}.mjs`);
    writeFileSync(path, imports.join(""));
    return path;
  });
}

/** How often a test was skipped for each reason. */
const skipped = new Map<string, number>();

function describeSkipped(): string {
  const total = [...skipped.values()].reduce((sum, count) => sum + count, 0);
  const reasons = [...skipped].map(([reason, count]) => `${reason}: ${count}`).join("; ");
  const here =
    total === 0
      ? "Skipped: nothing."
      : `Skipped: ${total} tests (${reasons}); .ci/run installs what they need.`;
  if (values.quick === true) return `${here} npm test runs the rest.`;
  if (values.installed === true || positionals.length > 0) return here;
  return `${here} Not part of npm test: npm run test:package, crash -- --ci, attack, field.`;
}

const folder = mkdtempSync(join(tmpdir(), "plant-store-run-"));
process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
const events = run({ files: chooseFiles(folder), concurrency: PROCESSES })
  .on("test:fail", ({ todo }) => {
    if (todo === undefined || todo === false) process.exitCode = 1;
  })
  .on("test:pass", ({ skip }) => {
    if (skip === undefined || skip === false) return;
    const reason = typeof skip === "string" ? skip : "for no reason given";
    skipped.set(reason, (skipped.get(reason) ?? 0) + 1);
  });
events
  .compose(new spec())
  .on("end", () => process.stdout.write(`${describeSkipped()}\n`))
  .pipe(process.stdout, { end: false });
