/** Options, medians and tables of the benches. */
import os from "node:os";
import { parseArgs } from "node:util";

/** The options that were given, all with a value. Prints the texts and exits on `--help` or an unknown one. */
export function readOptions<Name extends string>(
  texts: Readonly<Record<Name, string>>,
): Partial<Record<Name, string>> {
  const names = Object.keys(texts) as Name[];
  const options = Object.fromEntries(names.map((name) => [name, { type: "string" } as const]));
  try {
    return parseArgs({ options }).values as Partial<Record<Name, string>>;
  } catch {
    for (const name of names) process.stderr.write(`  --${name.padEnd(12)} ${texts[name]}\n`);
    process.exit(2);
  }
}

/** Numbers with commas between. */
export function numbers(text: string): number[] {
  return text.split(",").map((part) => Number(part.replaceAll("_", "")));
}

export function median(samples: readonly number[]): number {
  const sorted = [...samples].sort((a, b) => a - b);
  const [upper = Number.NaN, lower = Number.NaN] = [
    sorted[sorted.length >> 1],
    sorted[(sorted.length - 1) >> 1],
  ];
  return (lower + upper) / 2;
}

/** `0.71 (0.68-0.74)`: the median, the least and the most. */
export function formatSpread(samples: readonly number[]): string {
  const [least, most] = [Math.min(...samples), Math.max(...samples)];
  return `${median(samples).toFixed(2)} (${least.toFixed(2)}-${most.toFixed(2)})`;
}

export function describeMachine(): string {
  const [cpu] = os.cpus();
  const load = os.loadavg()[0]?.toFixed(1);
  return `${os.cpus().length} x ${cpu?.model.trim()}, Node ${process.version}, load average ${load} at the start`;
}

/** A table in Markdown. */
export function printTable(head: readonly string[], rows: readonly (readonly string[])[]): void {
  const lines = [head, head.map(() => "---"), ...rows];
  process.stdout.write(`${lines.map((cells) => `| ${cells.join(" | ")} |\n`).join("")}`);
}
