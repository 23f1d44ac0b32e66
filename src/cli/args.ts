/**
 * From the words of the command line to a command, its arguments and its options. The help texts
 * are made from the same tables, so that they cannot differ.
 *
 * An option comes from its flag, else from its `PLANT_STORE_` variable, else from the variable of a
 * supervisor, else from its default; the same parser reads them all.
 */
import { parseArgs } from "node:util";
import {
  type Command,
  type Option,
  type OptionSource,
  type Options,
  type OptionValues,
  UsageError,
} from "./command.ts";

interface Invocation {
  readonly args: readonly string[];
  readonly options: OptionValues<Options>;
  /** Where the value of every option comes from. */
  readonly sources: readonly OptionSource[];
  readonly wantsHelp: boolean;
}

/**
 * The command that the first words name, and the words after it.
 *
 * @throws UsageError with the nearest name there is.
 */
export function findCommand(
  words: readonly string[],
  commands: readonly Command[],
): { command: Command; rest: readonly string[] } {
  for (const length of [2, 1]) {
    const name = words.slice(0, length).join(" ");
    const command = commands.find((candidate) => candidate.name === name);
    if (command !== undefined) return { command, rest: words.slice(length) };
  }
  const typed = words.filter((word) => !word.startsWith("-"));
  const names = commands.map(({ name }) => name);
  const group = names.filter((name) => name.startsWith(`${typed[0]} `));
  if (group.length > 0 && typed.length < 2) {
    throw new UsageError(`expected one of: ${group.join(", ")}`);
  }
  const two = typed.slice(0, 2).join(" ");
  const heads = names.map((name) => name.split(" ")[0] ?? name);
  const nearest = suggest(two, names) ?? suggest(typed[0] ?? words[0] ?? "", heads);
  throw new UsageError(`expected a command, got "${two || words[0]}"${hint(nearest)}`);
}

/** @throws UsageError. */
export function readArgs(command: Command, words: readonly string[]): Invocation {
  const { positionals, flags } = splitWords(command, words);
  if (flags.has("help")) return { args: [], options: {}, sources: [], wantsHelp: true };
  if (positionals.length !== command.arguments.length) {
    const names = command.arguments.map(({ placeholder }) => placeholder);
    const expected = names.join(" ") || "no argument";
    const got = positionals.map((word) => `"${word}"`).join(" ") || "none";
    throw new UsageError(`${command.name}: expected ${expected}, got ${got}`);
  }
  const options: Record<string, unknown> = {};
  const sources = Object.entries(command.options).map(([name, option]) => {
    const source = findSource(name, option, flags.get(name));
    options[name] = readOption(option, source);
    return source;
  });
  return { args: positionals, options, sources, wantsHelp: false };
}

/** The variable that stands in for a flag. */
export function variableName(option: string): string {
  return `PLANT_STORE_${option.toUpperCase().replaceAll("-", "_")}`;
}

function findSource(name: string, option: Option<unknown>, flag: string | undefined): OptionSource {
  const variable = variableName(name);
  const supervisor = option.supervisorVariable ?? "";
  const sources = [
    { source: `--${name}`, text: flag },
    { source: variable, text: process.env[variable] || undefined },
    { source: supervisor, text: process.env[supervisor]?.split(":")[0] || undefined },
    { source: "default", text: option.defaultText },
  ];
  const found = sources.find(({ text }) => text !== undefined);
  return { option: name, text: found?.text, source: found?.source };
}

function readOption({ parse }: Option<unknown>, { option, text, source }: OptionSource): unknown {
  if (text === undefined) return undefined;
  try {
    return parse(text);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    const where = source === "default" ? `the default of --${option}` : source;
    throw new UsageError(`${where}: ${error.message}, got "${text}"`);
  }
}

const HELP: Option<never> = { help: "", parse: () => undefined as never };

/** Not strict, because our messages differ from those of Node, which change with its version. */
function splitWords(command: Command, words: readonly string[]) {
  const types = Object.entries(command.options).map(([name, { placeholder }]) => {
    return [name, { type: placeholder === undefined ? "boolean" : "string" }] as const;
  });
  const { tokens } = parseArgs({
    args: [...words],
    options: { ...Object.fromEntries(types), help: { type: "boolean", short: "h" } },
    strict: false,
    tokens: true,
  });
  const positionals: string[] = [];
  const flags = new Map<string, string>();
  let numberAt = -1;
  for (const token of tokens) {
    const word = words[token.index] ?? "";
    if (token.kind === "positional") positionals.push(token.value);
    else if (/^-[0-9]/.test(word)) {
      // A negative number, of which `parseArgs` makes a short flag for every digit.
      if (token.index !== numberAt) positionals.push(word);
      numberAt = token.index;
    } else if (token.kind === "option") {
      const value = readFlag(command, token);
      const before = flags.get(token.name);
      const isMore = before !== undefined && command.options[token.name]?.isRepeatable;
      flags.set(token.name, isMore ? `${before},${value}` : value);
    }
  }
  return { positionals, flags };
}

