/** One use of the program, which a kill may end at any call. */
import { copyFileSync, linkSync, mkdirSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import type { Ended, Program, Surroundings } from "./program.ts";
import type { Totals } from "./report.ts";

export interface Scenario {
  readonly name: string;
  /** Makes the files that every run begins with; each run gets a copy of this root. */
  prepare(root: string): Promise<void>;
  /** Runs it once. */
  attempt(root: string, launch: Launch): Promise<Attempt>;
}

export interface Launch {
  readonly program: Program;
  readonly surroundings: Surroundings;
}

export interface Attempt {
  readonly ended: Ended;
  /** How many plants and tokens it acknowledged. */
  readonly acknowledged: number;
  /** Checks the folder afterwards. */
  judge(totals: Totals): Promise<void>;
}

/** Copies a tree, including the sockets of dead processes. */
export function copyTree(from: string, to: string): void {
  rmSync(to, { recursive: true, force: true });
  mkdirSync(to, { recursive: true, mode: 0o700 });
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const source = join(from, entry.name);
    const target = join(to, entry.name);
    if (entry.isDirectory()) copyTree(source, target);
    else if (statSync(source).isSocket()) linkSync(source, target);
    else copyFileSync(source, target);
  }
}
