/**
 * What a command of the line is: its name, its arguments, its options, and what it does. `args`
 * reads and describes them, `main` runs them.
 */

/** The version of this program; a test holds it against package.json. */
export const VERSION = "1.0.0";

/** What may be typed for a value, for completion: these words, or paths; absent: anything. */
export type Values = readonly string[] | "files" | "folders";

/** An argument, which must be given. */
export interface Argument {
  /** What stands for it in the help. */
  readonly placeholder: string;
  readonly values?: Values;
}

/** An option; its variable is `PLANT_STORE_` and its name in capitals. */
export interface Option<T> {
  /** What stands for the value in the help; absent for a switch, which takes none. */
  readonly placeholder?: string;
  readonly values?: Values;
  readonly help: string;
  /** What counts when neither flag nor variable is given, as somebody would type it. */
  readonly defaultText?: string;
  /** A variable that a supervisor sets: a list with colons, whose first counts before the default. */
  readonly supervisorVariable?: string;
  /** May be given several times; `parse` then gets the values separated by commas. */
  readonly isRepeatable?: boolean;
  /** @throws UsageError saying what was expected. */
  readonly parse: (text: string) => T;
}

// biome-ignore lint/suspicious/noExplicitAny: a table of options of different types
export type Options = Readonly<Record<string, Option<any>>>;

/** The value of every option; `undefined` if it was not given and has no default. */
export type OptionValues<O extends Options> = {
  readonly [Name in keyof O]:
    | ReturnType<O[Name]["parse"]>
    | (O[Name] extends { readonly defaultText: string } ? never : undefined);
};

/** An option as it was given. */
export interface OptionSource {
  readonly option: string;
  /** As typed; `undefined` if it was not given and has no default. */
  readonly text: string | undefined;
  /** The flag, the variable, or "default". */
  readonly source: string | undefined;
}

/** What a command's standard output is to it, which decides what its loss means. */
export type OutputUse =
  /** Long: a reader that has seen enough (`plant-store list | head`) is no failure. */
  | "listing"
  /** Short, and the point of the command: a lost one is a failure. */
  | "result";

export interface Command<O extends Options = Options> {
  /** As typed, e.g. `token create`. */
  readonly name: string;
  readonly summary: string;
  readonly arguments: readonly Argument[];
  readonly options: O;
  /** What standard output is to the command. Default: `result`. */
  readonly outputUse?: OutputUse;
  /** `run` enters the data directory itself (see data-folder), after it opened something else. */
  readonly entersFolder?: boolean;
  /** More for the help, after the options. */
  readonly details?: string;
  /**
   * Resolves with the exit status.
   *
   * @param sources where the value of every option came from.
   */
  run(
    args: readonly string[],
    options: OptionValues<O>,
    sources: readonly OptionSource[],
  ): Promise<ExitStatus>;
}

/** Keeps the types of the options when a command is written down. */
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
