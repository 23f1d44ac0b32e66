/**
 * What people see. Standard output holds results only; everything else goes to
 * standard error, one line each, with nothing in it that steers a terminal.
 */
import { channel } from "node:diagnostics_channel";
import { escapeControls, type WarningMessage } from "../index.ts";
import type { Notice } from "./notice.ts";
import { Progress } from "./progress.ts";

/** Prints results in one piece, a line each; waits while the reader is slower. */
export async function printLines(lines: readonly string[]): Promise<void> {
  await print(lines.map((line) => `${escapeControls(line)}\n`).join(""));
}

/** The same for bytes that are whole lines, just as they are. */
export async function printBytes(chunks: AsyncIterable<Buffer>): Promise<void> {
  for await (const chunk of chunks) await print(chunk);
}

/** Also over where it cannot be written: what that means is for `watchOutputs` to decide. */
async function print(text: string | Buffer): Promise<void> {
  await new Promise((resolve) => process.stdout.write(text, resolve));
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
  reporter(notice, tell);
}

/** One message for the operator. */
export function printMessage(message: string): void {
  report({ level: "info", event: "message", message });
}

/** A warning. It takes the way of the library's, so that whoever counts those counts it too. */
export function warn(message: string): void {
  channel("plant-store:warning").publish({ message } satisfies WarningMessage);
}

/** `1 plant`, `2 plants`. */
export function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? "" : "s"}`;
}

function tell({ level, message }: Notice): void {
  const label = level === "warn" ? "warning: " : "";
  process.stderr.write(`plant-store: ${label}${escapeControls(message)}\n`);
}

/** What a command's standard output is to it, which decides what its loss means. */
export type OutputUse =
  /** Long: a reader that has seen enough (`plant-store list | head`) is no failure. */
  | "listing"
  /** Short, and the point of the command: a lost one is a failure. */
  | "result"
  /** A sign of life: whoever started a server may stop to read. */
  | "notice";

/** Decides what becomes of a process whose output cannot be written. Lost messages end nothing. */
export function watchOutputs(use: OutputUse): void {
  process.stderr.on("error", () => {});
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (use === "notice") return;
    if (use === "listing" && error.code === "EPIPE") process.exit(0);
    printMessage(`Cannot write to standard output: ${error.message}`);
    process.exit(1);
  });
}
