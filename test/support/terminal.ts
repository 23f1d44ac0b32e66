/** A terminal for a test, made by `script` of util-linux. */
import { spawnSync } from "node:child_process";
import { PROGRAM } from "./program.ts";

const hasScript = spawnSync("script", ["-qec", "true", "/dev/null"]).status === 0;

export const NEEDS_TERMINAL = { skip: hasScript ? false : "needs script, from util-linux" };

/** The arguments of `script` that run the command line at a terminal. */
export function terminalArgs(args: readonly string[]): string[] {
  const quote = (word: string) => `'${word.replaceAll("'", "'\\''")}'`;
  const words = [process.execPath, PROGRAM, ...args].map(quote);
  // Without `exec`, Ctrl-C would also end the shell, and the shell's status would be reported.
  return ["-qec", `exec ${words.join(" ")}`, "/dev/null"];
}
