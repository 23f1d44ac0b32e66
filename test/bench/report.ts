/** Options, medians and tables of the benches. */
import os from "node:os";
import { parseArgs } from "node:util";

/** The options, with their defaults; lists of numbers have commas between. @throws for any other option. */
export function readOptions<Name extends string>(defaults: Readonly<Record<Name, string>>) {
  const names = Object.keys(defaults) as Name[];
  const options = Object.fromEntries(
    names.map((name) => [name, { type: "string", default: defaults[name] } as const]),
  );
  const values: Readonly<Record<string, unknown>> = parseArgs({ options }).values;
  const text = (name: Name) => String(values[name]);
  const numbers = (name: Name) =>
    text(name)
      .split(",")
      .map((part) => Number(part.replaceAll("_", "")));
  return { text, numbers, number: (name: Name) => numbers(name)[0] ?? 0 };
}

export function median(samples: readonly number[]): number {
  const sorted = [...samples].sort((a, b) => a - b);
  const at = (place: number) => sorted[place] ?? Number.NaN;
  return (at(sorted.length >> 1) + at((sorted.length - 1) >> 1)) / 2;
}

/** `0.71 (0.68-0.74)`: the median, the least and the most. */
export function formatSpread(samples: readonly number[]): string {
  const [least, most] = [Math.min(...samples), Math.max(...samples)];
  return `${median(samples).toFixed(2)} (${least.toFixed(2)}-${most.toFixed(2)})`;
}

/** Prints the machine, and a table in Markdown. */
export function printTable(head: readonly string[], rows: readonly (readonly string[])[]): void {
  const [cpu] = os.cpus();
  const lines = [head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |\n`);
  process.stdout.write(`${os.cpus().length} x ${cpu?.model.trim()}, Node ${process.version}\n\n`);
  process.stdout.write(lines.join(""));
}
