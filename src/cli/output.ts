/**
 * What people see. Standard output holds results, and the announcement of a server; everything else goes
 * to standard error, one line each, with nothing in it that steers a terminal.
 */
import { subscribe } from "node:diagnostics_channel";
import { fstatSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline/promises";
import { publishWarning, type WarningMessage } from "../core/channels.ts";
import { escapeControls } from "../core/text.ts";
import { type OutputUse, UsageError } from "./command.ts";

/** From the gravest on. */
export const LEVELS = ["error", "warn", "info"] as const;
export type Level = (typeof LEVELS)[number];

/** What the program reports to its operator: a warning, a step of its life, why it ends. */
export interface Notice {
  readonly level: Level;
  /** For programs: a word of [a-z-]. */
  readonly event: string;
  /** For people; one line, never a token. */
  readonly message: string;
  /** More for programs; absent ones are `null`. */
  readonly fields?: Readonly<Record<string, string | number | undefined>>;
}

const STDOUT = 1;

/** An announcement is a sign of life: the program that started a server may stop reading. */
let use: OutputUse | "announcement" = "listing";

/** What standard output is for, which is `listing` at first. */
export function useOutput(given: OutputUse): void {
  use = given;
}

/** Decides what becomes of a process whose output cannot be written. Lost messages end nothing. */
export function watchOutputs(): void {
  process.stderr.on("error", () => {});
  process.stdout.on("error", onLoss);
}

function onLoss(error: NodeJS.ErrnoException): void {
  const message = `Cannot write to standard output: ${error.message}`;
  if (use === "announcement") publishWarning(message);
  else if (use === "listing" && error.code === "EPIPE") process.exit(0);
  else {
    printMessage(message);
    process.exit(1);
  }
}

/** Prints results in one piece, a line each; waits while the reader is slower. */
export async function printLines(lines: readonly string[]): Promise<void> {
  await print(encodeLines(lines));
}

/** The same for bytes that are whole lines, just as they are. */
export async function printBytes(chunks: AsyncIterable<Buffer>): Promise<void> {
  for await (const chunk of chunks) await print(chunk);
}

/** Prints without waiting for the reader. From now on that is what standard output is for. */
export function announce(lines: readonly string[]): void {
  use = "announcement";
  void print(encodeLines(lines));
}

function encodeLines(lines: readonly string[]): Buffer {
  return Buffer.from(lines.map((line) => `${escapeControls(line)}\n`).join(""));
}

async function print(bytes: Buffer): Promise<void> {
  try {
    // Node's stream reports nothing of what a disk had no room for.
    if (fstatSync(STDOUT).isFile()) writeFileSync(STDOUT, bytes);
    else await new Promise((resolve) => process.stdout.write(bytes, resolve));
  } catch (error) {
    onLoss(error as Error);
  }
}

/**
 * Resolves once everything is written, however slow its readers are, so that the process may end.
 * An announcement that nobody reads is not waited for.
 */
export async function flushOutputs(): Promise<void> {
  if (use !== "announcement") await flush(process.stdout);
  await flush(process.stderr);
}

/** Also resolves when the reader has gone: `watchOutputs` decides what that means. */
async function flush(stream: NodeJS.WriteStream): Promise<void> {
  if (stream.writableLength > 0) await new Promise((resolve) => stream.write("", resolve));
}

/** Rows in columns that are as wide as their widest cell. */
export function formatTable(rows: readonly (readonly string[])[]): string[] {
  const widths = rows[0]?.map((_, at) => Math.max(...rows.map((row) => row[at]?.length ?? 0)));
  return rows.map((row) => {
    const cells = row.map((cell, at) => cell.padEnd(widths?.[at] ?? 0));
    return cells.join("  ").trimEnd();
  });
}

/** `1 plant`, `2 plants`. */
export function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? "" : "s"}`;
}

/** Takes a notice; `print` is how every command shows it. */
export type Reporter = (notice: Notice, print: (notice: Notice) => void) => void;

let reporter: Reporter = (notice) => printNotice(notice);

/** From now on notices go elsewhere: to the log of a server. */
export function reportTo(next: Reporter): void {
  reporter = next;
}

export function report(notice: Notice): void {
  clearProgress();
  reporter({ ...notice, message: nameFolders(notice.message) }, printNotice);
}

/** From now on the warnings of the library are notices. */
export function reportWarnings(): void {
  subscribe("plant-store:warning", (warning) => {
    const { message, cause, requestId } = warning as WarningMessage;
    const why = cause instanceof Error ? `: ${cause.message}` : "";
    const fields = requestId === undefined ? {} : { requestId };
    report({ level: "warn", event: "warning", message: message + why, fields });
  });
}

/** One message for the operator. */
export function printMessage(message: string): void {
  report({ level: "info", event: "message", message });
}

function printNotice({ level, message }: Notice): void {
  const label = level === "warn" ? "warning: " : "";
  process.stderr.write(`plant-store: ${label}${escapeControls(message)}\n`);
}

/** Paths through descriptors, and the folders that the operator named. */
const shownPaths = new Map<string, string>();

/** From now on messages show another path in the place of `/proc/self/fd/N`. */
export function showPathAs(through: string, folder: string): void {
  shownPaths.set(through, folder);
}

function nameFolders(message: string): string {
  if (shownPaths.size === 0) return message;
  return message.replace(/\/proc\/self\/fd\/\d+/g, (path) => shownPaths.get(path) ?? path);
}

/**
 * Whether the person at the terminal says yes.
 *
 * @throws UsageError if there is no terminal.
 */
export async function confirm(question: string): Promise<boolean> {
  if (!process.stdin.isTTY) {
    throw new UsageError("nobody can be asked here; say --yes to go on without a question");
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

/** `total` is `undefined` if the length of a stream is not known. */
type ShowProgress = (bytes: number, total: number | undefined) => void;

const REDRAW_MS = 100;
const BAR_CELLS = 24;
let isProgressShown = false;
let progressChangedAt = 0;

/** Shows on the terminal how far a long piece of work has come. What is reported replaces the line. */
export async function withProgress<T>(
  what: string,
  work: (show: ShowProgress) => Promise<T>,
): Promise<T> {
  const startedAt = performance.now();
  try {
    return await work((bytes, total) => {
      const now = performance.now();
      if (!process.stderr.isTTY || now - progressChangedAt < REDRAW_MS) return;
      progressChangedAt = now;
      isProgressShown = true;
      const line = describeProgress(what, bytes, total, (now - startedAt) / 1000);
      process.stderr.write(`\r\u001b[K${line}`);
    });
  } finally {
    clearProgress();
  }
}

function clearProgress(): void {
  if (isProgressShown) process.stderr.write("\r\u001b[K");
  isProgressShown = false;
  progressChangedAt = performance.now();
}

/** `importing [####----] 42 % of 120 MB, 31 MB/s, 3 s left`. */
export function describeProgress(
  what: string,
  bytes: number,
  total: number | undefined,
  seconds: number,
): string {
  const perSecond = bytes / Math.max(seconds, 0.001);
  const rate = `${megabytes(perSecond)}/s`;
  if (total === undefined) return `${what} ${megabytes(bytes)}, ${rate}`;
  const bar = "#".repeat(Math.floor(shareOf(bytes, total) * BAR_CELLS)).padEnd(BAR_CELLS, "-");
  const left = Math.ceil(Math.max(total - bytes, 0) / Math.max(perSecond, 1));
  return `${what} [${bar}] ${describeShare(bytes, total)}, ${rate}, ${left} s left`;
}

/** `42 % of 120.0 MB`. */
export function describeShare(bytes: number, total: number): string {
  return `${Math.floor(shareOf(bytes, total) * 100)} % of ${megabytes(total)}`;
}

/** At most 1: a file may grow while it is read. */
function shareOf(bytes: number, total: number): number {
  return total === 0 ? 1 : Math.min(bytes / total, 1);
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
