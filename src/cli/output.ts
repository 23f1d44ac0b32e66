/**
 * What people see. Standard output holds results, whole or with a failure, and
 * the notice of a server; everything else goes to standard error, one line each,
 * with nothing in it that steers a terminal.
 */
import { fstatSync, writeFileSync } from "node:fs";
import { publishWarning } from "../core/channels.ts";
import { escapeControls } from "../core/json-string.ts";
import type { Notice } from "./notice.ts";
import { Progress } from "./progress.ts";

const STDOUT = 1;

/** What a command's standard output is to it, which decides what its loss means. */
export type OutputUse =
  /** Long: a reader that has seen enough (`plant-store list | head`) is no failure. */
  | "listing"
  /** Short, and the point of the command: a lost one is a failure. */
  | "result";

/** A notice is a sign of life: whoever started a server may stop to read. */
let use: OutputUse | "notice" = "listing";

/** Prints results in one piece, a line each; waits while the reader is slower. */
export async function printLines(lines: readonly string[]): Promise<void> {
  await print(encodeLines(lines));
}

/** The same for bytes that are whole lines, just as they are. */
export async function printBytes(chunks: AsyncIterable<Buffer>): Promise<void> {
  for await (const chunk of chunks) await print(chunk);
}

/** Prints a notice, and waits for nobody. From now on it is what standard output is for. */
export function printNotice(lines: readonly string[]): void {
  use = "notice";
  void print(encodeLines(lines));
}

/**
 * Resolves once everything is written, however slow its readers are, so that the process may
 * end. A notice that nobody reads is not waited for.
 */
export async function flushOutputs(): Promise<void> {
  if (use !== "notice") await flush(process.stdout);
  await flush(process.stderr);
}

/** Also resolves when the reader has gone: `watchOutputs` decides what that means. */
async function flush(stream: NodeJS.WriteStream): Promise<void> {
  if (stream.writableLength > 0) await new Promise((resolve) => stream.write("", resolve));
}

function encodeLines(lines: readonly string[]): Buffer {
  return Buffer.from(lines.map((line) => `${escapeControls(line)}\n`).join(""));
}

async function print(bytes: Buffer): Promise<void> {
  try {
    // Node's stream says nothing of what a disk had no room for.
    if (fstatSync(STDOUT).isFile()) writeFileSync(STDOUT, bytes);
    else await new Promise((resolve) => process.stdout.write(bytes, resolve));
  } catch (error) {
    onLoss(error as Error);
  }
}

/** Tells the operator something; `tell` is how every command does it. */
export type Reporter = (notice: Notice, tell: (notice: Notice) => void) => void;

let reporter: Reporter = (notice) => tell(notice);

/** From now on another one tells the operator: the log of a server. */
export function reportTo(next: Reporter): void {
  reporter = next;
}

export function report(notice: Notice): void {
  Progress.clear();
  reporter({ ...notice, message: nameFolders(notice.message) }, tell);
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

/** One message for the operator. */
export function printMessage(message: string): void {
  report({ level: "info", event: "message", message });
}

/** `1 plant`, `2 plants`. */
export function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? "" : "s"}`;
}

function tell({ level, message }: Notice): void {
  const label = level === "warn" ? "warning: " : "";
  process.stderr.write(`plant-store: ${label}${escapeControls(message)}\n`);
}

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
  if (use === "notice") publishWarning(message);
  else if (use === "listing" && error.code === "EPIPE") process.exit(0);
  else {
    printMessage(message);
    process.exit(1);
  }
}
