/**
 * What a mutant is, and how the lists of them are read: a mistake of one line in the source, and who notices it.
 *
 * Invariant. The text that a mutant takes out is in one place of its file, so no change of the source takes it
 * out of the list unseen (`mutants.test.ts`). A mistake that has no place any more is deleted from its list.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "../simulation/runner.ts";
import { CORE } from "./core.ts";
import { HTTP } from "./http.ts";
import { POSTGRES } from "./postgres.ts";
import { PROGRAM } from "./program.ts";
import { SIMULATED } from "./simulated.ts";

export interface Mutant {
  readonly name: string;
  /** In `src`. */
  readonly file: string;
  /** `tests`: `by` names files of `test`, without `.test.ts`. `simulation`: the worlds of its lives. */
  readonly way: "tests" | "simulation";
  readonly by: readonly string[];
  /** In one line of the file, and nowhere else. */
  readonly old: string;
  readonly new: string;
}

/**
 * Reads a list: a line with the file, and below it each mistake as `NAME: BY, BY`, the text that it takes out
 * after `- `, and what it puts there after `+ `, which may be left out.
 */
function parseMutants(text: string, way: Mutant["way"]): Mutant[] {
  let file = "";
  const mutants: { -readonly [Member in keyof Mutant]: Mutant[Member] }[] = [];
  for (const line of text.split("\n").filter(Boolean)) {
    const [, name, by = ""] = /^(.*?): (.*)$/.exec(line) ?? [];
    const last = mutants.at(-1);
    if (last !== undefined && line.startsWith("- ")) last.old = line.slice(2);
    else if (last !== undefined && line.startsWith("+ ")) last.new = line.slice(2);
    else if (name === undefined) file = line;
    else mutants.push({ name, file, way, by: by.split(", "), old: "", new: "" });
  }
  return mutants;
}

/** All mutants. */
export const MUTANTS: readonly Mutant[] = [
  ...parseMutants(CORE + HTTP + PROGRAM + POSTGRES, "tests"),
  ...parseMutants(SIMULATED, "simulation"),
];

/** @returns the file with the mistake. @throws Error unless the text is found exactly once. */
export function breakSource({ name, file, old, new: text }: Mutant, root = ROOT): string {
  const parts = readFileSync(join(root, "src", file), "utf8").split(old);
  if (parts.length !== 2) throw new Error(`${name}: found ${parts.length - 1} times in ${file}`);
  return parts.join(text);
}
