/** A question to the person at the terminal. */
import { createInterface } from "node:readline/promises";
import { UsageError } from "./command.ts";

/**
 * Whether the person says yes.
 *
 * @throws UsageError where nobody can be asked.
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
