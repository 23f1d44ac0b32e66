/**
 * What a supervisor does to a server: systemd hands it a socket (sd_listen_fds(3)), and signals end
 * it or have it read its certificate again.
 *
 * That a service is ready, systemd would learn over a datagram socket of the unix family, which
 * Node has not. It need not: clients of a socket that systemd holds wait in its queue.
 */
import cluster from "node:cluster";
import { constants } from "node:os";
import { UsageError } from "./command.ts";

/** The first descriptor after standard input, output and error. */
const FIRST_HELD = 3;

/**
 * The descriptor of the listening socket that this process was given, if any. The variables are
 * meant for this process alone and are gone afterwards.
 *
 * @throws UsageError when there are several: a server listens on one.
 */
export function takeHeldSocket(): number | undefined {
  const { LISTEN_PID: pid, LISTEN_FDS } = process.env;
  const count = LISTEN_FDS || "0"; // an empty variable is none, as everywhere in the program
  for (const name of ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"]) delete process.env[name];
  if (pid !== String(process.pid) || count === "0") return undefined;
  if (count === "1") return FIRST_HELD;
  throw new UsageError(`serve: expected one socket of the supervisor, got LISTEN_FDS=${count}`);
}

/** npm hands a terminal's Ctrl-C on to a program that has already got it. */
const SAME_SIGNAL_MS = 100;

/**
 * Aborts at the first SIGTERM or SIGINT, or when the primary of `node:cluster` disconnects this
 * worker; the second signal ends the process at once.
 */
export function stopSignal(): AbortSignal {
  const stop = new AbortController();
  let firstAt: number | undefined;
  const onSignal = (signal: NodeJS.Signals) => {
    if (firstAt === undefined) {
      firstAt = performance.now();
      stop.abort();
    } else if (signal !== "SIGINT" || performance.now() - firstAt > SAME_SIGNAL_MS) {
      process.off("SIGTERM", onSignal).off("SIGINT", onSignal);
      // No signal ends process 1, as in a container, by itself: the status is a shell's.
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
 * Calls `reload` at every SIGHUP. Without it the signal is ignored, except at a terminal, where it
 * keeps its meaning: the terminal is gone, and with it the person who would stop the server.
 */
export function onReloadSignal(reload: (() => void) | undefined): void {
  if (reload === undefined && process.stdin.isTTY) return;
  process.on("SIGHUP", reload ?? (() => {}));
}
