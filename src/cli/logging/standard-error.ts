/**
 * The descriptor of standard error, so that a write to it never blocks.
 *
 * A pipe or a socket is made non-blocking by Node, when it makes its stream of
 * it. A terminal Node keeps blocking, and the mode would be shared with the
 * shell, so it is opened a second time. A file takes what it is given.
 */
import { constants, openSync } from "node:fs";

export function openStandardError(): number {
  const { isTTY, fd } = process.stderr; // to touch it is what makes the stream
  if (!isTTY) return fd;
  try {
    const { O_WRONLY, O_NONBLOCK, O_NOCTTY } = constants;
    return openSync(`/proc/self/fd/${fd}`, O_WRONLY | O_NONBLOCK | O_NOCTTY);
  } catch {
    return fd; // another system, or a terminal of another user: it works, and may block
  }
}

/** Whether colours are wanted (no-color.org, force-color.org) and can be shown. */
export function wantsColours(env: NodeJS.ProcessEnv, isTerminal: boolean): boolean {
  const { FORCE_COLOR: forced, NO_COLOR: refused, TERM: terminal } = env;
  if (forced !== undefined) return forced !== "0" && forced !== "false";
  return isTerminal && !refused && terminal !== "dumb";
}
