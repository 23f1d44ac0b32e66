/**
 * `npm run mutants`: makes one mistake of the lists in `test/mutants` after another in a copy of the project,
 * and runs the tests, or the lives of the simulation, that have to notice it.
 *
 * Invariant. A test that fails without the mistake, or a file that does not load or end, finds nothing.
 */
import { spawn } from "node:child_process";
import fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { breakSource, MUTANTS, type Mutant } from "./mutants/mutants.ts";
import type { WorldName } from "./simulation/plan.ts";
import { ROOT, simulate } from "./simulation/runner.ts";

/** How long the simulation looks for one. */
const LIVES_SECONDS = 60;
/** Ten times as long as the slowest file of tests takes. */
const FILE_MS_MAX = 300_000;

const { values } = parseArgs({
  options: {
    only: { type: "string", default: "" }, // those with this in their name, their file or what has to notice them
  },
});

/** `not tried`: the machine lacks what its tests need. */
type Verdict = "found" | "NOT FOUND" | "not tried";
type Outcome = readonly [verdict: Verdict, how: string];
/** How a file of tests ended, and the first test that failed. */
type FileResult = readonly [end: "passed" | "failed" | "skipped" | "broke off", says: string];

/** A copy of the project, in which one mistake at a time is made. */
class Copy {
  readonly #folder = fs.mkdtempSync(join(tmpdir(), "mutant-"));
  readonly root = join(this.#folder, "project");
  /** For what a test that is cut off leaves behind: it finds no package of the project above it. */
  readonly #temporary = join(this.#folder, "tmp");
  /** What the tests of each file do without a mistake. */
  readonly #before = new Map<string, FileResult>();

  constructor() {
    for (const part of ["package.json", "tsconfig.json", "README.md", "docs", "src", "test"]) {
      const filter = (path: string) => !path.endsWith("/node_modules");
      fs.cpSync(join(ROOT, part), join(this.root, part), { recursive: true, filter });
    }
    fs.symlinkSync(join(ROOT, "node_modules"), join(this.root, "node_modules"));
    fs.mkdirSync(this.#temporary);
    fs.chmodSync(this.#folder, 0o755); // for the user that runs PostgreSQL
    process.once("exit", () => fs.rmSync(this.#folder, { recursive: true, force: true }));
  }

  async try(mutant: Mutant): Promise<Outcome> {
    if (mutant.way === "simulation") {
      return this.#broken(mutant, () => findLife(mutant, this.root));
    }
    const tried: string[] = [];
    for (const file of mutant.by) {
      const before = this.#before.get(file) ?? (await this.#runTests(file));
      this.#before.set(file, before);
      if (before[0] === "skipped") continue;
      const isGood = before[0] === "passed";
      const [end, says] = isGood ? await this.#broken(mutant, () => this.#runTests(file)) : before;
      const how = `${file}: ${says}${isGood ? "" : ", also without the mistake"}`;
      if (isGood && end === "failed") return ["found", how];
      tried.push(how);
    }
    if (tried.length === 0) return ["not tried", `${mutant.by}: skipped here`];
    return ["NOT FOUND", tried.join("; ")];
  }

  async #broken<T>(mutant: Mutant, run: () => Promise<T>): Promise<T> {
    const path = join(this.root, "src", mutant.file);
    const whole = fs.readFileSync(path);
    fs.writeFileSync(path, breakSource(mutant, this.root));
    try {
      return await run();
    } finally {
      fs.writeFileSync(path, whole);
    }
  }

  /** Runs the tests of a file up to the first one that fails. */
  async #runTests(file: string): Promise<FileResult> {
    const args = ["--import", "tsx", "--test-reporter=tap", `test/${file}.test.ts`];
    const child = spawn(process.execPath, args, {
      cwd: this.root,
      env: { ...process.env, TMPDIR: this.#temporary },
      detached: true, // so that the programs that it starts can be ended with it
      stdio: ["ignore", "pipe", "ignore"],
    });
    const ended = new Promise<string>((resolve) => {
      child.once("close", (status, signal) => resolve(`${signal ?? status}`));
    });
    const endAll = () => {
      try {
        if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
      } catch {} // all of them have ended
    };
    const timer = setTimeout(endAll, FILE_MS_MAX);
    let failed: string | undefined;
    let passed = 0;
    for await (const line of createInterface(child.stdout)) {
      const [, not, name = ""] = /^\s*(not )?ok \d+ - (?!.*# SKIP)(.*)$/.exec(line) ?? [];
      if (not !== undefined) failed = name;
      if (failed !== undefined) break;
      if (name !== "") passed++;
    }
    if (failed !== undefined) endAll();
    const status = await ended;
    clearTimeout(timer);
    endAll();
    if (failed !== undefined) return ["failed", failed];
    if (status !== "0") return ["broke off", `ended with ${status}`];
    return [passed > 0 ? "passed" : "skipped", "all pass"];
  }
}

/** Looks for a life that shows the mistake, and does not fail without it. */
async function findLife({ by }: Mutant, root: string): Promise<Outcome> {
  const how = { worlds: by as WorldName[], processes: 1, isShrunk: false };
  const { failures, rounds } = await simulate({ ...how, root, seed: 1, seconds: LIVES_SECONDS });
  const [failure] = failures;
  if (failure === undefined) return ["NOT FOUND", `no violation in ${rounds} rounds`];
  const { world, seed, path, kind } = failure;
  const life = `${kind}, --world ${world} --seed ${seed} --path ${path}, in ${rounds} rounds`;
  const without = await simulate({ ...how, worlds: [world], seed, path, seconds: 0 });
  if (without.failures.length === 0) return ["found", life];
  return ["NOT FOUND", `${life}, also without the mistake`];
}

for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(130));
const chosen = MUTANTS.filter(({ name, file, way, by }) =>
  [name, file, way, ...by].some((text) => text.includes(values.only)),
);
const counts = { found: 0, "NOT FOUND": 0, "not tried": 0 };

const copy = new Copy();
for (const mutant of chosen) {
  const [verdict, how] = await copy.try(mutant);
  counts[verdict]++;
  process.stdout.write(`${verdict.padEnd(9)} ${mutant.file}: ${mutant.name}: ${how}\n`);
}
const each = Object.entries(counts).map(([verdict, count]) => `${count} ${verdict}`);
process.stdout.write(`Mutants: ${each.join(", ")}.\n`);
process.exitCode = counts.found > 0 && counts["NOT FOUND"] === 0 ? 0 : 1;