interface Flag {
  readonly name: string;
  readonly rawName: string;
  readonly value: string | undefined;
  readonly inlineValue: boolean | undefined;
}

/** The value of a flag, `true` for a switch. */
function readFlag(command: Command, { name, rawName, value, inlineValue }: Flag): string {
  const options: Options = { help: HELP, ...command.options };
  const option = Object.hasOwn(options, name) ? options[name] : undefined;
  if (option === undefined) {
    const nearest = suggest(
      rawName,
      Object.keys(options).map((known) => `--${known}`),
    );
    throw new UsageError(`${command.name}: there is no option ${rawName}${hint(nearest)}`);
  }
  if (option.placeholder === undefined) {
    if (value === undefined) return "true";
    throw new UsageError(`${command.name}: --${name} takes no value`);
  }
  const isFlag = inlineValue === false && /^-[^0-9]/.test(value ?? "");
  if (value !== undefined && !isFlag) return value;
  const way = value === undefined ? "" : `, or --${name}=${value} if that is the value`;
  const usage = `--${name} ${option.placeholder}`;
  throw new UsageError(`${command.name}: --${name} needs a value: ${usage}${way}`);
}

function hint(nearest: string | undefined): string {
  return nearest === undefined ? "; see plant-store --help" : `; did you mean "${nearest}"?`;
}

/** The nearest name, if at most a third of its letters differ. */
export function suggest(typed: string, names: readonly string[]): string | undefined {
  let nearest: string | undefined;
  let least = Number.POSITIVE_INFINITY;
  for (const name of names) {
    const distance = editDistance(typed, name);
    if (distance < least && distance <= Math.ceil(name.length / 3)) {
      least = distance;
      nearest = name;
    }
  }
  return nearest;
}

/** Levenshtein distance: letters to insert, remove or replace; row by row. */
function editDistance(from: string, to: string): number {
  if (from.length > 64) return Number.POSITIVE_INFINITY; // no name is that long
  let previous = Array.from({ length: to.length + 1 }, (_, at) => at);
  for (let row = 1; row <= from.length; row++) {
    const current = [row];
    for (let column = 1; column <= to.length; column++) {
      const replace = (previous[column - 1] ?? 0) + (from[row - 1] === to[column - 1] ? 0 : 1);
      const remove = (previous[column] ?? 0) + 1;
      const insert = (current[column - 1] ?? 0) + 1;
      current.push(Math.min(replace, remove, insert));
    }
    previous = current;
  }
  return previous[to.length] ?? 0;
}

export function describeProgram(commands: readonly Command[]): string {
  const width = Math.max(...commands.map((command) => usage(command).length));
  const lines = commands.map(
    (command) => `  ${usage(command).padEnd(width)}  ${command.summary}\n`,
  );
  return `plant-store: a small durable HTTP store for plants

Usage: plant-store COMMAND [OPTION …]

${lines.join("")}
  plant-store COMMAND --help  shows the options of a command
  plant-store --version       shows the version

Exit status: 0 done, 1 failed, 2 wrong usage, 3 the data needs a person.
`;
}

export function describeCommand(command: Command): string {
  const options = Object.entries(command.options).map(([name, option]) => {
    const { placeholder, supervisorVariable, defaultText, help } = option;
    const flag = placeholder === undefined ? `--${name}` : `--${name} ${placeholder}`;
    const supervisor = supervisorVariable === undefined ? "" : `$${supervisorVariable} or `;
    const fallback = defaultText === undefined ? "" : `; default ${supervisor}${defaultText}`;
    return `  ${flag}\n      ${help}${fallback} [${variableName(name)}]\n`;
  });
  const details = command.details === undefined ? "" : `\n${command.details}\n`;
  return `Usage: plant-store ${usage(command)} [OPTION …]

${command.summary}

Options, each also read from the variable in brackets:
${options.join("")}${details}`;
}

function usage(command: Command): string {
  return [command.name, ...command.arguments.map(({ placeholder }) => placeholder)].join(" ");
}
