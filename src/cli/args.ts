/**
 * From the words of the command line to a command, its arguments and options.
 *
 * An option comes from its flag, else from its `PLANT_STORE_` variable, else
 * from what a supervisor sets, else from its default; the same reader judges
 * them all.
 */
import { parseArgs } from "node:util";
import {
  type Command,
  type OptionSource,
  type Options,
  type OptionValues,
  UsageError,
} from "./command.ts";
import { suggest } from "./suggest.ts";

interface Invocation {
  readonly args: readonly string[];
  readonly options: OptionValues<Options>;
  readonly wantsHelp: boolean;
}

/**
 * The command that the first words name, and the words behind it.
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
  const groups = names.map((name) => name.split(" ")[0] ?? name);
  const nearest =
    suggest(typed.slice(0, 2).join(" "), names) ?? suggest(typed[0] ?? words[0] ?? "", groups);
  const group = names.filter((name) => name.startsWith(`${typed[0]} `));
  throw new UsageError(
    group.length > 0 && typed.length < 2
      ? `expected one of: ${group.join(", ")}`
      : `expected a command, got "${typed.slice(0, 2).join(" ") || words[0]}"${hint(nearest)}`,
  );
}

/** @throws UsageError. */
export function readArgs(command: Command, words: readonly string[]): Invocation {
  const { positionals, flags, wantsHelp } = splitWords(command, words);
  if (wantsHelp) return { args: [], options: {}, wantsHelp };
  if (positionals.length !== command.arguments.length) {
    const names = command.arguments.map(({ placeholder }) => placeholder);
    const expected = names.join(" ") || "no argument";
    const got = positionals.map((word) => `"${word}"`).join(" ") || "none";
    throw new UsageError(`${command.name}: expected ${expected}, got ${got}`);
  }
  const options = Object.fromEntries(
    Object.keys(command.options).map((name) => [name, readOption(command, name, flags.get(name))]),
  );
  return { args: positionals, options, wantsHelp };
}

/** The variable that stands in for a flag. */
export function variableName(option: string): string {
  return `PLANT_STORE_${option.toUpperCase().replaceAll("-", "_")}`;
}

/**
 * Where the value of every option of a command comes from.
 *
 * @throws UsageError.
 */
export function explainOptions(command: Command, words: readonly string[]): OptionSource[] {
  const { flags } = splitWords(command, words);
  return Object.keys(command.options).map((name) => findSource(command, name, flags.get(name)));
}

function findSource(command: Command, option: string, flag: string | undefined): OptionSource {
  const { defaultText, supervisorVariable = "" } = command.options[option] ?? {};
  const variable = variableName(option);
  const sources = [
    { source: `--${option}`, text: flag },
    { source: variable, text: process.env[variable] || undefined },
    {
      source: supervisorVariable,
      text: process.env[supervisorVariable]?.split(":")[0] || undefined,
    },
    { source: "default", text: defaultText },
  ];
  const found = sources.find(({ text }) => text !== undefined);
  return { option, text: found?.text, source: found?.source };
}

function readOption(command: Command, name: string, flag: string | undefined): unknown {
  const { text, source } = findSource(command, name, flag);
  const parse = command.options[name]?.parse;
  if (text === undefined || parse === undefined) return undefined;
  try {
    return parse(text);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    const where = source === "default" ? `the default of --${name}` : source;
    throw new UsageError(`${where}: ${error.message}, got "${text}"`);
  }
}

interface Words {
  readonly positionals: string[];
  readonly flags: Map<string, string>;
  readonly wantsHelp: boolean;
}

function splitWords(command: Command, words: readonly string[]): Words {
  const { numbers, others } = takeNumbers(command, words);
  const { values, positionals } = parseWords(command, others);
  const flags = new Map<string, string>();
  for (const [name, value] of Object.entries(values)) {
    flags.set(name, Array.isArray(value) ? value.join(",") : String(value));
  }
  return {
    positionals: [...positionals, ...numbers],
    flags,
    wantsHelp: flags.has("help"),
  };
}

/**
 * A negative number is no bundle of short flags: behind an option that takes a
 * value it is that, and elsewhere an argument.
 */
function takeNumbers(command: Command, words: readonly string[]) {
  const numbers: string[] = [];
  const others: string[] = [];
  for (const word of words) {
    const [, option = ""] = /^--(.+)$/.exec(others.at(-1) ?? "") ?? [];
    const takesValue = command.options[option]?.placeholder !== undefined;
    // Behind "--" every word is an argument.
    if (!/^-[0-9]/.test(word) || others.includes("--")) others.push(word);
    else if (takesValue) others.push(`${others.pop()}=${word}`);
    else numbers.push(word);
  }
  return { numbers, others };
}

function parseWords(command: Command, words: readonly string[]) {
  const options = Object.fromEntries(
    Object.entries(command.options).map(([name, { placeholder, isRepeatable }]) => [
      name,
      {
        type: placeholder === undefined ? ("boolean" as const) : ("string" as const),
        multiple: isRepeatable === true,
      },
    ]),
  );
  try {
    return parseArgs({
      args: [...words],
      allowPositionals: true,
      options: { ...options, help: { type: "boolean", short: "h" } },
    });
  } catch (error) {
    throw describeParseError(command, words, error as Error);
  }
}

/** In our words: Node's suggest `--` before positionals and differ between versions. */
function describeParseError(command: Command, words: readonly string[], error: Error): UsageError {
  const flag = /'(--?[^\s'=,<]+)/.exec(error.message)?.[1] ?? "";
  const { code } = error as NodeJS.ErrnoException;
  if (code === "ERR_PARSE_ARGS_UNKNOWN_OPTION") {
    const names = ["help", ...Object.keys(command.options)].map((name) => `--${name}`);
    return new UsageError(
      `${command.name}: there is no option ${flag}${hint(suggest(flag, names))}`,
    );
  }
  const name = /--([a-z-]+)/.exec(error.message)?.[1] ?? "";
  const takes = command.options[name]?.placeholder;
  if (takes === undefined) return new UsageError(`${command.name}: --${name} takes no value`);
  const dashed = words.find((word, at) => word.startsWith("-") && words[at - 1] === `--${name}`);
  const way = dashed === undefined ? "" : `, or --${name}=${dashed} if that is the value`;
  return new UsageError(`${command.name}: --${name} needs a value: --${name} ${takes}${way}`);
}

function hint(nearest: string | undefined): string {
  return nearest === undefined ? "; see plant-store --help" : `; did you mean "${nearest}"?`;
}
