/**
 * What a supervisor does to a server: systemd hands it a socket (sd_listen_fds(3)), and signals stop
 * it or have it read its certificate again.
 */
import cluster from "node:cluster";
import { constants } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { publishWarning } from "../core/channels.ts";
import { type Setting, UsageError } from "./command.ts";

/** SD_LISTEN_FDS_START in sd_listen_fds(3). */
const FIRST_LISTEN_FD = 3;

/**
 * The descriptor of the listening socket that this process was given, if any. Removes the variables,
 * which are for this process alone. Warns if settings name an address, because it is ignored.
 *
 * @throws UsageError if there are several sockets: a server listens on one.
 */
export function takeListeningSocket(settings: readonly Setting[]): number | undefined {
  const { LISTEN_PID: pid, LISTEN_FDS } = process.env;
  const count = LISTEN_FDS || "0";
  for (const name of ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"]) delete process.env[name];
  if (pid !== String(process.pid) || count === "0") return undefined;
  if (count !== "1") {
    throw new UsageError(`serve: expected one socket of the supervisor, got LISTEN_FDS=${count}`);
  }
  const given = settings.filter(({ name, source }) => {
    return (name === "host" || name === "port") && source !== "default";
  });
  if (given.length > 0) {
    const sources = given.map(({ source }) => source).join(" and ");
    publishWarning(`listening on the socket of the supervisor; ignoring ${sources}`);
  }
  return FIRST_LISTEN_FD;
}

/** npm sends a signal once more to a program that has already received it with the whole group. */
const SAME_SIGNAL_MS = 100;
/** Elsewhere only a terminal's Ctrl-C is taken for a copy: a script may mean two SIGTERMs. */
const isUnderNpm = process.env.npm_lifecycle_event !== undefined;

/** Ends the wait of `waitForSignal`. */
let waiting: AbortController | undefined;

/** Resolves after this time, or at the next signal, which does not end the process then. */
export async function waitForSignal(ms: number): Promise<void> {
  waiting = new AbortController();
  await sleep(ms, undefined, { signal: waiting.signal }).catch(() => {});
  waiting = undefined;
}

/**
 * Aborts at the first SIGTERM or SIGINT, or when the primary of `node:cluster` disconnects this
 * worker. The second signal ends the process at once, unless it ends a wait or is a copy.
 */
export function stopSignal(): AbortSignal {
  const stop = new AbortController();
  let lastAt: number | undefined;
  const onSignal = (signal: NodeJS.Signals) => {
    const before = lastAt;
    lastAt = performance.now();
    const mayBeCopy = isUnderNpm || signal === "SIGINT";
    if (before === undefined) stop.abort();
    else if (mayBeCopy && lastAt - before <= SAME_SIGNAL_MS) return;
    else if (waiting !== undefined) waiting.abort();
    else {
      process.off("SIGTERM", onSignal).off("SIGINT", onSignal);
      // A signal does not end process 1, as in a container: exit with the status that a shell reports.
      if (process.pid === 1) process.exit(128 + constants.signals[signal]);
      process.kill(process.pid, signal);
    }
  };
  process.on("SIGTERM", onSignal).on("SIGINT", onSignal);
  // node:cluster closes the worker's server first, and waits until its last connection has ended.
  if (cluster.isWorker) process.once("disconnect", () => stop.abort());
  return stop.signal;
}

/**
 * Calls `reload` at every SIGHUP. Without it the signal is ignored, except at a terminal: there it means that
 * the terminal is gone, and ends the server.
 */
export function onReloadSignal(reload: (() => void) | undefined): void {
  if (reload === undefined && process.stdin.isTTY) return;
  process.on("SIGHUP", () => reload?.());
}
