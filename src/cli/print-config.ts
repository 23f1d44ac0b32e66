/** Every option with the value that is in force and where it came from, as a table. */
import type { OptionSource } from "./command.ts";

const HEAD: Row = ["OPTION", "VALUE", "FROM"];

type Row = readonly [option: string, value: string, source: string];

export function describeConfig(sources: readonly OptionSource[]): string[] {
  const rows = [
    HEAD,
    ...sources.map((each): Row => {
      const { option, text, source } = inForce(each, sources);
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

/** What counts of an option: the server gives headers no more time than the whole request. */
function inForce(given: OptionSource, sources: readonly OptionSource[]): OptionSource {
  if (given.option !== "header-timeout-ms") return given;
  const bound = "request-timeout-ms";
  const { text } = sources.find(({ option }) => option === bound) ?? given;
  return Number(given.text) <= Number(text) ? given : { ...given, text, source: bound };
}
