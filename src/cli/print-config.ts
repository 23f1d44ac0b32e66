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

/** What counts of an option, where that is not what was given. */
function inForce(given: OptionSource, sources: readonly OptionSource[]): OptionSource {
  const { option, text } = given;
  // Told as a rule: what is asked at a terminal is mostly meant for a service.
  if (option === "log" && text === undefined) {
    return { option, text: "text on a terminal, else json", source: "default" };
  }
  if (option === "connections-max" && text === undefined) {
    return { option, text: "as open files and heap allow", source: "default" };
  }
  if (option !== "header-timeout-ms") return given;
  // The server gives headers no more time than the whole request.
  const bound = "request-timeout-ms";
  const { text: most } = sources.find((other) => other.option === bound) ?? given;
  return Number(text) <= Number(most) ? given : { option, text: most, source: bound };
}
