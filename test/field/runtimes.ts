/** The JavaScript runtimes under which the package is tried, by the words that start a program. */
import path from "node:path";
import { ROOT } from "../support/package.ts";

const BIN = path.join(ROOT, "test/field/node_modules/.bin");

export const RUNTIMES: readonly [name: string, words: readonly string[]][] = [
  ["Node", [process.execPath]],
  ["Deno", [path.join(BIN, "deno"), "run", "--allow-all"]],
  ["Bun", [path.join(BIN, "bun")]],
];
