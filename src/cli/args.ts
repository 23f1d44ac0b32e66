/**
 * Reads a command line, and makes the help from the same tables.
 *
 * The value of an option comes from its flag, or else its `PLANT_STORE_` variable, or else the
 * variable of a supervisor, or else its default. One parser reads them all.
 */
import {
  type Command,
  flagOf,
  type Option,
  type Options,
  type OptionValues,
  type Setting,
  UsageError,
  variableOf,
} from "./command.ts";

interface Invocation {
  readonly args: readonly string[];
  readonly options: OptionValues<Options>;
  readonly settings: readonly Setting[];
  readonly wantsHelp: boolean;
}

/**
 * The command that the first words name, and the words after it.
 *
 * @throws UsageError that suggests the nearest name.
 */
export function findCommand(
  words: readonly string[],
  commands: readonly Command[],
): { command: Command; rest: readonly string[] } {
  const command = commands.find(({ name }) => {
    return name === words.slice(0, name.split(" ").length).join(" ");
  });
  if (command !== undefined) return { command, rest: words.slice(command.name.split(" ").length) };
  const typed = words.filter((word) => !word.startsWith("-")).slice(0, 2);
  const names = commands.map(({ name }) => name);
  const group = names.filter((name) => name.startsWith(`${typed[0]} `)).join(", ");
  if (group !== "" && typed.length === 1) throw new UsageError(`expected one of: ${group}`);
  const heads = names.map((name) => name.split(" ")[0] ?? name);
  const nearest = suggest(typed.join(" "), names) ?? suggest(typed[0] ?? "", heads);
  const got = typed.join(" ") || words[0];
  throw new UsageError(`expected a command, got "${got}"${hint(nearest)}`);
}

/** @throws UsageError. */
export function readArgs(command: Command, words: readonly string[]): Invocation {
  const { args, flags } = splitWords(command, words);
  if (flags.has("--help")) return { args: [], options: {}, settings: [], wantsHelp: true };
  const { arguments: expected = [] } = command;
  if (args.length !== expected.length) {
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

const HELP: Option<boolean> = { help: "", expected: "", parse: () => true };

/** Not by Node's `parseArgs`, which takes a negative number for flags. */
function splitWords(command: Command, words: readonly string[]) {
  const options = { help: HELP, ...command.options };
  const known = new Map(Object.entries(options).map(([name, option]) => [flagOf(name), option]));
  const args: string[] = [];
  const flags = new Map<string, string>();
  const rest = [...words];
  for (let word = rest.shift(); word !== undefined; word = rest.shift()) {
    if (word === "--") args.push(...rest.splice(0));
    else if (!isFlag(word)) args.push(word);
    else {
      const [typed = "", inline] = word.split(/=(.*)/s);
      const flag = typed === "-h" ? "--help" : typed;
      const option = known.get(flag);
      if (option === undefined) {
        const nearest = suggest(flag, [...known.keys()]);
        throw new UsageError(`${command.name}: there is no option ${flag}${hint(nearest)}`);
      }
      const value = takeValue(flag, option, inline, rest);
      const earlier = option.isRepeatable ? flags.get(flag) : undefined;
      flags.set(flag, earlier === undefined ? value : `${earlier},${value}`);
    }
  }
  return { args, flags };
}

/** A dash and a digit begin a negative number. */
function isFlag(word: string): boolean {
  return /^-[^0-9]/.test(word);
}

/** The value of a flag, `true` for a switch; removes the next word if that is the value. */
function takeValue(
  flag: string,
  { placeholder }: Option<unknown>,
  inline: string | undefined,
  rest: string[],
): string {
  if (placeholder === undefined) {
    if (inline === undefined) return "true";
    throw new UsageError(`${flag} takes no value`);
  }
  const [next] = rest;
  const value = inline ?? (isFlag(next ?? "") ? undefined : rest.shift());
  if (value !== undefined) return value;
  const way = next === undefined ? "" : `, or ${flag}=${next} if that is the value`;
  throw new UsageError(`${flag} needs a value: ${flag} ${placeholder}${way}`);
}

/** @throws UsageError that names where a wrong value came from. */
function readSetting(name: string, option: Option<unknown>, flag: string | undefined): Setting {
  const { supervisorVariable = "", defaultText, unset } = option;
  const variable = variableOf(name);
  const sources = [
    { source: flagOf(name), text: flag },
    { source: variable, text: process.env[variable] || undefined },
    {
      source: supervisorVariable,
      text: process.env[supervisorVariable]?.split(":")[0] || undefined,
    },
    { source: "default", text: defaultText },
  ];
  const { source = "", text } = sources.find((each) => each.text !== undefined) ?? {};
  if (text === undefined) {
    const isUnset = unset === undefined;
    return { name, value: undefined, text: unset ?? "-", source: isUnset ? "not set" : "default" };
  }
  let value: unknown;
  try {
    value = option.parse(text);
  } catch {} // a parser of the library
  if (value !== undefined) return { name, value, text, source };
  throw new UsageError(`${source}: expected ${option.expected}, got "${text}"`);
}

function hint(nearest: string | undefined): string {
  return nearest === undefined ? "; see plant-store --help" : `; did you mean "${nearest}"?`;
}

/** The nearest name, if at most a third of its letters differ; the first of equally near ones. */
export function suggest(typed: string, names: readonly string[]): string | undefined {
  const [nearest] = names
    .map((name) => ({ name, distance: editDistance(typed, name) }))
    .filter(({ name, distance }) => distance <= Math.ceil(name.length / 3))
    .sort((a, b) => a.distance - b.distance);
  return nearest?.name;
}

/** Levenshtein distance: letters to insert, remove or replace. */
function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, at) => at);
  for (let line = 0; line < from.length; line++) {
    const above = row;
    row = [line + 1];
    for (let at = 0; at < to.length; at++) {
      const replaced = (above[at] ?? 0) + (from[line] === to[at] ? 0 : 1);
      row.push(Math.min(replaced, (above[at + 1] ?? 0) + 1, (row[at] ?? 0) + 1));
    }
  }
  return row[to.length] ?? 0;
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
    const { placeholder, supervisorVariable, defaultText, unset, help } = option;
    const value = placeholder === undefined ? "" : ` ${placeholder}`;
    const supervisor = supervisorVariable === undefined ? "" : `$${supervisorVariable} or `;
    const otherwise = unset === undefined ? "" : `; if not given, ${unset}`;
    const fallback =
      defaultText === undefined ? otherwise : `; default ${supervisor}${defaultText}`;
    return `  ${flagOf(name)}${value}\n      ${help}${fallback} [${variableOf(name)}]\n`;
  });
  const details = command.details === undefined ? "" : `\n${command.details}\n`;
  return `Usage: plant-store ${usage(command)} [OPTION …]

${command.summary}

Options, each also read from the variable in brackets:
${options.join("")}${details}`;
}

function usage({ name, arguments: expected = [] }: Command): string {
  return [name, ...expected].join(" ");
}
