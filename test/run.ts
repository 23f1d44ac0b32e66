/**
 * Runs test files, a few processes at a time, and ends with one line that says what was skipped.
 *
 *   npm test                                before each commit: `*.test.ts` without the next two
 *   npm run test:full                       the others: `*.slow.test.ts` and `*.installed.test.ts`
 *   node --import tsx test/run.ts FILE ...  these files
 *
 * The name of a file says when it runs: `*.slow.test.ts` holds tests that take more than a second,
 * `*.installed.test.ts` those that need the packages that `npm run test:full` installs.
 */
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { run } from "node:test";
import { spec } from "node:test/reporters";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

const TEST = fileURLToPath(new URL("./", import.meta.url));
/** Tests wait for timers and the disk, so more of them run at once than there are processors. */
const PROCESSES = availableParallelism() + 1;
/**
 * Files of `npm test` share processes, because the loader, the sources and the program under test take
 * half a second in each. A fixed number, so that the same files share a process on every machine.
 */
const BUNDLES = 6;
/**
 * The first line of each. The test runner watches every promise, which makes a collection of garbage slow:
 * with a heap that grows faster there are fewer, and the tests of `http` take half the processor time.
 */
const FEWER_COLLECTIONS = `import v8 from "node:v8";\nv8.setFlagsFromString("--heap-growing-percent=900");\n`;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { full: { type: "boolean" } },
});

/** The files to run; some of them are made here, and import a few test files. */
function chooseFiles(folder: string): string[] {
  if (positionals.length > 0) return positionals.map((file) => resolve(file));
  const all = readdirSync(TEST, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".test.ts") && !file.includes("node_modules"))
    .map((file) => join(TEST, file))
    .sort();
  const isOther = (file: string) => /\.(slow|installed)\.test\.ts$/.test(file);
  if (values.full === true) return all.filter(isOther);
  return bundle(
    all.filter((file) => !isOther(file)),
    folder,
  );
}

function bundle(files: readonly string[], folder: string): string[] {
  return Array.from({ length: BUNDLES }, (_, at) => {
    const some = files.filter((_file, index) => index % BUNDLES === at);
    const imports = some.map((file) => `import ${JSON.stringify(pathToFileURL(file))};\n`);
    const path = join(folder, `bundle-${at + 1}.mjs`);
    writeFileSync(path, FEWER_COLLECTIONS + imports.join(""));
    return path;
  });
}

/** How often a test was skipped for each reason. */
const skipped = new Map<string, number>();
const folder = mkdtempSync(join(tmpdir(), "plant-store-run-"));
process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(130));
run({ files: chooseFiles(folder), concurrency: PROCESSES })
  .on("test:fail", ({ todo }) => {
    if (todo === undefined || todo === false) process.exitCode = 1;
  })
  .on("test:pass", ({ skip = false }) => {
    if (skip !== false) skipped.set(`${skip}`, (skipped.get(`${skip}`) ?? 0) + 1);
  })
  .compose(new spec())
  .on("end", () => {
    const reasons = Array.from(skipped, ([reason, count]) => `${reason}: ${count}`);
    process.stdout.write(`Skipped: ${reasons.join("; ") || "nothing"}.\n`);
  })
  .pipe(process.stdout, { end: false });
