/**
 * What a command is: its name, its arguments, its options, and what it does; how a command line is read,
 * and how the help is made from the same tables. `program` runs commands.
 *
 * The value of an option comes from its flag, or else its `PLANT_STORE_` variable, or else its
 * default. One parser reads them all. Variables that Kubernetes sets are ignored. A password in the URL of a
 * database is never shown.
 */
import { existsSync } from "node:fs";
import path from "node:path";
import { parseArgs } from "node:util";

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

/**
 * Whether Kubernetes sets this variable in each pod for a Service (a "service link"): a Service named
 * `plant-store` has names like those of our variables.
 */
export function isServiceLink(name: string, value = ""): boolean {
  const isName = /_SERVICE_HOST$|_SERVICE_PORT|_PORT_[0-9]+_(TCP|UDP|SCTP)/.test(name);
  return isName || (name.endsWith("_PORT") && /^(tcp|udp|sctp):\/\//.test(value));
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

interface Invocation {
  readonly args: readonly string[];
  readonly options: OptionValues<Options>;
  readonly settings: readonly Setting[];
  readonly wantsHelp: boolean;
}

/**
 * Finds the command that the first words name.
 *
 * @throws UsageError that names the nearest command, or else those of the group, or all.
 */
export function findCommand(
  words: readonly string[],
  commands: readonly Command[],
): { command: Command; rest: readonly string[] } {
  const command = commands.find(({ name }) => `${words.join(" ")} `.startsWith(`${name} `));
  if (command !== undefined) return { command, rest: words.slice(command.name.split(" ").length) };
  const names = commands.map(({ name }) => name);
  if (words[0]?.startsWith("-")) {
    const later = names.find((name) => ` ${words.join(" ")} `.includes(` ${name} `)) ?? "COMMAND";
    const [flag] = words[0].split("="); // its value may hold a password
    throw new UsageError(
      `expected a command before its options, as in "plant-store ${later} ${flag} …"`,
    );
  }
  const typed = words.slice(0, 2).filter((word) => !word.startsWith("-"));
  const nearest = findNearest(typed, names);
  if (nearest !== undefined) {
    const wrong = typed.slice(0, nearest.split(" ").length).join(" "); // without arguments
    throw new UsageError(`there is no command "${wrong}"; did you mean "${nearest}"?`);
  }
  const group = names.filter((name) => name.startsWith(`${words[0]} `));
  const expected = (group.length > 0 ? group : names).join(", ");
  throw new UsageError(`expected one of: ${expected}; got "${typed.join(" ")}"`);
}

/** The name that the first words nearly are; `undefined` if more is different than a third of its last word. */
function findNearest(words: readonly string[], names: readonly string[]): string | undefined {
  const [nearest] = names
    .map((name) => {
      const typed = words.slice(0, name.split(" ").length).join(" ");
      const last = name.slice(name.lastIndexOf(" ") + 1);
      return { name, edits: countEdits(typed, name), editsMax: Math.ceil(last.length / 3) };
    })
    .filter(({ edits, editsMax }) => edits <= editsMax)
    .sort((a, b) => a.edits - b.edits);
  return nearest?.name;
}

/** How many characters to add, remove or replace (the distance of Levenshtein). */
function countEdits(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, at) => at);
  for (let at = 0; at < from.length; at++) {
    const next = [at + 1];
    for (let end = 0; end < to.length; end++) {
      const replaced = (row[end] ?? 0) + Number(from[at] !== to[end]);
      next.push(1 + Math.min(replaced - 1, row[end + 1] ?? 0, next[end] ?? 0));
    }
    row = next;
  }
  return row[to.length] ?? 0;
}

/** @throws UsageError. */
export function readArgs(command: Command, words: readonly string[]): Invocation {
  const { args, flags } = splitWords(command, words);
  if (flags.has("--help")) return { args: [], options: {}, settings: [], wantsHelp: true };
  const { arguments: expected = [] } = command;
  const required = expected.filter((name) => !name.startsWith("["));
  if (args.length < required.length || args.length > expected.length) {
    const names = expected.join(" ") || "no argument";
    const got = args.map((word) => `"${word}"`).join(" ") || "none";
    throw new UsageError(`${command.name}: expected ${names}, got ${got}`);
  }
  const settings = Object.entries(command.options).map(([name, option]) => {
    return readSetting(name, option, flags.get(flagOf(name)));
  });
  const options = Object.fromEntries(settings.map(({ name, value }) => [name, value]));
  return { args, options, settings, wantsHelp: false };
}

function splitWords({ name, options }: Command, words: readonly string[]) {
  const known = Object.entries(options).map(([option, { placeholder, isRepeatable = false }]) => {
    const type = placeholder === undefined ? ("boolean" as const) : ("string" as const);
    return [flagOf(option).slice(2), { type, multiple: isRepeatable }] as const;
  });
  const help = { type: "boolean", short: "h" } as const;
  try {
    const { positionals, values } = parseArgs({
      args: words.map(markNumber),
      options: { ...Object.fromEntries(known), help },
      allowPositionals: true,
    });
    const flags = Object.entries(values).map(([flag, value]) => {
      return [`--${flag}`, [value].flat().map(unmarkNumber).join(",")] as const;
    });
    return { args: positionals.map(unmarkNumber), flags: new Map<string, string>(flags) };
  } catch (error) {
    // The first sentence only: the next advises to put `--` before arguments that begin with a dash.
    const [fault = ""] = (error as Error).message.split(/\. |\.$/);
    throw new UsageError(
      `${name}: ${fault.replaceAll("\n", " ")}; see "plant-store ${name} --help"`,
    );
  }
}

