/** The findings of a run, added up and as a table. */
import type { LogFindings } from "./log-check.ts";

export interface Totals {
  /** How often the program was killed; of rivals, the number of rounds. */
  kills: number;
  acknowledged: number;
  lost: number;
  duplicated: number;
  unknownLines: number;
  failedStarts: number;
  /** Descriptions of everything that was wrong. */
  readonly faults: string[];
  readonly startedAt: number;
}

export function newTotals(): Totals {
  return {
    kills: 0,
    acknowledged: 0,
    lost: 0,
    duplicated: 0,
    unknownLines: 0,
    failedStarts: 0,
    faults: [],
    startedAt: performance.now(),
  };
}

export function addFindings(totals: Totals, findings: Omit<LogFindings, "lines">): void {
  totals.lost += findings.lost;
  totals.duplicated += findings.duplicated;
  totals.unknownLines += findings.unknownLines;
  totals.faults.push(...findings.faults);
}

export function addTotals(totals: Totals, more: Totals): void {
  totals.kills += more.kills;
  totals.acknowledged += more.acknowledged;
  totals.failedStarts += more.failedStarts;
  addFindings(totals, more);
}

export function isClean({ lost, duplicated, unknownLines, failedStarts, faults }: Totals): boolean {
  return lost + duplicated + unknownLines + failedStarts + faults.length === 0;
}

/** Columns as wide as their widest cell; numbers to the right. */
export function formatTable(rows: readonly (readonly (string | number)[])[]): string {
  const widths: number[] = [];
  for (const row of rows) {
    for (const [at, cell] of row.entries()) {
      widths[at] = Math.max(widths[at] ?? 0, String(cell).length);
    }
  }
  const formatCell = (cell: string | number, at: number) =>
    at === 0 ? String(cell).padEnd(widths[at] ?? 0) : String(cell).padStart(widths[at] ?? 0);
  return rows.map((row) => row.map(formatCell).join("  ").trimEnd()).join("\n");
}

export const TOTALS_HEAD = [
  "kills",
  "acknowledged",
  "lost",
  "duplicated",
  "unknown lines",
  "failed starts",
  "other faults",
  "seconds",
] as const;

export function totalsRow(totals: Totals): (string | number)[] {
  const { kills, acknowledged, lost, duplicated, unknownLines, failedStarts, faults } = totals;
  const seconds = ((performance.now() - totals.startedAt) / 1000).toFixed(1);
  const others = faults.length;
  return [kills, acknowledged, lost, duplicated, unknownLines, failedStarts, others, seconds];
}

export const CUTS_HEAD = [
  "",
  "file system",
  "rounds",
  "acknowledged",
  "lost",
  "refused starts",
  "other faults",
  "seconds",
] as const;

export function cutsRow(name: string, fileSystem: string, totals: Totals): (string | number)[] {
  const { kills, acknowledged, lost, duplicated, unknownLines, failedStarts } = totals;
  const seconds = ((performance.now() - totals.startedAt) / 1000).toFixed(1);
  const others = duplicated + unknownLines + totals.faults.length;
  return [name, fileSystem, kills, acknowledged, lost, failedStarts, others, seconds];
}

/** Descriptions of the faults, at most the first few. */
export function formatFaults({ faults }: Totals, most = 20): string {
  const shown = faults.slice(0, most).map((fault) => `  fault: ${fault}\n`);
  return shown.join("") + (faults.length > most ? `  and ${faults.length - most} more\n` : "");
}
