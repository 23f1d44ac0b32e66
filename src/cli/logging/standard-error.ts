/**
 * The descriptor of standard error, so that a write to it never blocks.
 *
 * Whether it blocks belongs to all who share it: the shell has the terminal,
 * and a program that Node starts makes its pipe blocking again. So a terminal
 * and a pipe are opened a second time. A socket cannot be, and Node has made it
 * non-blocking. A file always blocks: a thread writes to it (see line-writer).
 */
import { constants, fstatSync, openSync } from "node:fs";

export function openStandardError(): number {
  const { isTTY, fd } = process.stderr; // to touch it is what makes the stream
  try {
    if (!isTTY && !fstatSync(fd).isFIFO()) return fd;
    const { O_WRONLY, O_NONBLOCK, O_NOCTTY } = constants;
    return openSync(`/proc/self/fd/${fd}`, O_WRONLY | O_NONBLOCK | O_NOCTTY);
  } catch {
    // Another system or another user's, or nobody reads it now: it works, and may block.
    return fd;
  }
}

/** Whether colours are wanted (no-color.org, force-color.org) and can be shown. */
export function wantsColours(env: NodeJS.ProcessEnv, isTerminal: boolean): boolean {
  const { FORCE_COLOR: forced, NO_COLOR: refused, TERM: terminal } = env;
  if (forced) return forced !== "0" && forced !== "false";
  return isTerminal && !refused && terminal !== "dumb";
}
