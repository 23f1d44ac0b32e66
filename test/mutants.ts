/**
 * `npm run mutants`: makes one mistake of the lists in `test/mutants` after another in a copy of the project,
 * and runs the tests, or the lives of the simulation, that have to notice it.
 *
 * Invariant. A test that fails without the mistake, or a file that does not load or end, finds nothing.
 */
import { spawn } from "node:child_process";
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { MUTANTS } from "./mutants/list.ts";
import { breakSource, type Mutant } from "./mutants/mutants.ts";
import type { WorldName } from "./simulation/plan.ts";
import { ROOT, simulate } from "./simulation/runner.ts";

const HELP = `Usage: npm run mutants -- [options]

  --only TEXT    those with this text in their name, their file or what has to notice them
  --processes N  how many at once (1)
  --seconds N    how long the simulation looks for one (60)
`;
/** Ten times as long as the slowest file of tests takes. */
const FILE_MS_MAX = 300_000;

const { values } = parseArgs({
  options: {
    only: { type: "string", default: "" },
    processes: { type: "string", default: "1" },
    seconds: { type: "string", default: "60" },
    help: { type: "boolean", default: false },
  },
});

/** Who noticed a mistake and how, or why nobody did. */
interface Outcome {
  /** `not tried`: the machine lacks what its tests need. */
  readonly verdict: "found" | "NOT FOUND" | "not tried";
  readonly how: string;
}

interface FileResult {
  readonly end: "passed" | "failed" | "skipped" | "broke off";
  /** The first test that failed, or how the file ended. */
  readonly says: string;
}

/** A copy of the project, in which one mistake at a time is made. */
class Copy {
  readonly #folder = mkdtempSync(join(tmpdir(), "mutant-"));
  readonly root = join(this.#folder, "project");
  /** For what a test that is cut off leaves behind: it finds no package of the project above it. */
  readonly #temporary = join(this.#folder, "tmp");
  /** What the tests of each file do without a mistake. */
  readonly #before = new Map<string, FileResult>();

  constructor() {
    for (const part of ["package.json", "tsconfig.json", "README.md", "docs", "src", "test"]) {
      const filter = (path: string) => !path.endsWith("/node_modules");
      cpSync(join(ROOT, part), join(this.root, part), { recursive: true, filter });
    }
    symlinkSync(join(ROOT, "node_modules"), join(this.root, "node_modules"));
    mkdirSync(this.#temporary);
    chmodSync(this.#folder, 0o755); // for the user that runs PostgreSQL
    process.once("exit", () => rmSync(this.#folder, { recursive: true, force: true }));
  }

  async try(mutant: Mutant): Promise<Outcome> {
    if (mutant.way === "simulation") {
      return this.#broken(mutant, () => findLife(mutant, this.root, Number(values.seconds)));
    }
    const tried: string[] = [];
    for (const file of mutant.by) {
      const before = this.#before.get(file) ?? (await this.#runTests(file));
      this.#before.set(file, before);
      if (before.end === "skipped") continue;
      const isGood = before.end === "passed";
      const result = isGood ? await this.#broken(mutant, () => this.#runTests(file)) : before;
      const how = `${file}: ${result.says}${isGood ? "" : ", also without the mistake"}`;
      if (isGood && result.end === "failed") return { verdict: "found", how };
      tried.push(how);
    }
    if (tried.length === 0) return { verdict: "not tried", how: `${mutant.by}: skipped here` };
    return { verdict: "NOT FOUND", how: tried.join("; ") };
  }

  async #broken<T>(mutant: Mutant, run: () => Promise<T>): Promise<T> {
    const path = join(this.root, "src", mutant.file);
    const whole = readFileSync(path);
    writeFileSync(path, breakSource(mutant, this.root));
    try {
      return await run();
    } finally {
      writeFileSync(path, whole);
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
    if (failed !== undefined) return { end: "failed", says: failed };
    if (status !== "0") return { end: "broke off", says: `ended with ${status}` };
    return { end: passed > 0 ? "passed" : "skipped", says: "all pass" };
  }
}

/** Looks for a life that shows the mistake, and does not fail without it. */
async function findLife({ by }: Mutant, root: string, seconds: number): Promise<Outcome> {
  const how = { worlds: by as WorldName[], processes: 1, isShrunk: false };
  const { failures, rounds } = await simulate({ ...how, root, seed: 1, seconds });
  const [failure] = failures;
  if (failure === undefined) {
    return { verdict: "NOT FOUND", how: `simulation: no violation in ${rounds} rounds` };
  }
  const { world, seed, path, kind } = failure;
  const life = `simulation: ${kind}, --world ${world} --seed ${seed} --path ${path}, in ${rounds} rounds`;
  const without = await simulate({ ...how, worlds: [world], seed, path, seconds: 0 });
  if (without.failures.length === 0) return { verdict: "found", how: life };
  return { verdict: "NOT FOUND", how: `${life}, also without the mistake` };
}

async function main(): Promise<boolean> {
  const isWanted = ({ name, file, way, by }: Mutant) =>
    [name, file, way, ...by].some((text) => text.includes(values.only));
  const left = MUTANTS.filter(isWanted);
  const counts = { found: 0, "NOT FOUND": 0, "not tried": 0 };
  const work = async () => {
    const copy = new Copy();
    for (let mutant = left.shift(); mutant !== undefined; mutant = left.shift()) {
      const { verdict, how } = await copy.try(mutant);
      counts[verdict]++;
      process.stdout.write(`${verdict.padEnd(9)} ${mutant.file}: ${mutant.name}: ${how}\n`);
    }
  };
  for (const signal of ["SIGINT", "SIGTERM"] as const)
    process.once(signal, () => process.exit(130));
  await Promise.all(Array.from({ length: Number(values.processes) }, work));
  const each = Object.entries(counts).map(([verdict, count]) => `${count} ${verdict}`);
  process.stdout.write(`Mutants: ${each.join(", ")}.\n`);
  return counts.found > 0 && counts["NOT FOUND"] === 0;
}

if (values.help) process.stdout.write(HELP);
else process.exitCode = (await main()) ? 0 : 1;
