/**
 * What a command is: its name, its arguments, its options, and what it does. `args` reads and
 * describes commands, `completion` completes them, and `program` runs them.
 */

import path from "node:path";

/** The version of this program, the same as in package.json. */
export const VERSION = "1.0.0";

/** How users start this program: in a clone only npx finds it by its name. */
export const PROGRAM =
  process.env.npm_command === "exec" || process.argv[1] === path.resolve("dist/cli/main.js")
    ? "npx plant-store"
    : "plant-store";

/** An option; its key in a table of options gives it a flag and a variable. */
export interface Option<T> {
  /** What the help shows for the value (see `Command.arguments`); absent for a switch. */
  readonly placeholder?: string;
  /** What it does, and what applies without it if there is no default. */
  readonly help: string;
  /** The default, as a user would type it. */
  readonly defaultText?: string;
  /** May be given several times; `parse` then gets the values separated by commas. */
  readonly isRepeatable?: boolean;
  /** What a value must be, for the message about a wrong one. */
  readonly expected: string;
  /** Returns `undefined`, or throws, if the text is not a valid value. */
  readonly parse: (text: string) => T | undefined;
}

// biome-ignore lint/suspicious/noExplicitAny: a table of options of different types
export type Options = Readonly<Record<string, Option<any>>>;

/** The value of every option; `undefined` if it was not given and has no default. */
export type OptionValues<O extends Options> = {
  readonly [Name in keyof O]:
    | Exclude<ReturnType<O[Name]["parse"]>, undefined>
    | (O[Name] extends { readonly defaultText: string } ? never : undefined);
};

/** `--body-bytes-max` for `bodyBytesMax`. */
export function flagOf(name: string): string {
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

/** `PLANT_STORE_BODY_BYTES_MAX` for `bodyBytesMax`. */
export function variableOf(name: string): string {
  return `PLANT_STORE${flagOf(name).slice(1).toUpperCase().replaceAll("-", "_")}`;
}

/** The value of an option, and where it came from. */
export interface Setting {
  readonly name: string;
  readonly value: unknown;
  /** As it was typed; a dash if it was not given. */
  readonly text: string;
  /** The flag, the variable, `default` or `not set`. */
  readonly source: string;
}

export interface Command<O extends Options = Options> {
  /** As typed, e.g. `token create`. */
  readonly name: string;
  readonly summary: string;
  /** What the help shows for each argument: a name, or words such as `bash|zsh`. `[NAME]` may be left out. */
  readonly arguments?: readonly string[];
  readonly options: O;
  /** `run` calls `becomeOwner` itself; for all other commands with `data`, `program` does. */
  readonly becomesOwner?: boolean;
  /** More help, shown below the options. */
  readonly details?: string;
  /** Resolves with the exit status; `undefined` is 0. */
  run(
    args: readonly string[],
    options: OptionValues<O>,
    settings: readonly Setting[],
  ): Promise<ExitStatus | undefined>;
}

/** Infers the types of the options of a command. */
export function defineCommand<const O extends Options>(command: Command<O>): Command {
  return command as unknown as Command;
}

/**
 * 0: done; 1: it failed, or the answer is no; 2: wrong usage; 3: the data needs a person. A
 * supervisor may run the command again after a 1, never after a 3.
 */
export type ExitStatus = 0 | 1 | 2 | 3;

/** The command line was wrong: status 2. */
export class UsageError extends Error {}
