/**
 * What the program prints. Results go to standard output, everything else to standard error, one line each. No
 * line holds a control character, except stored lines, which a pipe or a file gets as they are.
 */
import { fstatSync, writeFileSync } from "node:fs";
import { subscribe } from "../core/channels.ts";
import { escapeControls } from "../core/text.ts";
import type { ExitStatus } from "./command.ts";

/** The most severe first. */
export const LEVELS = ["error", "warn", "info"] as const;
export type Level = (typeof LEVELS)[number];

/** What the program reports to its operator: a warning, a step of its life, why it ends. */
export interface Notice {
  readonly level: Level;
  /** A word of [a-z-]. */
  readonly event: string;
  /** One line, without any token. */
  readonly message: string;
  readonly fields?: Fields;
}

/** More members of a JSON line; an undefined one is `null` there. */
type Fields = Readonly<Record<string, string | number | undefined>>;

/** Ends the process if standard output takes no more. A lost message ends nothing. */
export function watchOutputs(): void {
  process.stderr.on("error", () => {});
  process.stdout.on("error", onLoss);
}

function onLoss({ code, message: why }: NodeJS.ErrnoException): never {
  // The reader may stop early: plant-store export | head
  if (code === "EPIPE") process.exit(0);
  const message = `Cannot write to standard output: ${why}`;
  printNotice({ level: "error", event: "failed", message });
  process.exit(1);
}

/** Prints to standard output; resolves with status 0 when the reader has taken it. */
export async function print(bytes: string | Buffer): Promise<ExitStatus> {
  try {
    // Node's stream does not report that a disk had no room for all of it.
    if (fstatSync(1).isFile()) writeFileSync(1, bytes);
    else await new Promise((resolve) => process.stdout.write(bytes, resolve));
  } catch (error) {
    onLoss(error as Error);
  }
  return 0;
}

/** Prints the lines of a result. */
export async function printLines(lines: readonly string[]): Promise<void> {
  await print(lines.map((line) => `${escapeControls(line)}\n`).join(""));
}

/** Prints chunks of stored lines as fast as their reader takes them; a terminal gets controls as escapes. */
export async function printStored(chunks: AsyncIterable<Buffer> | Iterable<Buffer>): Promise<void> {
  for await (const chunk of chunks) {
    if (process.stdout.isTTY) await printLines(chunk.toString().split("\n").slice(0, -1));
    else await print(chunk);
  }
}

/** Rows in columns that are as wide as their widest cell. */
export function formatTable(rows: readonly (readonly string[])[]): string[] {
  const widths = rows[0]?.map((_, at) => Math.max(...rows.map((row) => row[at]?.length ?? 0)));
  const pad = (cell: string, at: number) => cell.padEnd(widths?.[at] ?? 0);
  return rows.map((row) => row.map(pad).join("  ").trimEnd());
}

/** `1 plant`, `2 plants`. */
export function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

let reporter: (notice: Notice) => void = printNotice;

/** Sends notices to the log of a server from now on. */
export function reportTo(next: (notice: Notice) => void): void {
  reporter = next;
}

export function report(level: Level, event: string, message: string, fields: Fields = {}): void {
  clearProgress();
  reporter({ level, event, message, fields });
}

/** Reports the warnings of the library from now on. */
export function reportWarnings(): void {
  subscribe("plant-store:warning", ({ message, cause, requestId }) => {
    const why = cause instanceof Error ? `: ${cause.message}` : "";
    const fields = requestId === undefined ? {} : { requestId };
    report("warn", "warning", message + why, fields);
  });
}

export function printMessage(message: string): void {
  report("info", "message", message);
}

export function printNotice({ level, message }: Notice): void {
  clearProgress();
  const label = level === "warn" ? "warning: " : "";
  process.stderr.write(`plant-store: ${label}${escapeControls(message)}\n`);
}

const REDRAW_MS = 100;
/** When the progress on the terminal was drawn; `undefined` if there is none. */
let drawnAt: number | undefined;

/** Shows on a terminal how far a long piece of work has come, until the next notice or the end. */
export async function withProgress<T>(
  what: string,
  work: (show: (bytes: number, total?: number) => void) => Promise<T>,
): Promise<T> {
  const inMb = (bytes: number) => `${(bytes / 1e6).toFixed(1)} MB`;
  try {
    return await work((bytes, total) => {
      const now = performance.now();
      if (!process.stderr.isTTY || now - (drawnAt ?? -REDRAW_MS) < REDRAW_MS) return;
      drawnAt = now;
      const all = total === undefined ? "" : ` of ${inMb(total)}`;
      process.stderr.write(`\r\u001b[K${what}: ${inMb(bytes)}${all}`);
    });
  } finally {
    clearProgress();
  }
}

function clearProgress(): void {
  if (drawnAt !== undefined) process.stderr.write("\r\u001b[K");
  drawnAt = undefined;
}
