/** Every option with its value and where it came from, as a table. */
import type { OptionSource } from "./command.ts";

const HEAD: Row = ["OPTION", "VALUE", "FROM"];

type Row = readonly [option: string, value: string, source: string];

export function describeConfig(sources: readonly OptionSource[]): string[] {
  const rows = [
    HEAD,
    ...sources.map(({ option, text, source }): Row => {
      return [option, text ?? "-", source ?? "not set"];
    }),
  ];
  const width = (column: 0 | 1) => Math.max(...rows.map((row) => row[column].length));
  const widths = [width(0), width(1)] as const;
  return rows.map(
    ([option, value, source]) =>
      `${option.padEnd(widths[0])}  ${value.padEnd(widths[1])}  ${source}`,
  );
}