/** Puts a space before a negative number, so that Node does not read it as flags. */
function markNumber(word: string): string {
  return word.replace(/^-(?=[0-9])/, " -");
}

function unmarkNumber(word: unknown): string {
  return String(word).replace(/^ -/, "-");
}

/** @throws UsageError that names where a wrong value came from. */
function readSetting(name: string, option: Option<unknown>, flag: string | undefined): Setting {
  const variable = variableOf(name);
  const { [variable]: value } = process.env;
  const sources = [
    { source: flagOf(name), text: flag },
    { source: variable, text: isServiceLink(variable, value) ? undefined : value || undefined },
    { source: "default", text: option.defaultText },
  ];
  const { source = "", text } = sources.find((each) => each.text !== undefined) ?? {};
  if (text === undefined) return { name, value: undefined, text: "-", source: "not set" };
  let parsed: unknown;
  try {
    parsed = option.parse(text);
  } catch {} // parsers of the library throw
  if (parsed !== undefined) return { name, value: parsed, text, source };
  throw new UsageError(`${source}: expected ${option.expected}, got "${showSetting(name, text)}"`);
}

/** The password in the URL of a database. */
export const PASSWORD = /^(postgres(?:ql)?:\/\/[^:@/?#]*):([^@/?#]*)@/;
const HOST = "(?:[^:@/?#,[]*|\\[[^@/?#,]*\\])(?::\\d*)?";
const PARAMETER =
  "(?:sslmode|sslrootcert|target_session_attrs|channel_binding|connect_timeout)(?:=[^@#&]*)?(?:&|$)";
/** As `parseDatabaseUrl` accepts it. */
const ACCEPTED = new RegExp(
  `^postgres(?:ql)?://(?:[^@/?#]*@)?${HOST}(?:,${HOST})*(?:/[^@?#]*)?(?:\\?(?:${PARAMETER})*)?$`,
);

/** The text of an option for people: a URL without its password, or nothing of a text that may hold one. */
export function showSetting(name: string, text: string): string {
  if (name === "databaseFile" && /@|password\s*=/i.test(text) && !existsSync(text)) {
    return "*** (no such file)";
  }
  const mayBeUrl = (name === "database" && text !== "-") || /:\/\/.*@/.test(text);
  if (!mayBeUrl) return text;
  return ACCEPTED.test(text) ? hidePassword(text, ":***") : "*** (no URL of a database)";
}

export function hidePassword(url: string, shown = ""): string {
  return url.replace(PASSWORD, `$1${shown}@`);
}

export function describeProgram(commands: readonly Command[]): string {
  return `plant-store: a small durable HTTP store for plants

Usage: ${PROGRAM} COMMAND [OPTION …]

${listCommands(commands)}

  ${PROGRAM} COMMAND --help  shows the options of a command
  ${PROGRAM} --version       shows the version

Exit status: 0 done, 1 failed, 2 wrong usage, 3 the data needs a person.
`;
}

/** The help of `token` or `print`; `undefined` if no command begins with this word. */
export function describeGroup(word: string, commands: readonly Command[]): string | undefined {
  const group = commands.filter(({ name }) => name.startsWith(`${word} `));
  if (group.length === 0) return undefined;
  return `Usage: ${PROGRAM} ${word} COMMAND [OPTION …]

${listCommands(group)}

  ${PROGRAM} ${word} COMMAND --help  shows the options of a command
`;
}

function listCommands(commands: readonly Command[]): string {
  const width = Math.max(...commands.map((command) => usage(command).length));
  const lines = commands.map((command) => `  ${usage(command).padEnd(width)}  ${command.summary}`);
  return lines.join("\n");
}

export function describeCommand(command: Command): string {
  const options = Object.entries(command.options).map(([name, option]) => {
    const { placeholder, defaultText, help } = option;
    const value = placeholder === undefined ? "" : ` ${placeholder}`;
    const fallback = defaultText === undefined ? "" : `; default ${defaultText}`;
    return `  ${flagOf(name)}${value}\n      ${help}${fallback} [${variableOf(name)}]\n`;
  });
  const title = "\nOptions, each also read from the variable in brackets:\n";
  const [head, hint] = options.length === 0 ? ["", ""] : [title, " [OPTION …]"];
  const details = command.details === undefined ? "" : `\n${command.details}\n`;
  return `Usage: ${PROGRAM} ${usage(command)}${hint}

${command.summary}
${head}${options.join("")}${details}`;
}

function usage({ name, arguments: expected = [] }: Command): string {
  return [name, ...expected].join(" ");
}
