/**
 * What a command is: its name, its arguments, its options, and what it does; how a command line is read,
 * and how the help is made from the same tables. `program` runs commands.
 *
 * The value of an option comes from its flag, or else its `PLANT_STORE_` variable, or else its
 * default. One parser reads them all.
 */
import { type ParseArgsConfig, parseArgs } from "node:util";

/** The version of this program, the same as in package.json. */
export const VERSION = "1.0.0";

/** An option; its key in a table of options gives it a flag and a variable. */
export interface Option<T> {
  /** What the help shows for the value; absent for a switch. */
  readonly placeholder?: string;
  /** What it does, and what applies without it if there is no default. */
  readonly help: string;
  /** The default, as a user would type it. */
  readonly defaultText?: string;
  /** May be given several times; `parse` then gets the values separated by commas. */
  readonly isRepeatable?: boolean;
  /** What a value must be, for the message about a wrong one. */
  readonly expected: string;
  /** The message about a wrong value does not show it, because it may hold a password. */
  readonly isSecret?: boolean;
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
function flagOf(name: string): string {
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

/** `PLANT_STORE_BODY_BYTES_MAX` for `bodyBytesMax`. */
export function variableOf(name: string): string {
  return `PLANT_STORE${flagOf(name).slice(1).toUpperCase().replaceAll("-", "_")}`;
}

/** Whether Kubernetes has set this variable, as it does for a Service called `plant-store` (service links). */
export function isServiceLink(name: string, value = ""): boolean {
  return value.startsWith("tcp://") || /_SERVICE_(HOST|PORT)|_PORT_\d/.test(name);
}

export interface Command<O extends Options = Options> {
  /** As typed, e.g. `token create`. */
  readonly name: string;
  readonly summary: string;
  /** What the help shows for each argument; `[NAME]` may be left out. */
  readonly arguments?: readonly string[];
  readonly options: O;
  /** Every option has a variable; else only those that name the store have one. */
  readonly readsVariables?: boolean;
  /** More help, shown below the options. */
  readonly details?: string;
  /** Resolves with the exit status; `undefined` is 0. */
  run(args: readonly string[], options: OptionValues<O>): Promise<ExitStatus | undefined>;
}

/** Infers the types of the options of a command. */
export function defineCommand<const O extends Options>(command: Command<O>): Command {
  return command as unknown as Command;
}

/**
 * 0: done; 1: failed, not found, or not healthy; 2: wrong usage; 3: manual repair needed. A supervisor may
 * run the command again after a 1, never after a 2 or a 3.
 */
export type ExitStatus = 0 | 1 | 2 | 3;

/** The command line was wrong: status 2. */
export class UsageError extends Error {}

/**
 * The arguments, and the value of each option.
 *
 * @param argv the words after the name of the command.
 * @throws UsageError that names the command or the option, what was expected, and what came.
 */
export function readArgs(command: Command, argv: readonly string[]) {
  const { name, arguments: expected = [] } = command;
  const known: ParseArgsConfig["options"] = {};
  for (const [key, { placeholder, isRepeatable = false }] of Object.entries(command.options)) {
    const type = placeholder === undefined ? "boolean" : "string";
    known[flagOf(key).slice(2)] = { type, multiple: isRepeatable };
  }
  try {
    const words = { args: [...argv], options: known, allowPositionals: expected.length > 0 };
    const { positionals: args, values } = parseArgs(words);
    const required = expected.filter((argument) => !argument.startsWith("["));
    if (args.length < required.length || args.length > expected.length) {
      const got = args.map((word) => `"${word}"`).join(" ") || "none";
      throw new TypeError(`expected ${expected.join(" ")}, got ${got}`);
    }
    const read = Object.entries(command.options).map(([key, option]) => {
      const given = values[flagOf(key).slice(2)]?.toString(); // an array joins its texts by commas
      return [key, readOption(command, key, option, given)];
    });
    return { args, options: Object.fromEntries(read) };
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    const dash = 'Write "--" before an argument that begins with a dash';
    const why = error.message.replaceAll("\n", " ").replace(/To specify a p.*/, dash);
    throw new UsageError(`${name}: ${why.replace(/\.$/, "")}; see plant-store ${name} --help`);
  }
}

/** The variable that sets an option of this command; empty if only its flag does. */
function variableIn(command: Command, option: string): string {
  const namesStore = option.startsWith("data"); // --data, --database, …
  return command.readsVariables || namesStore ? variableOf(option) : "";
}

/** @throws UsageError that names where a wrong value came from. */
function readOption(command: Command, key: string, option: Option<unknown>, given?: string) {
  const variable = variableIn(command, key);
  const { [variable]: value } = process.env;
  const text = given ?? ((!isServiceLink(variable, value) && value) || option.defaultText);
  if (text === undefined) return undefined;
  try {
    const parsed = option.parse(text);
    if (parsed !== undefined) return parsed;
  } catch {} // parsers of the library throw
  const source = given === undefined ? variable : flagOf(key);
  const got = option.isSecret ? "" : `, got "${text}"`;
  throw new UsageError(`${source}: expected ${option.expected}${got}`);
}

export function describeProgram(commands: readonly Command[]): string {
  const width = Math.max(...commands.map((command) => usage(command).length));
  const lines = commands.map((command) => `  ${usage(command).padEnd(width)}  ${command.summary}`);
  return `plant-store: a small durable HTTP store for plants

Usage: plant-store COMMAND [OPTION …]

${lines.join("\n")}

  plant-store COMMAND --help  shows the options of a command
  plant-store --version       shows the version

Exit status: 0 done, 1 failed, 2 wrong usage, 3 manual repair needed.
`;
}

export function describeCommand(command: Command): string {
  const options = Object.entries(command.options).map(([name, option]) => {
    const { placeholder, defaultText, help } = option;
    const value = placeholder === undefined ? "" : ` ${placeholder}`;
    const fallback = defaultText === undefined ? "" : `; default ${defaultText}`;
    const variable = variableIn(command, name);
    const source = variable === "" ? "" : ` [${variable}]`;
    return `  ${flagOf(name)}${value}\n      ${help}${fallback}${source}\n`;
  });
  const title = "\nOptions, with the variable that is read if there is no flag:\n";
  const [head, hint] = options.length === 0 ? ["", ""] : [title, " [OPTION …]"];
  const details = command.details === undefined ? "" : `\n${command.details}\n`;
  return `Usage: plant-store ${usage(command)}${hint}

${command.summary}
${head}${options.join("")}${details}`;
}

function usage({ name, arguments: expected = [] }: Command): string {
  return [name, ...expected].join(" ");
}
