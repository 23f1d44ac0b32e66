/** A comparison as a Markdown table and as a plot. */
import fs from "node:fs";
import path from "node:path";
import type { Row } from "./compare.ts";
import { formatCount, formatSpread } from "./numbers.ts";
import { drawPlot } from "./plot.ts";
import { formatTable } from "./table.ts";

/** `second` is what the last column calls the second server; without it there is no such column. */
export function formatRows(rows: readonly Row[], second?: string): string {
  const ratio = `/ ${rows[0]?.name ?? ""}`;
  const lead = second === undefined ? [] : [`${second} / it`];
  const head = ["connections", "server", "requests/s", `${ratio} (min-max)`];
  for (const title of ["p50 ms", "p99 ms", "CPU µs/request"]) head.push(title, ratio);
  head.push("syncs/s", "records/sync", ...lead);
  return formatTable(
    head,
    rows.map((row) => [
      String(row.connections),
      row.name,
      formatCount(row.perSecond),
      formatSpread(row.rate),
      row.p50Ms.toFixed(2),
      formatSpread(row.p50),
      row.p99Ms.toFixed(2),
      formatSpread(row.p99),
      row.cpuUs.toFixed(1),
      formatSpread(row.cpu),
      row.syncsPerSecond > 0 ? formatCount(row.syncsPerSecond) : "-",
      row.syncsPerSecond > 0 ? row.recordsPerSync.toFixed(1) : "-",
      ...(second === undefined ? [] : [formatSpread(row.lead)]),
    ]),
  );
}

/** Writes the ratios of all but the first server. */
export function writePlot(file: string, rows: readonly Row[], machine: string): void {
  const [base] = rows;
  const places = [...new Set(rows.map(({ connections }) => connections))];
  const names = [...new Set(rows.map(({ name }) => name))].filter((name) => name !== base?.name);
  const svg = drawPlot({
    title: `Durable creates per second / ${base?.name ?? ""}`,
    subtitle: `median, minimum and maximum; ${machine.split(", a synced")[0]}`,
    xTitle: "connections",
    places: places.map(String),
    series: names.map((name) => ({
      name,
      points: rows.filter((row) => row.name === name).map((row) => row.rate),
    })),
  });
  fs.mkdirSync(path.dirname(path.resolve(file)), { recursive: true });
  fs.writeFileSync(file, svg);
}
