/** The options of the bench programs: `--name value` or `--name=value`, all optional. */
import { parseArgs } from "node:util";

/** The help text of each option, by its name. */
export type OptionTexts<Names extends string> = Readonly<Record<Names, string>>;

/**
 * The options that were given. On `--help` or an unknown name, prints all options
 * and exits. An option whose text begins with `switch:` takes no value: it is
 * `"true"` if given.
 */
export function readOptions<Names extends string>(
  texts: OptionTexts<Names>,
): Partial<Record<Names, string>> {
  const names = Object.keys(texts) as Names[];
  const isSwitch = (name: Names) => texts[name].startsWith("switch:");
  const types = names.map((name) => [name, { type: isSwitch(name) ? "boolean" : "string" }]);
  try {
    const { values } = parseArgs({ options: Object.fromEntries([...types, HELP]) });
    const given = new Map<string, unknown>(Object.entries(values));
    if (!given.has("help")) return stringify(given) as Partial<Record<Names, string>>;
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n`);
    process.exitCode = 2;
  }
  for (const name of names) process.stderr.write(`  --${name.padEnd(14)} ${texts[name]}\n`);
  process.exit();
}

const HELP = ["help", { type: "boolean" }];

function stringify(values: ReadonlyMap<string, unknown>): Partial<Record<string, string>> {
  return Object.fromEntries([...values].map(([name, value]) => [name, String(value)]));
}

/** A positive number, or the default. */
export function positive(text: string | undefined, otherwise: number): number {
  if (text === undefined) return otherwise;
  const value = Number(text.replaceAll("_", ""));
  if (!(value > 0)) throw new RangeError(`expected a number above zero, got "${text}"`);
  return value;
}

/** Positive numbers with commas between, or the default. */
export function positives(text: string | undefined, otherwise: readonly number[]): number[] {
  return text === undefined
    ? [...otherwise]
    : text.split(",").map((part) => positive(part, Number.NaN));
}
