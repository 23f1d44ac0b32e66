/**
 * What a command is: its name, its arguments, its options, and what it does; how a command line is read,
 * and how the help is made from the same tables. `program` runs commands.
 *
 * The value of an option comes from its flag, or else its `PLANT_STORE_` variable, or else its
 * default. One parser reads them all.
 */
import { parseArgs } from "node:util";

/** The version of this program, the same as in package.json. */
export const VERSION = "1.0.0";

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
export function flagOf(name: string): string {
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

/** `PLANT_STORE_BODY_BYTES_MAX` for `bodyBytesMax`. */
export function variableOf(name: string): string {
  return `PLANT_STORE${flagOf(name).slice(1).toUpperCase().replaceAll("-", "_")}`;
}

/**
 * Whether Kubernetes has set this variable for a Service (a "service link"): a Service named `plant-store`
 * has names like those of our variables.
 */
export function isServiceLink(name: string, value = ""): boolean {
  return value.startsWith("tcp://") || /_SERVICE_(HOST|PORT)|_PORT_\d/.test(name);
}

export interface Command<O extends Options = Options> {
  /** As typed, e.g. `token create`. */
  readonly name: string;
  readonly summary: string;
  /** What the help shows for each argument: a name, or words such as `bash|zsh`. `[NAME]` may be left out. */
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
 * 0: done; 1: it failed, or the answer is no; 2: wrong usage; 3: the data needs a person. A
 * supervisor may run the command again after a 1, never after a 3.
 */
export type ExitStatus = 0 | 1 | 2 | 3;

/** The command line was wrong: status 2. */
export class UsageError extends Error {}

interface Invocation {
  readonly args: readonly string[];
  readonly options: OptionValues<Options>;
  readonly wantsHelp: boolean;
}

/** @throws UsageError that lists the commands of the group, or else all, if the first words name none. */
export function findCommand(
  words: readonly string[],
  commands: readonly Command[],
): { command: Command; rest: readonly string[] } {
  const command = commands.find(({ name }) => `${words.join(" ")} `.startsWith(`${name} `));
  if (command !== undefined) return { command, rest: words.slice(command.name.split(" ").length) };
  const names = commands.map(({ name }) => name);
  const group = names.filter((name) => name.startsWith(`${words[0]} `));
  const [expected, typed] =
    group.length > 0 ? [group, words.slice(0, 2)] : [names, words.slice(0, 1)];
  const got = typed.map((word) => word.split("=")[0]).join(" "); // the value of a flag may be secret
  throw new UsageError(`expected a command first, one of: ${expected.join(", ")}; got "${got}"`);
}

/** @throws UsageError. */
export function readArgs(command: Command, words: readonly string[]): Invocation {
  const { args, flags } = splitWords(command, words);
  if (flags.has("--help")) return { args: [], options: {}, wantsHelp: true };
  const { arguments: expected = [] } = command;
  const required = expected.filter((name) => !name.startsWith("["));
  if (args.length < required.length || args.length > expected.length) {
    const names = expected.join(" ") || "no argument";
    const got = args.map((word) => `"${word}"`).join(" ") || "none";
    throw new UsageError(`${command.name}: expected ${names}, got ${got}`);
  }
  const values = Object.entries(command.options).map(([name, option]) => {
    return [name, readOption(name, option, flags.get(flagOf(name)), variableIn(command, name))];
  });
  return { args, options: Object.fromEntries(values), wantsHelp: false };
}

function splitWords(command: Command, words: readonly string[]) {
  const known = Object.entries(command.options).map(
    ([option, { placeholder, isRepeatable = false }]) => {
      const type = placeholder === undefined ? ("boolean" as const) : ("string" as const);
      return [flagOf(option).slice(2), { type, multiple: isRepeatable }] as const;
    },
  );
  const help = { type: "boolean", short: "h" } as const;
  try {
    const { positionals, values } = parseArgs({
      args: [...words],
      options: { ...Object.fromEntries(known), help },
      allowPositionals: true,
    });
    const flags = Object.entries(values).map(([flag, value]) => {
      return [`--${flag}`, [value].flat().join(",")] as const;
    });
    return { args: positionals, flags: new Map<string, string>(flags) };
  } catch (error) {
    const { message } = error as Error;
    // The next sentence advises to put `--` before arguments that begin with a dash.
    const fault = command.arguments === undefined ? message.split(/\. /)[0] : message;
    const { name } = command;
    throw new UsageError(
      `${name}: ${fault?.replaceAll("\n", " ")}; see "plant-store ${name} --help"`,
    );
  }
}

const STORE_OPTIONS = ["data", "database", "databaseFile", "databaseRequireSync"];

/** The variable that sets an option of this command; empty if only its flag does. */
function variableIn(command: Command, option: string): string {
  return command.readsVariables || STORE_OPTIONS.includes(option) ? variableOf(option) : "";
}

/** @throws UsageError that names where a wrong value came from. */
function readOption(
  name: string,
  option: Option<unknown>,
  flag: string | undefined,
  variable: string,
): unknown {
  const { [variable]: value } = process.env;
  const sources = [
    { source: flagOf(name), text: flag },
    { source: variable, text: isServiceLink(variable, value) ? undefined : value || undefined },
    { source: "default", text: option.defaultText },
  ];
  const { source = "", text } = sources.find((each) => each.text !== undefined) ?? {};
  if (text === undefined) return undefined;
  let parsed: unknown;
  try {
    parsed = option.parse(text);
  } catch {} // parsers of the library throw
  if (parsed !== undefined) return parsed;
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

Exit status: 0 done, 1 failed, 2 wrong usage, 3 the data needs a person.
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
