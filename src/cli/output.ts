/**
 * What people see. Standard output holds results only; everything else goes to
 * standard error, one line each, with nothing in it that steers a terminal.
 */

/** Prints results, waiting while the reader is slower; ends quietly when it has gone. */
export async function printLines(lines: Iterable<string> | AsyncIterable<string>): Promise<void> {
  for await (const line of lines) await print(`${line}\n`);
}

/** The same for bytes that are whole lines. */
export async function printBytes(chunks: AsyncIterable<Buffer>): Promise<void> {
  for await (const chunk of chunks) await print(chunk);
}

async function print(text: string | Buffer): Promise<void> {
  if (process.stdout.write(text)) return;
  await new Promise((resolve) => process.stdout.once("drain", resolve));
}

/** One message for the operator. */
export function printMessage(text: string): void {
  process.stderr.write(`plant-store: ${escapeControls(text)}\n`);
}

/** `1 plant`, `2 plants`. */
export function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? "" : "s"}`;
}

/** A line to be copied into a shell, so nothing stands before it. */
export function printCommand(text: string): void {
  process.stderr.write(`\n  ${escapeControls(text)}\n\n`);
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

/** Names of files and words of the command line may hold anything. */
function escapeControls(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not get out
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}
