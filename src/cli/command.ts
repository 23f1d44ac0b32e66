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
 * Whether Kubernetes has set this variable for a Service: one called `plant-store` has variables that look like
 * ours (service links).
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
 * 0: done; 1: failed, not found, or not healthy; 2: wrong usage; 3: manual repair needed. A supervisor may
 * run the command again after a 1, never after a 2 or a 3.
 */
export type ExitStatus = 0 | 1 | 2 | 3;

/** The command line was wrong: status 2. */
export class UsageError extends Error {}

/** @throws UsageError that lists the commands of the group, or else all, if the first words name none. */
export function findCommand(
  argv: readonly string[],
  commands: readonly Command[],
): { command: Command; rest: readonly string[] } {
  const command = commands.find(({ name }) => `${argv.join(" ")} `.startsWith(`${name} `));
  if (command !== undefined) return { command, rest: argv.slice(command.name.split(" ").length) };
  const names = commands.map(({ name }) => name);
  const group = names.filter((name) => name.startsWith(`${argv[0]} `));
  const got = argv.slice(0, group.length > 0 ? 2 : 1).map(withoutValue);
  const expected = group.length > 0 ? group : names;
  throw new UsageError(`expected a command (${expected.join(", ")}), got "${got.join(" ")}"`);
}

/** The value of a flag may be secret. */
function withoutValue(word: string): string {
  return word.startsWith("-") ? word.replace(/=.*/s, "") : word;
}

/** @throws UsageError that names the command or the option, what was expected, and what came. */
export function readArgs(command: Command, argv: readonly string[]) {
  const { name, arguments: expected = [] } = command;
  const { args, flags, wantsHelp, mistake } = splitArgs(command, argv);
  if (wantsHelp) return { args: [], options: {}, wantsHelp };
  const required = expected.filter((argument) => !argument.startsWith("["));
  const isCounted = args.length >= required.length && args.length <= expected.length;
  if (mistake !== undefined || !isCounted) {
    const got = args.map((word) => `"${word}"`).join(" ") || "none";
    const why = mistake ?? `expected ${expected.join(" ") || "no argument"}, got ${got}`;
    throw new UsageError(`${name}: ${why}; see plant-store ${name} --help`);
  }
  const values = Object.entries(command.options).map(([key, option]) => {
    return [key, readOption(option, flags.get(flagOf(key)), flagOf(key), variableIn(command, key))];
  });
  return { args, options: Object.fromEntries(values), wantsHelp };
}

/** Sorts the words of a command line; `mistake` describes the first of them that cannot be right. */
function splitArgs(command: Command, argv: readonly string[]) {
  const placeholders = new Map(
    Object.entries(command.options).map(([key, { placeholder }]) => [flagOf(key), placeholder]),
  );
  const config = Array.from(placeholders, ([flag, placeholder]) => {
    const type = placeholder === undefined ? ("boolean" as const) : ("string" as const);
    return [flag.slice(2), { type }] as const;
  });
  const help = { type: "boolean", short: "h" } as const;
  const options = { ...Object.fromEntries(config), help };
  const { tokens } = parseArgs({ args: [...argv], options, strict: false, tokens: true });
  const args: string[] = [];
  const flags = new Map<string, string[]>();
  let wantsHelp = false;
  let mistake: string | undefined;
  for (const token of tokens) {
    if (token.kind === "positional") args.push(token.value);
    if (token.kind !== "option") continue;
    const { rawName: flag, value, inlineValue } = token;
    const placeholder = placeholders.get(flag);
    const isSwitch = placeholder === undefined;
    if (token.name === "help" && value === undefined) wantsHelp = true;
    else if (!placeholders.has(flag))
      mistake ??= describeUnknown(command, argv[token.index] ?? flag);
    else if (isSwitch && inlineValue) mistake ??= `${flag} takes no value`;
    else if (!isSwitch && value === undefined)
      mistake ??= `${flag}: expected ${placeholder} after it`;
    else if (!isSwitch && !inlineValue && value?.startsWith("-")) {
      const hint = `if that is the value, write ${flag}=${placeholder}`;
      mistake ??= `${flag}: expected ${placeholder}, got "${withoutValue(value)}" (${hint})`;
    } else flags.set(flag, [...(flags.get(flag) ?? []), value ?? "true"]);
  }
  return { args, flags, wantsHelp, mistake };
}

function describeUnknown({ name, arguments: [argument] = [] }: Command, word: string): string {
  const hint = ` (if that is the ${argument}, write: plant-store ${name} -- ${word})`;
  const isArgument = argument !== undefined && !word.startsWith("--");
  return `unknown option "${withoutValue(word)}"${isArgument ? hint : ""}`;
}

const STORE_OPTIONS = ["data", "database", "databaseFile", "databaseRequireSync"];

/** The variable that sets an option of this command; empty if only its flag does. */
function variableIn(command: Command, option: string): string {
  return command.readsVariables || STORE_OPTIONS.includes(option) ? variableOf(option) : "";
}

/** @param given the values of the flag: the last one counts, but all must be valid. */
function readOption(
  option: Option<unknown>,
  given: readonly string[] | undefined,
  flag: string,
  variable: string,
): unknown {
  const { [variable]: value } = process.env;
  const inherited = isServiceLink(variable, value) ? undefined : value || undefined;
  const fallback = inherited ?? option.defaultText;
  const texts = given ?? (fallback === undefined ? [] : [fallback]);
  const joined = option.isRepeatable && texts.length > 0 ? [texts.join(",")] : texts;
  return joined.map((text) => parseOption(option, text, given ? flag : variable)).at(-1);
}

/** @throws UsageError that names where a wrong value came from. */
function parseOption(option: Option<unknown>, text: string, source: string): unknown {
  let value: unknown;
  try {
    value = option.parse(text);
  } catch {} // parsers of the library throw
  if (value !== undefined) return value;
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
