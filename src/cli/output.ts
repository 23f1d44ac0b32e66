/**
 * What the program prints. Results, and the line of a server that is ready, go to standard output.
 * Everything else goes to standard error, one line each. All are without control characters, except
 * stored lines, which a pipe or a file gets as they are.
 */
import { fstatSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline/promises";
import { publishWarning, subscribe } from "../core/channels.ts";
import { escapeControls } from "../core/text.ts";
import { UsageError } from "./command.ts";

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
  /** More members of a JSON line; an undefined one is `null` there. */
  readonly fields?: Readonly<Record<string, string | number | undefined>>;
}

const STDOUT = 1;

/**
 * What was printed to standard output last. It decides whether a failed write is a failure: the reader
 * of a listing may stop early (`plant-store export | head`), and so may a program that waits for an
 * announcement.
 */
let printed: "listing" | "result" | "announcement" = "listing";

/** Ends the process if a result cannot be written. A lost message ends nothing. */
export function watchOutputs(): void {
  process.stderr.on("error", () => {});
  process.stdout.on("error", onLoss);
}

function onLoss(error: NodeJS.ErrnoException): void {
  const message = `Cannot write to standard output: ${error.message}`;
  if (printed === "announcement") publishWarning(message);
  else if (printed === "listing" && error.code === "EPIPE") process.exit(0);
  else {
    printMessage(message);
    process.exit(1);
  }
}

/** Prints the lines of a result; resolves when the reader has taken them. */
export async function printLines(lines: readonly string[]): Promise<void> {
  printed = "result";
  await print(encodeLines(lines));
}

/**
 * Prints a listing that comes in chunks of whole lines, as fast as its reader takes them; a terminal gets
 * what would control it as escapes.
 *
 * @param kind `result` if the reader needs all of it.
 */
export async function printListing(
  chunks: AsyncIterable<Buffer> | Iterable<Buffer>,
  kind: "listing" | "result" = "listing",
): Promise<void> {
  printed = kind;
  for await (const chunk of chunks) {
    const isShown = process.stdout.isTTY;
    await print(isShown ? encodeLines(chunk.toString().split("\n").slice(0, -1)) : chunk);
  }
}

/** Prints without waiting for the reader. */
export function announce(lines: readonly string[]): void {
  printed = "announcement";
  void print(encodeLines(lines));
}

/** Lines in which no character controls a terminal. */
function encodeLines(lines: readonly string[]): Buffer {
  return Buffer.from(lines.map((line) => `${escapeControls(line)}\n`).join(""));
}

async function print(bytes: Buffer): Promise<void> {
  try {
    // Node's stream does not report that a disk had no room for all of it.
    if (fstatSync(STDOUT).isFile()) writeFileSync(STDOUT, bytes);
    else await new Promise((resolve) => process.stdout.write(bytes, resolve));
  } catch (error) {
    onLoss(error as Error);
  }
}

/**
 * Resolves once everything is written, however slow its readers are, so that the process may end.
 * Does not wait for the reader of an announcement.
 */
export async function flushOutputs(): Promise<void> {
  const streams: NodeJS.WriteStream[] = [process.stderr];
  if (printed !== "announcement") streams.push(process.stdout);
  for (const stream of streams) {
    // Resolves also if the reader has gone: `watchOutputs` decides what that means.
    if (stream.writableLength > 0) await new Promise((resolve) => stream.write("", resolve));
  }
}

/** Rows in columns that are as wide as their widest cell. */
export function formatTable(rows: readonly (readonly string[])[]): string[] {
  const widths: number[] = [];
  for (const row of rows) {
    for (const [at, cell] of row.entries()) widths[at] = Math.max(widths[at] ?? 0, cell.length);
  }
  return rows.map((row) => {
    const cells = row.map((cell, at) => cell.padEnd(widths[at] ?? 0));
    return cells.join("  ").trimEnd();
  });
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

export function report(notice: Notice): void {
  clearProgress();
  reporter(notice);
}

/** Reports the warnings of the library from now on. */
export function reportWarnings(): void {
  subscribe("plant-store:warning", ({ message, cause, requestId }) => {
    const why = cause instanceof Error ? `: ${cause.message}` : "";
    const fields = requestId === undefined ? {} : { requestId };
    report({ level: "warn", event: "warning", message: message + why, fields });
  });
}

export function printMessage(message: string): void {
  report({ level: "info", event: "message", message });
}

/** How many refused lines are named; the others are counted. */
const NAMED_MAX = 20;

/** Names a refused line. @param refused how many there are so far, with this one. */
export function printRefused(refused: number, line: number, reason: string): void {
  if (refused <= NAMED_MAX) printMessage(`refused line ${line}: ${reason}`);
}

/** Counts the refused lines that were not named. */
export function printMoreRefused(refused: number): void {
  if (refused > NAMED_MAX) printMessage(`refused ${count(refused - NAMED_MAX, "more line")}`);
}

export function printNotice({ level, message }: Notice): void {
  const label = level === "warn" ? "warning: " : "";
  process.stderr.write(`plant-store: ${label}${escapeControls(message)}\n`);
}

/**
 * Whether the user at the terminal says yes.
 *
 * @throws UsageError if there is no terminal.
 */
export async function confirm(question: string): Promise<boolean> {
  if (!process.stdin.isTTY) {
    throw new UsageError("cannot ask without a terminal; --yes goes ahead without asking");
  }
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    // Ctrl-C and Ctrl-D are a no.
    const answer = await terminal.question(`${question} [y/N] `).catch(() => "");
    return /^y(es)?$/i.test(answer.trim());
  } finally {
    terminal.close();
  }
}

const REDRAW_MS = 100;
/** When the progress on the terminal was drawn; `undefined` if there is none. */
let drawnAt: number | undefined;

/**
 * Shows on a terminal how far a long piece of work has come, until the next notice or the end.
 *
 * @param work gets a function to call with the bytes that are done, and all bytes if that is known.
 */
export async function withProgress<T>(
  what: string,
  work: (show: (bytes: number, total: number | undefined) => void) => Promise<T>,
): Promise<T> {
  try {
    return await work((bytes, total) => {
      const now = performance.now();
      const isFresh = drawnAt !== undefined && now - drawnAt < REDRAW_MS;
      if (!process.stderr.isTTY || isFresh) return;
      drawnAt = now;
      process.stderr.write(`\r\u001b[K${what}: ${describeProgress(bytes, total)}`);
    });
  } finally {
    clearProgress();
  }
}

function clearProgress(): void {
  if (drawnAt !== undefined) process.stderr.write("\r\u001b[K");
  drawnAt = undefined;
}

/** `42 % of 120.0 MB`, at most 100 %, as a file may grow while it is read; without a total `50.4 MB`. */
export function describeProgress(bytes: number, total: number | undefined): string {
  if (total === undefined) return megabytes(bytes);
  const share = total === 0 ? 1 : Math.min(bytes / total, 1);
  return `${Math.floor(share * 100)} % of ${megabytes(total)}`;
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
