/** A terminal of the test's own, which `script` of util-linux makes. */
import { spawnSync } from "node:child_process";
import { PROGRAM } from "./program.ts";

const hasScript = spawnSync("script", ["-qec", "true", "/dev/null"]).status === 0;

export const NEEDS_TERMINAL = { skip: hasScript ? false : "needs script, from util-linux" };

/** The arguments of `script` that run the command line at a terminal. */
export function terminalArgs(args: readonly string[]): string[] {
  const words = [process.execPath, PROGRAM, ...args].map((word) => `'${word}'`);
  // `exec`: a shell that stays would be ended by Ctrl-C as well, and its status would be reported.
  return ["-qec", `exec ${words.join(" ")}`, "/dev/null"];
}
